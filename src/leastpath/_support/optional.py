"""Imports by name: libraries that come with an extra, and what a user names as "package.module:name"."""

from __future__ import annotations

from importlib import import_module
from typing import Any


def import_optional(module: str, need: str, extra: str) -> Any:
    """The module, or an ImportError that says what needs it and which command installs it."""
    try:
        return import_module(module)
    except ImportError as error:
        raise ImportError(f"{need}: pip install 'leastpath[{extra}]'") from error


def import_by_name(name: Any) -> Any:
    """The object that "package.module:name" names. Anything that is not a string is returned as it is."""
    if not isinstance(name, str):
        return name
    module, _, attribute = name.partition(":")
    if not attribute:
        raise ValueError(f"{name!r} is not an import path: write package.module:name")
    try:
        found = import_module(module)
        for part in attribute.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError) as error:
        raise ValueError(f"{name!r} cannot be imported: {error}") from error
    return found
