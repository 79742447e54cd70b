"""Refinement: pieces of path are cut until what is known of them stays the same.

A block holds some examples, the distinct segments that they walk, and the pieces that these are cut into so far. Each
round cuts the pieces that moved most, sums along every example's route, and lets examples that are done leave.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace

import numpy as np
import torch
from torch import Tensor

from leastpath._support.rows import flat_rows
from leastpath.bound import BoundScore
from leastpath.integral.pieces import (
    Estimate,
    KnownSegments,
    PathIntegral,
    Pieces,
    Weighting,
    WholePathWeighting,
    quadrature,
)
from leastpath.metric import Metric
from leastpath.path import Path, Segments
from leastpath.run import Bar
from leastpath.status import Note, Outcome

CUT = 0.4  # unequal, so that nothing symmetric looks the same before and after
GOLDEN = 0.6180339887498949  # multiples of it, modulo one, are the first cuts: spread evenly and never symmetric
FIRST_GRADIENTS = 12  # of the first look at a path; its verification takes twice as many again
STEPS_PER_INTERVAL = 4  # on average, where fixed steps follow the score: one each, and three to share out
ROUNDING = 64  # in units of eps · max|f|: what arithmetic, not quadrature, may leave
SUM_ELEMENTS = 2**26  # numbers gathered at once while summing along routes
LEAVING_SHARE = 0.3  # of a block's examples that must be done before they leave it
MEASURED = ("values", "change", "length", "length_error", "attribution_error", "low", "high", "n_gradients")


@dataclass(frozen=True)
class Integral:
    """What the integrator measured, for each example. All (batch,) but `values` (batch, *features) and `notes`.

    Example:
        >>> import torch, leastpath as lp
        >>> bound = lp.Score(lambda x: x.prod(1)).bind(torch.ones(1, 2))
        >>> found = lp.integrate(bound, lp.Path.straight(torch.zeros(1, 2), torch.ones(1, 2)), lp.Conformal())
        >>> found.values, found.change
        (tensor([[0.5000, 0.5000]]), tensor([1.]))
    """

    values: Tensor
    change: Tensor  # f(last knot) - f(first knot)
    length: Tensor
    length_error: Tensor  # own estimate; NaN at fixed steps
    attribution_error: Tensor  # own estimate, as `tolerance` counts it; NaN at fixed steps
    low: Tensor  # range of the score along the path
    high: Tensor
    n_gradients: Tensor  # float64: gradients of shared segments are split between the examples that share them
    notes: list[Note]

    def where(self, mask: Tensor, other: Integral) -> Integral:
        """The other's measurements for the examples in `mask` (batch,), these for the rest."""
        rows = mask.nonzero()[:, 0]

        def mixed(name: str) -> Tensor:
            mine, theirs = getattr(self, name), getattr(other, name)
            at = rows.to(mine.device)
            return mine.index_copy(0, at, theirs[at])

        notes = [
            theirs if use else mine for use, mine, theirs in zip(mask.tolist(), self.notes, other.notes, strict=True)
        ]
        return Integral(**{name: mixed(name) for name in MEASURED}, notes=notes)

    @property
    def gap(self) -> Tensor:
        """(batch,) Σ values − Δf."""
        return self.values.flatten(1).sum(1) - self.change if self.values.ndim > 1 else self.values - self.change


def joined_integrals(parts: list[Integral], order: Tensor | None = None) -> Integral:
    """Integrals of several blocks as one, reordered if asked."""
    tensors = {name: torch.cat([getattr(part, name) for part in parts]) for name in MEASURED}
    notes = [note for part in parts for note in part.notes]
    if order is None:
        return Integral(**tensors, notes=notes)
    return Integral(
        **{name: t[order.to(t.device)] for name, t in tensors.items()}, notes=[notes[i] for i in order.tolist()]
    )


def unknown_integral(score: BoundScore, batch: int) -> Integral:
    """Of examples whose integral was interrupted before anything was known of it: NaN throughout."""
    values = torch.full((batch, *score.shape), torch.nan, dtype=score.work_dtype, device=score.device)
    note = Note(Outcome.INTERRUPTED, "interrupted before the integral was known, so there are no attributions")
    measured = dict.fromkeys(MEASURED, values.new_full((batch,), torch.nan))
    measured |= {"values": values, "n_gradients": torch.zeros(batch, dtype=torch.float64)}
    return Integral(**measured, notes=[note] * batch)


@dataclass(frozen=True)
class Plan:
    """What stays the same for all blocks."""

    score: BoundScore
    metric: Metric
    rule: str
    weighting: Weighting
    tolerance: float | None
    n_steps: int | None
    budget: Tensor  # (batch,) float64, gradients each example may spend here
    max_gradients: int | None  # what the user said, of which a solver may have spent a part
    only_length: bool

    @property
    def order(self) -> int:
        """Gradients a piece: kinks and cliffs want few (2 at 1 %), tight tolerances reward more."""
        assert self.tolerance is not None
        return int(np.clip(round(-np.log10(self.tolerance)), 2, 8))

    def quadrature(self, pieces: Pieces, n: int) -> Estimate:
        return quadrature(self.score, pieces, self.metric, self.rule, n, self.weighting)


