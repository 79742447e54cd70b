"""Sums along each example's route, and whether they are as exact as the tolerance asks for."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from leastpath._support.rows import flat_rows, per_row
from leastpath.integral.block import Block, Live, Plan
from leastpath.integral.grouped import extreme_by, total_by
from leastpath.integral.result import Integral
from leastpath.integral.weightings import WholePathWeighting
from leastpath.status import Note

ROUNDING = 64  # in units of eps · max|f|: what arithmetic, not quadrature, may leave
SUM_ELEMENTS = 2**26  # numbers gathered at once while summing along routes


class Errors(NamedTuple):
    """What an example errs by, or may err by: (batch,) each."""

    attribution: Tensor  # how far the attributions move when pieces are cut
    length: Tensor  # how far the length moves
    gap: Tensor  # |Σ attributions − Δf|
    residual: Tensor  # Σ|residual| of the pieces


class Sums(NamedTuple):
    """Sums over the pieces, for each example: (batch,), but values (batch, *features)."""

    values: Tensor
    length: Tensor
    residual: Tensor  # Σ|residual| beyond rounding
    moved: Tensor
    length_moved: Tensor
    pieces: Tensor  # how many, at least 1
    low: Tensor
    high: Tensor
    change: Tensor  # Δf

    def take(self, rows: Tensor) -> Sums:
        """Those of some examples (rows,)."""
        at = rows.to(self.length.device)
        return Sums(*(part[at] for part in self))

    @property
    def gap(self) -> Tensor:
        """|Σ attributions − Δf|."""
        return (flat_rows(self.values).sum(1) - self.change).abs()

    @property
    def scale(self) -> Tensor:
        """What errors are relative to. A path that comes back to where it started may have no change of score."""
        return torch.maximum(self.change.abs(), 0.01 * (self.high - self.low))

    @property
    def flat(self) -> Tensor:
        """Whether the score does not move at all."""
        return (self.high <= self.low) & ~flat_rows(self.values).any(1)

    @property
    def errors(self) -> Errors:
        """What is known of the errors."""
        return Errors(self.moved, self.length_moved, self.gap, self.residual)


def sums_along(block: Block, live: Live) -> Sums:
    """Pieces summed by segment, and segments along each example's route."""
    s, batch, device = block.segments, len(block), live.length.device
    segment, legs, examples = (index.to(device) for index in (live.segment, s.leg_segment, s.leg_example))
    numbers = torch.stack([live.length, live.residual, live.moved, live.length_moved, torch.ones_like(live.length)], 1)
    of_segment = total_by(numbers, segment, len(s))
    length, residual, moved, length_moved, pieces = total_by(of_segment[legs], examples, batch).unbind(1)
    low = extreme_by(extreme_by(live.low, segment, len(s), "amin")[legs], examples, batch, "amin")
    high = extreme_by(extreme_by(live.high, segment, len(s), "amax")[legs], examples, batch, "amax")
    values = _walked(block, total_by(live.attributions, segment, len(s)))
    return Sums(
        values, length, residual, moved, length_moved, pieces.clamp_min(1),
        torch.minimum(low, block.knot_low), torch.maximum(high, block.knot_high), block.change,
    )  # fmt: skip


def _walked(block: Block, of_segment: Tensor) -> Tensor:
    """Attributions of segments (segments, *features) summed along each example's route: (batch, *features)."""
    s, total = block.segments, of_segment.new_zeros(len(block), *of_segment.shape[1:])
    for rows in torch.arange(len(s.leg_segment)).split(max(1, SUM_ELEMENTS // block.plan.score.n_features)):
        signed = of_segment[s.leg_segment[rows].to(total.device)]
        if not isinstance(block.plan.weighting, WholePathWeighting):  # of those, both directions add the same
            signed = signed * per_row(s.leg_sign[rows].to(total.device, total.dtype), signed)
        total.index_add_(0, s.leg_example[rows].to(total.device), signed)
    return total


def allowed(sums: Sums, plan: Plan) -> Errors:
    """What each example may err by.

    Residuals of pieces cancel where the score goes up and down. As long as what remains of them is within the
    tolerance, they are one more sum of attributions that errs, and may err as much as any other.
    """
    assert plan.tolerance is not None
    tolerance = max(plan.tolerance, 8 * plan.score.eps)
    rounding = ROUNDING * plan.score.eps * torch.maximum(sums.low.abs(), sums.high.abs())
    attribution = tolerance * torch.maximum(flat_rows(sums.values).abs().sum(1), sums.scale) + rounding
    gap = plan.tolerance * sums.scale + rounding
    residual = torch.where(sums.gap <= gap, torch.maximum(gap, attribution), gap)
    return Errors(attribution, tolerance * sums.length + rounding, gap, residual)


def within(errors: Errors, limits: Errors, only_length: bool) -> Tensor:
    """(batch,) which examples err by no more than they may, on the CPU."""
    if only_length:
        return (errors.length <= limits.length).cpu()
    return torch.stack([error <= limit for error, limit in zip(errors, limits, strict=True)]).all(0).cpu()


def integral_of(block: Block, sums: Sums, notes: list[Note]) -> Integral:
    """The sums as the result that callers see."""
    bad = (~torch.isfinite(flat_rows(sums.values)).all(1)).nonzero()
    if len(bad):
        row = block.plan.score.row(int(block.examples[int(bad[0])]))
        raise ValueError(
            f"the gradient of example {row} is NaN or infinite along its path, "
            "though its score is finite: look for sqrt(0), log(0), 0/0 or norm(0) in the model"
        )
    return Integral(
        sums.values, sums.change, sums.length, sums.length_moved, sums.moved,
        sums.low, sums.high, block.gradients(), notes,
    )  # fmt: skip
