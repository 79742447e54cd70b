"""One version, in the package and in all that names it."""

import json
import re
import tomllib
from importlib.metadata import entry_points
from pathlib import Path

import leastpath
from leastpath._support.version import __version__

ROOT = Path(__file__).parents[2]


def test_the_version_is_that_of_the_project():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert leastpath.__version__ == __version__ == project["version"]


def test_those_who_cite_it_and_the_changelog_have_the_same_version_and_day():
    cited = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    newest = re.search(r"^## \[(.*)\] – (\S+)$", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.M)
    assert newest[1] == __version__ and f"version: {__version__}\ndate-released: {newest[2]}\n" in cited
    assert json.loads((ROOT / ".zenodo.json").read_text(encoding="utf-8"))["version"] == __version__


def test_the_command_is_an_entry_point():
    assert [e.value for e in entry_points(group="console_scripts", name="leastpath")] == ["leastpath.commands.cli:main"]