@dataclass
class _Live:
    """The pieces that a block's paths are currently made of."""

    segment: Tensor  # (pieces,)
    t0: Tensor  # (pieces,) float64
    t1: Tensor
    f0: Tensor  # (pieces,) score at the ends
    f1: Tensor
    estimate: Estimate
    moved: Tensor  # (pieces,) how far attributions moved when this piece was cut from its parent
    length_moved: Tensor  # (pieces,)

    def where(self, keep: Tensor) -> _Live:
        index = keep.nonzero()[:, 0]
        rows = index.to(self.f0.device)

        def some(tensor: Tensor) -> Tensor:  # several times faster than a mask
            return tensor.index_select(0, index if tensor.device == index.device else rows)

        names = ("segment", "t0", "t1", "f0", "f1", "moved", "length_moved")
        estimate = Estimate(*(some(part) for part in self.estimate.parts))
        return _Live(estimate=estimate, **{name: some(getattr(self, name)) for name in names})

    def plus(self, other: _Live) -> _Live:
        def cat(name: str) -> Tensor:
            return torch.cat([getattr(self, name), getattr(other, name)])

        names = ("segment", "t0", "t1", "f0", "f1", "moved", "length_moved")
        return _Live(estimate=Estimate.join([self.estimate, other.estimate]), **{name: cat(name) for name in names})


@dataclass
class _Sums:
    """Sums over the pieces, for each example: (batch,), but values (batch, *features)."""

    values: Tensor
    length: Tensor
    residual: Tensor  # Σ|residual| beyond rounding
    moved: Tensor
    length_moved: Tensor
    pieces: Tensor
    low: Tensor
    high: Tensor

    def take(self, rows: Tensor) -> _Sums:
        """Those of some examples."""
        at = rows.to(self.length.device)
        return _Sums(*(getattr(self, f.name)[at] for f in fields(self)))


