"""Warm starts: a path that is known already, carried over to other ends."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from leastpath._support.rows import per_row
from leastpath.bound import BoundScore
from leastpath.metric import Metric
from leastpath.path import Path
from leastpath.run import Run
from leastpath.solution import Solution

if TYPE_CHECKING:
    from leastpath.solvers.descent.solver import Descent


@dataclass(frozen=True, eq=False)
class WarmDescent:
    """`Descent` that begins with the path of the nearest input that is solved already. Made by `Descent.warm`.

    The closer the inputs, the more of the path carries over: frames of a film, slightly changed rows of a table, the
    same inputs with a slightly changed model.

    Args:
        solver: what goes on from there.
        inputs: (n, *features) that are solved.
        paths: of n examples.

    Example:
        >>> import torch, leastpath as lp
        >>> score = lp.Score(lambda x: torch.sigmoid(20 * x.mean(1) - 10))
        >>> x = torch.ones(1, 30)
        >>> first = lp.attribute(score, x, solver=lp.Descent())
        >>> again = lp.attribute(score, 0.99 * x, solver=lp.Descent().warm(first, x))
        >>> bool(again.stats["solver_gradients"] <= first.stats["solver_gradients"])
        True
    """

    solver: Descent
    inputs: Tensor = field(repr=False)
    paths: Path = field(repr=False)

    def solve(self, score: BoundScore, metric: Metric, start: Tensor, end: Tensor, run: Run) -> Solution:
        """start, end (batch, *features) -> a polyline for each example."""
        if self.inputs.shape[1:] != end.shape[1:]:
            raise ValueError(
                f"the solved inputs have shape {tuple(self.inputs.shape)}, these {tuple(end.shape)}: "
                "expected the same features"
            )
        known = self.inputs.flatten(1).to(end.device, torch.float64)
        nearest = torch.cdist(end.flatten(1).double(), known).argmin(1).cpu()
        return replace(self.solver, start_from=self.paths.select(nearest)).solve(score, metric, start, end, run)


def carried_over(given: Path, examples: Tensor, start: Tensor, end: Tensor) -> list[Tensor]:
    """Paths between start and end (n, *features) that leave their lines as the given ones do: (knots, *features) each.

    `given` has one path for all or one for each example of the call, of which `examples` (n,) are meant.
    """
    if given.points.shape[1:] != start.shape[1:]:
        raise ValueError(
            f"start_from has points of shape {tuple(given.points.shape[1:])}, the inputs {tuple(start.shape[1:])}: "
            "expected the same features"
        )
    which = examples if len(given) > 1 else torch.zeros_like(examples)
    return [_carried(given[int(k)].to(start), a, b) for k, a, b in zip(which, start, end, strict=True)]


def _carried(path: Tensor, start: Tensor, end: Tensor) -> Tensor:
    """One polyline (knots, *features), its deviation from its own line added to the line from start to end."""
    if torch.equal(path[0], start) and torch.equal(path[-1], end):
        return path
    chord = path[-1] - path[0]
    # A knot belongs to the nearest point of its line, so that what happens next to an end stays next to it.
    along = ((path - path[0]) * chord).flatten(1).sum(1) / (chord**2).sum().clamp_min(torch.finfo(path.dtype).tiny)
    t = per_row(along.clamp(0, 1), path)
    moved = path + (1 - t) * (start - path[0]) + t * (end - path[-1])
    return torch.cat([start[None], moved[1:-1], end[None]])
