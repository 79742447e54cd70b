"""A fixed number of gradients, spread over a path's segments. There is no error control."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor

from leastpath.integral.accuracy import FLAT, Integral, note_fixed_steps
from leastpath.integral.block import Block, Division, MeasuredPieces, extreme_by, share_by, sum_by, sum_up
from leastpath.integral.pieces import WholePathWeighting

STEPS_PER_INTERVAL = 4  # on average, where fixed steps follow the score: one each, and three to share out


def integrate_at_fixed_steps(block: Block) -> Integral:
    """`n_steps` gradients per path, or what its budget allows: at least 1 per segment, by length or change of score."""
    plan, s = block.plan, block.segments
    assert plan.accuracy.n_steps is not None
    budget, late = block.affordable(), block.affordable() < block.budget
    n_steps = budget.floor().clamp(1, plan.accuracy.n_steps)  # (batch,)
    if isinstance(plan.weighting, WholePathWeighting) and plan.weighting.follows_score:
        division = _measure_by_change(block, n_steps)
    else:
        nodes = _share_out(block.length_share(), s.leg_segment, s.leg_example, n_steps)
        ends = torch.zeros(len(s), dtype=torch.float64), torch.ones(len(s), dtype=torch.float64)
        division = _measure(block, torch.arange(len(s)), *ends, nodes)
    sums = sum_up(block, division)
    unknown = torch.full_like(sums.length, torch.nan)
    sums = sums._replace(moved=unknown, length_moved=unknown)
    if isinstance(plan.weighting, WholePathWeighting):
        length = sum_by(block.leg_lengths(), s.leg_example, len(block)).to(sums.length)
        difference = (block.path.end - block.path.start).to(sums.values)
        sums = sums._replace(values=plan.weighting.conclude(sums.values, length, difference))
    told = sums.flat(plan.score.eps), block.gradients(), budget, sums.errors.gap, late
    each = zip(*(of.tolist() for of in told), strict=True)
    run, asked = plan.run, plan.accuracy.n_steps
    notes = [
        FLAT
        if flat
        else note_fixed_steps(asked, spent, most, run.max_gradients, gap, run.clock.asked if timed else None)
        for flat, spent, most, gap, timed in each
    ]
    return Integral.of(sums, notes, block.gradients(), block.gradients(), plan.score.space.source[block.examples])


def _measure(
    block: Block, segment: Tensor, t0: Tensor, t1: Tensor, nodes: Tensor, ends: tuple[Tensor, Tensor] | None = None
) -> Division:
    """Pieces with `nodes` (pieces,) gradients each, whose attributions are summed at once: none is cut any more."""

    def measure_each() -> Iterator[tuple[MeasuredPieces, Tensor]]:
        for n, rows in block.chunks(nodes):
            at = rows.to(block.scores.tail.device)
            known = None if ends is None else (ends[0][at], ends[1][at])
            yield block.measure(segment[rows], t0[rows], t1[rows], n, known), torch.zeros_like(rows)

    return Division.collect(measure_each())


def _share_out(share: Tensor, piece: Tensor, example: Tensor, n_steps: Tensor) -> Tensor:
    """(pieces,) gradients of each piece, by its share in the examples that use it; n_steps (batch,) in total.

    `share`, `piece` and `example` are (parts,). If several examples share a piece, the largest share counts.
    """
    spread = torch.bincount(example, minlength=len(n_steps))
    # One each, and the rest by share: the largest remainders round up, so that an example's counts sum to n_steps.
    exact = share * (n_steps - spread).clamp_min(0)[example]
    counts = 1 + exact.floor()
    left = (n_steps - sum_by(counts, example, len(n_steps))).clamp_min(0)
    order = np.lexsort((-(exact - exact.floor()).numpy(), example.numpy()))
    rank = torch.arange(len(order)) - (spread.cumsum(0) - spread)[example[order]]
    counts[order] += (rank < left[example[order]]).double()
    return extreme_by(counts, piece, int(piece.max()) + 1 if len(piece) else 0, "amax").long()


def _measure_by_change(block: Block, n_steps: Tensor) -> Division:
    """Equal intervals by length, one gradient each; the rest of `n_steps` (batch,) goes where the score changes."""
    s = block.segments
    wished = (n_steps / STEPS_PER_INTERVAL).floor().clamp_min(1)[s.leg_example]
    cuts = block.largest(torch.ceil(block.length_share() * wished)).clamp_min(1).long()
    segment = torch.arange(len(s)).repeat_interleave(cuts)
    first = cuts.cumsum(0) - cuts
    place = torch.arange(len(segment)) - first[segment]
    t0, t1 = place.double() / cuts[segment], (place + 1).double() / cuts[segment]
    f1 = block.score_at(segment, t1)
    f0 = torch.where((place == 0).to(f1.device), block.scores.tail[segment.to(f1.device)], f1.roll(1))
    change = (f1 - f0).abs().cpu().double()
    parts = cuts[s.leg_segment]
    leg = torch.arange(len(parts)).repeat_interleave(parts)
    interval = first[s.leg_segment][leg] + torch.arange(len(leg)) - (parts.cumsum(0) - parts)[leg]
    example = s.leg_example[leg]
    nodes = _share_out(share_by(change[interval], example, len(block)), interval, example, n_steps)
    return _measure(block, segment, t0, t1, nodes, (f0, f1))
