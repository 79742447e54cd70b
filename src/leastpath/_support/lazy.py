"""Names that are imported when they are first asked for, so that a package is quick to import."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from importlib.util import find_spec
from typing import Any


def lazy(package: str, homes: Mapping[str, Iterable[str]]) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """`__getattr__` and `__dir__` of a package that imports its public names late.

    Args:
        package: its `__name__`.
        homes: for each module, the public names that it defines.

    A name may also be a module of its home. The package's own modules are found too: `leastpath.tabular` works without
    an import of its own. A type checker does not see any of this: repeat the imports under `if TYPE_CHECKING`.

    Example:
        >>> get, _ = lazy("leastpath", {"leastpath.result.status": ["Outcome"]})
        >>> get("Outcome").__module__
        'leastpath.result.status'
    """
    home_of = {name: module for module, names in homes.items() for name in names}

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

    return __getattr__, __dir__
