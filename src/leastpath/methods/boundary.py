"""Boundary IG (Wang et al. 2022): Integrated Gradients from the nearest point of another class."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from leastpath._support.checks import Count, Positive, Range, Settings
from leastpath._support.rows import flat_rows, norms, per_row
from leastpath.account.run import Budget, Run
from leastpath.geometry.metric import Metric
from leastpath.geometry.path import Path
from leastpath.methods.attack import Limits, check_limits, check_logits, clip_to
from leastpath.result.status import Note, Outcome
from leastpath.score.derivatives import output_gradients
from leastpath.score.score import BoundScore
from leastpath.solvers.solution import Solution

PUBLISHED = (36 / 255, 64 / 255, 0.3, 0.5, 0.7, 0.9, 1.1)
SOLVER_SHARE = 0.4  # of the budget; the rest is for the integral


@dataclass(frozen=True)
class BoundaryIG(Settings):
    """Boundary IG: the straight line from the nearest point found beyond the decision boundary. It takes no baselines.

    An attack, projected gradient ascent of the cross-entropy in Euclidean balls that grow, looks for a point of another
    class. The first that it finds counts, and bisection brings it to the boundary. Where the explained class is not the
    predicted one, the search is for a point where it is. The model's outputs are read as logits.

    Args:
        radii: of the balls, in the units of the inputs; the published ones are for images in [0, 1].
        attack_steps: of the attack in each ball, one gradient each.
        bisections: one forward each. 0: the attack's own point, as published.
        limits: the ends of the values' range, (0, 1) for images; None: no limits.

    Example:
        >>> import leastpath as lp
        >>> score = lp.Score(lambda x: torch.stack([x[:, 0], 0.2 + 0 * x[:, 0]], 1), target=0)
        >>> round(float(lp.attribute(score, torch.ones(1, 1), method=BoundaryIG()).values), 2)
        0.8
    """

    radii: tuple[Positive, ...] = PUBLISHED
    attack_steps: Count = 40
    bisections: Annotated[int, Range(least=0)] = 10
    limits: Limits = None

    chooses_start: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        check_limits(self.limits)
        if not self.radii:
            raise ValueError(f"radii={self.radii} must be positive: distances from the input, as in (0.3, 1.0)")

    def solve(self, score: BoundScore, metric: Metric, start: Tensor, end: Tensor, run: Run) -> Solution:
        """end (batch, *features) -> straight lines that end there; `start` is not used."""
        target, rows = score.classes("boundary_ig"), torch.arange(len(end))
        x = end.to(score.work_dtype)
        logits = check_logits(score.outputs(x, rows), "boundary_ig")
        predicted = logits.argmax(1).cpu() == target
        budget, found, beyond = run.budget(score).share(SOLVER_SHARE), x.clone(), torch.zeros(len(x), dtype=torch.bool)
        with run.bar("boundary", len(self.radii)) as bar:
            for radius in self.radii:
                left = rows[~beyond]
                if len(left):
                    found[left], beyond[left] = self._attack(score, x, left, target, predicted, radius, budget)
                bar.advance()
        found[beyond] = self._nearest(score, x, found, rows[beyond], target, predicted)
        failed = f"no other class was found within {self.radii[-1]:g}: the path starts where the search ended"
        notes = tuple(() if ok else (Note(Outcome.SOLVER_NOTE, failed),) for ok in beyond.tolist())
        stats = {"boundary_found": beyond, "distance": norms(flat_rows(found - x), 1)}
        return Solution(Path.straight(found.to(end.dtype), end), notes, stats)

    def _attack(
        self, score: BoundScore, x: Tensor, rows: Tensor, target: Tensor, predicted: Tensor, radius: float,
        budget: Budget,
    ) -> tuple[Tensor, Tensor]:  # fmt: skip
        """The ascent in one ball around each example of `rows`: points, and whether they crossed the boundary."""
        point, crossed, walking = x[rows].clone(), torch.zeros(len(rows), dtype=torch.bool), torch.arange(len(rows))
        for _ in range(self.attack_steps):
            walking = walking[budget.affords(1, rows[walking])]
            if not len(walking):
                break
            at = rows[walking]
            sign = torch.where(predicted[at], 1.0, -1.0).to(x)  # away from the class, or to it
            goal = target[at].to(x.device)

            def loss(outputs: Tensor, part: slice, goal: Tensor = goal, sign: Tensor = sign) -> Tensor:
                return sign[part] * cross_entropy(outputs, goal[part], reduction="none")

            outputs, up = output_gradients(score, point[walking], at, loss)
            over = (outputs.argmax(1).cpu() == target[at]) != predicted[at]
            crossed[walking[over]] = True
            walking, up, at = walking[~over], up[~over], at[~over]
            size = norms(flat_rows(up), 1).clamp_min(torch.finfo(up.dtype).tiny)
            away = point[walking] + per_row(2 * radius / self.attack_steps / size, up) * up - x[at]
            shrink = (radius / norms(flat_rows(away), 1).clamp_min(1e-30)).clamp_max(1)
            point[walking] = clip_to(x[at] + per_row(shrink, away) * away, self.limits)
        if len(walking):
            at = rows[walking]
            crossed[walking] = (score.outputs(point[walking], at).argmax(1).cpu() == target[at]) != predicted[at]
        return point, crossed

    def _nearest(
        self, score: BoundScore, x: Tensor, found: Tensor, rows: Tensor, target: Tensor, predicted: Tensor
    ) -> Tensor:
        """The nearest point beyond the boundary between x and what was found, by bisection: (rows, *features)."""
        near, far = torch.zeros(len(rows)).to(x), torch.ones(len(rows)).to(x)
        for _ in range(self.bisections if len(rows) else 0):
            middle = (near + far) / 2
            point = torch.lerp(x[rows], found[rows], per_row(middle, x))
            over = (score.outputs(point, rows).argmax(1).cpu() == target[rows]) != predicted[rows]
            over = over.to(x.device)
            near, far = torch.where(over, near, middle), torch.where(over, middle, far)
        return torch.lerp(x[rows], found[rows], per_row(far, x))
