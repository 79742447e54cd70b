"""Refinement: pieces of path are cut until their attributions and lengths stay the same.

Each round cuts the pieces that changed most, sums along every example's route, and lets examples that are done leave.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from leastpath._support.rows import flat_rows
from leastpath.integral import notes
from leastpath.integral.block import Block, Live
from leastpath.integral.first_look import first_look
from leastpath.integral.pieces import KnownSegments
from leastpath.integral.result import Integral, joined_integrals
from leastpath.integral.sums import Errors, Sums, extreme_by, total_by
from leastpath.run import Bar

CUT = 0.4  # unequal, so that a symmetric score does not look the same before and after
LEAVING_SHARE = 0.3  # of a block's examples that must be done before they leave it


@dataclass(frozen=True)
class _State:
    """How far the refinement of some examples has come."""

    block: Block
    rows: Tensor  # (batch,) the numbers of its examples in the block that refinement began with
    live: Live
    sums: Sums
    wanted: Tensor  # (pieces,) which to cut next
    done: Tensor  # (batch,) examples that have reached the tolerance
    stuck: Tensor  # (batch,) examples with a piece that should be cut and cannot be

    @classmethod
    def first(cls, block: Block, known: KnownSegments | None) -> _State:
        """Everything measured once, nothing verified."""
        live, no = first_look(block, known), torch.zeros(len(block), dtype=torch.bool)
        wanted = torch.ones(len(live.segment), dtype=torch.bool)
        return cls(block, torch.arange(len(block)), live, block.sums(live), wanted, no, no)

    def after_cutting(self, chosen: Tensor) -> _State:
        """One round: the chosen pieces (pieces,) are cut."""
        plan = self.block.plan
        live = Live.join([self.live.where(~chosen), _cut(self.block, self.live.where(chosen))])
        sums = self.block.sums(live)
        limits = plan.allowed(sums)
        done = sums.errors.within(limits, plan.only_length)
        wanted, stuck = _wanted(self.block, live, Errors(*(limit / sums.pieces for limit in limits)), ~done)
        return _State(self.block, self.rows, live, sums, wanted, done, stuck)

    def part(self, rows: Tensor) -> _State:
        """The state of some examples (rows,), without the pieces that only others walk."""
        block, segment = self.block.part(rows)
        stays = segment[self.live.segment] >= 0
        live = self.live.where(stays)
        live = live._replace(segment=segment[live.segment])
        return _State(
            block, self.rows[rows], live, self.sums.take(rows), self.wanted[stays], self.done[rows], self.stuck[rows]
        )


def refined(block: Block, known: KnownSegments | None, bar: Bar, interrupted: bool = False) -> tuple[Integral, bool]:
    """Cut pieces until every example has reached the tolerance, or its budget is spent.

    Also whether it was interrupted. If `interrupted` before, there is only a first look.
    """
    state, finished = _State.first(block, known), list[tuple[Tensor, Integral]]()
    try:
        while not interrupted and (chosen := _affordable(state, state.block.budget - state.block.gradients())).any():
            state = state.after_cutting(chosen)
            ready, rest = state.done.nonzero()[:, 0], (~state.done).nonzero()[:, 0]
            if len(rest) and len(ready) >= LEAVING_SHARE * len(state.done):
                leaving = _integral(state.block.part(ready)[0], state.sums.take(ready), state.stuck[ready], False)
                # In one statement, so that no interruption can fall between.
                finished, state = [*finished, (state.rows[ready], leaving)], state.part(rest)
                bar.advance(len(ready))
    except KeyboardInterrupt:
        interrupted = True
    finished.append((state.rows, _integral(state.block, state.sums, state.stuck, interrupted)))
    bar.advance(len(state.rows))
    rows, integrals = zip(*finished, strict=True)
    return joined_integrals(integrals, torch.argsort(torch.cat(rows))), interrupted


def _cut(block: Block, parents: Live) -> Live:
    """Both unequal parts of each piece, with how far their sums moved from those of the whole."""
    middle = parents.t0 + CUT * (parents.t1 - parents.t0)
    t = torch.stack([parents.t0, middle, parents.t1], 1)
    f = torch.stack([parents.f0, block.score_at(parents.segment, middle), parents.f1], 1)
    (t0, t1), (f0, f1) = ((of[:, :2].flatten(), of[:, 1:].flatten()) for of in (t, f))
    nodes = torch.full_like(t0, block.plan.order, dtype=torch.long)
    parts = block.look(parents.segment.repeat_interleave(2), t0, t1, nodes, (f0, f1))
    moved = _size_of_error(flat_rows(parts.attributions.unflatten(0, (-1, 2)).sum(1) - parents.attributions))
    length_moved = (parts.length.view(-1, 2).sum(1) - parents.length).abs()
    # Half of the move is given to both parts equally, half by their residuals, which show where the score was missed.
    residual = parts.residual.view(-1, 2)
    share = 0.25 + 0.5 * residual / residual.sum(1, keepdim=True).clamp_min(torch.finfo(residual.dtype).tiny)
    moved, length_moved = ((share * of_parent[:, None]).flatten() for of_parent in (moved, length_moved))
    return parts._replace(moved=moved, length_moved=length_moved)


def _size_of_error(difference: Tensor) -> Tensor:
    """Of attributions (rows, features): (rows,). Σ|difference| up to four features, else twice the Euclidean norm.

    That is the typical error of a sum over any choice of features and signs. Pixels of a noisy gradient have
    independent errors, and Σ|difference| would take thousands of gradients to average them out.
    """
    return torch.minimum(difference.abs().sum(1), 2 * torch.linalg.vector_norm(difference, dim=1))


def _wanted(block: Block, live: Live, share: Errors, is_open: Tensor) -> tuple[Tensor, Tensor]:
    """(pieces,) which to cut next: those with errors above `share`, what one piece of an open example may err by.

    `is_open` (batch,) are the examples that are not done. Also (batch,) which of these want to cut a piece that
    floating point cannot cut.
    """
    s, score = block.segments, block.plan.score
    leg_example, leg_segment = (of_leg[is_open[s.leg_example]] for of_leg in (s.leg_example, s.leg_segment))

    def least(of_leg: Tensor) -> Tensor:
        """(pieces,) the smallest value of the open examples that use a piece: the strictest one decides."""
        return extreme_by(of_leg.double(), leg_segment, len(s), "amin")[live.segment]

    # Below this, pieces differ by rounding only: cutting them does not help.
    logit = torch.as_tensor(score.largest_logit)[block.examples[leg_example]]
    logit = least(torch.where(logit > 0, logit, torch.inf)).nan_to_num(posinf=0.0)  # zero: nothing was noted
    ends = torch.maximum(live.f0.abs(), live.f1.abs())
    noise = 2 * score.eps * torch.maximum(ends, logit.to(ends.dtype).to(ends.device))
    errors = [(live.length_moved, share.length)]
    if not block.plan.only_length:
        errors += [(live.moved, share.attribution), (live.residual, share.residual)]
    too_much, curable = (torch.zeros(len(live.segment), dtype=torch.bool) for _ in range(2))
    for error, limit in errors:
        above = error.cpu().double() > least(limit.cpu()[leg_example])
        too_much |= above
        curable |= above & (error > noise).cpu()
    can_cut = curable & ((live.t1 - live.t0) > 4 * torch.finfo(score.work_dtype).eps)
    hopeless = torch.zeros(len(s), dtype=torch.bool)
    hopeless[live.segment[too_much & ~can_cut]] = True
    stuck = torch.zeros(len(block), dtype=torch.bool)
    stuck[s.leg_example[hopeless[s.leg_segment]]] = True
    return too_much & can_cut, stuck & is_open


def _affordable(state: _State, purse: Tensor) -> Tensor:
    """(pieces,) the worst of the wanted pieces, as many as all the examples that use them can pay for.

    `purse` (batch,) gradients each example has left; the examples of a segment share the cost of a cut.
    """
    block, s, rows = state.block, state.block.segments, state.wanted.nonzero()[:, 0]
    segment = state.live.segment[rows]
    walkers = block.sharers[segment]  # (wanted,)
    piece = torch.arange(len(rows)).repeat_interleave(walkers)  # (parts,) each example pays its part of a piece
    first = block.sharers.cumsum(0) - block.sharers
    place = torch.arange(len(piece)) - (walkers.cumsum(0) - walkers).repeat_interleave(walkers)
    leg = s.leg_segment.argsort()[first[segment][piece] + place]
    payer, part = s.leg_example[leg], 2 * block.plan.order / walkers.double()[piece]
    bill = total_by(part, payer, len(purse))
    if bool((bill <= purse).all()):
        return state.wanted
    badness = torch.maximum(state.live.moved, state.live.residual).cpu()[rows]
    order = torch.as_tensor(np.lexsort((-badness[piece].numpy(), payer.numpy())))
    so_far = part[order].cumsum(0) - (bill.cumsum(0) - bill)[payer[order]]
    chosen = state.wanted.clone()
    # Sums of thirds are not exact: a millionth of a gradient does not count.
    chosen[rows[piece[order[so_far > purse[payer[order]] + 1e-6]]]] = False
    return chosen


def _integral(block: Block, sums: Sums, stuck: Tensor, interrupted: bool) -> Integral:
    """The result, with one note an example."""
    plan, errors, limits = block.plan, sums.errors, block.plan.allowed(sums)
    assert plan.tolerance is not None
    by_rounding, done = limits.gap / plan.tolerance > 2 * sums.scale, errors.within(limits, plan.only_length)
    dtype, told = str(plan.score.dtype).removeprefix("torch."), []
    columns = (
        sums.flat, done, by_rounding, stuck, block.gradients(), block.budget,
        torch.stack(errors, 1), torch.stack(limits, 1),
    )  # fmt: skip
    for flat, ok, rounding, stays, spent, budget, error, limit in zip(*(of.tolist() for of in columns), strict=True):
        if flat:
            told.append(notes.FLAT)
        elif ok:
            told.append(notes.reached(plan.tolerance, dtype, rounding, spent, error[1], limit[1]))
        else:
            missing = notes.missing(error, limit)
            told.append(notes.not_reached(
                plan.tolerance, dtype, missing, interrupted, stays, spent, budget, plan.max_gradients
            ))  # fmt: skip
    return block.integral(sums, told)
