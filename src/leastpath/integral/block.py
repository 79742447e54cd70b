"""Some examples that are integrated together: who walks which segment, and what is known of its pieces.

The words of this room. A *segment* is the straight way between two knots; examples of one score that walk the same
segment share it, and it is integrated once. A *leg* is one example's walk over one segment. A *piece* is a part of a
segment, and a *division* is all pieces of the paths at a time: refinement makes it finer.

Memory must not grow with the number of gradients. Of a single piece only a *sketch* of its attributions stays, which
shows how far they move when the piece is cut. The attributions themselves are kept in *totals*. A piece that is cut is
replaced by its parts, so what it added must be taken out again. While a path has few pieces, each has a total of its
own. Beyond that, pieces whose errors are about equal share a total and are cut together: then the whole total is
dropped, and nothing is ever subtracted. Totals of few features are no larger than sketches: they are never shared.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor

from leastpath._support.rows import flat_rows, norms, per_row, precise
from leastpath.account.run import Run
from leastpath.geometry.metric import Metric
from leastpath.geometry.path import Path, Segments
from leastpath.integral.accuracy import Accuracy, Sums, averaged_errors, size_of_error
from leastpath.integral.pieces import Estimate, Pieces, Weighting, WholePathWeighting, quadrature
from leastpath.score.score import BoundScore


def take_rows(tensor: Tensor, rows: Tensor) -> Tensor:
    """`tensor[rows]` for row numbers (n,) of any device: several times as fast."""
    return tensor.index_select(0, rows if rows.device == tensor.device else rows.to(tensor.device))


# ---- rows that belong together -------------------------------------------------------------------------------------


def sum_by(values: Tensor, index: Tensor, n: int) -> Tensor:
    """Sums of `values` (rows, …) by `index` (rows,): (n, …)."""
    return values.new_zeros(n, *values.shape[1:]).index_add_(0, index, values)


def share_by(sizes: Tensor, index: Tensor, n: int) -> Tensor:
    """(rows,) each row's share of the sum by `index` (rows,); equal shares if the sum is zero."""
    total = sum_by(sizes, index, n)[index]
    count = sum_by(torch.ones_like(sizes), index, n)[index]
    return torch.where(total > 0, sizes / total.clamp_min(1e-300), 1 / count)


def extreme_by(values: Tensor, index: Tensor, n: int, reduce: Literal["amin", "amax"]) -> Tensor:
    """Smallest or largest of `values` (rows,) by `index` (rows,): (n,); ±inf if there is none."""
    empty = torch.inf if reduce == "amin" else -torch.inf
    return values.new_full((n,), empty).scatter_reduce_(0, index, values, reduce)


def rank_by(index: Tensor) -> Tensor:
    """(rows,) the place of each row among those with the same `index` (rows,), in order."""
    order = torch.argsort(index, stable=True)
    _, counts = torch.unique_consecutive(index[order], return_counts=True)
    first = (counts.cumsum(0) - counts).repeat_interleave(counts)
    return torch.empty_like(index).scatter_(0, order, torch.arange(len(index)) - first)


OWN_TOTALS = 48  # pieces of a path that have a total of their own
STRANDS = 2  # totals of about equal errors: a budget that does not pay for both may pay for one
LEVELS = 8  # classes of error, each twice the one before
LOWEST = -4  # the first class: errors below 2⁻³ of what a piece may err by
NEVER = LEVELS * STRANDS  # the class of pieces that cannot be cut
CLASSES = NEVER + 1
ALONE = -1  # the class of pieces with a total of their own
SKETCH = 127  # numbers that stay of a piece's attributions; a prime, so that rows of images do not fall on one number
PARTS_HELD = 8  # measurements that are collected before their totals are added


