"""Guided IG (Kapishnikov et al. 2021): features with small gradients move first, within a band around the line."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated

import torch
from torch import Tensor

from leastpath._support.checks import Count, Range, Settings
from leastpath._support.rows import flat_rows, precise
from leastpath.account.run import Run
from leastpath.geometry.metric import Metric
from leastpath.geometry.path import Path
from leastpath.score.score import BoundScore
from leastpath.solvers.solution import LINE, Solution, Stop, no_gradients_note, straight_with_note

CLOSE = 1e-9  # distances count as equal below it, absolute or relative, as in the reference implementation
ROUNDING = 16  # in units of eps times the total distance: sums over many features are not more exact
SOLVER_SHARE = 0.4  # of the budget; the integral needs as much for a first look, the rest is for the straight line
INTERRUPTED = f"interrupted while the path was walked: {LINE}"


@dataclass(frozen=True)
class GuidedIG(Settings):
    """Guided IG: each step moves the features of smallest gradient, until the step's share of the distance is reached.

    The path moves important features last, so that it avoids large gradients; a band around the straight line limits
    how far it deviates. The L1 distance to the input falls by the same amount in every step. It is integrated like
    every path, so its attributions are complete; the published sum takes the gradient at the start of each step.

    Args:
        fraction: of the features, those with the smallest |gradient|, that move at a time.
        max_distance: how far a feature may be ahead of the straight line or behind it, as a share of its distance.
            0: the straight line; 1: anywhere in the box between baseline and input.
        n_steps: knots after the baseline, one gradient each; at most two fifths of `max_gradients`, since the integral
            takes as many.

    Example:
        >>> import torch, leastpath as lp
        >>> score = lp.Score(lambda x: x[:, 0] + 10 * x[:, 1])
        >>> solver = lp.GuidedIG(fraction=0.5, max_distance=1.0, n_steps=2)
        >>> lp.attribute(score, torch.ones(1, 2), method=solver).path[0]
        tensor([[0., 0.],
                [1., 0.],
                [1., 1.]])
    """

    fraction: Annotated[float, Range(least=0, most=1)] = 0.25
    max_distance: Annotated[float, Range(least=0, most=1)] = 0.02
    n_steps: Count = 200

    def solve(self, score: BoundScore, metric: Metric, start: Tensor, end: Tensor, run: Run) -> Solution:
        """start, end (batch, *features) -> polylines of n_steps + 1 knots; `metric` only measures the result."""
        n = int(min(self.n_steps, run.budget(score).share(SOLVER_SHARE).least_left()))
        if n < min(2, self.n_steps):
            return straight_with_note(start, end, no_gradients_note(run))
        # Distances are compared to a part in 10⁹, which single precision cannot do.
        walk = _Front(precise(flat_rows(start)), precise(flat_rows(end)), self.fraction, self.max_distance)
        examples, knots, stop = torch.arange(len(start)), [start], Stop(run)
        with stop.catch(), run.bar("guided", n) as bar:
            for step in range(1, n + 1):
                point = walk.x.view_as(start).to(score.work_dtype)
                _, gradient = score.gradients(point, examples)
                walk.advance(precise(flat_rows(gradient)).abs(), step / n)
                knots.append(walk.x.view_as(start).to(start.dtype))
                bar.advance()
        if stop.caught:
            return straight_with_note(start, end, stop.note(INTERRUPTED))
        knots[-1] = end
        return Solution(Path.polyline(torch.stack(knots, 1)), stats={"n_steps": n})


class _Front:
    """The current points of the examples, (batch, features)."""

    def __init__(self, start: Tensor, end: Tensor, fraction: float, max_distance: float) -> None:
        self.x, self.start, self.end = start.clone(), start, end
        self.difference = end - start
        self.total = self.difference.abs().sum(1)  # (batch,)
        self.rounding = ROUNDING * torch.finfo(start.dtype).eps * self.total
        self.max_distance = max_distance
        self.rank = math.floor(fraction * (start.shape[1] - 1)) + 1  # of the largest gradient that may move

    def advance(self, size: Tensor, alpha: float) -> None:
        """One step, to the share `alpha` of the distance; `size` (batch, features) is |gradient|."""
        low, high = max(alpha - self.max_distance, 0.0), min(alpha + self.max_distance, 1.0)
        x_low = self.start + self.difference * low
        x_high = self.end if high == 1 else self.start + self.difference * high
        target = self.total * (1 - alpha)
        # Features too far behind the line move first, whatever their gradient.
        behind = (self.x - self.start) / torch.where(self.difference == 0, 1, self.difference) < low
        self.x = torch.where(behind & (self.difference != 0), x_low, self.x)
        walking = torch.ones_like(self.total, dtype=torch.bool)
        while True:
            distance = (self.end - self.x).abs().sum(1)
            allowed = torch.maximum(CLOSE * torch.maximum(distance, target), self.rounding).clamp_min(CLOSE)
            walking &= (distance - target).abs() > allowed
            size = torch.where(self.x == x_high, torch.inf, size)  # these are at their limit
            threshold = size.kthvalue(self.rank, dim=1, keepdim=True).values
            chosen = (size <= threshold) & (size < torch.inf)
            walking &= chosen.any(1)
            if not walking.any():
                return
            room = torch.where(chosen, (self.x - x_high).abs(), 0).sum(1)
            share = ((distance - target) / torch.where(room > 0, room, 1)).clamp(0, 1)
            share = torch.where(room > 0, share, 1)  # (batch,) how far the chosen ones go towards their limit
            moved = torch.where((share == 1)[:, None], x_high, self.x + (x_high - self.x) * share[:, None])
            self.x = torch.where(chosen & walking[:, None], moved, self.x)
            walking &= share == 1
