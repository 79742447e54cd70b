"""The start of refinement: every segment of every path is measured once."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from leastpath._support.rows import per_row
from leastpath.integral.block import Block, Look, Standing
from leastpath.integral.bundles import kinds_unverified
from leastpath.integral.pieces import Estimate, KnownSegments
from leastpath.integral.sums import extreme_by, total_by
from leastpath.integral.weightings import PathIntegral

FIRST_GRADIENTS = 12  # of the first look at a path; its verification takes twice as many
GOLDEN = 0.6180339887498949  # multiples of it, modulo one, are the first cuts: spread evenly and never symmetric


def first_look(block: Block, known: KnownSegments | None) -> Standing:
    """Each segment in one piece, or in several if it is a large part of a path; fewer if the budget is small.

    Segments that the solver has measured already are not measured again.
    """
    s, (count, nodes) = block.segments, _counts(block)
    seen = row = torch.zeros(0, dtype=torch.long)
    if known is not None and isinstance(block.plan.weighting, PathIntegral):
        group = block.plan.groups[block.examples[s.owner]]
        seen, row = known.find(s.tail, s.head, group, len(block.path.points))
    is_known = torch.bincount(seen, minlength=len(s)) >= count  # a long segment needs more than the solver took
    seen, row = seen[is_known[seen]], row[is_known[seen]]
    segment, t0, t1 = _first_pieces(count, ~is_known)
    kind = kinds_unverified(block.carrier[torch.cat([segment, seen])], len(block) + len(s))

    def looks() -> Iterator[tuple[Look, Tensor]]:
        for n, rows in block.chunks(nodes[segment]):
            yield block.look(segment[rows], t0[rows], t1[rows], n), kind[rows]
        if known is None:
            return
        for some in torch.arange(len(seen)).split(block.plan.score.batch_size):
            yield _as_known(block, seen[some], known, row[some]), kind[len(segment) + some]

    return Standing.collect(block, looks())


def _first_pieces(count: Tensor, wanted: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Segments in `count` (segments,) pieces, if `wanted`: (pieces,) their segments, beginnings and ends."""
    segments, begins, ends = [], [], []
    for k in torch.unique(count[wanted]).tolist() or [1]:
        rows = ((count == k) & wanted).nonzero()[:, 0]
        edges = torch.tensor([0.0, *sorted(i * GOLDEN % 1 for i in range(1, k)), 1.0], dtype=torch.float64)
        segments.append(rows.repeat_interleave(k))
        begins.append(edges[:-1].repeat(len(rows)))
        ends.append(edges[1:].repeat(len(rows)))
    return torch.cat(segments), torch.cat(begins), torch.cat(ends)


def _counts(block: Block) -> tuple[Tensor, Tensor]:
    """Pieces of each segment, and gradients of each of its pieces: (segments,) twice."""
    s, n, budget = block.segments, block.plan.order, block.affordable()
    count = block.largest(torch.ceil(block.length_share() * (block.plan.accuracy.n_steps or FIRST_GRADIENTS) / n))
    count = count.clamp_min(1).long()
    # A third of the budget for the first look leaves two thirds for verifying all of it.
    pieces = total_by(count.double()[s.leg_segment], s.leg_example, len(block))
    tight = (pieces * n * 3 > budget)[s.leg_example]
    count[s.leg_segment[tight]] = 1
    # If that is still too much: fewer gradients a segment, but at least one.
    paid = (budget / torch.bincount(s.leg_example, minlength=len(block))).floor()
    nodes = extreme_by(paid.clamp(1, n)[s.leg_example], s.leg_segment, len(s), "amin").long()
    nodes[count > 1] = n
    return count, nodes


def _as_known(block: Block, segment: Tensor, known: KnownSegments, row: Tensor) -> Look:
    """Pieces of segments (pieces,) as the solver measured them: rows of what is known."""
    device, forward = block.f_tail.device, known.tail[row] == block.segments.tail[segment]
    t0, t1 = known.spans(row, forward)
    f0, f1 = block.score_at_ends(segment, t0, t1)
    attributions, length, low, high = (part[row.to(device)] for part in known.estimate)
    if block.plan.metric.bounds_score:
        length = torch.maximum(length, (f1 - f0).abs())
    sign = torch.where(forward, 1, -1).to(device)
    signed = Estimate(attributions * per_row(sign, attributions), length, low, high)
    return block.as_look(segment, t0, t1, f0, f1, signed)
