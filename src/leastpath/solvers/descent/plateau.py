"""The plateau stage: knots between two flows are pushed up or down the score until the crossing is flat.

For a score that saturates, the gradient of ‖∇f‖ is nearly parallel to ∇f. So ±∇f, one smooth gradient, shows where the
score is flatter; the exact force takes two gradients and is noisy.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from leastpath._support.rows import norms, per_row
from leastpath.solvers.descent.field import Field, PathSamples

PROBES = (0.003, 0.01)  # steps up and down from the line, relative to its length
SAMPLES = 12  # fresh positions a round
HARD = 4  # positions of the last round that cost most, visited again
STEP = 0.5  # of a push, relative to the longer flow
MIN_STEP = 0.003  # least push, relative to the distance of the ends
MOMENTUM = 0.5
SHRINK = 0.7  # of the push where a round looks worse than the last
COMMON = 0.3  # of a push that all knots share
CALM = 0.1  # of the goal: two rounds in a row below it end the work
ROUND_COST = SAMPLES + HARD


def flatter_side(field: Field, line: PathSamples, rows: Tensor) -> Tensor:
    """(batch,) +1 where the score is flatter a step above the line, −1 below; for `rows` (n,), the others count as −1.

    `line` are samples of the lines of all examples. Costs two gradients for each of them.
    """
    above, below = (torch.full_like(field.distance, torch.inf) for _ in range(2))
    for sign, total in ((1.0, above), (-1.0, below)):
        total[rows] = 0
        for i, step in enumerate(PROBES):  # interleaved, so that both steps see the whole line
            points, steps, gradient = (x[rows, i :: len(PROBES)] for x in (line.points, line.steps, line.gradient))
            size = norms(gradient, 2).clamp_min(torch.finfo(gradient.dtype).tiny)
            moved = points + per_row(sign * step * field.distance[rows, None] / size, points) * gradient
            n = points.shape[1]
            speed = field.speed(moved.flatten(0, 1), steps.flatten(0, 1), rows.repeat_interleave(n))
            total[rows] += speed.clamp_min(0).sqrt().view(-1, n).sum(1)  # roots: one steep place must not decide
    return torch.where(above < below, 1.0, -1.0).to(field.distance)


@dataclass
class Crossing:
    """A path over a plateau for some examples, all (n,): two fixed trails and the moving knots between them."""

    left: Tensor  # (n, knots, *features) from the start
    knots: Tensor  # (n, middle knots, *features)
    right: Tensor  # (n, knots, *features) to the end
    sign: Tensor  # +1: the plateau is above, −1: below
    push: Tensor  # largest move of a knot in a round
    goal: Tensor  # the middle must become much shorter than this
    hopeless: Tensor  # the middle must be shorter than this after `patience` rounds

    @property
    def path(self) -> Tensor:
        """(n, all knots, *features)."""
        return torch.cat([self.left, self.knots, self.right], 1)

    @property
    def middle(self) -> Tensor:
        """(n, middle knots + 2, *features): the moving knots and their fixed neighbours."""
        return torch.cat([self.left[:, -1:], self.knots, self.right[:, :1]], 1)

    def pick(self, keep: Tensor) -> Crossing:
        """The crossings of some examples."""
        return Crossing(*(getattr(self, name)[keep] for name in self.__dataclass_fields__))


@dataclass
class Crossed:
    """The calmest state of some crossings, and what is known of their middles: (n,) unless it says otherwise."""

    crossing: Crossing
    length: Tensor  # of the middle, sampled; infinite where there was no round
    positions: Tensor  # (n, SAMPLES) of the middle, where the calmest round looked
    samples: PathSamples | None = None  # (n, SAMPLES) what it saw there; None: there was no round

    def pick(self, rows: Tensor) -> Crossed:
        """Those of some examples (rows,)."""
        samples = None if self.samples is None else self.samples.take(rows)
        return Crossed(self.crossing.pick(rows), self.length[rows], self.positions[rows], samples)

    def keep(self, i: Tensor, knots: Tensor, seen: Tensor, positions: Tensor, samples: PathSamples) -> None:
        """What a round of the crossings i (m,) saw becomes the best so far where it is calmer."""
        better = (seen < self.length[i]).nonzero()[:, 0]
        rows = i[better]
        self.crossing.knots[rows], self.length[rows] = knots[better], seen[better]
        self.positions[rows] = positions[better, :SAMPLES]
        if self.samples is None:
            self.samples = samples.blank(len(self.length), SAMPLES)
        self.samples.put(rows, samples, better)


def cross_plateau(
    field: Field, rows: Tensor, crossing: Crossing, straight: Tensor, rounds: int, patience: int, spare: int, draw: int
) -> Crossed:
    """The calmest state of each crossing.

    An example leaves after two calm rounds, when it looks hopeless, or when only `spare` gradients are left.
    """
    goal = crossing.goal
    best = Crossed(crossing, torch.full_like(goal, torch.inf), goal.new_zeros(len(rows), SAMPLES))
    work = _Pushing(field, rows, crossing, draw)
    with field.stop.catch():
        for number in range(rounds):
            i = work.open(best.length, patience, number, spare)
            if not len(i):
                break
            knots = work.crossing.knots[i]
            best.keep(i, knots, *work.round(i, number))
            field.show(best.length / straight)
    return best


class _Pushing:
    def __init__(self, field: Field, rows: Tensor, crossing: Crossing, draw: int) -> None:
        self.field, self.rows, self.draw = field, rows, draw
        self.crossing = Crossing(**{**vars(crossing), "knots": crossing.knots.clone(), "push": crossing.push.clone()})
        self.momentum = torch.zeros_like(crossing.knots)
        self.last = torch.full_like(crossing.goal, torch.inf)
        self.calm = torch.zeros_like(rows)
        self.hard = crossing.goal.new_zeros(len(rows), 0)

    def open(self, best_length: Tensor, patience: int, number: int, spare: int) -> Tensor:
        """Which examples go on: (n,)."""
        live = (self.calm < 2) & self.field.affords(self.rows, ROUND_COST + spare)
        if number >= patience:
            live &= best_length < self.crossing.hopeless
        return live.nonzero()[:, 0]

    def round(self, i: Tensor, number: int) -> tuple[Tensor, Tensor, PathSamples]:
        """Sample the crossings i (n,), then push them.

        Their lengths (n,) before the push, and what was seen where, (n, samples) both.
        """
        crossing = self.crossing.pick(i)
        path = crossing.middle
        fresh, weights = self.field.spread_out(path, SAMPLES, self.draw + number)
        positions = torch.cat([fresh, self.hard[i]], 1)
        weights = torch.cat([weights, weights.mean(1, True).expand_as(self.hard[i])], 1)
        samples = self.field.sample(path, positions, self.rows[i])
        parts = samples.speed * weights  # (n, samples)
        # One old position may still cost more than all the fresh ones together.
        seen = torch.maximum(parts[:, :SAMPLES].sum(1), parts.amax(1))
        self.calm[i] = torch.where(seen <= CALM * crossing.goal, self.calm[i] + 1, 0)
        self.crossing.push[i] *= torch.where(seen > self.last[i], SHRINK, 1.0)
        self.last[i] = seen
        if self.hard.shape[1] == 0:
            self.hard = positions.new_zeros(len(self.rows), HARD)
        self.hard[i] = positions.gather(1, parts.argsort(1, descending=True)[:, :HARD])
        force = self._force(samples, positions, weights, crossing, number)
        calm = per_row(self.calm[i] >= 1, force)  # calm crossings stay, and are sampled again
        self.momentum[i] = torch.where(calm, 0, MOMENTUM * self.momentum[i] + force)
        self.crossing.knots[i] += per_row(self.crossing.push[i], force) * self.momentum[i]
        return seen, positions, samples

    def _force(
        self, samples: PathSamples, positions: Tensor, weights: Tensor, crossing: Crossing, number: int
    ) -> Tensor:
        """Gradients, given to the knots near the samples and spread along the path: like crossing.knots.

        Early rounds move the whole path, later ones single knots. The largest move is one.
        """
        knot = torch.arange(crossing.knots.shape[1]).to(positions)  # at position knot + 1
        hat = (1 - (positions[:, None] - knot[:, None] - 1).abs()).clamp_min(0)  # (n, knots, samples)
        width = max(len(knot) / (1 + number), 1.0)
        kernel = torch.exp(-(knot[:, None] - knot).abs() / width) + COMMON
        amount = weights * norms(samples.steps, 2) * crossing.sign[:, None]  # (n, samples)
        gradient = samples.gradient.reshape(*positions.shape, -1)  # (n, samples, all features)
        force = (kernel @ (hat * amount[:, None])) @ gradient
        force = self.field.smooth(force.view_as(crossing.knots))
        return force / per_row(norms(force, 2).amax(1).clamp_min(torch.finfo(force.dtype).tiny), force)
