"""The straight line: plain Integrated Gradients."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from leastpath.account.run import Run
from leastpath.geometry.metric import Metric
from leastpath.geometry.path import Path
from leastpath.score.score import BoundScore
from leastpath.solvers.solution import Solution


@dataclass(frozen=True)
class StraightLine:
    """The straight line from baseline to input. Costs no gradients to find.

    Example:
        >>> import torch, leastpath as lp
        >>> score = lp.Score(torch.nn.Linear(3, 2).eval(), target=0)
        >>> lp.attribute(score, torch.ones(1, 3), method=lp.StraightLine()).values.shape
        torch.Size([1, 3])
    """

    def solve(self, score: BoundScore, metric: Metric, start: Tensor, end: Tensor, run: Run) -> Solution:
        """start, end (batch, *features) -> two knots per example."""
        return Solution(Path.straight(start, end))
