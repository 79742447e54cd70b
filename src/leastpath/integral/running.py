"""The integral as it grows: what is attributed from the start of a path to each of some places along it."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from leastpath._support.rows import norms
from leastpath.geometry.path import Path
from leastpath.integral.pieces import PathIntegral, Weighting, WholePathWeighting, rule_nodes
from leastpath.score.score import BoundScore


class Running(NamedTuple):
    """Numbers at k places along each path, equally spaced by Euclidean length."""

    places: Tensor  # (k,) from 0 to 1
    points: Tensor  # (paths, k, *features)
    scores: Tensor  # (paths, k)
    sizes: Tensor  # (paths, k) ‖∇f‖
    values: Tensor  # (paths, k, *features) attributed so far


def integrate_along(score: BoundScore, path: Path, places: int, weighting: Weighting | None = None) -> Running:
    """Integrate from the start of each path to `places` along it, by the trapezoid rule: one gradient per place.

    On a straight line the last sums are those of `integrate(…, tolerance=None, n_steps=places, rule="trapezoid")`.

    Args:
        score: what is explained, with one row per path.
        path: one polyline per example.
        places: how many, the two ends among them.
        weighting: what a gradient adds to the attributions; the line integral by default.

    Example:
        >>> import leastpath as lp
        >>> bound = lp.Score(lambda x: x.prod(1)).bind(torch.ones(1, 2))
        >>> integrate_along(bound, Path.straight(torch.zeros(1, 2), torch.ones(1, 2)), 3).values[0, :, 0]
        tensor([0.0000, 0.1250, 0.5000])
    """
    weighting = weighting or PathIntegral()
    at = torch.linspace(0, 1, places, dtype=torch.float64)
    points = path.at(at).to(score.work_dtype)  # (paths, places, *features)
    scores, gradients = score.gradients(points.flatten(0, 1), torch.arange(len(path)).repeat_interleave(places))
    scores, gradients = scores.unflatten(0, (-1, places)), gradients.unflatten(0, (-1, places))
    steps, sizes = points.diff(dim=1), norms(gradients, 2)
    values = torch.stack([_sum_steps(*each, weighting) for each in zip(gradients, steps, strict=True)])
    if isinstance(weighting, WholePathWeighting):
        whole = torch.repeat_interleave(norms(steps, 2).sum(1), places)
        difference = (path.end - path.start).to(values).repeat_interleave(places, 0)
        values = weighting.conclude(values.flatten(0, 1), whole, difference).unflatten(0, (-1, places))
    return Running(at, points, scores, sizes, values)


def _sum_steps(gradients: Tensor, steps: Tensor, weighting: Weighting) -> Tensor:
    """From gradients (places, *features) at the ends of steps (places − 1, *features) to sums (places, *features)."""
    _, weights = rule_nodes("trapezoid", 2, gradients)
    ends = torch.stack([gradients[:-1], gradients[1:]], 1)  # (steps, 2, *features)
    each = torch.einsum("n,mn...->m...", weights, weighting.weigh(ends, steps[:, None]))
    parts = weighting.finish(each, steps)
    return torch.cat([torch.zeros_like(parts[:1]), parts]).cumsum(0)
