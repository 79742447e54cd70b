"""One version, in the package and in its metadata."""

import tomllib
from pathlib import Path

import leastpath
from leastpath._support.version import __version__


def test_the_version_is_that_of_the_project():
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert leastpath.__version__ == __version__ == project["version"]
