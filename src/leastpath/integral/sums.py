"""Sums over the pieces of each example's path, and whether they reach the tolerance."""

from __future__ import annotations

from typing import Literal, NamedTuple

import torch
from torch import Tensor

from leastpath._support.rows import flat_rows
from leastpath.integral.accuracy import Measured

COMPARED = 0.1  # accuracy of a length that another one is compared with, if they are so different
ROUNDING = 64  # in units of eps · max|f|: errors allowed for arithmetic, beside those of quadrature


def total_by(values: Tensor, index: Tensor, n: int) -> Tensor:
    """Sums of `values` (rows, …) by `index` (rows,): (n, …)."""
    return values.new_zeros(n, *values.shape[1:]).index_add_(0, index, values)


def share_by(sizes: Tensor, index: Tensor, n: int) -> Tensor:
    """(rows,) each row's share of the sum by `index` (rows,); equal shares if the sum is zero."""
    total = total_by(sizes, index, n)[index]
    count = total_by(torch.ones_like(sizes), index, n)[index]
    return torch.where(total > 0, sizes / total.clamp_min(1e-300), 1 / count)


def extreme_by(values: Tensor, index: Tensor, n: int, reduce: Literal["amin", "amax"]) -> Tensor:
    """Smallest or largest of `values` (rows,) by `index` (rows,): (n,); ±inf if there is none."""
    empty = torch.inf if reduce == "amin" else -torch.inf
    return values.new_full((n,), empty).scatter_reduce_(0, index, values, reduce)


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
        at = rows.to(self.length.device)
        return Sums(*(part[at] for part in self))

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