class PieceTable(NamedTuple):
    """The pieces that paths consist of now, and what is known of each: (pieces,) unless it says otherwise."""

    segment: Tensor
    t0: Tensor  # float64, from where to where on its segment
    t1: Tensor
    f0: Tensor  # score at the ends
    f1: Tensor
    sketch: Tensor  # (pieces, few) its attributions, as far as they are compared with those of its parts
    length: Tensor
    low: Tensor  # smallest and largest score met
    high: Tensor
    gap: Tensor  # Σ attributions − change of score, from tail to head
    residual: Tensor  # its size, beyond what rounding explains
    moved: Tensor  # how far attributions moved when this piece was cut from its parent; inf if it was not cut
    length_moved: Tensor
    shift: Tensor  # (pieces, few) the sketch of that move, half of it in each part: moves of several pieces may cancel
    length_shift: Tensor
    total: Tensor  # the row of `Totals` that its attributions are in

    def where(self, keep: Tensor) -> PieceTable:
        """The pieces in `keep` (pieces,)."""
        return self if bool(keep.all()) else self.take(keep.nonzero()[:, 0])  # several times faster than a mask

    def take(self, rows: Tensor) -> PieceTable:
        """Some of the pieces (rows,)."""
        on = {self.segment.device: rows}
        on[self.f0.device] = rows.to(self.f0.device)
        return PieceTable(*(part.index_select(0, on[part.device]) for part in self))


class MeasuredPieces(NamedTuple):
    """A few pieces that were just measured."""

    table: PieceTable
    attributions: Tensor  # (pieces, *features) in the direction of who receives them
    receiver: Tensor  # (pieces,)


@dataclass(frozen=True)
class Totals:
    """Sums of attributions, each received by an example, or by a segment that several examples share."""

    sums: Tensor  # (totals, *features)
    receiver: Tensor  # (totals,) on the CPU
    error_class: Tensor  # (totals,) of its pieces, or `ALONE`

    def take(self, rows: Tensor) -> Totals:
        """Some of them (rows,)."""
        return Totals(*(take_rows(part, rows) for part in (self.sums, self.receiver, self.error_class)))

    @classmethod
    def add_up(cls, attributions: Tensor, receiver: Tensor, error_class: Tensor) -> tuple[Totals, Tensor]:
        """Pieces (pieces, *features) with their receivers and classes (pieces,), and the total of each (pieces,)."""
        place = torch.arange(len(receiver))
        if bool((error_class == ALONE).all()):
            return cls(attributions, receiver, error_class), place
        # Negative keys are unique.
        key = torch.where(error_class == ALONE, place - len(place), receiver * CLASSES + error_class)
        keys, row = torch.unique(key, return_inverse=True)
        if len(keys) == len(key):
            return cls(attributions, receiver, error_class), place
        first = torch.empty(len(keys), dtype=torch.long).scatter_(0, row.flip(0), place.flip(0))
        sums = attributions.new_zeros(len(keys), *attributions.shape[1:])
        return cls(sums.index_add_(0, row.to(sums.device), attributions), receiver[first], error_class[first]), row

    @classmethod
    def join(cls, parts: Sequence[Totals]) -> tuple[Totals, Tensor]:
        """Several as one, and the new row of each of their totals, in order: totals of one class become one."""
        columns = zip(*((part.sums, part.receiver, part.error_class) for part in parts), strict=True)
        return cls.add_up(*(torch.cat(column) for column in columns))


@dataclass(frozen=True)
class Division:
    """All pieces of some paths, and the totals of what they add."""

    table: PieceTable
    totals: Totals

    @classmethod
    def collect(cls, measured: Iterable[tuple[MeasuredPieces, Tensor]]) -> Division:
        """Measured pieces with their classes (pieces,), one after the other: attributions are added and forgotten."""
        parts: list[Division] = []
        for (table, attributions, receiver), error_class in measured:
            totals, row = Totals.add_up(attributions, receiver, error_class)
            parts.append(cls(table._replace(total=row), totals))
            if len(parts) == PARTS_HELD:
                parts = [cls.join(parts)]
        return cls.join(parts)

    @classmethod
    def join(cls, parts: Sequence[Division]) -> Division:
        """Several as one, in order."""
        if len(parts) == 1:
            return parts[0]
        totals, row = Totals.join([part.totals for part in parts])
        shifts = torch.tensor([0, *(len(part.totals.receiver) for part in parts)]).cumsum(0).tolist()
        tables = [p.table._replace(total=row[p.table.total + at]) for p, at in zip(parts, shifts[:-1], strict=True)]
        return cls(PieceTable(*map(torch.cat, zip(*tables, strict=True))), totals)

    def without(self, gone: Tensor) -> Division:
        """What is left when the pieces in `gone` (pieces,), all of some totals, are taken away."""
        if not gone.any():
            return self
        stays = torch.ones(len(self.totals.receiver), dtype=torch.bool)
        stays.index_fill_(0, take_rows(self.table.total, gone.nonzero()[:, 0]), False)
        return self._keep(~gone, stays)

    def part(self, segment: Tensor, receiver: Tensor) -> Division:
        """What stays of it when segments and receivers get new numbers, -1 where they leave."""
        stays = receiver[self.totals.receiver] >= 0
        kept = self._keep(stays[self.table.total], stays)
        table, totals = kept.table, kept.totals
        return Division(
            table._replace(segment=segment[table.segment]), replace(totals, receiver=receiver[totals.receiver])
        )

    def _keep(self, pieces: Tensor, totals: Tensor) -> Division:
        """The pieces in `pieces` (pieces,) and the totals in `totals` (totals,), which get new rows."""
        table = self.table.where(pieces)
        table = table._replace(total=take_rows(totals.cumsum(0) - 1, table.total))
        return Division(table, self.totals.take(totals.nonzero()[:, 0]))


