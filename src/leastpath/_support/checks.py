"""Checks of settings that many callers share."""

from __future__ import annotations

import numbers
from collections.abc import Sequence


def check_integer(name: str, given: object, least: int | None = None, *, or_none: str = "", advice: str = "") -> None:
    """Raise ValueError unless `given` is a whole number of at least `least`.

    Args:
        name: of the setting.
        given: its value.
        least: the smallest value allowed; None allows all whole numbers.
        or_none: words that say that None is allowed too; empty if it is not.
        advice: the call that fixes it.

    Example:
        >>> check_integer("n_steps", 3, 1)
        >>> check_integer("n_steps", None, 1, or_none=", or None")
    """
    if given is None and or_none:
        return
    remedy = or_none + (f": {advice}" if advice else "")
    if isinstance(given, bool) or not isinstance(given, numbers.Integral):
        raise ValueError(f"{name}={given!r} must be a whole number{remedy}")
    if least is not None and given < least:
        raise ValueError(f"{name}={given} must be at least {least}{remedy}")


def check_kind(name: str, given: object, kinds: type | tuple[type, ...], expected: str) -> None:
    """Raise ValueError unless a setting is of a kind. True and False are no numbers.

    Example:
        >>> check_kind("out", "results", str, "a name in quotation marks")
    """
    wanted = kinds if isinstance(kinds, tuple) else (kinds,)
    if not isinstance(given, wanted) or (isinstance(given, bool) and bool not in wanted):
        raise ValueError(f"{name}={given!r} is a {type(given).__name__}, expected {expected}")


def check_features(what: str, given: Sequence[int], inputs: Sequence[int]) -> None:
    """Raise if something has other features than the inputs. `given` and `inputs` are shapes without the batch.

    Example:
        >>> check_features("start_from", (2, 3), (2, 3))
    """
    if tuple(given) != tuple(inputs):
        raise ValueError(f"{what} has features {tuple(given)}, the inputs {tuple(inputs)}: expected the same features")
