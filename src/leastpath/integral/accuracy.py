"""Accuracy: how exactly an integral is measured, and how much of it."""

from __future__ import annotations

import numbers
from dataclasses import dataclass
from typing import Literal

from leastpath._support.checks import check_integer, check_setting, shown
from leastpath.integral.rules import check_rule
from leastpath.integral.weightings import Weighting

Measured = Literal["all", "values", "length"]
"""What must be known: attributions and length, attributions alone, or the length alone."""


@dataclass(frozen=True)
class Accuracy:
    """How exactly an integral is measured, and how much of it.

    Args:
        tolerance: the error to reach (see `integrate`). None: exactly `n_steps`, without error control.
        n_steps: gradients per path for `tolerance=None`; otherwise where refinement starts.
        rule: "gauss_legendre", "midpoint" or "trapezoid".
        measure: "all"; "values": stop when the attributions are known, even if the length is not; "length": the
            reverse.
        length_tolerance: of the length, where that is not to be `tolerance`.

    Example:
        >>> Accuracy(tolerance=None, n_steps=50).rule
        'gauss_legendre'
    """

    tolerance: float | None = 0.01
    n_steps: int | None = None
    rule: str = "gauss_legendre"
    measure: Measured = "all"
    length_tolerance: float | None = None

    def __post_init__(self) -> None:
        check_rule(self.rule)
        check_setting("measure", self.measure, Measured)
        check_integer("n_steps", self.n_steps, 1, or_none=", or None")
        asked: object = self.tolerance
        if asked is None and self.n_steps is None:
            raise ValueError(
                "tolerance=None means fixed steps, but n_steps is None: pass n_steps=50, or tolerance=0.01"
            )
        if asked is None:
            return
        if not isinstance(asked, numbers.Real):
            raise ValueError(f"tolerance={shown(asked)} must be a number between 0 and 1, or None for exactly n_steps")
        if not 0 < float(asked) < 1:
            raise ValueError(f"tolerance={asked} must lie between 0 and 1, or be None for exactly n_steps")

    def check_with(self, weighting: Weighting | None, max_gradients: object = None) -> None:
        """Refuse what cannot be integrated this exactly, before any gradient is spent."""
        if self.tolerance is None:
            if isinstance(max_gradients, int) and self.n_steps is not None and self.n_steps > max_gradients:
                raise ValueError(
                    f"n_steps={self.n_steps} do not fit in max_gradients={max_gradients}: lower the one or raise the "
                    "other"
                )
        elif weighting is not None and not weighting.complete:
            name = type(weighting).__name__
            raise ValueError(
                f"{name} is not complete, so its error cannot be controlled: pass tolerance=None, n_steps=50"
            )
