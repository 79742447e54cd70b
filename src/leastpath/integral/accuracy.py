"""Accuracy: how exactly an integral is to be measured, the errors of its sums, and whether these are within."""

from __future__ import annotations

import numbers
from dataclasses import dataclass
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from leastpath._support.checks import check_integer, check_setting, show_value
from leastpath._support.rows import flat_rows
from leastpath.integral.weightings import Weighting

Rule = Literal["gauss_legendre", "midpoint", "trapezoid"]
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
    rule: Rule = "gauss_legendre"
    measure: Measured = "all"
    length_tolerance: float | None = None

    def __post_init__(self) -> None:
        check_setting("rule", self.rule, Rule)
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
            raise ValueError(
                f"tolerance={show_value(asked)} must be a number between 0 and 1, or None for exactly n_steps"
            )
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


# ---- errors --------------------------------------------------------------------------------------------------------

COMPARED = 0.1  # accuracy of a length that another one is compared with, if they are so different
ROUNDING = 64  # in units of eps · max|f|: errors allowed for arithmetic, beside those of quadrature


def size_of_error(difference: Tensor) -> Tensor:
    """Of attributions (rows, features): (rows,). Σ|difference| up to four features, else twice the Euclidean norm.

    That is the typical error of a sum over any choice of features and signs. Pixels of a noisy gradient have
    independent errors, and Σ|difference| would take thousands of gradients to average them out.
    """
    return torch.minimum(difference.abs().sum(1), 2 * torch.linalg.vector_norm(difference, dim=1))


def averaged_errors(totals: Tensor, squares: Tensor, moved: Tensor, length_moved: Tensor) -> Tensor:
    """(batch, 3) errors of residuals, attributions and lengths of many pieces, whose errors cancel in part.

    The larger of two estimates: how far the sum over all pieces moved when they were cut last, which sees errors that
    have one cause, and what independent errors come to. On photographs it is two to three times the true error, where
    the sum of all sizes is ten times it and more. Never above that sum.

    Args:
        totals: (batch, 3) Σ of their sizes.
        squares: (batch, 3) Σ of their squares.
        moved: (batch,) how far the attributions of the whole path moved.
        length_moved: (batch,) how far its length did.
    """
    chance = (squares * squares.new_tensor([4.0, 2.0, 8.0])).sqrt()  # parts of a piece have half of its move each
    together = torch.stack([torch.zeros_like(moved), moved, length_moved], 1)  # what residuals sum to is the gap
    return torch.minimum(totals, torch.maximum(chance, together))


class Errors(NamedTuple):
    """Errors of each example, or the errors allowed: (batch,) each."""

    attribution: Tensor  # how far the attributions move when pieces are cut; inf if they were not cut
    gap: Tensor  # |Σ attributions − Δf|
    length: Tensor  # how far the length moves
    residual: Tensor  # Σ|residual| of the pieces, beyond rounding

    def within(self, allowed: Errors, measured: Measured) -> Tensor:
        """(batch,) which examples have no larger errors than allowed, on the CPU; what is not measured is left out."""
        known = {
            name: error <= limit for name, error, limit in zip(self._fields, self, allowed, strict=True)
            if measured == "all" or (name == "length") == (measured == "length")
        }  # fmt: skip
        return torch.stack(list(known.values())).all(0).cpu()


class Sums(NamedTuple):
    """Sums over the pieces, for each example: (batch,), but values (batch, *features)."""

    values: Tensor
    length: Tensor
    residual: Tensor  # these three as of `Errors`
    moved: Tensor
    length_moved: Tensor
    pieces: Tensor  # how many, at least 1
    low: Tensor  # smallest and largest score met
    high: Tensor
    change: Tensor  # Δf
    rival: Tensor  # a length that this one is only compared with; NaN: there is none

    def take(self, rows: Tensor) -> Sums:
        """The sums of some examples (rows,)."""
        return Sums(*(part[rows.to(part.device)] for part in self))

    @property
    def flat(self) -> Tensor:
        """Whether the score does not change at all."""
        return (self.high <= self.low) & ~flat_rows(self.values).any(1)

    @property
    def scale(self) -> Tensor:
        """What errors are relative to. The change of score alone may be zero, as on a closed path."""
        return torch.maximum(self.change.abs(), 0.01 * (self.high - self.low))

    @property
    def errors(self) -> Errors:
        """The errors of each example, as far as they are known."""
        gap = (flat_rows(self.values).sum(1) - self.change).abs()
        return Errors(self.moved, gap, self.length_moved, self.residual)

    def allowed(self, tolerance: float, eps: float, length_tolerance: float) -> Errors:
        """The errors allowed for each example.

        A length that is only compared may err by 10 %, if that cannot change which of the two is longer.

        Residuals of pieces cancel if the score goes up and down. If what remains, the gap, is within the tolerance,
        their sum may be as large as the error of the attributions.
        """
        rounding = ROUNDING * eps * torch.maximum(self.low.abs(), self.high.abs())
        at_least = max(tolerance, 8 * eps)
        attribution = at_least * torch.maximum(flat_rows(self.values).abs().sum(1), self.scale) + rounding
        gap = tolerance * self.scale + rounding
        residual = torch.where(self.errors.gap <= gap, torch.maximum(gap, attribution), gap)
        length = max(length_tolerance, 8 * eps) * self.length
        apart = torch.minimum(COMPARED * self.length, (self.length - self.rival).abs() / 2)
        length = torch.where(torch.isnan(self.rival), length, torch.maximum(length, apart))
        return Errors(attribution, gap, length + rounding, residual)
