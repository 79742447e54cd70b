"""Points made for one example between its baseline and its input, if none are given."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from leastpath.account.run import Run
from leastpath.score.score import BoundScore

Generate = Literal["line", "sobol", "adaptive"]


def make_points(
    kind: Generate, n: int, spread: float, score: BoundScore, example: int, start: Tensor, end: Tensor, run: Run
) -> Tensor:
    """n points for one example with ends start and end (*features): (n, *features).

    The random numbers depend on the seed alone, so an example gets the same points in any batch.
    """
    a, b = (x.reshape(-1).to(score.work_dtype) for x in (start, end))
    if kind == "sobol":  # in the box around both ends, widened by `spread` of the distance on each side
        margin = spread * torch.linalg.vector_norm(b - a)
        low, high = torch.minimum(a, b) - margin, torch.maximum(a, b) + margin
        unit = torch.quasirandom.SobolEngine(a.numel(), scramble=True, seed=run.seed).draw(n)
        points = low + unit.to(a) * (high - low)
    elif kind == "line":
        points = _around_line(n, spread, a, b, run)
    else:
        points = _where_steep(n, spread, score, example, a, b, run)
    return points.reshape(n, *start.shape).to(start.dtype)


def _around_line(n: int, spread: float, a: Tensor, b: Tensor, run: Run) -> Tensor:
    """Points near the line, one in each n-th of it, at distances of about `spread` of its length: (n, features)."""
    t = (torch.arange(n, device=a.device, dtype=a.dtype) + run.uniform((n,), a, draw=1)) / n
    size = torch.linalg.vector_norm(b - a) * spread / a.numel() ** 0.5
    return a + t[:, None] * (b - a) + size * run.noise((n, a.numel()), a, draw=2)


def _where_steep(n: int, spread: float, score: BoundScore, example: int, a: Tensor, b: Tensor, run: Run) -> Tensor:
    """Half of the points around the line; the other half around those of them where the score is steepest."""
    first = _around_line(n - n // 2, spread, a, b, run)
    rows = first.reshape(-1, *score.shape)
    value, gradient = score.gradients(rows, torch.full((len(rows),), example), strict=False)
    steepness = torch.linalg.vector_norm(gradient.reshape(len(rows), -1), dim=1).cpu().double()
    finite = torch.isfinite(steepness) & torch.isfinite(value).cpu()  # no points where the score is not finite
    typical = steepness[finite].mean() if finite.any() else 0.0  # added, so that flat regions get points too
    share = (torch.where(finite, steepness + typical, 0) + 1e-300).cumsum(0)
    picks = torch.searchsorted(share / share[-1], (torch.arange(n // 2) + 0.5) / (n // 2)).clamp_max(len(rows) - 1)
    # As far apart as the points along the line: near enough to resolve what is steep there.
    step = torch.linalg.vector_norm(b - a) / len(first) ** (1 / min(a.numel(), 2)) / a.numel() ** 0.5
    near = first[picks.to(first.device)] + step * run.noise((n // 2, a.numel()), a, draw=3)
    return torch.cat([first, near])