def classes_before_cutting(receiver: Tensor, n: int) -> Tensor:
    """(pieces,) classes of pieces that nothing is known of, by their receiver (pieces,) of n."""
    crowded = torch.bincount(receiver, minlength=n) > OWN_TOTALS
    strand = rank_by(receiver) % STRANDS
    return torch.where(crowded[receiver], (LEVELS - 1) * STRANDS + strand, ALONE)


def classes_of_error(excess: Tensor, can_cut: Tensor, rank: Tensor) -> Tensor:
    """(pieces,) classes of pieces whose errors are `excess` times what a piece may err by.

    `rank` (pieces,) numbers the pieces of a receiver: the same ones in a batch and alone.
    """
    level = torch.log2(excess).floor().clamp(LOWEST, LOWEST + LEVELS - 1).long() - LOWEST
    return torch.where(can_cut, level * STRANDS + rank % STRANDS, NEVER)


def sketch(attributions: Tensor) -> Tensor:
    """(pieces, *features) -> (pieces, at most `SKETCH`): differences of sketches are as large as those of pieces.

    Features are summed with random signs, which keeps Euclidean norms up to a few per cent, and on average exactly.
    Few features stay as they are.
    """
    flat = flat_rows(attributions)
    if flat.shape[1] <= SKETCH:
        return flat
    padding = -flat.shape[1] % SKETCH
    signed = torch.nn.functional.pad(flat * _signs(flat.shape[1]).to(flat), (0, padding))
    return signed.unflatten(1, (signed.shape[1] // SKETCH, SKETCH)).sum(1)


@lru_cache(maxsize=4)
def _signs(n: int) -> Tensor:
    """(n,) random signs, always the same."""
    return torch.randint(0, 2, (n,), generator=torch.Generator().manual_seed(0), dtype=torch.int8) * 2 - 1


SUM_ELEMENTS = 2**22  # numbers gathered at once while summing along routes
ADDED_FEATURES = 4  # up to so many, errors of pieces are added up as if all had the same sign


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
        """Gradients per piece: 2 at a tolerance of 1 %, more for smaller ones."""
        assert self.accuracy.tolerance is not None
        return int(np.clip(round(-np.log10(self.accuracy.tolerance)), 2, 8))

    @property
    def errors_average(self) -> bool:
        """Whether errors of pieces are independent, so that those of many cancel in part: not for few features."""
        return self.score.n_features > ADDED_FEATURES

    @cached_property
    def groups(self) -> Tensor:
        """(batch,) `BoundScore.groups`, computed once."""
        return self.score.groups

    @cached_property
    def directed(self) -> bool:
        """Whether a segment adds the opposite when it is walked the other way."""
        return not isinstance(self.weighting, WholePathWeighting)


@dataclass(frozen=True)
class Scores:
    """The score at the knots: at both ends of each segment (segments,), and what each path meets there (batch,)."""

    tail: Tensor
    head: Tensor
    change: Tensor  # f(last knot) − f(first knot)
    low: Tensor  # smallest and largest
    high: Tensor

    def take(self, segments: Tensor, examples: Tensor) -> Scores:
        """Those of some segments and examples."""
        ends = (take_rows(part, segments) for part in (self.tail, self.head))
        return Scores(*ends, *(take_rows(part, examples) for part in (self.change, self.low, self.high)))


@dataclass(frozen=True)
class Block:
    """Some examples, with the distinct segments of their paths."""

    plan: Plan
    path: Path
    examples: Tensor  # (batch,) their numbers in the bound score
    segments: Segments
    scores: Scores
    segment_gradients: Tensor  # (segments,) float64, spent; `measure` adds to it
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
        f, visitor = values[knot.to(values.device)], visitor.to(values.device)  # (route,) every knot of every route
        first, last = path.offsets[:-1].to(f.device), (path.offsets[1:] - 1).to(f.device)

        def at(point: Tensor) -> Tensor:
            return values[torch.searchsorted(keys, groups[segments.owner] * n + point).to(f.device)]

        spent, before = (torch.zeros(size, dtype=torch.float64) for size in (len(segments), batch))
        low, high = extreme_by(f, visitor, batch, "amin"), extreme_by(f, visitor, batch, "amax")
        scores = Scores(at(segments.tail), at(segments.head), f[last] - f[first], low, high)
        return cls(plan, path, examples, segments, scores, spent, before)

    def __len__(self) -> int:
        return self.examples.shape[0]

    def part(self, rows: Tensor) -> tuple[Block, Tensor, Tensor]:
        """The block of some examples (rows,), and the new numbers of segments and receivers, -1 where one has left."""
        s, stays = self.segments, torch.full((len(self),), -1)
        stays[rows] = torch.arange(len(rows))
        legs = (stays[s.leg_example] >= 0).nonzero()[:, 0]
        used, leg_segment = torch.unique(s.leg_segment[legs], return_inverse=True)
        leg_example = stays[s.leg_example[legs]]
        owner = torch.zeros(len(used), dtype=torch.long)
        owner[leg_segment] = leg_example
        segment = torch.full((len(s),), -1)
        segment[used] = torch.arange(len(used))
        part = replace(
            self, path=self.path.select(rows), examples=self.examples[rows], scores=self.scores.take(used, rows),
            segments=Segments(s.tail[used], s.head[used], owner, leg_segment, leg_example, s.leg_sign[legs]),
            spent_before=self.gradients()[rows], segment_gradients=torch.zeros(len(used), dtype=torch.float64),
        )  # fmt: skip
        receiver = torch.cat([stays, torch.where(segment < 0, -1, segment + len(rows))])
        return part, segment, receiver

    # ---- who walks what ------------------------------------------------------------------------------------------

    @cached_property
    def sharers(self) -> Tensor:
        """(segments,) how many legs each has."""
        return torch.bincount(self.segments.leg_segment, minlength=len(self.segments))

    @cached_property
    def receiver(self) -> Tensor:
        """(segments,) to whom is added what a segment adds: its example, or if several share it, itself.

        Segments are numbered after the examples.
        """
        s, itself = self.segments, len(self) + torch.arange(len(self.segments))
        example = torch.zeros(len(s), dtype=torch.long)
        example[s.leg_segment] = s.leg_example
        return torch.where(self.sharers == 1, example, itself)

    @cached_property
    def _sign(self) -> Tensor | None:
        """(segments,) the direction in which a receiver walks a segment, +1 for itself; None: all are +1."""
        s, sign = self.segments, torch.ones(len(self.segments), dtype=torch.long)
        if self.plan.directed:
            sign[s.leg_segment] = s.leg_sign
        sign = torch.where(self.sharers == 1, sign, 1)
        return None if bool((sign > 0).all()) else sign

    def largest(self, of_leg: Tensor) -> Tensor:
        """(segments,) the largest value of a segment's legs (legs,)."""
        return extreme_by(of_leg, self.segments.leg_segment, len(self.segments), "amax")

    def leg_lengths(self) -> Tensor:
        """(legs,) Euclidean, float64."""
        points, s, sizes = self.path.points, self.segments, []
        for rows in torch.arange(len(s)).split(self.plan.score.batch_size):
            tail, head = (points[i[rows].to(points.device)] for i in (s.tail, s.head))
            sizes.append(norms(precise(head) - precise(tail), 1).cpu().double())
        return torch.cat([torch.zeros(0, dtype=torch.float64), *sizes])[s.leg_segment]

    def length_share(self) -> Tensor:
        """(legs,) each leg's share of its path's Euclidean length; equal shares if a path has no length."""
        return share_by(self.leg_lengths(), self.segments.leg_example, len(self))

    # ---- what it costs -------------------------------------------------------------------------------------------

    @property
    def budget(self) -> Tensor:
        """(batch,) float64 gradients each example may spend."""
        return self.plan.budget[self.examples]

    def affordable(self) -> Tensor:
        """(batch,) float64 gradients each example may still spend: what its budget and the time pay for."""
        left, clock = self.budget - self.gradients(), self.plan.run.clock
        if clock.max_seconds is None:
            return left
        return left.clamp_max(clock.affordable(float(self.plan.score.gradients_spent.sum())) / len(self))

    def gradients(self) -> Tensor:
        """(batch,) float64 gradients spent so far; those of a shared segment are split between its examples."""
        each, s = self.segment_gradients / self.payers, self.segments
        return self.spent_before + sum_by(take_rows(each, s.leg_segment), s.leg_example, len(self))

    @cached_property
    def payers(self) -> Tensor:
        """(segments,) float64, how many share the cost of each."""
        return self.sharers.double().clamp_min(1)

    # ---- measuring pieces ----------------------------------------------------------------------------------------

    def chunks(self, nodes: Tensor) -> Iterator[tuple[int, Tensor]]:
        """Pieces with `nodes` (pieces,) gradients each: how many, and rows, no more than the model takes at once."""
        for n in torch.unique(nodes).tolist() or [1]:  # paths of a single knot have no pieces
            for rows in (nodes == n).nonzero()[:, 0].split(self.plan.score.batch_size):
                yield n, rows

    def measure(
        self, segment: Tensor, t0: Tensor, t1: Tensor, n: int, ends: tuple[Tensor, Tensor] | None = None
    ) -> MeasuredPieces:
        """Pieces of segments (pieces,) with `n` gradients each; `ends` are the scores at both ends, if known."""
        estimate = self.estimate(segment, t0, t1, n, self.plan.accuracy.rule)
        return self.record(segment, t0, t1, ends or self.score_at_ends(segment, t0, t1), estimate)

    def estimate(self, segment: Tensor, t0: Tensor, t1: Tensor, n: int, rule: str) -> Estimate:
        """What a rule says of pieces, with `n` gradients each."""
        plan = self.plan
        found = quadrature(plan.score, self._pieces(segment, t0, t1), plan.metric, rule, n, plan.weighting)
        self.segment_gradients.index_add_(0, segment, torch.full_like(t0, n))
        return found

    def record(
        self, segment: Tensor, t0: Tensor, t1: Tensor, ends: tuple[Tensor, Tensor], estimate: Estimate
    ) -> MeasuredPieces:
        """Pieces after a first measurement: nothing is verified yet."""
        (f0, f1), (attributions, length, low, high) = ends, estimate
        if self.plan.metric.bounds_score:  # a length below the change of score would break certificates
            length = torch.maximum(length, (f1 - f0).abs())
        gap = flat_rows(attributions).sum(1) - (f1 - f0)
        noise = 4 * self.plan.score.eps * torch.maximum(f0.abs(), f1.abs())
        residual, unknown = (gap.abs() - noise).clamp_min(0), torch.full_like(length, torch.inf)
        summary, none = sketch(attributions), torch.zeros_like(segment)
        table = PieceTable(
            segment, t0, t1, f0, f1, summary, length, low, high, gap, residual, unknown, unknown,
            torch.zeros_like(summary), torch.zeros_like(length), none,
        )  # fmt: skip
        if self._sign is not None:
            sign = take_rows(self._sign, segment).to(attributions.device, attributions.dtype)
            attributions = attributions * per_row(sign, attributions)
        return MeasuredPieces(table, attributions, take_rows(self.receiver, segment))

    def score_at_ends(self, segment: Tensor, t0: Tensor, t1: Tensor) -> tuple[Tensor, Tensor]:
        """(pieces,) twice: the score where pieces of segments begin and end, asked once where two of them meet."""
        both, t = segment.repeat(2), torch.cat([t0, t1])
        places, number = torch.unique(2 * both + t, return_inverse=True)  # t is at most 1: no two segments overlap
        some = torch.empty(len(places), dtype=torch.long).scatter_(0, number, torch.arange(len(t)))
        f0, f1 = take_rows(self.score_at(both[some], t[some]), number).chunk(2)
        return f0, f1

    def score_at(self, segment: Tensor, t: Tensor) -> Tensor:
        """(pieces,) the score at parameter t (pieces,) of each segment (pieces,); it is known at the knots."""
        inner = (t > 0) & (t < 1)
        if len(t) <= self.plan.score.batch_size and bool(inner.all()):  # the usual case: nothing to put together
            return self._inner_score(segment, t)
        f = self.scores.tail.new_zeros(len(t))
        for known, value in ((t == 0, self.scores.tail), (t == 1, self.scores.head)):
            f[known.to(f.device)] = value[segment[known].to(f.device)]
        for rows in inner.nonzero()[:, 0].split(self.plan.score.batch_size):
            f[rows.to(f.device)] = self._inner_score(segment[rows], t[rows])
        return f

    def _inner_score(self, segment: Tensor, t: Tensor) -> Tensor:
        pieces = self._pieces(segment, t, t)
        return self.plan.score.values(pieces.at(t, self.plan.score.work_dtype), pieces.example)

    def _pieces(self, segment: Tensor, t0: Tensor, t1: Tensor) -> Pieces:
        s = self.segments
        tail, head, example = (take_rows(of, segment) for of in (s.tail, s.head, self._segment_example))
        return Pieces(self.path.points, tail, head, example, t0, t1)

    @cached_property
    def _segment_example(self) -> Tensor:
        """(segments,) the number in the bound score of an example that walks each."""
        return self.examples[self.segments.owner]


# ---- what it comes to ----------------------------------------------------------------------------------------------


def sum_up(block: Block, division: Division) -> Sums:
    """Pieces summed by segment, and segments along each example's route."""
    s, table, batch = block.segments, division.table, len(block)
    device = table.length.device
    segment, legs, examples = (index.to(device) for index in (table.segment, s.leg_segment, s.leg_example))
    errors = torch.stack([table.residual, table.moved, table.length_moved], 1)
    squares = [errors**2] if block.plan.errors_average else []
    columns = torch.cat([table.length[:, None], torch.ones_like(errors[:, :1]), errors, *squares], 1)
    columns = sum_by(take_rows(sum_by(columns, segment, len(s)), legs), examples, batch)
    length, pieces, errors = columns[:, 0], columns[:, 1], columns[:, 2:5]
    if block.plan.errors_average:
        shift = sum_by(table.shift, segment, len(s))[legs] * s.leg_sign.to(device)[:, None]
        of_length = sum_by(table.length_shift, segment, len(s))[legs]
        moves = size_of_error(sum_by(shift, examples, batch)), sum_by(of_length, examples, batch).abs()
        errors = averaged_errors(errors, columns[:, 5:], *moves)
    low = extreme_by(take_rows(extreme_by(table.low, segment, len(s), "amin"), legs), examples, batch, "amin")
    high = extreme_by(take_rows(extreme_by(table.high, segment, len(s), "amax"), legs), examples, batch, "amax")
    low, high = torch.minimum(low, block.scores.low), torch.maximum(high, block.scores.high)
    rival = None if block.plan.rival is None else block.plan.rival.to(length)[block.examples.to(device)]
    residual, moved, length_moved = errors.unbind(1)
    values, pieces, change = _sum_along_routes(block, division.totals), pieces.clamp_min(1), block.scores.change
    return Sums(values, length, residual, moved, length_moved, pieces, low, high, change, rival)


def _sum_along_routes(block: Block, totals: Totals) -> Tensor:
    """What the totals add along each example's route: (batch, *features)."""
    s, (sums, receiver) = block.segments, (totals.sums, totals.receiver)
    result = sums.new_zeros(len(block), *sums.shape[1:])
    shared = receiver >= len(block)
    if not shared.any():
        return result.index_add_(0, receiver.to(result.device), sums)
    own = (~shared).nonzero()[:, 0]
    result.index_add_(0, receiver[own].to(result.device), sums[own.to(result.device)])
    rows = shared.nonzero()[:, 0].to(result.device)
    of_segment = sum_by(sums[rows], (receiver[shared] - len(block)).to(result.device), len(s))
    for rows in torch.arange(len(s.leg_segment)).split(max(1, SUM_ELEMENTS // block.plan.score.n_features)):
        signed = take_rows(of_segment, s.leg_segment[rows])
        if block.plan.directed:
            signed = signed * per_row(s.leg_sign[rows].to(result.device, result.dtype), signed)
        result.index_add_(0, s.leg_example[rows].to(result.device), signed)
    return result
