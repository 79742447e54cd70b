"""Names that are imported late, against imports of the usual kind."""

import ast
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import leastpath
from leastpath import jobs
from leastpath._support.lazy import late_names


@pytest.mark.parametrize("package", [leastpath, jobs])
def test_every_public_name_is_found_where_type_checkers_see_it(package):
    """The stub is the one table: each of its imports is a name of `__all__`, found where the stub says."""
    tree = ast.parse(Path(package.__file__).with_suffix(".pyi").read_text(encoding="utf-8"))
    seen = {alias.name: node.module for node in tree.body if isinstance(node, ast.ImportFrom) for alias in node.names}
    assert set(seen) == set(package.__all__)
    for name, module in seen.items():
        home = import_module(module)
        expected = getattr(home, name) if hasattr(home, name) else import_module(f"{module}.{name}")
        assert getattr(package, name) is expected
    assert set(package.__all__) <= set(dir(package))


def test_star_and_modules_of_the_package():
    code = "import leastpath as lp; lp.baselines.several; from leastpath import *; attribute; Score; lp.tabular.explain"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_unknown_names_are_attribute_errors():
    get = late_names("leastpath", leastpath.__file__)[0]
    with pytest.raises(AttributeError, match="module 'leastpath' has no attribute 'nothing'"):
        get("nothing")
    assert not hasattr(leastpath, "nothing")
    with pytest.raises(ImportError, match="cannot import name 'nothing'"):
        from leastpath import nothing  # noqa: F401


def test_the_package_alone_imports_nothing_heavy():
    code = "import sys, leastpath; assert not {'torch', 'numpy', 'scipy'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_using_it_imports_no_scipy():
    code = "import sys, leastpath as lp; lp.attribute, lp.Graph; assert not {'scipy', 'sklearn'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
