"""Refinement: pieces of path are cut until their attributions and lengths stay the same.

Each round cuts the pieces that changed most, sums along every example's route, and lets examples that are done leave.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from leastpath._support.rows import taken
from leastpath.account.run import Bar
from leastpath.integral import notes
from leastpath.integral.block import Block, Live, Look, Standing
from leastpath.integral.bundles import ALONE, OWN_SUMS, kinds_of, rank_by, sketched
from leastpath.integral.first_look import first_look
from leastpath.integral.pieces import KnownSegments
from leastpath.integral.result import Integral, joined_integrals
from leastpath.integral.sums import Errors, Sums, size_of_error, total_by

CUT = 0.4  # unequal, so that a symmetric score does not look the same before and after
LEAVING_SHARE = 0.3  # of a block's examples that must be done before they leave it
MANY_SEGMENTS = 6  # of a path, each of which is a small part of it
SMALL = 0.25  # of what a piece may err by: one that adds no more than this is not cut, but looked at once more
GLANCED = 0.764  # of a segment, its last part: the middle of this lies off the nodes of the first look
HELD_NUMBERS = 2**21  # of pieces and sums: a block with more is halved, if it has several examples
GAP_STEP = 0.1  # of the gradients spent so far, in a round that only closes the gap
SCALARS = 16  # numbers of a piece, beside its sketches


@dataclass(frozen=True)
class _State:
    """How far the refinement of some examples has come."""

    block: Block
    rows: Tensor  # (batch,) the numbers of its examples in the block that refinement began with
    standing: Standing
    sums: Sums
    wanted: Tensor  # (pieces,) which to cut next: all pieces of some bundles
    done: Tensor  # (batch,) examples that have reached the tolerance
    stuck: Tensor  # (batch,) examples with a piece that should be cut and cannot be
    value_cost: Tensor  # (batch,) float64, gradients that were spent when the values were known; inf if they are not

    @classmethod
    def first(cls, block: Block, known: KnownSegments | None) -> _State:
        """Everything measured once, nothing verified."""
        standing, no = first_look(block, known), torch.zeros(len(block), dtype=torch.bool)
        wanted = torch.ones(len(standing.live.segment), dtype=torch.bool)
        return cls(
            block, torch.arange(len(block)), standing, block.sums(standing), wanted, no, no, block.budget * torch.inf
        )

    def after_cutting(self, chosen: Tensor) -> _State:
        """One round: the chosen pieces (pieces,) are cut, but for those that are so small that a glance is enough."""
        block, plan = self.block, self.block.plan
        small = _small(self, chosen)
        cut, whole = chosen & ~small, self.standing
        if small.any():
            whole = replace(whole, live=_glanced(block, whole.live, small.nonzero()[:, 0]))
        kept = [] if bool(cut.all()) else [whole.without(cut)]
        parts = [Standing.collect(block, _cut(self, cut))] if cut.any() else []
        standing = Standing.join([*kept, *parts])
        sums = block.sums(standing)
        limits = plan.allowed(sums)
        done = sums.errors.within(limits, plan.accuracy.measure)
        wanted, stuck = _wanted(block, standing, _Shares.of(block, limits, sums.pieces, ~done), ~done)
        if plan.errors_average and (idle := ~done & (_walked_pieces(block, standing.live.segment[wanted]) == 0)).any():
            # No piece is bad by itself, but all of them are together.
            strict = _Shares.of(block, limits, sums.pieces, idle, averaged=False)
            more, stuck_too = _wanted(block, standing, strict, idle)
            wanted, stuck = wanted | more, torch.where(idle, stuck_too, stuck)
        cost = torch.minimum(self.value_cost, block.gradients())
        cost = torch.where(sums.errors.within(limits, "values"), cost, torch.inf)
        return _State(block, self.rows, standing, sums, wanted, done, stuck, cost)

    def part(self, rows: Tensor) -> _State:
        """The state of some examples (rows,), without the pieces that only others walk."""
        block, segment, carrier = self.block.part(rows)
        stays = (carrier[self.standing.bundles.carrier] >= 0)[self.standing.live.bundle]
        return _State(
            block, self.rows[rows], self.standing.part(segment, carrier), self.sums.take(rows), self.wanted[stays],
            self.done[rows], self.stuck[rows], self.value_cost[rows],
        )  # fmt: skip

    @property
    def is_large(self) -> bool:
        """Whether it takes so much memory that some examples should wait.

        Examples that share segments stay together: apart, each would have to pay for all of them.
        """
        if len(self.rows) == 1 or bool((self.block.sharers > 1).any()):
            return False
        sketch, sums = self.standing.live.sketch, self.standing.bundles.sums
        return len(sketch) * (2 * sketch.shape[1] + SCALARS) + sums.numel() > HELD_NUMBERS


def refined(block: Block, known: KnownSegments | None, bar: Bar, interrupted: bool = False) -> tuple[Integral, bool]:
    """Cut pieces until every example has reached the tolerance, or its budget is spent.

    Also whether it was interrupted. If `interrupted` before, there is only a first look.
    """
    waiting, finished = [_State.first(block, known)], list[tuple[Tensor, Integral]]()
    try:
        while waiting and not interrupted:
            leaving: _State | None
            state = waiting[-1]
            chosen = _affordable(state, state.block.affordable(), _step(state))
            if not chosen.any():
                leaving, staying = state, list[_State]()
            else:
                state = state.after_cutting(chosen)
                leaving, staying = _parted(state)
            # In one statement each, so that no interruption can fall between.
            ended = [] if leaving is None else [(leaving.rows, _integral(leaving, False))]
            waiting, finished = [*waiting[:-1], *staying], [*finished, *ended]
            bar.advance(sum(len(rows) for rows, _ in ended))
    except KeyboardInterrupt:
        interrupted = True
    finished += [(state.rows, _integral(state, interrupted)) for state in waiting]
    bar.advance(sum(len(state.rows) for state in waiting))
    rows, integrals = zip(*finished, strict=True)
    return joined_integrals(integrals, torch.argsort(torch.cat(rows))), interrupted


def _parted(state: _State) -> tuple[_State | None, list[_State]]:
    """The examples that leave, if enough are done, and those that stay: in two halves if they hold too much."""
    ready, rest = state.done.nonzero()[:, 0], (~state.done).nonzero()[:, 0]
    leaving = None
    if len(rest) and len(ready) >= LEAVING_SHARE * len(state.done):
        leaving, state = state.part(ready), state.part(rest)
    if not state.is_large:
        return leaving, [state]
    return leaving, [state.part(half) for half in torch.arange(len(state.rows)).tensor_split(2)]


def _small(state: _State, chosen: Tensor) -> Tensor:
    """(pieces,) which of the chosen ones are segments that add next to nothing, as on a plateau of the score.

    Only of paths with many features and many segments: on a line such a piece is large, and much can hide in it.
    """
    block, live = state.block, state.standing.live
    if not block.plan.errors_average:
        return torch.zeros_like(chosen)
    s, alone = block.segments, (state.standing.bundles.kind == ALONE)[live.bundle]
    many = torch.bincount(s.leg_example, minlength=len(block)) >= MANY_SEGMENTS
    in_many = ~torch.zeros(len(s), dtype=torch.bool).index_fill_(0, s.leg_segment[~many[s.leg_example]], True)
    candidate = chosen & alone & in_many[live.segment] & (live.t0 == 0) & (live.t1 == 1) & torch.isinf(live.moved).cpu()
    shares = _Shares.of(block, block.plan.allowed(state.sums), state.sums.pieces, ~state.done)
    sizes = live._replace(moved=size_of_error(live.sketch), length_moved=live.length)
    return candidate & (shares.excess(block, sizes)[0] <= SMALL)


def _glanced(block: Block, live: Live, rows: Tensor) -> Live:
    """Whole segments (rows,) that get one more gradient, off their middle: have they changed as little as it seems?"""
    columns = dict(zip(Live._fields, live, strict=True))
    for some in rows.split(block.plan.score.batch_size):
        at, segment = some.to(live.length.device), live.segment[some]
        t1 = torch.ones(len(some), dtype=torch.float64)
        estimate = block.glance(segment, t1 - GLANCED, t1)
        shift = sketched(estimate.attributions) / GLANCED - live.sketch[at]
        length_shift = estimate.length / GLANCED - live.length[at]
        new = {
            "shift": shift, "length_shift": length_shift, "moved": size_of_error(shift),
            "length_moved": length_shift.abs(), "low": torch.minimum(estimate.low, live.low[at]),
            "high": torch.maximum(estimate.high, live.high[at]),
        }  # fmt: skip
        columns |= {name: columns[name].index_copy(0, at, value) for name, value in new.items()}
    return Live(**columns)


def _cut(state: _State, chosen: Tensor) -> Iterator[tuple[Look, Tensor]]:
    """Both unequal parts of each chosen piece (pieces,), with how far their sums moved from those of the whole."""
    block, live = state.block, state.standing.live
    parents, n_carriers = live.where(chosen), len(block) + len(block.segments)
    carrier = taken(block.carrier, parents.segment)
    after = torch.bincount(taken(block.carrier, live.segment), minlength=n_carriers)
    after += torch.bincount(carrier, minlength=n_carriers)  # each piece that is cut becomes two
    crowded = taken(after > OWN_SUMS, carrier)
    kinds = _Kinds(state, parents, rank_by(carrier)) if crowded.any() else None
    for rows in torch.arange(len(carrier)).split(max(1, block.plan.score.batch_size // 2)):
        look = _parts(block, parents if len(rows) == len(carrier) else parents.take(rows))
        kind = torch.full((2 * len(rows),), ALONE)
        if kinds is not None:
            kind = torch.where(crowded[rows].repeat_interleave(2), kinds.of(look.live, rows), kind)
        yield look, kind


class _Kinds:
    """Classes of error of new pieces, by what is allowed as far as it is known before they are measured."""

    def __init__(self, state: _State, parents: Live, rank: Tensor) -> None:
        self.block, self.rank, sums = state.block, rank, state.sums
        pieces = sums.pieces + _walked_pieces(self.block, parents.segment).to(sums.pieces)
        self.shares = _Shares.of(self.block, self.block.plan.allowed(sums), pieces, ~state.done)

    def of(self, live: Live, rows: Tensor) -> Tensor:
        """(2 · rows,) the classes of both parts of some parents (rows,)."""
        excess, can_cut, _ = self.shares.excess(self.block, live)
        return kinds_of(excess, can_cut | (excess <= 1), self.rank[rows].repeat_interleave(2))


def _walked_pieces(block: Block, segment: Tensor) -> Tensor:
    """(batch,) how many of the pieces on `segment` (pieces,) each example walks."""
    s = block.segments
    return total_by(taken(torch.bincount(segment, minlength=len(s)), s.leg_segment), s.leg_example, len(block))


def _parts(block: Block, parents: Live) -> Look:
    """Both parts of some pieces."""
    middle = parents.t0 + CUT * (parents.t1 - parents.t0)
    t = torch.stack([parents.t0, middle, parents.t1], 1)
    f = torch.stack([parents.f0, block.score_at(parents.segment, middle), parents.f1], 1)
    (t0, t1), (f0, f1) = ((of[:, :2].flatten(), of[:, 1:].flatten()) for of in (t, f))
    parts, attributions = block.look(parents.segment.repeat_interleave(2), t0, t1, block.plan.order, (f0, f1))
    shift = parts.sketch.unflatten(0, (-1, 2)).sum(1) - parents.sketch
    length_shift = parts.length.view(-1, 2).sum(1) - parents.length
    moved, length_moved = size_of_error(shift), length_shift.abs()
    # Half of the move is given to both parts equally, half by their residuals, which show where the score was missed.
    residual = parts.residual.view(-1, 2)
    share = 0.25 + 0.5 * residual / residual.sum(1, keepdim=True).clamp_min(torch.finfo(residual.dtype).tiny)
    moved, length_moved = ((share * of_parent[:, None]).flatten() for of_parent in (moved, length_moved))
    halves = (shift / 2).repeat_interleave(2, 0), (length_shift / 2).repeat_interleave(2)
    parts = parts._replace(moved=moved, length_moved=length_moved, shift=halves[0], length_shift=halves[1])
    return Look(parts, attributions)


@dataclass(frozen=True)
class _Shares:
    """What one piece of each segment may err by: (segments,) float64, infinite where no open example walks."""

    attribution: Tensor
    residual: Tensor
    length: Tensor
    logit: Tensor  # the largest that was met, for differences of logits; else zero

    @classmethod
    def of(
        cls, block: Block, limits: Errors, pieces: Tensor, is_open: Tensor, *, averaged: bool | None = None
    ) -> _Shares:
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
            open_legs = taken(is_open, leg_example).nonzero()[:, 0]
            leg_example, leg_segment = taken(leg_example, open_legs), taken(leg_segment, open_legs)

        one = (torch.stack([limits.attribution, limits.residual, limits.length], 1) / pieces[:, None]).cpu().double()
        logit = torch.as_tensor(block.plan.score.largest_logit)[block.examples]
        columns = torch.cat([one, torch.where(logit > 0, logit, torch.inf)[:, None]], 1)
        columns = taken(columns, leg_example)
        least = columns.new_full((len(s), 4), torch.inf)
        least.scatter_reduce_(0, leg_segment[:, None].expand_as(columns), columns, "amin")
        attribution, residual, length, largest = least.unbind(1)
        return cls(attribution, residual, length, largest.nan_to_num(posinf=0.0))

    def excess(self, block: Block, live: Live) -> tuple[Tensor, Tensor, Tensor]:
        """(pieces,) the errors of pieces in units of what they may err by, which can be cut, and which are too large.

        Floating point cannot cut a piece that is too short. Nor does it help to cut one that differs by rounding only.
        """
        score = block.plan.score
        ends = torch.maximum(live.f0.abs(), live.f1.abs())
        noise = 2 * score.eps * torch.maximum(ends, taken(self.logit, live.segment).to(ends.dtype).to(ends.device))
        errors, watched = list[tuple[Tensor, Tensor]](), block.plan.accuracy.measure
        if watched != "values":
            errors.append((live.length_moved, self.length))
        if watched != "length":
            errors += [(live.moved, self.attribution), (live.residual, self.residual)]
        excess = torch.zeros(len(live.segment), dtype=torch.float64)
        curable = torch.zeros(len(live.segment), dtype=torch.bool)
        for error, limits in errors:
            of_piece, limit = error.cpu().double(), taken(limits, live.segment)
            above = of_piece > limit
            curable |= above & (error > noise).cpu()
            times = torch.where(torch.isfinite(limit), of_piece / limit.clamp_min(1e-300), 0.0)
            excess = torch.maximum(excess, times)
        can_cut = curable & ((live.t1 - live.t0) > 4 * torch.finfo(score.work_dtype).eps)
        return excess, can_cut, excess > 1


def _wanted(block: Block, standing: Standing, shares: _Shares, is_open: Tensor) -> tuple[Tensor, Tensor]:
    """(pieces,) which to cut next: bundles whose pieces have, in the mean, larger errors than they may have.

    Also (batch,) which of the open examples (batch,) want to cut a piece that floating point cannot cut.
    """
    s, live, n = block.segments, standing.live, len(standing.bundles)
    excess, can_cut, too_much = shares.excess(block, live)
    count = torch.bincount(live.bundle, minlength=n).clamp_min(1)
    too_bad = total_by(excess.clamp_max(1e300), live.bundle, n) / count > 1
    helps = torch.zeros(n, dtype=torch.bool).index_fill_(0, taken(live.bundle, can_cut.nonzero()[:, 0]), True)
    helps[live.bundle[live.t1 - live.t0 <= 4 * torch.finfo(block.plan.score.work_dtype).eps]] = False
    lost = too_much & ~taken(helps, live.bundle)
    stuck = torch.zeros(len(block), dtype=torch.bool)
    if lost.any():
        hopeless = torch.zeros(len(s), dtype=torch.bool)
        hopeless[live.segment[lost]] = True
        stuck[s.leg_example[hopeless[s.leg_segment]]] = True
    return taken(too_bad & helps, live.bundle), stuck & is_open


def _step(state: _State) -> Tensor:
    """(batch,) gradients to spend before errors are looked at again: all, or a few where only the gap is too large.

    The gap is a sum of errors of both signs, and it is known exactly. To cut every piece that adds to it would take
    many gradients that change neither attributions nor lengths any more.
    """
    block, plan = state.block, state.block.plan
    if not plan.errors_average or plan.accuracy.measure == "length":
        return torch.full((len(block),), torch.inf, dtype=torch.float64)
    errors, limits = state.sums.errors, plan.allowed(state.sums)
    settled = errors.attribution <= limits.attribution
    if plan.accuracy.measure == "all":
        settled &= errors.length <= limits.length
    return torch.where(settled.cpu(), GAP_STEP * block.gradients(), torch.inf)


def _affordable(state: _State, purse: Tensor, step: Tensor) -> Tensor:
    """(pieces,) the worst of the wanted bundles, as many as all the examples that walk them can pay for.

    `purse` (batch,) gradients each example has left; the examples of a segment share the cost of a cut. An example that
    has paid its `step` (batch,) waits for the next round, unless a segment's other examples want to go on.
    """
    block, live, s = state.block, state.standing.live, state.block.segments
    rows = state.wanted.nonzero()[:, 0]
    bundle, segment = taken(live.bundle, rows), taken(live.segment, rows)
    each = 2 * block.plan.order * torch.bincount(segment, minlength=len(s)) / block.payers
    if bool((total_by(taken(each, s.leg_segment), s.leg_example, len(purse)) <= torch.minimum(purse, step) - 1).all()):
        return state.wanted  # enough for all, and a gradient to spare: no need to know what each bundle costs
    n = len(state.standing.bundles)
    wanted = torch.unique(bundle)
    of_bundle = torch.zeros(n, dtype=torch.long)
    of_bundle[bundle] = segment  # any of its segments: all have the same walkers
    count = torch.bincount(bundle, minlength=n)[wanted]
    walkers = block.sharers[of_bundle[wanted]]  # (wanted,)
    item = torch.arange(len(wanted)).repeat_interleave(walkers)  # (parts,) each example pays its part of a bundle
    first = block.sharers.cumsum(0) - block.sharers
    place = torch.arange(len(item)) - (walkers.cumsum(0) - walkers).repeat_interleave(walkers)
    leg = s.leg_segment.argsort()[first[of_bundle[wanted]][item] + place]
    payer, part = s.leg_example[leg], 2 * block.plan.order * (count / walkers.double())[item]
    bill = total_by(part, payer, len(purse))
    if bool((bill <= torch.minimum(purse, step)).all()):
        return state.wanted
    errors = torch.stack([live.residual, torch.maximum(live.moved, live.residual)]).cpu().double()[:, state.wanted]
    closing, badness = (total_by(of_piece.clamp_max(1e300), bundle, n)[wanted] / count for of_piece in errors)
    badness = torch.where(torch.isfinite(step[payer]), closing[item], badness[item])
    order = torch.as_tensor(np.lexsort((-badness.numpy(), payer.numpy())))
    item, payer, part = item[order], payer[order], part[order]
    so_far = part.cumsum(0) - (bill.cumsum(0) - bill)[payer]
    chosen = torch.zeros(n, dtype=torch.bool)
    # Sums of thirds are not exact: a millionth of a gradient does not count.
    chosen[wanted[item[so_far - part < step[payer] - 1e-6]]] = True
    chosen[wanted[item[so_far > purse[payer] + 1e-6]]] = False
    return state.wanted & chosen[live.bundle]


def _integral(state: _State, interrupted: bool) -> Integral:
    """The result, with one note an example."""
    block, sums, stuck = state.block, state.sums, state.stuck
    plan, errors, limits = block.plan, sums.errors, block.plan.allowed(sums)
    assert plan.accuracy.tolerance is not None
    by_rounding, done = (
        limits.gap / plan.accuracy.tolerance > 2 * sums.scale,
        errors.within(limits, plan.accuracy.measure),
    )
    dtype, gradients, flat = str(plan.score.dtype).removeprefix("torch."), block.gradients(), sums.flat.cpu()
    told = [notes.within(plan.accuracy.tolerance, round(spent)) for spent in gradients.numpy().tolist()]
    others = (~done | flat | by_rounding.cpu()).nonzero()[:, 0]  # few, of whom there is more to say
    of_errors, of_limits = (torch.stack(of, 1).cpu()[others] for of in (errors, limits))
    columns = others, flat[others], done[others], stuck[others], gradients[others], block.budget[others], of_errors
    for i, is_flat, ok, stays, spent, budget, error, limit in zip(
        *(of.numpy().tolist() for of in (*columns, of_limits)), strict=True
    ):
        if is_flat:
            told[i] = notes.FLAT
        elif ok:
            told[i] = notes.as_exact_as_rounding(plan.accuracy.tolerance, dtype, spent, error[1], limit[1])
        else:
            told[i] = notes.not_reached(
                plan.accuracy.tolerance, dtype, notes.missing(error, limit), interrupted, stays, spent, budget,
                plan.run.max_gradients,
                plan.run.clock.words if plan.run.clock.asked is not None and budget - spent >= 2 * plan.order else "",
            )  # fmt: skip
    return block.integral(sums, told, state.value_cost)
