"""Some examples that are integrated together: their distinct segments, and measurements of pieces of these."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from leastpath._support.rows import flat_rows, norms, per_row, taken
from leastpath.account.run import Run
from leastpath.geometry.metric import Metric
from leastpath.geometry.path import Path, Segments
from leastpath.integral.accuracy import Accuracy
from leastpath.integral.bundles import Bundles, sketched
from leastpath.integral.pieces import Estimate, Pieces, quadrature
from leastpath.integral.result import Integral
from leastpath.integral.sums import (
    Errors,
    Sums,
    averaged_errors,
    extreme_by,
    share_by,
    size_of_error,
    total_by,
)
from leastpath.integral.weightings import Weighting, WholePathWeighting
from leastpath.result.status import Note
from leastpath.score.bound import BoundScore

SUM_ELEMENTS = 2**22  # numbers gathered at once while summing along routes
FEW_FEATURES = 4  # up to here, errors of pieces are added up as if all had the same sign
PARTS_HELD = 8  # looks that are collected before their sums are added


@dataclass(frozen=True)
class Plan:
    """What stays the same for all blocks."""

    score: BoundScore
    metric: Metric
    weighting: Weighting
    accuracy: Accuracy
    budget: Tensor  # (batch,) float64, gradients each example may spend here
    run: Run  # its max_gradients is what the user said, of which a solver may have spent a part
    rival: Tensor | None = None  # (batch,) lengths that these are only compared with

    @cached_property
    def order(self) -> int:
        """Gradients a piece: 2 at a tolerance of 1 %, more for smaller ones."""
        assert self.accuracy.tolerance is not None
        return int(np.clip(round(-np.log10(self.accuracy.tolerance)), 2, 8))

    @property
    def errors_average(self) -> bool:
        """Whether errors of pieces are independent, so that those of many cancel in part: not for few features."""
        return self.score.n_features > FEW_FEATURES

    def allowed(self, sums: Sums) -> Errors:
        """The errors allowed for each example."""
        asked = self.accuracy
        assert asked.tolerance is not None
        return sums.allowed(asked.tolerance, self.score.eps, asked.length_tolerance or asked.tolerance)

    @cached_property
    def groups(self) -> Tensor:
        """(batch,) `BoundScore.groups`, computed once."""
        return self.score.groups

    @cached_property
    def directed(self) -> bool:
        """Whether a segment adds the opposite when it is walked the other way."""
        return not isinstance(self.weighting, WholePathWeighting)


class Live(NamedTuple):
    """The pieces that paths consist of now, and what is known of each: (pieces,) unless it says otherwise."""

    segment: Tensor
    t0: Tensor  # float64
    t1: Tensor
    f0: Tensor  # score at the ends
    f1: Tensor
    sketch: Tensor  # (pieces, few) its attributions, as far as they are compared with those of its parts
    length: Tensor
    low: Tensor  # smallest and largest score met
    high: Tensor
    residual: Tensor  # |Σ attributions − change of score|, beyond what rounding explains
    moved: Tensor  # how far attributions moved when this piece was cut from its parent; inf if it was not cut
    length_moved: Tensor
    shift: Tensor  # (pieces, few) the sketch of that move, half of it in each part: moves of several pieces may cancel
    length_shift: Tensor
    bundle: Tensor  # the row of `Bundles` that its attributions are in

    def where(self, keep: Tensor) -> Live:
        """The pieces in `keep` (pieces,)."""
        return self if bool(keep.all()) else self.take(keep.nonzero()[:, 0])  # several times faster than a mask

    def take(self, rows: Tensor) -> Live:
        """Some of the pieces (rows,)."""
        on = {self.segment.device: rows}
        on[self.f0.device] = rows.to(self.f0.device)
        return Live(*(part.index_select(0, on[part.device]) for part in self))

    @staticmethod
    def join(parts: Sequence[Live]) -> Live:
        """Several as one, in order."""
        return parts[0] if len(parts) == 1 else Live(*map(torch.cat, zip(*parts, strict=True)))


class Look(NamedTuple):
    """A few pieces that were just measured: what is known of each, and their attributions (pieces, *features)."""

    live: Live
    attributions: Tensor


@dataclass(frozen=True)
class Standing:
    """All pieces of some paths, and the sums of what they add."""

    live: Live
    bundles: Bundles

    @classmethod
    def collect(cls, block: Block, looks: Iterable[tuple[Look, Tensor]]) -> Standing:
        """Looks with the class of each piece (pieces,), one after the other: attributions are added and forgotten."""
        parts: list[Standing] = []
        for (live, attributions), kind in looks:
            segment = live.segment
            bundles, row = Bundles.of(block.signed(attributions, segment), taken(block.carrier, segment), kind)
            parts.append(cls(live._replace(bundle=row), bundles))
            if len(parts) == PARTS_HELD:
                parts = [cls.join(parts)]
        return cls.join(parts)

    @classmethod
    def join(cls, parts: Sequence[Standing]) -> Standing:
        """Several as one, in order."""
        if len(parts) == 1:
            return parts[0]
        bundles, row = Bundles.join([part.bundles for part in parts])
        shifts = torch.tensor([0, *(len(part.bundles) for part in parts)]).cumsum(0).tolist()
        live = [p.live._replace(bundle=row[p.live.bundle + at]) for p, at in zip(parts, shifts[:-1], strict=True)]
        return cls(Live.join(live), bundles)

    def without(self, gone: Tensor) -> Standing:
        """What is left when the pieces in `gone` (pieces,), all of some bundles, are taken away."""
        if not gone.any():
            return self
        stays = torch.ones(len(self.bundles), dtype=torch.bool)
        stays.index_fill_(0, taken(self.live.bundle, gone.nonzero()[:, 0]), False)
        return Standing(self._renumbered(self.live.where(~gone), stays), self.bundles.take(stays.nonzero()[:, 0]))

    def part(self, segment: Tensor, carrier: Tensor) -> Standing:
        """What stays of it when segments and carriers get new numbers, -1 where they leave."""
        stays = carrier[self.bundles.carrier] >= 0
        live = self._renumbered(self.live.where(stays[self.live.bundle]), stays)
        bundles = self.bundles.take(stays.nonzero()[:, 0])
        return Standing(
            live._replace(segment=segment[live.segment]), replace(bundles, carrier=carrier[bundles.carrier])
        )

    @staticmethod
    def _renumbered(live: Live, stays: Tensor) -> Live:
        return live._replace(bundle=taken(stays.cumsum(0) - 1, live.bundle))


@dataclass(frozen=True)
class Block:
    """Some examples, and the gradients spent on their segments. A segment that several share is measured once."""

    plan: Plan
    path: Path
    examples: Tensor  # (batch,) their numbers in the bound score
    segments: Segments
    f_tail: Tensor  # (segments,) score at the ends
    f_head: Tensor
    change: Tensor  # (batch,) Δf
    knot_low: Tensor  # (batch,) range of the score over the knots
    knot_high: Tensor
    segment_gradients: Tensor  # (segments,) float64, gradients spent; `look` adds to it
    spent_before: Tensor  # (batch,) float64, gradients spent in a larger block

    @classmethod
    def make(cls, plan: Plan, path: Path, examples: Tensor) -> Block:
        """The block of some examples (batch,), whose paths are `path`; the score is evaluated once at every knot."""
        groups, batch, n = plan.groups[examples], len(path), len(path.points)
        segments = path.segments(groups)
        visitor = torch.arange(batch).repeat_interleave(path.n_knots)
        keys, knot = torch.unique(groups[visitor] * n + path.route, return_inverse=True)
        owner = torch.zeros(len(keys), dtype=torch.long)
        owner[knot] = visitor
        knots, of_example = (keys % n).to(path.points.device), examples[owner]
        values = torch.cat([  # as many knots at once as the model takes: a path may have thousands
            plan.score.values(path.points[knots[rows.to(knots.device)]].to(plan.score.work_dtype), of_example[rows])
            for rows in torch.arange(len(keys)).split(plan.score.batch_size)
        ])  # fmt: skip
        device = values.device
        f, visitor = values[knot.to(device)], visitor.to(device)  # (route,) every knot of every route
        first, last = path.offsets[:-1].to(device), (path.offsets[1:] - 1).to(device)

        def at(point: Tensor) -> Tensor:
            return values[torch.searchsorted(keys, groups[segments.owner] * n + point).to(device)]

        return cls(
            plan, path, examples, segments, at(segments.tail), at(segments.head), f[last] - f[first],
            extreme_by(f, visitor, batch, "amin"), extreme_by(f, visitor, batch, "amax"),
            torch.zeros(len(segments), dtype=torch.float64), torch.zeros(batch, dtype=torch.float64),
        )  # fmt: skip

    def __len__(self) -> int:
        return self.examples.shape[0]

    def part(self, rows: Tensor) -> tuple[Block, Tensor, Tensor]:
        """The block of some examples (rows,), and the new numbers of segments and carriers, -1 where one has left."""
        s, stays = self.segments, torch.full((len(self),), -1)
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
            f_tail=self.f_tail[on], f_head=self.f_head[on], change=self.change[at],
            knot_low=self.knot_low[at], knot_high=self.knot_high[at], spent_before=self.gradients()[rows],
            segment_gradients=torch.zeros(len(used), dtype=torch.float64),
        )  # fmt: skip
        carrier = torch.cat([stays, torch.where(segment < 0, -1, segment + len(rows))])
        return part, segment, carrier

    @cached_property
    def sharers(self) -> Tensor:
        """(segments,) how many legs each has."""
        return torch.bincount(self.segments.leg_segment, minlength=len(self.segments))

    def largest(self, of_leg: Tensor) -> Tensor:
        """(segments,) the largest value of a segment's legs (legs,)."""
        return extreme_by(of_leg, self.segments.leg_segment, len(self.segments), "amax")

    @cached_property
    def carrier(self) -> Tensor:
        """(segments,) who carries what a segment adds: its example, or if several walk it, itself (after the last)."""
        s, itself = self.segments, len(self) + torch.arange(len(self.segments))
        example = torch.zeros(len(s), dtype=torch.long)
        example[s.leg_segment] = s.leg_example
        return torch.where(self.sharers == 1, example, itself)

    def signed(self, attributions: Tensor, segment: Tensor) -> Tensor:
        """Attributions (pieces, *features) on `segment` (pieces,) as its carrier adds them: in its own direction."""
        if self._all_forward:
            return attributions
        sign = taken(self._carried_sign, segment)
        return attributions * per_row(sign.to(attributions.device, attributions.dtype), attributions)

    @cached_property
    def _carried_sign(self) -> Tensor:
        """(segments,) the direction in which a carrier walks a segment: +1 for one that several walk."""
        s, sign = self.segments, torch.ones(len(self.segments), dtype=torch.long)
        if self.plan.directed:
            sign[s.leg_segment] = s.leg_sign
        return torch.where(self.sharers == 1, sign, 1)

    @cached_property
    def _all_forward(self) -> bool:
        return bool((self._carried_sign > 0).all())

    def leg_lengths(self) -> Tensor:
        """(legs,) Euclidean, float64."""
        points, s, sizes = self.path.points, self.segments, []
        for rows in torch.arange(len(s)).split(self.plan.score.batch_size):
            tail, head = (points[i[rows].to(points.device)] for i in (s.tail, s.head))
            step = (head.double() if head.device.type != "mps" else head.float()) - tail.to(head.dtype)
            sizes.append(norms(step, 1).double().cpu())
        return torch.cat([torch.zeros(0, dtype=torch.float64), *sizes])[s.leg_segment]

    def length_share(self) -> Tensor:
        """(legs,) each leg's share of its path's Euclidean length; equal shares if a path has no length."""
        return share_by(self.leg_lengths(), self.segments.leg_example, len(self))

    @property
    def budget(self) -> Tensor:
        """(batch,) float64 gradients each example may spend."""
        return self.plan.budget[self.examples]

    def affordable(self) -> Tensor:
        """(batch,) float64 gradients each example may still spend: what its budget and the time pay for."""
        time = self.plan.run.clock.affordable(float(self.plan.score.gradients_spent.sum())) / len(self)
        return (self.budget - self.gradients()).clamp_max(time)

    def gradients(self) -> Tensor:
        """(batch,) float64 gradients spent so far; those of a shared segment are split between its examples."""
        each = self.segment_gradients / self.payers
        return self.spent_before + total_by(
            taken(each, self.segments.leg_segment), self.segments.leg_example, len(self)
        )

    @cached_property
    def payers(self) -> Tensor:
        """(segments,) float64, how many share the cost of each."""
        return self.sharers.double().clamp_min(1)

    def chunks(self, nodes: Tensor) -> Iterator[tuple[int, Tensor]]:
        """Pieces with `nodes` (pieces,) gradients each: how many, and rows, no more than the model takes at once."""
        for n in torch.unique(nodes).tolist() or [1]:  # paths of a single knot have no pieces
            for rows in (nodes == n).nonzero()[:, 0].split(self.plan.score.batch_size):
                yield n, rows

    def look(self, segment: Tensor, t0: Tensor, t1: Tensor, n: int, ends: tuple[Tensor, Tensor] | None = None) -> Look:
        """Measure pieces with `n` gradients each; `ends` are the scores at both ends, if known."""
        plan = self.plan
        estimate = quadrature(
            plan.score, self._pieces(segment, t0, t1), plan.metric, plan.accuracy.rule, n, plan.weighting
        )
        self.segment_gradients.index_add_(0, segment, torch.full_like(t0, n))
        f0, f1 = ends or self.score_at_ends(segment, t0, t1)
        if plan.metric.bounds_score:  # a length below the change of score would break certificates
            estimate = estimate._replace(length=torch.maximum(estimate.length, (f1 - f0).abs()))
        return self.as_look(segment, t0, t1, f0, f1, estimate)

    def glance(self, segment: Tensor, t0: Tensor, t1: Tensor) -> Estimate:
        """Pieces by one gradient each, in their middle."""
        plan = self.plan
        self.segment_gradients.index_add_(0, segment, torch.ones_like(t0))
        return quadrature(plan.score, self._pieces(segment, t0, t1), plan.metric, "midpoint", 1, plan.weighting)

    def as_look(self, segment: Tensor, t0: Tensor, t1: Tensor, f0: Tensor, f1: Tensor, estimate: Estimate) -> Look:
        """Pieces after a first measurement: nothing is verified yet."""
        attributions, length, low, high = estimate
        gap = flat_rows(attributions).sum(1) - (f1 - f0)
        noise = 4 * self.plan.score.eps * torch.maximum(f0.abs(), f1.abs())
        residual, unknown = (gap.abs() - noise).clamp_min(0), torch.full_like(length, torch.inf)
        sketch, none = sketched(attributions), torch.zeros_like(segment)
        shifts = torch.zeros_like(sketch), torch.zeros_like(length)
        live = Live(segment, t0, t1, f0, f1, sketch, length, low, high, residual, unknown, unknown, *shifts, none)
        return Look(live, attributions)

    def score_at_ends(self, segment: Tensor, t0: Tensor, t1: Tensor) -> tuple[Tensor, Tensor]:
        """(pieces,) twice: the score where pieces of segments begin and end, asked once where two of them meet."""
        both, t = segment.repeat(2), torch.cat([t0, t1])
        places, number = torch.unique(2 * both + t, return_inverse=True)  # t is at most 1: no two segments overlap
        some = torch.empty(len(places), dtype=torch.long).scatter_(0, number, torch.arange(len(t)))
        f0, f1 = taken(self.score_at(both[some], t[some]), number).chunk(2)
        return f0, f1

    def score_at(self, segment: Tensor, t: Tensor) -> Tensor:
        """(pieces,) the score at parameter t (pieces,) of each segment (pieces,); it is known at the knots."""
        inner = (t > 0) & (t < 1)
        if len(t) <= self.plan.score.batch_size and bool(inner.all()):  # the usual case: nothing to put together
            return self._inner_score(segment, t)
        f = self.f_tail.new_zeros(len(t))
        for known, value in ((t == 0, self.f_tail), (t == 1, self.f_head)):
            f[known.to(f.device)] = value[segment[known].to(f.device)]
        for rows in inner.nonzero()[:, 0].split(self.plan.score.batch_size):
            f[rows.to(f.device)] = self._inner_score(segment[rows], t[rows])
        return f

    def _inner_score(self, segment: Tensor, t: Tensor) -> Tensor:
        pieces = self._pieces(segment, t, t)
        return self.plan.score.values(pieces.at(t, self.plan.score.work_dtype), pieces.example)

    def _pieces(self, segment: Tensor, t0: Tensor, t1: Tensor) -> Pieces:
        s = self.segments
        tail, head, example = (taken(of, segment) for of in (s.tail, s.head, self._segment_example))
        return Pieces(self.path.points, tail, head, example, t0, t1)

    @cached_property
    def _segment_example(self) -> Tensor:
        """(segments,) the number in the bound score of an example that walks each."""
        return self.examples[self.segments.owner]

    def sums(self, standing: Standing) -> Sums:
        """Pieces summed by segment, and segments along each example's route."""
        s, live, batch = self.segments, standing.live, len(self)
        device = live.length.device
        segment, legs, examples = (index.to(device) for index in (live.segment, s.leg_segment, s.leg_example))
        errors = torch.stack([live.residual, live.moved, live.length_moved], 1)
        squares = [errors**2] if self.plan.errors_average else []
        columns = torch.cat([live.length[:, None], torch.ones_like(errors[:, :1]), errors, *squares], 1)
        columns = total_by(taken(total_by(columns, segment, len(s)), legs), examples, batch)
        length, pieces, errors = columns[:, 0], columns[:, 1], columns[:, 2:5]
        if self.plan.errors_average:
            shift = total_by(live.shift, segment, len(s))[legs] * s.leg_sign.to(device)[:, None]
            of_length = total_by(live.length_shift, segment, len(s))[legs]
            moves = size_of_error(total_by(shift, examples, batch)), total_by(of_length, examples, batch).abs()
            errors = averaged_errors(errors, columns[:, 5:], *moves)
        residual, moved, length_moved = errors.unbind(1)
        low = extreme_by(taken(extreme_by(live.low, segment, len(s), "amin"), legs), examples, batch, "amin")
        high = extreme_by(taken(extreme_by(live.high, segment, len(s), "amax"), legs), examples, batch, "amax")
        low, high = torch.minimum(low, self.knot_low), torch.maximum(high, self.knot_high)
        rival = length.new_full((batch,), torch.nan)
        if self.plan.rival is not None:
            rival = self.plan.rival.to(length)[self.examples.to(device)]
        values, pieces = self._walked(standing.bundles), pieces.clamp_min(1)
        return Sums(values, length, residual, moved, length_moved, pieces, low, high, self.change, rival)

    def _walked(self, bundles: Bundles) -> Tensor:
        """What the bundles add along each example's route: (batch, *features)."""
        s, (sums, carrier) = self.segments, (bundles.sums, bundles.carrier)
        total = sums.new_zeros(len(self), *sums.shape[1:])
        shared = carrier >= len(self)
        if not shared.any():
            return total.index_add_(0, carrier.to(total.device), sums)
        own = (~shared).nonzero()[:, 0]
        total.index_add_(0, carrier[own].to(total.device), sums[own.to(total.device)])
        rows = shared.nonzero()[:, 0].to(total.device)
        of_segment = total_by(sums[rows], (carrier[shared] - len(self)).to(total.device), len(s))
        for rows in torch.arange(len(s.leg_segment)).split(max(1, SUM_ELEMENTS // self.plan.score.n_features)):
            signed = taken(of_segment, s.leg_segment[rows])
            if self.plan.directed:
                signed = signed * per_row(s.leg_sign[rows].to(total.device, total.dtype), signed)
            total.index_add_(0, s.leg_example[rows].to(total.device), signed)
        return total

    def integral(self, sums: Sums, notes: list[Note], value_gradients: Tensor | None = None) -> Integral:
        """The sums as the public result, with a note for each example.

        `value_gradients` (batch,) were spent when the values were known: all of them by default.
        """
        gradients = self.gradients()
        value_gradients = gradients if value_gradients is None else torch.minimum(value_gradients, gradients)
        bad = (~torch.isfinite(flat_rows(sums.values)).all(1)).nonzero()
        if len(bad):
            row = self.plan.score.space.row(int(self.examples[int(bad[0])]))
            raise ValueError(
                f"the gradient of example {row} is NaN or infinite along its path, "
                "though its score is finite: look for sqrt(0), log(0), 0/0 or norm(0) in the model"
            )
        return Integral(
            sums.values, sums.change, sums.length, sums.length_moved, sums.moved,
            sums.low, sums.high, gradients, value_gradients, notes,
        )  # fmt: skip
