"""Names that are imported when they are first asked for, so that a package is quick to import."""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any


def late_names(package: str, file: str) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """`__getattr__`, `__dir__` and `__all__` of a package that imports its public names late.

    Args:
        package: its `__name__`.
        file: its `__file__`. The imports of the stub beside it, `__init__.pyi`, are the table of names, which type
            checkers and editors read too.

    A name may also be a module of its home. The package's own modules are found too: `leastpath.tabular` works without
    an import of its own.
    """
    home_of = _homes(Path(file).with_suffix(".pyi"))

    def __getattr__(name: str) -> Any:
        if name in home_of:
            home = import_module(home_of[name])
            value = getattr(home, name) if hasattr(home, name) else import_module(f"{home_of[name]}.{name}")
            setattr(sys.modules[package], name, value)  # the next time, this function is not asked
            return value
        if not name.startswith("__") and find_spec(f"{package}.{name}") is not None:
            return import_module(f"{package}.{name}")
        raise AttributeError(f"module {package!r} has no attribute {name!r}")

    def __dir__() -> list[str]:
        return sorted({*vars(sys.modules[package]), *home_of})

    return __getattr__, __dir__, sorted(home_of)


def _homes(stub: Path) -> dict[str, str]:
    """The module of each name that a stub imports."""
    imports = (node for node in ast.parse(stub.read_text(encoding="utf-8")).body if isinstance(node, ast.ImportFrom))
    return {alias.name: str(node.module) for node in imports for alias in node.names}
