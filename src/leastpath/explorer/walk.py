"""The walk along a path: where one is, what the score says there, and what has been attributed so far.

It is computed once, at 41 places, so that the page needs no model to move along the path.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from leastpath._support.rows import flat_rows, per_row
from leastpath.geometry.path import Path
from leastpath.integral.pieces import Weighting
from leastpath.integral.running import integrate_along
from leastpath.score.score import BoundScore

PLACES = 41
IDLE = 0.05


@dataclass(frozen=True)
class Walk:
    """Numbers at `places` along a path, which are equally spaced by Euclidean length.

    Of several baselines, all is the mean over their paths.
    """

    places: Tensor
    """(k,) from 0 to 1."""
    points: Tensor
    """(k, *shape)"""
    scores: Tensor
    """(k,)"""
    gradient_norms: Tensor
    """(k,)"""
    attributed: Tensor
    """(k, *shape) from the start to here."""

    @property
    def idle(self) -> list[tuple[float, float]]:
        """Stretches where nothing happens.

        There, ‖∇f‖ · ‖γ̇‖ is below 5 % of its mean along the path, at both ends of every step. All of these stretches
        together have less than 5 % of the path's length under the model's metric.
        """
        quiet = self.gradient_norms < IDLE * self.gradient_norms.mean()
        steps = (quiet[:-1] & quiet[1:]).tolist()
        stretches: list[tuple[float, float]] = []
        for i, is_quiet in enumerate(steps):
            if not is_quiet:
                continue
            begin, end = float(self.places[i]), float(self.places[i + 1])
            if stretches and stretches[-1][1] == begin:
                begin = stretches.pop()[0]
            stretches.append((begin, end))
        return stretches

    def ending_at(self, values: Tensor, complete: bool = True) -> Walk:
        """The same walk, whose last sum is `values` (*shape), the result itself.

        The result is more exact than 41 places. Where a method is complete, what all features together have got is
        known at every place: the change of the score since the start. What a step lacks is divided by the sizes of its
        attributions, and what a feature still lacks at the end is put where steps lacked most.
        """
        values, attributed = values.to(self.attributed), self.attributed.clone()
        reached = self.places.to(attributed)  # of what is missing at the end, the share that is there at each place
        if complete:
            steps = attributed.diff(dim=0)
            lacking = self.scores.to(attributed).diff() - flat_rows(steps).sum(1)  # (steps,)
            sizes = flat_rows(steps.abs()).sum(1)
            share = per_row(
                torch.where(sizes > 0, lacking / sizes.clamp_min(torch.finfo(sizes.dtype).tiny), 0.0), steps
            )
            attributed[1:] += (share * steps.abs()).cumsum(0)
            if bool(lacking.any()):
                reached = torch.cat([lacking.new_zeros(1), lacking.abs().cumsum(0)]) / lacking.abs().sum()
        attributed += per_row(reached, attributed) * (values - attributed[-1])
        attributed[-1] = values  # without a rounding error
        return replace(self, attributed=attributed)


def walk_along(bound: BoundScore, path: Path, weighting: Weighting | None = None, places: int = PLACES) -> Walk:
    """Walk along the paths of one example, one for each of its baselines.

    Costs one gradient per place and path. `bound` has one row per path.
    """
    found = integrate_along(bound, path, places, weighting)
    points, scores, sizes, attributed = (part.mean(0) for part in found[1:5])
    return Walk(found.places, points, scores, sizes, attributed)


def shares_moved(points: Tensor, start: Tensor, end: Tensor, features: Tensor, n: int) -> Tensor:
    """How far each feature has come from its start to its end, as a share: (k, *shape) -> (k, n).

    Example:
        >>> ends = torch.zeros(1, 2), torch.tensor([[2.0, 0.0]])
        >>> shares_moved(torch.tensor([[0.5, 0.0]]), *ends, torch.tensor([0, 1]), 2)
        tensor([[0.2500, 1.0000]])
    """
    way = flat_rows(end - start)
    index = features.flatten().to(way.device)
    along = points.new_zeros(len(points), n).index_add_(1, index, (flat_rows(points - start) * way).to(points))
    whole = points.new_zeros(1, n).index_add_(1, index, (way * way).to(points))
    return torch.where(whole > 0, along / whole.clamp_min(torch.finfo(points.dtype).tiny), 1.0)
