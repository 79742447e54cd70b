"""Lengths of polylines under a feature metric, and the force that shortens them.

A polyline is cut at its knots and at positions between them. Its length is the sum of the distances between the
features of neighbouring points. The derivative needs one first-order gradient a point.
"""

from __future__ import annotations

import torch
from torch import Tensor

from leastpath._support.rows import per_row
from leastpath.geometry.metric import FeatureMetric
from leastpath.score.bound import BoundScore
from leastpath.score.derivatives import pull_back, read_features


def sampled_chords(score: BoundScore, metric: FeatureMetric, knots: Tensor, examples: Tensor, t: Tensor) -> Tensor:
    """Lengths (rows,) of polylines (rows, knots, *features), cut at positions t (n,) in units of segments.

    Infinite where a feature is not finite: a bad place, not an error.
    """
    points, _, _ = _cut(knots, t)
    features = _features(score, metric, points, examples)
    chord = _chords(metric, features, points)
    return torch.where(torch.isfinite(chord), chord, torch.inf).sum(1).to(knots)


def chord_force(
    score: BoundScore, metric: FeatureMetric, knots: Tensor, examples: Tensor, t: Tensor
) -> tuple[Tensor, Tensor]:
    """`sampled_chords` (rows,) and its derivative by the knots (rows, knots, *features). Bad places pull nowhere.

    Costs a gradient a point between the ends. What the fixed ends would feel through the model is left out.
    """
    points, k, fraction = _cut(knots, t)
    features = _features(score, metric, points, examples)
    with torch.enable_grad():
        variables = [x.detach().requires_grad_() for x in (features, points)]
        chord = _chords(metric, *variables)
        by_features, by_points = torch.autograd.grad(chord.sum(), variables, allow_unused=True, materialize_grads=True)
    inner, pulls = points[:, 1:-1], by_features[:, 1:-1].nan_to_num(0, 0, 0)
    owners = examples.repeat_interleave(inner.shape[1])
    through = pull_back(score, inner.flatten(0, 1), owners, metric, pulls.flatten(0, 1)).view_as(inner)
    by_points[:, 1:-1] += through
    by_points = by_points.nan_to_num(0, 0, 0)
    share = per_row(fraction, by_points[0]).unsqueeze(0)
    pull = torch.zeros_like(knots)
    pull.index_add_(1, k, (1 - share) * by_points)
    pull.index_add_(1, k + 1, share * by_points)
    length = torch.where(torch.isfinite(chord), chord, torch.inf).detach().sum(1)
    return length.to(knots), pull


def _cut(knots: Tensor, t: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Points (rows, knots + n, *features) at the knots and at t (n,), in order; their segments and fractions."""
    segments = knots.shape[1] - 1
    places = torch.cat([torch.arange(segments + 1, device=t.device, dtype=t.dtype), t]).sort().values
    k = places.floor().long().clamp(0, segments - 1)
    fraction = places - k
    return torch.lerp(knots[:, k], knots[:, k + 1], per_row(fraction, knots[0]).unsqueeze(0)), k, fraction


def _features(score: BoundScore, metric: FeatureMetric, points: Tensor, examples: Tensor) -> Tensor:
    """(rows, n, *features) -> (rows, n, width)."""
    owners = examples.repeat_interleave(points.shape[1])
    return read_features(score, points.flatten(0, 1), owners, metric, strict=False).unflatten(0, points.shape[:2])


def _chords(metric: FeatureMetric, features: Tensor, points: Tensor) -> Tensor:
    """Distances (rows, n − 1) of neighbours, from features (rows, n, width) and points (rows, n, *features)."""
    before, after, steps = (x.flatten(0, 1) for x in (features[:, :-1], features[:, 1:], points.diff(dim=1)))
    return metric.distance(before, after, steps).view(len(points), -1)