@dataclass
class Block:
    """Some examples, refined together."""

    plan: Plan
    path: Path
    examples: Tensor  # (batch,) their numbers in the bound score
    segments: Segments
    sharers: Tensor  # (segments,) how many examples walk each
    f_tail: Tensor  # (segments,)
    f_head: Tensor
    change: Tensor  # (batch,) Δf
    knot_low: Tensor  # (batch,) range of the score over the knots
    knot_high: Tensor
    segment_gradients: Tensor  # (segments,) float64, gradients spent
    spent_before: Tensor  # (batch,) float64, gradients spent in a larger block
    known: Estimate | None  # what the solver knows of some segments
    known_row: Tensor  # (segments,) row of `known`, -1 where there is none
    known_sign: Tensor  # (segments,) whether it was looked at in the same direction
    interrupted: bool = field(default=False)

    @property
    def budget(self) -> Tensor:
        """(batch,) float64 gradients each example may spend."""
        return self.plan.budget[self.examples]

    @classmethod
    def make(
        cls, plan: Plan, path: Path, examples: Tensor, groups: Tensor, known: KnownSegments | None = None
    ) -> Block:
        segments = path.segments(groups)
        batch, n = len(path), len(path.points)
        visitor = torch.arange(batch).repeat_interleave(path.n_knots)
        keys, knot = torch.unique(groups[visitor] * n + path.route, return_inverse=True)
        owner = torch.zeros(len(keys), dtype=torch.long)
        owner[knot] = visitor
        values = plan.score.values(
            path.points[(keys % n).to(path.points.device)].to(plan.score.work_dtype), examples[owner]
        )
        f = values[knot.to(values.device)]  # (route,) the score at every knot of every route

        def at(point: Tensor) -> Tensor:
            return values[torch.searchsorted(keys, groups[segments.owner] * n + point).to(values.device)]

        known_row, known_sign = torch.full((len(segments),), -1), torch.ones(len(segments), dtype=torch.long)
        if known is not None and isinstance(plan.weighting, PathIntegral):
            known_row, known_sign = known.find(segments.tail, segments.head, groups[segments.owner], n)
        first, last = path.offsets[:-1].to(f.device), (path.offsets[1:] - 1).to(f.device)
        by_example = visitor.to(f.device)
        return cls(
            plan, path, examples, segments,
            torch.bincount(segments.leg_segment, minlength=len(segments)).double(),
            at(segments.tail), at(segments.head), f[last] - f[first],
            _extreme(f, by_example, batch, "amin"), _extreme(f, by_example, batch, "amax"),
            torch.zeros(len(segments), dtype=torch.float64), torch.zeros(batch, dtype=torch.float64),
            known.estimate if known else None, known_row, known_sign,
        )  # fmt: skip

    # ---- fixed steps ---------------------------------------------------------------------------------------------

    def fixed(self) -> Integral:
        """Exactly `n_steps` gradients a path, or what its budget pays for, spread by length or change of score.

        A segment takes at least one.
        """
        assert self.plan.n_steps is not None
        weighting, n_steps = self.plan.weighting, self.budget.floor().clamp(1, self.plan.n_steps)  # (batch,)
        if isinstance(weighting, WholePathWeighting) and weighting.follows_score:
            live = self._looked_at(*self._intervals_by_change(n_steps))
        else:
            counts = self._steps(self._length_share(), self.segments.leg_segment, self.segments.leg_example, n_steps)
            ends = torch.zeros(len(counts), dtype=torch.float64), torch.ones(len(counts), dtype=torch.float64)
            live = self._looked_at(torch.arange(len(counts)), *ends, counts)
        sums = self._sums(live)
        if isinstance(weighting, WholePathWeighting):
            length = _by(self._leg_lengths(), self.segments.leg_example, len(self.path)).to(sums.length)
            difference = (self.path.end - self.path.start).to(sums.values)
            sums = replace(sums, values=weighting.conclude(sums.values, length, difference))
        unknown = torch.full_like(sums.length, torch.nan)
        return self._integral(sums, unknown, unknown, self._notes(sums))

    def _steps(self, share: Tensor, piece: Tensor, example: Tensor, n_steps: Tensor) -> Tensor:
        """(pieces,) gradients of each piece, by the share (parts,) that it has in the examples that walk it.

        `piece` and `example` (parts,) say which part is which; where examples share a piece, the largest share wins.
        `n_steps` (batch,) are to be shared out.
        """
        spread = torch.bincount(example, minlength=len(self.path))
        # One each, and the rest by share: the largest remainders round up, so that an example's counts sum to n_steps.
        exact = share * (n_steps - spread).clamp_min(0)[example]
        counts = 1 + exact.floor()
        left = (n_steps - _by(counts, example, len(self.path))).clamp_min(0)
        order = np.lexsort((-(exact - exact.floor()).numpy(), example.numpy()))
        rank = torch.arange(len(order)) - (spread.cumsum(0) - spread)[example[order]]
        counts[order] += (rank < left[example[order]]).double()
        return _extreme(counts, piece, int(piece.max()) + 1 if len(piece) else 0, "amax").long()

    def _intervals_by_change(self, n_steps: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
        """Equal intervals as `_looked_at` takes them: a coarse look at the score says where steps are needed.

        A quarter of the steps is spread by length, one an interval, the rest by the change of score.
        """
        s, batch = self.segments, len(self.path)
        wished = (n_steps / STEPS_PER_INTERVAL).floor().clamp_min(1)[s.leg_example]
        cuts = _extreme(torch.ceil(self._length_share() * wished), s.leg_segment, len(s), "amax").clamp_min(1).long()
        segment = torch.arange(len(s)).repeat_interleave(cuts)
        first = cuts.cumsum(0) - cuts
        place = torch.arange(len(segment)) - first[segment]
        t0, t1 = place.double() / cuts[segment], (place + 1).double() / cuts[segment]
        f1 = self._score_at(segment, t1)
        f0 = torch.where((place == 0).to(f1.device), self.f_tail[segment.to(f1.device)], f1.roll(1))
        change = (f1 - f0).abs().double().cpu()
        parts = cuts[s.leg_segment]
        leg = torch.arange(len(parts)).repeat_interleave(parts)
        interval = first[s.leg_segment][leg] + torch.arange(len(leg)) - (parts.cumsum(0) - parts)[leg]
        example = s.leg_example[leg]
        nodes = self._steps(_share(change[interval], example, batch), interval, example, n_steps)
        return segment, t0, t1, nodes, f0, f1

    def _length_share(self) -> Tensor:
        """(legs,) each leg's share of its path's Euclidean length; equal shares where a path has no length."""
        return _share(self._leg_lengths(), self.segments.leg_example, len(self.path))

    def _leg_lengths(self) -> Tensor:
        """(legs,) Euclidean, float64."""
        tail, head = (self.path.points[i.to(self.path.points.device)] for i in (self.segments.tail, self.segments.head))
        size = (head.double() if head.device.type != "mps" else head.float()) - tail.to(head.dtype)
        return torch.linalg.vector_norm(flat_rows(size), dim=1).double().cpu()[self.segments.leg_segment]

    # ---- refinement ----------------------------------------------------------------------------------------------

    def refined(self, bar: Bar) -> Integral:
        """Cut pieces until every example has reached the tolerance, or its budget is spent."""
        live = self._first_pieces(self.plan.order)
        unresolved = torch.zeros(len(self.path), dtype=torch.bool)
        return self._refined(live, torch.ones(len(live.segment), dtype=torch.bool), unresolved, bar)

    def _refined(self, live: _Live, wanted: Tensor, unresolved: Tensor, bar: Bar) -> Integral:
        """Go on from some pieces, of which those in `wanted` (pieces,) are to be cut."""
        batch, n = len(self.path), self.plan.order
        sums = self._sums(live)
        done = torch.zeros(batch, dtype=torch.bool)
        try:
            while not self.interrupted:
                wanted = self._affordable(live, wanted, 2 * n)
                if not wanted.any():
                    break
                live = live.where(~wanted).plus(self._cut(live.where(wanted), n))
                sums = self._sums(live)
                done = self._done(sums)
                wanted, stuck = self._wanted(live, sums, done)
                unresolved = stuck & ~done
                if LEAVING_SHARE * batch <= int(done.sum()) < batch:
                    return self._parted(live, wanted, unresolved, sums, done, bar)
        except KeyboardInterrupt:
            self.interrupted = True
        bar.advance(batch)
        return self._integral(sums, sums.length_moved, sums.moved, self._notes(sums, done, unresolved))

    def _parted(self, live: _Live, wanted: Tensor, unresolved: Tensor, sums: _Sums, done: Tensor, bar: Bar) -> Integral:
        """Examples that are done leave, with what only they need; the others go on in a smaller block."""
        ready, rest = done.nonzero()[:, 0], (~done).nonzero()[:, 0]
        finished, _ = self._part(ready)
        final = sums.take(ready)
        notes = finished._notes(
            final, torch.ones_like(ready, dtype=torch.bool), torch.zeros_like(ready, dtype=torch.bool)
        )
        bar.advance(len(ready))
        first = finished._integral(final, final.length_moved, final.moved, notes)
        block, segment = self._part(rest)
        stays = segment[live.segment] >= 0
        live = live.where(stays)
        live.segment = segment[live.segment]
        second = block._refined(live, wanted[stays], unresolved[rest], bar)
        self.interrupted = block.interrupted
        return joined_integrals([first, second], torch.argsort(torch.cat([ready, rest])))

    def _part(self, rows: Tensor) -> tuple[Block, Tensor]:
        """The block of some examples (rows,), and the new number of each segment, -1 where it has left: (segments,)."""
        s, stays = self.segments, torch.full((len(self.path),), -1)
        stays[rows] = torch.arange(len(rows))
        legs = (stays[s.leg_example] >= 0).nonzero()[:, 0]
        used, leg_segment = torch.unique(s.leg_segment[legs], return_inverse=True)
        leg_example = stays[s.leg_example[legs]]
        owner = torch.zeros(len(used), dtype=torch.long)
        owner[leg_segment] = leg_example
        segment = torch.full((len(s),), -1)
        segment[used] = torch.arange(len(used))
        on, at = used.to(self.f_tail.device), rows.to(self.change.device)
        part = replace(
            self, path=self.path.select(rows), examples=self.examples[rows],
            segments=Segments(s.tail[used], s.head[used], owner, leg_segment, leg_example, s.leg_sign[legs]),
            sharers=torch.bincount(leg_segment, minlength=len(used)).double(),
            f_tail=self.f_tail[on], f_head=self.f_head[on], change=self.change[at],
            knot_low=self.knot_low[at], knot_high=self.knot_high[at], spent_before=self._gradients()[rows],
            segment_gradients=torch.zeros(len(used), dtype=torch.float64),
            known=None, known_row=self.known_row[used], known_sign=self.known_sign[used],
        )  # fmt: skip
        return part, segment

    def _first_pieces(self, n: int) -> _Live:
        """Each segment in one piece, or several where it is a large part of a path; fewer where the budget is small."""
        wished = torch.ceil(self._length_share() * (self.plan.n_steps or FIRST_GRADIENTS) / n)
        count = _extreme(wished, self.segments.leg_segment, len(self.segments), "amax").clamp_min(1).long()
        # A third of the budget for the first look leaves two thirds for verifying all of it.
        pieces = _by(count.double()[self.segments.leg_segment], self.segments.leg_example, len(self.path))
        tight = (pieces * n * 3 > self.budget)[self.segments.leg_example]
        count[self.segments.leg_segment[tight]] = 1
        # Where not even that is paid for, fewer gradients a segment, but one at least.
        paid = (self.budget / _by(torch.ones_like(wished), self.segments.leg_example, len(self.path))).floor()
        nodes = _extreme(
            paid.clamp(1, n)[self.segments.leg_example], self.segments.leg_segment, len(self.segments), "amin"
        ).long()
        nodes[count > 1] = n
        is_known = (self.known_row >= 0) & (count == 1)  # a long segment wants more looks than the solver took
        segment, t0, t1 = [torch.zeros(0, dtype=torch.long)], [np.zeros(0)], [np.zeros(0)]
        for k in torch.unique(count[~is_known]).tolist():
            rows = ((count == k) & ~is_known).nonzero()[:, 0]
            edges = np.concatenate([[0.0], np.sort(np.arange(1, k) * GOLDEN % 1), [1.0]])
            segment.append(rows.repeat_interleave(k))
            t0.append(np.tile(edges[:-1], len(rows)))
            t1.append(np.tile(edges[1:], len(rows)))
        where, begin, stop = (
            torch.cat(segment),
            torch.as_tensor(np.concatenate(t0)),
            torch.as_tensor(np.concatenate(t1)),
        )
        looked = self._looked_at(where, begin, stop, nodes[where])
        return looked.plus(self._known_pieces(is_known.nonzero()[:, 0])) if is_known.any() else looked

    def _known_pieces(self, segment: Tensor) -> _Live:
        """Whole segments, as the solver saw them."""
        assert self.known is not None
        device, k = self.f_tail.device, self.known
        row, sign = self.known_row[segment].to(device), self.known_sign[segment].to(device)
        signed = k.attributions[row] * sign.view(-1, *[1] * (k.attributions.ndim - 1))
        unknown = torch.full_like(k.length[row], torch.inf)
        ends = torch.zeros(len(segment), dtype=torch.float64), torch.ones(len(segment), dtype=torch.float64)
        f0, f1 = self.f_tail[segment.to(device)], self.f_head[segment.to(device)]
        estimate = Estimate(signed, k.length[row], k.low[row], k.high[row])
        return _Live(segment, *ends, f0, f1, estimate, unknown, unknown.clone())

    def _looked_at(
        self, segment: Tensor, t0: Tensor, t1: Tensor, nodes: Tensor, f0: Tensor | None = None, f1: Tensor | None = None
    ) -> _Live:
        """Pieces with a number of gradients each, nodes (pieces,); the score at their ends may be known already."""
        live = None
        for n in torch.unique(nodes).tolist() or [1]:  # paths of a single knot have no segment, hence no piece
            rows = nodes == n
            ends = (None if f is None else f[rows.to(f.device)] for f in (f0, f1))
            part = self._evaluated(segment[rows], t0[rows], t1[rows], n, *ends)
            live = part if live is None else live.plus(part)
        assert live is not None
        return live

    def _evaluated(
        self, segment: Tensor, t0: Tensor, t1: Tensor, n: int, f0: Tensor | None = None, f1: Tensor | None = None
    ) -> _Live:
        pieces = self._pieces(segment, t0, t1)
        estimate = self.plan.quadrature(pieces, n)
        self.segment_gradients += _by(
            torch.full((len(segment),), float(n), dtype=torch.float64), segment, len(self.segments)
        )
        if f0 is None or f1 is None:
            f0, f1 = self._score_at(segment, t0), self._score_at(segment, t1)
        if self.plan.metric.bounds_score:  # a length below the change of score would break certificates
            estimate = Estimate(
                estimate.attributions, torch.maximum(estimate.length, (f1 - f0).abs()), estimate.low, estimate.high
            )
        unknown = torch.full_like(estimate.length, torch.inf)
        return _Live(segment, t0, t1, f0, f1, estimate, unknown, unknown.clone())

    def _pieces(self, segment: Tensor, t0: Tensor, t1: Tensor) -> Pieces:
        s = self.segments
        return Pieces(self.path.points, s.tail[segment], s.head[segment], self.examples[s.owner[segment]], t0, t1)

    def _score_at(self, segment: Tensor, t: Tensor) -> Tensor:
        """The score at parameter t (pieces,) of each segment (pieces,); at the knots it is known already."""
        f = self.f_tail.new_zeros(len(t))
        for known, value in ((t == 0, self.f_tail), (t == 1, self.f_head)):
            f[known.to(f.device)] = value[segment[known].to(f.device)]
        inner = (t > 0) & (t < 1)
        if inner.any():
            pieces = self._pieces(segment[inner], t[inner], t[inner])
            f[inner.to(f.device)] = self.plan.score.values(
                pieces.at(t[inner], self.plan.score.work_dtype), pieces.example
            )
        return f

    def _cut(self, parents: _Live, n: int) -> _Live:
        """Both unequal parts of each piece, with how far they moved from what the whole had said."""
        middle = parents.t0 + CUT * (parents.t1 - parents.t0)
        f_middle = self._score_at(parents.segment, middle)
        children = self._evaluated(
            parents.segment.repeat_interleave(2), _pair(parents.t0, middle), _pair(middle, parents.t1), n,
            _pair(parents.f0, f_middle), _pair(f_middle, parents.f1),
        )  # fmt: skip
        whole, parts = parents.estimate, children.estimate
        moved = _size_of_error(flat_rows(parts.attributions.unflatten(0, (-1, 2)).sum(1) - whole.attributions))
        length_moved = (parts.length.view(-1, 2).sum(1) - whole.length).abs()
        # The blame goes half to both parts alike, half by their residuals, which say where the score was missed.
        residual = self._residual(children).view(-1, 2)
        blame = 0.25 + 0.5 * residual / residual.sum(1, keepdim=True).clamp_min(torch.finfo(residual.dtype).tiny)
        children.moved, children.length_moved = (
            (blame * moved[:, None]).flatten(),
            (blame * length_moved[:, None]).flatten(),
        )
        return children

    def _residual(self, live: _Live) -> Tensor:
        """(pieces,) |Σ attributions − change of score|, beyond what rounding explains."""
        gap = flat_rows(live.estimate.attributions).sum(1) - (live.f1 - live.f0)
        noise = 4 * self.plan.score.eps * torch.maximum(live.f0.abs(), live.f1.abs())
        return (gap.abs() - noise).clamp_min(0)

    def _wanted(self, live: _Live, sums: _Sums, done: Tensor) -> tuple[Tensor, Tensor]:
        """(pieces,) which to cut next: those above an equal share of what their example may err by.

        Also (batch,) which examples want to cut a piece that floating point cannot cut any more.
        """
        attribution, length, _, residual = self._allowed(sums)
        open_leg = (~done)[self.segments.leg_example]
        leg_example, leg_segment = self.segments.leg_example[open_leg], self.segments.leg_segment[open_leg]

        def least(of_leg: Tensor) -> Tensor:
            """(pieces,) the least of what the open examples that walk a piece have: the most demanding one decides."""
            nothing = torch.full((len(self.segments),), torch.inf, dtype=torch.float64)
            return nothing.scatter_reduce_(0, leg_segment, of_leg, "amin")[live.segment]

        # Below this, pieces differ by rounding alone: cutting them would not help.
        logit = torch.as_tensor(self.plan.score.largest_logit)[self.examples[leg_example]]
        logit = least(torch.where(logit > 0, logit, torch.inf)).nan_to_num(posinf=0.0)  # zero: nothing was noted
        ends = torch.maximum(live.f0.abs(), live.f1.abs())
        noise = 2 * self.plan.score.eps * torch.maximum(ends, logit.to(ends.dtype).to(ends.device))
        errors = [(live.length_moved, length)]
        if not self.plan.only_length:
            errors += [(live.moved, attribution), (self._residual(live), residual)]
        too_much, curable = (torch.zeros(len(live.segment), dtype=torch.bool) for _ in range(2))
        for error, allowed in errors:
            above = error.double().cpu() > least((allowed / sums.pieces).double().cpu()[leg_example])
            too_much |= above
            curable |= above & (error > noise).cpu()
        can_cut = curable & ((live.t1 - live.t0) > 4 * torch.finfo(self.plan.score.work_dtype).eps)
        hopeless = torch.zeros(len(self.segments), dtype=torch.bool)
        hopeless[live.segment[too_much & ~can_cut]] = True
        stuck = torch.zeros(len(self.path), dtype=torch.bool)
        stuck[self.segments.leg_example[hopeless[self.segments.leg_segment]]] = True
        return too_much & can_cut, stuck

    def _affordable(self, live: _Live, wanted: Tensor, cost: int) -> Tensor:
        """The worst of the wanted pieces, as many as the budgets of all the examples that walk them pay for."""
        purse = self.budget - self._gradients()
        rows = wanted.nonzero()[:, 0]
        segment = live.segment[rows]
        walkers = self.sharers.long()[segment]  # (wanted,) each pays its part of a piece
        piece = torch.arange(len(rows)).repeat_interleave(walkers)  # (parts,)
        first = self.sharers.long().cumsum(0) - self.sharers.long()
        within = torch.arange(len(piece)) - (walkers.cumsum(0) - walkers).repeat_interleave(walkers)
        leg = self.segments.leg_segment.argsort()[first[segment][piece] + within]
        payer, part = self.segments.leg_example[leg], cost / walkers.double()[piece]
        if bool((_by(part, payer, len(purse)) <= purse).all()):
            return wanted
        badness = torch.maximum(live.moved, self._residual(live))[rows.to(live.moved.device)].cpu()
        order = torch.as_tensor(np.lexsort((-badness[piece].numpy(), payer.numpy())))
        bill = part[order].cumsum(0)
        before = _by(part, payer, len(purse)).cumsum(0) - _by(part, payer, len(purse))
        # Sums of thirds round: a millionth of a gradient is not what the budget is about.
        unpaid = bill - before[payer[order]] > purse[payer[order]] + 1e-6
        chosen = wanted.clone()
        chosen[rows[piece[order[unpaid]]]] = False
        return chosen

    # ---- sums and judgement --------------------------------------------------------------------------------------

    def _sums(self, live: _Live) -> _Sums:
        s, batch = self.segments, len(self.path)
        e = live.estimate
        segment = live.segment.to(e.length.device)
        per_segment = torch.stack(
            [e.length, self._residual(live), live.moved, live.length_moved, torch.ones_like(e.length)], 1
        )
        legs, examples = s.leg_segment.to(segment.device), s.leg_example.to(segment.device)
        length, residual, moved, length_moved, pieces = _by(
            _by(per_segment, segment, len(s))[legs], examples, batch
        ).unbind(1)
        low = _extreme(_extreme(e.low, segment, len(s), "amin")[legs], examples, batch, "amin")
        high = _extreme(_extreme(e.high, segment, len(s), "amax")[legs], examples, batch, "amax")
        return _Sums(
            self._walked(_by(e.attributions, segment, len(s))), length, residual, moved,
            length_moved, pieces.clamp_min(1),
            torch.minimum(low, self.knot_low), torch.maximum(high, self.knot_high),
        )  # fmt: skip

    def _walked(self, of_segment: Tensor) -> Tensor:
        """Attributions of segments (segments, *features) summed along each example's route: (batch, *features)."""
        total = of_segment.new_zeros(len(self.path), *of_segment.shape[1:])
        per_chunk = max(1, SUM_ELEMENTS // self.plan.score.n_features)
        shape = (-1, *[1] * (of_segment.ndim - 1))
        for rows in torch.arange(len(self.segments.leg_segment)).split(per_chunk):
            signed = of_segment[self.segments.leg_segment[rows].to(total.device)]
            if not isinstance(self.plan.weighting, WholePathWeighting):  # of those, both directions add the same
                signed = signed * self.segments.leg_sign[rows].to(total.device, total.dtype).view(shape)
            total.index_add_(0, self.segments.leg_example[rows].to(total.device), signed)
        return total

    def _allowed(self, sums: _Sums) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """What each example may err by: attributions, length, completeness, and Σ|residual|, (batch,) each.

        Residuals of pieces cancel where the score goes up and down. As long as what remains of them is within the
        tolerance, they are one more sum of attributions that errs, and may err as much as any other.
        """
        assert self.plan.tolerance is not None
        eps = self.plan.score.eps
        tolerance = max(self.plan.tolerance, 8 * eps)
        rounding = ROUNDING * eps * torch.maximum(sums.low.abs(), sums.high.abs())
        change = self.change.abs()
        # A path that comes back to where it started may have no change and no attributions to be relative to.
        scale = torch.maximum(change, 0.01 * (sums.high - sums.low))
        attribution = tolerance * torch.maximum(flat_rows(sums.values).abs().sum(1), scale) + rounding
        gap = self.plan.tolerance * scale + rounding
        complete = self._gap(sums).abs() <= gap
        residual = torch.where(complete, torch.maximum(gap, attribution), gap)
        return attribution, tolerance * sums.length + rounding, gap, residual

    def _done(self, sums: _Sums) -> Tensor:
        attribution, length, gap, residual = self._allowed(sums)
        if self.plan.only_length:
            return (sums.length_moved <= length).cpu()
        return (
            (sums.moved <= attribution) & (sums.length_moved <= length)
            & (sums.residual <= residual) & (self._gap(sums).abs() <= gap)
        ).cpu()  # fmt: skip

    def _gap(self, sums: _Sums) -> Tensor:
        return flat_rows(sums.values).sum(1) - self.change

    def _gradients(self) -> Tensor:
        """(batch,) float64 gradients spent so far; those of a shared segment are split between its examples."""
        each = self.segment_gradients / self.sharers.clamp_min(1)
        return self.spent_before + _by(each[self.segments.leg_segment], self.segments.leg_example, len(self.path))

    def _notes(self, sums: _Sums, done: Tensor | None = None, unresolved: Tensor | None = None) -> list[Note]:
        """One note an example. Zeros are never silent: a score that does not move at all is said to be flat."""
        flat = (sums.high <= sums.low) & ~flat_rows(sums.values).any(1)
        gaps, spent = self._gap(sums).abs().tolist(), self._gradients().tolist()
        if done is None or unresolved is None:
            each = zip(flat.tolist(), spent, gaps, self.budget.tolist(), strict=True)
            return [FLAT if z else self._fixed_note(n, gap, budget) for z, n, gap, budget in each]
        assert self.plan.tolerance is not None
        allowed = self._allowed(sums)[2]
        floor = allowed / self.plan.tolerance > 2 * torch.maximum(self.change.abs(), 0.01 * (sums.high - sums.low))
        rows = zip(
            flat.tolist(), done.tolist(), unresolved.tolist(), spent, gaps, allowed.tolist(), floor.tolist(),
            sums.moved.tolist(), self.budget.tolist(), strict=True,
        )  # fmt: skip
        return [FLAT if z else self._refined_note(*row) for z, *row in rows]

    def _fixed_note(self, steps: float, gap: float, budget: float) -> Note:
        asked, why = self.plan.n_steps or 0, ""
        if budget < asked:
            why = f", as max_gradients={self.plan.max_gradients or budget:.0f} left no more"
        elif steps > asked + 0.5:
            why = ", since each segment takes one"
        return Note(
            Outcome.BUDGET_SPENT if budget < asked else Outcome.FIXED_STEPS,
            f"integrated with {steps:.0f} fixed steps{f' where n_steps={asked} were asked for{why}' if why else ''}, "
            f"without error control: completeness gap {gap:.2g}",
        )

    def _refined_note(
        self,
        done: bool,
        stuck: bool,
        spent: float,
        gap: float,
        allowed: float,
        floor: bool,  # whether rounding, more than the tolerance, is what allows a gap
        moved: float,
        budget: float,
    ) -> Note:
        dtype = str(self.plan.score.dtype).removeprefix("torch.")
        if done and floor:
            return Note(
                Outcome.REACHED,
                f"as exact as {dtype} rounds this score, which is coarser than tolerance {self.plan.tolerance:g}: "
                f"completeness gap {gap:.2g}, {allowed:.2g} allowed, with {spent:.0f} gradients for the integral",
            )
        if done:
            return Note(
                Outcome.REACHED,
                f"reached tolerance {self.plan.tolerance:g}, with {spent:.0f} gradients for the integral",
            )
        measured = f"completeness gap {gap:.2g} where {allowed:.2g} was allowed, attributions uncertain by {moved:.2g}"
        if self.interrupted:
            return Note(
                Outcome.INTERRUPTED,
                f"the integral was interrupted after {spent:.0f} gradients: {measured}; run it again",
            )
        if stuck:
            return Note(
                Outcome.UNRESOLVED,
                f"in {dtype} the score cannot be resolved any finer (it jumps, or moves less than it rounds): "
                f"{measured}; explain it in float64, or a smoother output",
            )
        said = self.plan.max_gradients or budget
        left = "" if said == budget else f"the {budget:.0f} that were left of "
        return Note(
            Outcome.BUDGET_SPENT,
            f"stopped at {spent:.0f} of {left}max_gradients={said:.0f}: {measured}; raise max_gradients or tolerance",
        )

    def _integral(self, sums: _Sums, length_error: Tensor, attribution_error: Tensor, notes: list[Note]) -> Integral:
        bad = (~torch.isfinite(flat_rows(sums.values)).all(1)).nonzero()
        if len(bad):
            row = self.plan.score.row(int(self.examples[int(bad[0])]))
            raise ValueError(
                f"the gradient of example {row} is NaN or infinite along its path, "
                "though its score is finite: look for sqrt(0), log(0), 0/0 or norm(0) in the model"
            )
        return Integral(
            sums.values, self.change, sums.length, length_error, attribution_error,
            sums.low, sums.high, self._gradients(), notes,
        )  # fmt: skip


FLAT = Note(
    Outcome.FLAT,
    "the score is the same along the whole path, so every attribution is zero; "
    "choose another baseline, target or output",
)


def _size_of_error(difference: Tensor) -> Tensor:
    """Of attributions (rows, features): (rows,).

    Σ|difference| up to four features. For more, twice the Euclidean norm, which is what the error of a sum over any
    choice of features and signs typically amounts to: pixels of a shattered gradient err independently, and asking
    for Σ|difference| would take thousands of gradients to average out noise that nobody looks at pixel by pixel.
    """
    return torch.minimum(difference.abs().sum(1), 2 * torch.linalg.vector_norm(difference, dim=1))


def _pair(first: Tensor, second: Tensor) -> Tensor:
    """Two (n,) interleaved: (2n,)."""
    return torch.stack([first, second], 1).flatten()


def _by(values: Tensor, index: Tensor, n: int) -> Tensor:
    """Sums of `values` (rows, …) by `index` (rows,): (n, …)."""
    return values.new_zeros(n, *values.shape[1:]).index_add_(0, index, values)


def _share(sizes: Tensor, index: Tensor, n: int) -> Tensor:
    """(rows,) each one's share of the sum by `index` (rows,); equal shares where the sum is zero."""
    total = _by(sizes, index, n)[index]
    count = _by(torch.ones_like(sizes), index, n)[index]
    return torch.where(total > 0, sizes / total.clamp_min(1e-300), 1 / count)


def _extreme(values: Tensor, index: Tensor, n: int, reduce: str) -> Tensor:
    """Smallest or largest of `values` (rows,) by `index` (rows,): (n,)."""
    empty = torch.inf if reduce == "amin" else -torch.inf
    return values.new_full((n,), empty).scatter_reduce_(0, index, values, reduce)
