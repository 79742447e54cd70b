"""SAMP and SAMP++ (Zhang et al. 2024): the salient manipulation path moves what changes the score most, first."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, Literal

import torch
from torch import Tensor

from leastpath._support.checks import Count, Range, Settings, Share
from leastpath.account.run import Run
from leastpath.features.groups import kind_of
from leastpath.geometry.metric import Metric
from leastpath.geometry.path import Path
from leastpath.score.score import BoundScore
from leastpath.solvers.solution import LINE, Solution, Stop, no_gradients_note, straight_with_note

Direction = Literal["insertion", "deletion"]
Step = Annotated[float, Range(least=1e-4, most=1, hint="10,000 steps at most")]
SOLVER_SHARE = 0.4  # of the budget; the integral needs as much for a first look, the rest is for the straight line
INTERRUPTED = f"interrupted while the path was walked: {LINE}"


@dataclass(frozen=True)
class SAMP(Settings):
    """SAMP: each step moves the few features whose move changes the score most, by the gradient, all the way.

    The score then changes early and in few features, so that attributions concentrate there. The pixels of an image and
    the tokens of a layer move as a whole. The path is integrated like every path. The published sum, which takes the
    gradient at the start of each step, is `METHODS["samp"]`.

    Args:
        direction: "insertion" walks from the baseline and moves what raises the score most. "deletion" walks from the
            input and moves what lowers it most; the path is that walk, backwards.
        n_portions: the features are moved in so many portions, one gradient each.
        max_step: the largest part of the whole L1 distance that one step may go, at least 0.0001: the infinitesimal
            constraint. Then the rest of a move waits for another step. None: no limit.
        momentum: weight of the new gradient in the running mean that chooses features. None: the new one alone.

    SAMP++ is `SAMP(max_step=0.02, momentum=0.5)`.

    Example:
        >>> import torch, leastpath as lp
        >>> score = lp.Score(lambda x: x[:, 0] + 10 * x[:, 1])
        >>> lp.attribute(score, torch.ones(1, 2), method=lp.SAMP(n_portions=2)).path[0]
        tensor([[0., 0.],
                [0., 1.],
                [1., 1.]])
    """

    direction: Direction = "insertion"
    n_portions: Count = 14
    max_step: Step | None = None
    momentum: Share | None = None

    @property
    def most_steps(self) -> int:
        """The most steps that it may take, with one gradient each."""
        return self.n_portions + (0 if self.max_step is None else math.ceil(1 / self.max_step))

    def solve(self, score: BoundScore, metric: Metric, start: Tensor, end: Tensor, run: Run) -> Solution:
        """start, end (batch, *features) -> polylines between them; `metric` only measures the result."""
        n = int(min(self.most_steps, run.budget(score).share(SOLVER_SHARE).least_left()))
        if n < 1:
            return straight_with_note(start, end, no_gradients_note(run))
        walk, stop = Manipulation(self, score, start, end), Stop(run)
        with stop.catch(), run.bar("samp", n) as bar:
            for _ in range(n):
                walk.step()
                bar.advance()
                if not len(walk.walking):
                    break
        if stop.caught:
            return straight_with_note(start, end, stop.note(INTERRUPTED))
        knots = [
            torch.stack([a, *(inner if self.direction == "insertion" else reversed(inner)), b])
            for a, inner, b in zip(start, walk.inner, end, strict=True)
        ]
        stats = {"n_steps": torch.tensor([len(inner) + 1 for inner in walk.inner])}
        return Solution(Path.ragged(knots), stats=stats)


class Manipulation:
    """The walk of a solver in its direction: points of the examples, as units of features that move together.

    `inner` are the knots between the ends, in the order of the walk.
    """

    def __init__(self, solver: SAMP, score: BoundScore, baseline: Tensor, point: Tensor) -> None:
        start, end = (baseline, point) if solver.direction == "insertion" else (point, baseline)
        self.solver, self.score, self.shape, self.dtype = solver, score, start.shape[1:], start.dtype
        self.sign = 1 if solver.direction == "insertion" else -1
        self.unit = _unit_of(score)
        self.x, self.end = (_units(point.to(score.work_dtype), self.unit) for point in (start, end))
        self.portion = max(1, math.ceil(self.x.shape[1] / solver.n_portions))
        self.total = (self.end - self.x).abs().flatten(1).sum(1)  # (batch,)
        self.mean: Tensor | None = None  # of the gradients met so far
        self.inner: list[list[Tensor]] = [[] for _ in start]
        self._sum = torch.zeros_like(self.x)  # of gradient × step
        self.walking = self._on_the_way(torch.arange(len(start)))

    def _on_the_way(self, rows: Tensor) -> Tensor:
        return rows[((self.x[rows] != self.end[rows]).flatten(1).any(1)).cpu()]

    def step(self) -> None:
        """One gradient and one move for each example that has not arrived."""
        rows = self.walking
        if not len(rows):
            return
        points = self._to_features(self.x[rows])
        gradient = self._average(_units(self.score.gradients(points, rows)[1], self.unit), rows)
        left = self.end[rows] - self.x[rows]  # (rows, units, width)
        gain = self.sign * (gradient * left).sum(2)
        gain = gain.masked_fill((left == 0).all(2), -torch.inf)
        best = gain.topk(self.portion, dim=1).indices
        chosen = torch.zeros_like(gain, dtype=torch.bool).scatter(1, best, True)
        move = left * chosen[..., None]
        size, whole = move.abs().flatten(1).sum(1), torch.ones(len(rows), device=move.device, dtype=torch.bool)
        if self.solver.max_step is not None:
            allowed = self.solver.max_step * self.total[rows]
            whole = size <= allowed * (1 + 1e-6)
            move = torch.where(whole[:, None, None], move, move * (allowed / size.clamp_min(1e-30))[:, None, None])
        arrived = (chosen & whole[:, None])[..., None]
        self.x[rows] = torch.where(arrived, self.end[rows], self.x[rows] + move)  # exactly there, without rounding
        self._sum[rows] += gradient * move
        self.walking = self._on_the_way(rows)
        for row in self.walking.tolist():
            self.inner[row].append(self._to_features(self.x[row : row + 1])[0].to(self.dtype, copy=True))

    def _average(self, gradient: Tensor, rows: Tensor) -> Tensor:
        weight = self.solver.momentum
        if weight is None:
            return gradient
        if self.mean is None:
            self.mean = torch.zeros_like(self.x)
            self.mean[rows] = gradient
        else:
            self.mean[rows] = weight * gradient + (1 - weight) * self.mean[rows]
        return self.mean[rows]

    @property
    def values(self) -> Tensor:
        """The published attributions (batch, *features): gradient × step, summed from the baseline to the input."""
        return self.sign * self._to_features(self._sum)

    def _to_features(self, units: Tensor) -> Tensor:
        """(n, units, width) -> (n, *features)."""
        return (units.mT if self.unit == "pixels" else units).reshape(len(units), *self.shape)


def _unit_of(score: BoundScore) -> Literal["pixels", "tokens", "features"]:
    kind = kind_of(score)
    return "pixels" if kind == "image" else "tokens" if kind == "tokens" else "features"


def _units(points: Tensor, kind: str) -> Tensor:
    """(n, *features) as (n, units, width): pixels with their channels, tokens with their width, or single features."""
    if kind == "pixels":
        return points.flatten(2).mT.clone()
    return points.clone() if kind == "tokens" else points.reshape(len(points), -1, 1).clone()
