"""Libraries that come with an extra: imported where they are used, with an error that says how to get them."""

from __future__ import annotations

from importlib import import_module
from typing import Any


def optional(module: str, need: str, extra: str) -> Any:
    """The module, or an ImportError: what needs it, and the command that installs it.

    Example:
        >>> optional("json", "settings are JSON", "io").dumps([1])
        '[1]'
    """
    try:
        return import_module(module)
    except ImportError as error:
        raise ImportError(f"{need}: pip install 'leastpath[{extra}]'") from error
