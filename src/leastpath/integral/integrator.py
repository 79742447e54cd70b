"""The one integral: gradients along a path, with error control.

On each straight segment, its *residual* (sum of attributions minus change of score) is known exactly. But a zero
residual proves little: a symmetric bump does not show in it, and errors of two features cancel in it. So a piece counts
as known only if its attributions and its length also stay the same when it is cut in two *unequal* parts. The pieces
that change most are cut again, until every example has reached its tolerance.

Refinement goes in rounds. First every segment is measured once. Then each round cuts the pieces that changed most, sums
along every example's route, and lets examples that are done leave.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from leastpath._support.checks import check_kind, check_setting
from leastpath._support.rows import per_row
from leastpath.account.run import Bar, Run
from leastpath.geometry.metric import Conformal, Metric
from leastpath.geometry.path import Path
from leastpath.integral.accuracy import (
    FLAT,
    Accuracy,
    Errors,
    Integral,
    Limits,
    Sums,
    join_integrals,
    note_done,
    note_rounding,
    note_shortfall,
    say_missing,
    size_of_error,
    unknown_integral,
)
from leastpath.integral.block import (
    ALONE,
    OWN_TOTALS,
    Block,
    Division,
    MeasuredPieces,
    PieceTable,
    Plan,
    classes_before_cutting,
    classes_of_error,
    extreme_by,
    rank_by,
    sketch,
    sum_by,
    sum_up,
    take_rows,
)
from leastpath.integral.fixed_steps import integrate_at_fixed_steps
from leastpath.integral.pieces import Estimate, KnownSegments, PathIntegral, Weighting
from leastpath.score.calls import leave_untouched
from leastpath.score.score import BoundScore, Score

FIRST_GRADIENTS = 12  # of the first measurement of a path; its verification takes twice as many
GOLDEN = 0.6180339887498949  # multiples of it, modulo one, are the first cuts: spread evenly and never symmetric
CUT = 0.4  # unequal, so that a symmetric score does not look the same before and after
LEAVING_SHARE = 0.3  # of a block's examples that must be done before they leave it
MANY_SEGMENTS = 6  # of a path, each of which is a small part of it
SMALL = 0.25  # of what a piece may err by: one that adds no more than this is not cut, but gets one more gradient
VERIFIED_SHARE = 0.764  # of a small segment, its last part: the middle of this lies off the nodes of the first time
HELD_NUMBERS = 2**21  # of pieces and totals: a block with more is halved, if it has several examples
GAP_STEP = 1  # gradients after which a round that only closes the gap ends: it cuts one piece, and looks again
LENGTH_STEP = 0.1  # of the gradients spent so far, in a round for which only length and gap are left
LEFT_OF_GAP = 0.3  # of the gap of a piece is left in its parts, in the mean, with either sign
SCALARS = 16  # numbers of a piece, beside its sketches


def _refine(block: Block, known: KnownSegments | None, bar: Bar, interrupted: bool = False) -> tuple[Integral, bool]:
    """Cut pieces until every example has reached the tolerance, or its budget is spent.

    Also whether it was interrupted. If `interrupted` before, everything is measured only once.
    """
    waiting, finished = [_begin(block, known)], list[tuple[Tensor, Integral]]()
    try:
        while waiting and not interrupted:
            state, staying = waiting[-1], list[_State]()
            leaving = torch.arange(len(state.rows))
            chosen = _choose_payable(state, state.block.affordable(), _limit_round(state))
            if chosen.any():
                state = _cut_round(state, chosen)
                leaving, staying = _split(state)
            # In one statement each, so that no interruption can fall between.
            ended = [(state.rows[leaving], _conclude(state, leaving, False))] if len(leaving) else []
            waiting, finished = [*waiting[:-1], *staying], [*finished, *ended]
            bar.advance(len(leaving))
    except KeyboardInterrupt:
        interrupted = True
    finished += [(state.rows, _conclude(state, torch.arange(len(state.rows)), interrupted)) for state in waiting]
    bar.advance(sum(len(state.rows) for state in waiting))
    rows, integrals = zip(*finished, strict=True)
    return join_integrals(integrals, torch.argsort(torch.cat(rows)) if len(rows) > 1 else None), interrupted


# ---- the first measurement -----------------------------------------------------------------------------------------


def _measure_once(block: Block, known: KnownSegments | None) -> Division:
    """Each segment in one piece, or in several if it is a large part of a path; fewer if the budget is small.

    Segments that the solver has measured already are not measured again.
    """
    s, (count, nodes) = block.segments, _first_counts(block)
    seen = row = torch.zeros(0, dtype=torch.long)
    if known is not None and isinstance(block.plan.weighting, PathIntegral):
        group = block.plan.groups[block.examples[s.owner]]
        seen, row = known.find(s.tail, s.head, group, len(block.path.points))
    is_known = torch.bincount(seen, minlength=len(s)) >= count  # a long segment needs more than the solver took
    seen, row = seen[is_known[seen]], row[is_known[seen]]
    segment, t0, t1 = _first_pieces(count, ~is_known)
    classes = torch.full((len(segment) + len(seen),), ALONE)
    if block.plan.errors_average:
        classes = classes_before_cutting(block.receiver[torch.cat([segment, seen])], len(block) + len(s))

    def measure_each() -> Iterator[tuple[MeasuredPieces, Tensor]]:
        for n, rows in block.chunks(nodes[segment]) if len(segment) or not len(seen) else ():  # not if all is known
            yield block.measure(segment[rows], t0[rows], t1[rows], n), classes[rows]
        if known is not None:
            for some in torch.arange(len(seen)).split(block.plan.score.batch_size):
                yield _take_known(block, seen[some], known, row[some]), classes[len(segment) + some]

    return Division.collect(measure_each())


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


def _first_counts(block: Block) -> tuple[Tensor, Tensor]:
    """Pieces of each segment, and gradients of each of its pieces: (segments,) twice."""
    s, n, budget = block.segments, block.plan.order, block.affordable()
    count = block.largest(torch.ceil(block.length_share() * (block.plan.accuracy.n_steps or FIRST_GRADIENTS) / n))
    count = count.clamp_min(1).long()
    # A third of the budget for the first measurement leaves two thirds for verifying all of it.
    pieces = sum_by(count.double()[s.leg_segment], s.leg_example, len(block))
    tight = (pieces * n * 3 > budget)[s.leg_example]
    count[s.leg_segment[tight]] = 1
    # If that is still too much: fewer gradients per segment, but at least one.
    paid = (budget / torch.bincount(s.leg_example, minlength=len(block))).floor()
    nodes = extreme_by(paid.clamp(1, n)[s.leg_example], s.leg_segment, len(s), "amin").long()
    nodes[count > 1] = n
    return count, nodes


def _take_known(block: Block, segment: Tensor, known: KnownSegments, row: Tensor) -> MeasuredPieces:
    """Pieces of segments (pieces,) as the solver measured them: rows of what is known."""
    device, forward = block.scores.tail.device, known.tail[row] == block.segments.tail[segment]
    t0, t1 = known.spans(row, forward)
    ends = block.score_at_ends(segment, t0, t1)
    attributions, length, low, high = (part[row.to(device)] for part in known.estimate)
    sign = torch.where(forward, 1, -1).to(device)
    estimate = Estimate(attributions * per_row(sign, attributions), length, low, high)
    return block.record(segment, t0, t1, ends, estimate)


# ---- rounds --------------------------------------------------------------------------------------------------------


@dataclass
class _State:
    """How far the refinement of some examples has come."""

    block: Block
    rows: Tensor  # (batch,) the numbers of its examples in the block that refinement began with
    division: Division
    to_cut: Tensor  # (pieces,) which to cut next: all pieces of some totals
    done: Tensor  # (batch,) examples that have reached the tolerance
    stuck: Tensor  # (batch,) examples with a piece that should be cut and cannot be
    value_cost: Tensor  # (batch,) float64, gradients that were spent when the values were known; inf if they are not

    @cached_property
    def sums(self) -> Sums:
        """Over all pieces of each example."""
        return sum_up(self.block, self.division)

    @cached_property
    def limits(self) -> Errors:
        """The errors that are allowed of these sums."""
        return self.sums.allow(self.block.plan.accuracy, self.block.plan.score.eps)


def _begin(block: Block, known: KnownSegments | None) -> _State:
    """Everything measured once, nothing verified."""
    division, no = _measure_once(block, known), torch.zeros(len(block), dtype=torch.bool)
    everything = torch.ones(len(division.table.segment), dtype=torch.bool)
    never = torch.full((len(block),), torch.inf, dtype=torch.float64)
    return _State(block, torch.arange(len(block)), division, everything, no, no, never)


def _cut_round(state: _State, chosen: Tensor) -> _State:
    """One round: the chosen pieces (pieces,) are cut, but for small ones, which get one more gradient."""
    block, plan = state.block, state.block.plan
    small = _find_small(state, chosen)
    cut, whole = chosen & ~small, state.division
    if small.any():
        whole = replace(whole, table=_verify_small(block, whole.table, small.nonzero()[:, 0]))
    kept = [] if bool(cut.all()) else [whole.without(cut)]
    parts = [Division.collect(_cut(state, cut))] if cut.any() else []
    division = Division.join([*kept, *parts])
    new = replace(state, division=division, to_cut=torch.zeros(len(division.table.segment), dtype=torch.bool))
    limits, pieces, errors = new.limits, new.sums.pieces, new.sums.errors
    new.done = done = errors.within(limits, plan.accuracy.measure)
    if not done.all():
        new.to_cut, new.stuck = _choose_cuts(block, division, _allow(block, limits, pieces, ~done), ~done)
    if plan.errors_average and (idle := ~done & (_count_pieces(block, division.table.segment[new.to_cut]) == 0)).any():
        # No piece is bad by itself, but all of them are together.
        strict = _allow(block, limits, pieces, idle, averaged=False)
        more, stuck_too = _choose_cuts(block, division, strict, idle)
        new.to_cut, new.stuck = new.to_cut | more, torch.where(idle, stuck_too, new.stuck)
    cost = torch.minimum(state.value_cost, block.gradients())
    new.value_cost = torch.where(errors.within(limits, "values"), cost, torch.inf)
    return new


def _part_of(state: _State, rows: Tensor) -> _State:
    """The state of some examples (rows,), without the pieces that only others walk."""
    block, segment, receiver = state.block.part(rows)
    stays = (receiver[state.division.totals.receiver] >= 0)[state.division.table.total]
    return _State(
        block, state.rows[rows], state.division.part(segment, receiver), state.to_cut[stays], state.done[rows],
        state.stuck[rows], state.value_cost[rows],
    )  # fmt: skip


def _is_large(state: _State) -> bool:
    """Whether it takes so much memory that some examples should wait.

    Examples that share segments stay together: apart, each would have to pay for all of them.
    """
    if len(state.rows) == 1 or bool((state.block.sharers > 1).any()):
        return False
    sketches, sums = state.division.table.sketch, state.division.totals.sums
    return len(sketches) * (2 * sketches.shape[1] + SCALARS) + sums.numel() > HELD_NUMBERS


def _split(state: _State) -> tuple[Tensor, list[_State]]:
    """(leaving,) the examples that leave, if enough are done, and those that stay: two halves if they hold too much."""
    ready, rest = state.done.nonzero()[:, 0], (~state.done).nonzero()[:, 0]
    if not len(rest):
        return ready, []
    if len(ready) < LEAVING_SHARE * len(state.done):
        ready = ready[:0]
    elif len(ready):
        state = _part_of(state, rest)
    if not _is_large(state):
        return ready, [state]
    return ready, [_part_of(state, half) for half in torch.arange(len(state.rows)).tensor_split(2)]


def _find_small(state: _State, chosen: Tensor) -> Tensor:
    """(pieces,) which of the chosen ones are segments that add next to nothing, as on a plateau of the score.

    Only of paths with many features and many segments: on a line such a piece is large, and much can hide in it.
    """
    block, table = state.block, state.division.table
    if not block.plan.errors_average:
        return torch.zeros_like(chosen)
    s, alone = block.segments, (state.division.totals.error_class == ALONE)[table.total]
    many = torch.bincount(s.leg_example, minlength=len(block)) >= MANY_SEGMENTS
    in_many = ~torch.zeros(len(s), dtype=torch.bool).index_fill_(0, s.leg_segment[~many[s.leg_example]], True)
    whole = (table.t0 == 0) & (table.t1 == 1) & torch.isinf(table.moved).cpu()
    allowance = _allow(block, state.limits, state.sums.pieces, ~state.done)
    sizes = table._replace(moved=size_of_error(table.sketch), length_moved=table.length)
    return chosen & alone & in_many[table.segment] & whole & (_excess_of(allowance, block, sizes)[0] <= SMALL)


def _verify_small(block: Block, table: PieceTable, rows: Tensor) -> PieceTable:
    """Whole segments (rows,) that get one more gradient, off their middle: have they changed as little as it seems?"""
    columns = dict(zip(PieceTable._fields, table, strict=True))
    for some in rows.split(block.plan.score.batch_size):
        at, segment = some.to(table.length.device), table.segment[some]
        t1 = torch.ones(len(some), dtype=torch.float64)
        estimate = block.estimate(segment, t1 - VERIFIED_SHARE, t1, 1, "midpoint")
        shift = sketch(estimate.attributions) / VERIFIED_SHARE - table.sketch[at]
        length_shift = estimate.length / VERIFIED_SHARE - table.length[at]
        new = {
            "shift": shift, "length_shift": length_shift, "moved": size_of_error(shift),
            "length_moved": length_shift.abs(), "low": torch.minimum(estimate.low, table.low[at]),
            "high": torch.maximum(estimate.high, table.high[at]),
        }  # fmt: skip
        columns |= {name: columns[name].index_copy(0, at, value) for name, value in new.items()}
    return PieceTable(**columns)


def _cut(state: _State, chosen: Tensor) -> Iterator[tuple[MeasuredPieces, Tensor]]:
    """Both unequal parts of each chosen piece (pieces,), with how far their sums moved from those of the whole."""
    block, table, allowance = state.block, state.division.table, None
    parents, n_receivers = table.where(chosen), len(block) + len(block.segments)
    if block.plan.errors_average:
        receiver = take_rows(block.receiver, parents.segment)
        after = torch.bincount(take_rows(block.receiver, table.segment), minlength=n_receivers)
        after += torch.bincount(receiver, minlength=n_receivers)  # each piece that is cut becomes two
        crowded, rank = take_rows(after > OWN_TOTALS, receiver), rank_by(receiver)
        # Classes of error by what is allowed, as far as it is known before the parts are measured.
        pieces = state.sums.pieces + _count_pieces(block, parents.segment).to(state.sums.pieces)
        allowance = _allow(block, state.limits, pieces, ~state.done) if crowded.any() else None
    n = len(parents.segment)
    for rows in torch.arange(n).split(max(1, block.plan.score.batch_size // 2)):
        measured = _measure_parts(block, parents if len(rows) == n else parents.take(rows))
        classes = torch.full((2 * len(rows),), ALONE)
        if allowance is not None:
            excess, can_cut, _ = _excess_of(allowance, block, measured.table)
            by_error = classes_of_error(excess, can_cut | (excess <= 1), rank[rows].repeat_interleave(2))
            classes = torch.where(crowded[rows].repeat_interleave(2), by_error, classes)
        yield measured, classes


def _count_pieces(block: Block, segment: Tensor) -> Tensor:
    """(batch,) how many of the pieces on `segment` (pieces,) each example walks."""
    s = block.segments
    return sum_by(take_rows(torch.bincount(segment, minlength=len(s)), s.leg_segment), s.leg_example, len(block))


def _measure_parts(block: Block, parents: PieceTable) -> MeasuredPieces:
    """Both parts of some pieces."""
    middle = parents.t0 + CUT * (parents.t1 - parents.t0)
    t = torch.stack([parents.t0, middle, parents.t1], 1)
    f = torch.stack([parents.f0, block.score_at(parents.segment, middle), parents.f1], 1)
    (t0, t1), (f0, f1) = ((of[:, :2].flatten(), of[:, 1:].flatten()) for of in (t, f))
    measured = block.measure(parents.segment.repeat_interleave(2), t0, t1, block.plan.order, (f0, f1))
    parts = measured.table
    shift = parts.sketch.unflatten(0, (-1, 2)).sum(1) - parents.sketch
    length_shift = parts.length.view(-1, 2).sum(1) - parents.length
    moved, length_moved = size_of_error(shift), length_shift.abs()
    # Half of the move is given to both parts equally, half by their residuals, which show where the score was missed.
    residual = parts.residual.view(-1, 2)
    share = 0.25 + 0.5 * residual / residual.sum(1, keepdim=True).clamp_min(torch.finfo(residual.dtype).tiny)
    moved, length_moved = ((share * of_parent[:, None]).flatten() for of_parent in (moved, length_moved))
    halves = (shift / 2).repeat_interleave(2, 0), (length_shift / 2).repeat_interleave(2)
    parts = parts._replace(moved=moved, length_moved=length_moved, shift=halves[0], length_shift=halves[1])
    return measured._replace(table=parts)


# ---- which pieces --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Allowance:
    """What one piece of each segment may err by: (segments,) float64, infinite where no open example walks."""

    attribution: Tensor
    residual: Tensor
    length: Tensor
    logit: Tensor  # the largest that was met, for differences of logits; else zero


def _allow(
    block: Block, limits: Errors, pieces: Tensor, is_open: Tensor, *, averaged: bool | None = None
) -> _Allowance:
    """Errors `limits` (batch,) each, divided by as many `pieces` (batch,), of the examples that are open (batch,).

    Of the examples that walk a segment the strictest one decides. If errors are `averaged`, as the plan says by
    default, so many pieces may err by more: see `averaged_errors`.
    """
    s = block.segments
    if block.plan.errors_average if averaged is None else averaged:
        root = pieces.sqrt()
        limits = Errors(limits.attribution / 2**0.5, limits.gap, limits.length / 8**0.5, limits.residual / 2)
        limits = Errors(*(limit * root for limit in limits))
    leg_example, leg_segment = s.leg_example, s.leg_segment
    if not is_open.all():
        open_legs = take_rows(is_open, leg_example).nonzero()[:, 0]
        leg_example, leg_segment = take_rows(leg_example, open_legs), take_rows(leg_segment, open_legs)

    one = (torch.stack([limits.attribution, limits.residual, limits.length], 1) / pieces[:, None]).cpu().double()
    logit = torch.as_tensor(block.plan.score.largest_logit)[block.examples]
    columns = torch.cat([one, torch.where(logit > 0, logit, torch.inf)[:, None]], 1)
    columns = take_rows(columns, leg_example)
    least = columns.new_full((len(s), 4), torch.inf)
    least.scatter_reduce_(0, leg_segment[:, None].expand_as(columns), columns, "amin")
    attribution, residual, length, largest = least.unbind(1)
    return _Allowance(attribution, residual, length, largest.nan_to_num(posinf=0.0))


def _excess_of(allowance: _Allowance, block: Block, table: PieceTable) -> tuple[Tensor, Tensor, Tensor]:
    """(pieces,) the errors of pieces in units of what they may err by, which can be cut, and which are too large.

    Floating point cannot cut a piece that is too short. Nor does it help to cut one that differs by rounding only.
    """
    score = block.plan.score
    ends = torch.maximum(table.f0.abs(), table.f1.abs())
    noise = (
        2 * score.eps * torch.maximum(ends, take_rows(allowance.logit, table.segment).to(ends.dtype).to(ends.device))
    )
    errors, measured = list[tuple[Tensor, Tensor]](), block.plan.accuracy.measure
    if measured != "values":
        errors.append((table.length_moved, allowance.length))
    if measured != "length":
        errors += [(table.moved, allowance.attribution), (table.residual, allowance.residual)]
    excess = torch.zeros(len(table.segment), dtype=torch.float64)
    curable = torch.zeros(len(table.segment), dtype=torch.bool)
    for error, limits in errors:
        of_piece, limit = error.cpu().double(), take_rows(limits, table.segment)
        above = of_piece > limit
        curable |= above & (error > noise).cpu()
        times = torch.where(torch.isfinite(limit), of_piece / limit.clamp_min(1e-300), 0.0)
        excess = torch.maximum(excess, times)
    return excess, curable & _is_long_enough(block, table), excess > 1


def _is_long_enough(block: Block, table: PieceTable) -> Tensor:
    """(pieces,) which floating point can cut."""
    return (table.t1 - table.t0) > 4 * torch.finfo(block.plan.score.work_dtype).eps


def _choose_cuts(block: Block, division: Division, allowance: _Allowance, is_open: Tensor) -> tuple[Tensor, Tensor]:
    """(pieces,) which to cut next: totals whose pieces have, in the mean, larger errors than they may have.

    Also (batch,) which of the open examples (batch,) want to cut a piece that floating point cannot cut.
    """
    s, table, n = block.segments, division.table, len(division.totals.receiver)
    excess, can_cut, too_much = _excess_of(allowance, block, table)
    count = torch.bincount(table.total, minlength=n).clamp_min(1)
    too_bad = sum_by(excess.clamp_max(1e300), table.total, n) / count > 1
    helps = torch.zeros(n, dtype=torch.bool).index_fill_(0, take_rows(table.total, can_cut.nonzero()[:, 0]), True)
    helps[table.total[~_is_long_enough(block, table)]] = False
    lost = too_much & ~take_rows(helps, table.total)
    stuck = torch.zeros(len(block), dtype=torch.bool)
    if lost.any():
        hopeless = torch.zeros(len(s), dtype=torch.bool)
        hopeless[table.segment[lost]] = True
        stuck[s.leg_example[hopeless[s.leg_segment]]] = True
    return take_rows(too_bad & helps, table.total), stuck & is_open


def _limit_round(state: _State) -> Tensor:
    """(batch,) gradients to spend before errors are looked at again: all, or a few where attributions are known.

    What is left then is one number, the length, or another, the gap: a few pieces make most of its error. The gap is a
    sum of errors of both signs, and it is known exactly. To cut every piece that adds to it would take many gradients
    that change neither attributions nor lengths any more; where it alone is left, the limit is `GAP_STEP`.
    """
    block, plan, measured = state.block, state.block.plan, state.block.plan.accuracy.measure
    if not plan.errors_average or measured == "length":
        return torch.full((len(block),), torch.inf, dtype=torch.float64)
    errors, limits = state.sums.errors, state.limits
    known, has_length = ((e <= limit).cpu() for e, limit in ((errors[0], limits[0]), (errors[2], limits[2])))
    step = GAP_STEP + torch.where(has_length | (measured != "all"), 0.0, LENGTH_STEP * block.gradients())
    return torch.where(known, step, torch.inf)


def _choose_payable(state: _State, left: Tensor, round_limit: Tensor) -> Tensor:
    """(pieces,) the worst of the totals to cut, as many as all the examples that walk them can pay for.

    `left` (batch,) gradients each example has; the examples of a segment share the cost of a cut. An example that has
    paid its `round_limit` (batch,) waits for the next round, unless a segment's other examples want to go on.
    """
    block, table, s = state.block, state.division.table, state.block.segments
    rows = state.to_cut.nonzero()[:, 0]
    total, segment = take_rows(table.total, rows), take_rows(table.segment, rows)
    each, batch = 2 * block.plan.order * torch.bincount(segment, minlength=len(s)) / block.payers, len(left)
    may_spend = torch.minimum(left, round_limit)
    if bool((sum_by(take_rows(each, s.leg_segment), s.leg_example, batch) <= may_spend - 1).all()):
        return state.to_cut  # enough for all, and a gradient to spare: no need to know what each total costs
    n = len(state.division.totals.receiver)
    wanted, count = torch.unique(total, return_counts=True)
    of_total = torch.zeros(n, dtype=torch.long)
    of_total[total] = segment  # any of its segments: all have the same walkers
    walkers = block.sharers[of_total[wanted]]  # (wanted,)
    item = torch.arange(len(wanted)).repeat_interleave(walkers)  # (parts,) each example pays its part of a total
    first = block.sharers.cumsum(0) - block.sharers
    place = torch.arange(len(item)) - (walkers.cumsum(0) - walkers).repeat_interleave(walkers)
    leg = s.leg_segment.argsort()[first[of_total[wanted]][item] + place]
    payer, part = s.leg_example[leg], 2 * block.plan.order * (count / walkers.double())[item]
    bill = sum_by(part, payer, batch)
    if bool((bill <= may_spend).all()):
        return state.to_cut
    errors = torch.stack([table.gap, table.length_moved, torch.maximum(table.moved, table.residual)])
    errors = errors[:, rows.to(errors.device)].cpu().double().clamp_max(1e300)
    gap, of_length, badness = (sum_by(of_piece, total, n)[wanted][item] for of_piece in errors)
    gap, whole, limit = gap * s.leg_sign[leg], state.sums.gap.cpu().double()[payer], round_limit[payer]
    missed = (whole - gap).abs() + LEFT_OF_GAP * gap.abs()  # what is about left of the gap when a total is cut
    badness = torch.where(torch.isfinite(limit), of_length, badness) / count[item]
    badness = torch.where(limit == GAP_STEP, -missed, badness)
    order = torch.as_tensor(np.lexsort((-badness.numpy(), payer.numpy())))
    item, payer, part = item[order], payer[order], part[order]
    so_far = part.cumsum(0) - (bill.cumsum(0) - bill)[payer]
    chosen = torch.zeros(n, dtype=torch.bool)
    # Sums of thirds are not exact: a millionth of a gradient does not count.
    chosen[wanted[item[so_far - part < round_limit[payer] - 1e-6]]] = True
    chosen[wanted[item[so_far > left[payer] + 1e-6]]] = False
    return state.to_cut & chosen[table.total]


def _conclude(state: _State, rows: Tensor, interrupted: bool) -> Integral:
    """The result of some examples (rows,), with one note each."""
    block, sums, limits, stuck = state.block, state.sums, state.limits, state.stuck[rows]
    if len(rows) < len(state.rows):
        sums, limits = sums.take(rows), limits.take(rows)
    plan, errors, clock, tolerance = block.plan, sums.errors, block.plan.run.clock, block.plan.accuracy.tolerance
    assert tolerance is not None
    by_rounding = torch.isfinite(limits.gap) & (limits.gap / tolerance > 2 * sums.scale)
    done, flat = errors.within(limits, plan.accuracy.measure), sums.flat(plan.score.eps).cpu()
    dtype, gradients = str(plan.score.dtype).removeprefix("torch."), block.gradients()[rows]
    notes = [note_done(tolerance, round(spent)) for spent in gradients.numpy().tolist()]
    others = (~done | flat | by_rounding.cpu()).nonzero()[:, 0]  # few, of whom there is more to say
    of_errors, of_limits = (torch.stack(of, 1).cpu()[others] for of in (errors, limits))
    columns = others, flat[others], done[others], stuck[others], gradients[others], block.budget[rows][others]
    for i, is_flat, ok, stays, spent, budget, error, limit in zip(
        *(of.numpy().tolist() for of in (*columns, of_errors, of_limits)), strict=True
    ):
        if is_flat:
            notes[i] = FLAT
        elif ok:
            notes[i] = note_rounding(tolerance, dtype, spent, error[1], limit[1])
        else:
            late = clock.words if clock.asked is not None and budget - spent >= 2 * plan.order else ""
            missing, asked = say_missing(error, limit), plan.run.max_gradients
            notes[i] = note_shortfall(tolerance, dtype, missing, interrupted, stays, spent, budget, asked, late)
    inputs = plan.score.space.source[block.examples[rows]]
    return Integral.of(sums, notes, gradients, state.value_cost[rows], inputs)


DEFAULT_MAX_GRADIENTS = 10_000  # per example, if the user gives no budget: every call comes to an end
BLOCK_ELEMENTS = 2**26  # numbers held at once while refining
PIECES_EXPECTED = 24  # of an example, for sizing blocks


def integrate(
    score: Score | BoundScore,
    path: Path,
    metric: Metric | None = None,
    *,
    accuracy: Accuracy | None = None,
    weighting: Weighting | None = None,
    max_gradients: int | Tensor | None = None,
    known: KnownSegments | None = None,
    rival: Tensor | None = None,
    run: Run | None = None,
    **words: Any,
) -> Integral:
    """Integrate the score's gradient along a path.

    Args:
        score: what is explained. A plain `Score` takes row b's target for the path of example b.
        path: one polyline per example.
        metric: what `length` is measured in (Conformal by default).
        accuracy: how exactly, `lp.Accuracy`; its fields may be given as keywords, `tolerance=0.001`. An example is done
            when |gap| ≤ tolerance · max(|Δf|, 1 % of the score's range along the path) + 64 · eps · max|f|, and when
            cutting its pieces again changes attributions and length by less than this share of Σ|attributions| and of
            the length. Up to four features a change is Σ|difference|, above it is twice the Euclidean norm. With
            `tolerance=None` exactly `n_steps` gradients are spread over the segments of a path by length.
        weighting: what a gradient adds to the attributions; weightings that are not complete need `tolerance=None`.
        max_gradients: per example, one number for all or (batch,). None: 10,000, or what fixed steps take. A path of
            more segments than that still takes one gradient per segment.
        known: segments that a solver has measured already; they are only verified.
        rival: (batch,) lengths that these are only compared with. Where the rival is shorter, 10 % is enough, or less
            if the two are close: never so little that it could change which one is longer. Values are exact where the
            rival is longer.
        run: seed, time and progress display.
        words: fields of `accuracy`.

    All errors are estimates, not bounds: a change of score between all nodes can hide.

    Example:
        >>> score = Score(lambda x: (x**2).sum(1))
        >>> path = Path.straight(torch.zeros(1, 2), torch.ones(1, 2))
        >>> integrate(score, path).values
        tensor([[1., 1.]])
    """
    check_setting("path", path, Path)
    check_kind("score", score, (Score, BoundScore), "a Score: integrate(lp.Score(model, target), path)")
    given: object = metric
    if isinstance(given, type) or not (given is None or isinstance(given, Metric)):
        raise ValueError(f"metric={metric!r} is not a metric: pass an instance, as in metric=lp.Conformal()")
    weighting, run = weighting or PathIntegral(), run or Run()
    accuracy = replace(accuracy or Accuracy(), **words)
    if not isinstance(max_gradients, Tensor):
        Limits(max_gradients)
    accuracy.check_with(weighting, max_gradients)
    with leave_untouched(score.model if isinstance(score, Score) else score.score.model, path.points, metric):
        bound = score if isinstance(score, BoundScore) else score.bind(path.end)
        if len(path) != bound.batch:
            raise ValueError(f"a path of {len(path)} examples for a score over {bound.batch}: they must match")
        # Fixed steps end by themselves.
        default = DEFAULT_MAX_GRADIENTS if accuracy.tolerance is not None else torch.inf
        budget = torch.as_tensor(default if max_gradients is None else max_gradients).cpu().double().expand(len(path))
        plan = Plan(bound, metric or Conformal(), weighting, accuracy, budget, run, rival)
        return _integrate_blocks(plan, path, known)


def _integrate_blocks(plan: Plan, path: Path, known: KnownSegments | None) -> Integral:
    """All examples, in blocks that limit memory.

    After an interruption during refinement, later blocks are measured only once. After one during that first
    measurement, the rest is unknown; if nothing is finished, the interruption goes to the caller.
    """
    bound = plan.score
    elements = max(bound.batch_size, BLOCK_ELEMENTS // bound.n_features)
    mean_segments = max(1.0, len(path.route) / len(path) - 1)
    per_block = max(1, int(elements / max(PIECES_EXPECTED, mean_segments)))
    parts: list[Integral] = []
    interrupted = False
    with plan.run.bar("integrating", len(path)) as bar:
        for examples in torch.arange(len(path)).split(per_block):
            part = len(examples) / (len(path) - int(examples[0]))  # of the time that is left
            try:
                timed = replace(plan, run=replace(plan.run, clock=plan.run.clock.part(part)))
                block = Block.make(timed, path if len(examples) == len(path) else path.select(examples), examples)
                if plan.accuracy.tolerance is None:
                    integral = integrate_at_fixed_steps(block)
                    bar.advance(len(examples))
                else:
                    integral, interrupted = _refine(block, known, bar, interrupted)
            except KeyboardInterrupt:
                if not parts:
                    raise
                parts.append(unknown_integral(bound, len(path) - int(examples[0])))
                break
            parts.append(integral)
    return join_integrals(parts)
