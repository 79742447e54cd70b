"""Limits: how many gradients and how many seconds a call may take."""

from __future__ import annotations

from dataclasses import dataclass

from leastpath._support.checks import check_integer


@dataclass(frozen=True)
class Limits:
    """What a call may spend. None: as much as it takes.

    Args:
        max_gradients: per example, solver and integral together.
        max_seconds: for the whole call.

    Example:
        >>> Limits(max_gradients=500)
        Limits(max_gradients=500, max_seconds=None)
    """

    max_gradients: int | None = None
    max_seconds: float | None = None

    def __post_init__(self) -> None:
        check_integer("max_gradients", self.max_gradients, 1, or_none=", or None")
        asked: object = self.max_seconds
        if asked is not None and not (isinstance(asked, int | float) and asked > 0):
            raise ValueError(f"max_seconds={asked!r} must be a positive number of seconds, or None for no limit")
