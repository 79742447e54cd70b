"""Names that are imported late, against imports of the usual kind."""

import ast
import inspect
import subprocess
import sys
from importlib import import_module

import pytest

import leastpath
from leastpath import jobs
from leastpath._support.lazy import lazy


@pytest.mark.parametrize("package", [leastpath, jobs])
def test_every_public_name_is_found_where_type_checkers_see_it(package):
    """The imports under `if TYPE_CHECKING`, `__all__` and the table given to `lazy` must say the same."""
    tree = ast.parse(inspect.getsource(package))
    block = next(node for node in tree.body if isinstance(node, ast.If))
    seen = {alias.name: node.module for node in block.body for alias in node.names}
    assert set(seen) == set(package.__all__)
    for name, module in seen.items():
        assert getattr(package, name) is getattr(import_module(module), name), f"{name}: add it to lazy(...)"
    assert set(package.__all__) <= set(dir(package))


def test_star_and_modules_of_the_package():
    code = "import leastpath as lp; lp.baselines.several; from leastpath import *; attribute; Score; lp.metric.Metric"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_unknown_names_are_attribute_errors():
    get, _ = lazy("leastpath", {})
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
