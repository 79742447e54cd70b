"""Shorten polylines under a metric, with first-order gradients only.

The force on a point is the change of speed there. Its part through the gradient, a Hessian-vector product, is a finite
difference of gradients along ∂speed/∂gradient: one more first-order gradient, which also sees the kinks of piecewise
linear nets, where double back-propagation sees nothing. Segments are sampled at positions that are drawn anew every
round, so that no cliff hides between knots; a step is taken only if it shortens the path on the positions of its round.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from leastpath._support.rows import draw_uniform, flat_rows, norms, per_row
from leastpath.account.run import Bar, Budget, Run
from leastpath.geometry.metric import FeatureMetric, Metric, compares_features, speed_of
from leastpath.geometry.path import Path
from leastpath.integral.integrator import integrate
from leastpath.score.derivatives import hessian_vector, pull_back, read_features
from leastpath.score.score import BoundScore

Hessian = Literal["finite_difference", "double_backward"]
FIRST_DRAW = 1000  # numbers of random draws, apart from those of other parts of a solver


@dataclass(frozen=True)
class Shortening:
    """How hard to try: rounds of one force and up to `tries` trial steps each."""

    rounds: int = 30
    samples: int = 2  # a segment
    tries: int = 4
    first_step: float = 0.05  # largest move of a knot, relative to the distance of the ends
    last_step: float = 1e-4  # an example whose steps have become smaller leaves
    difference: float = 5e-3  # step of the finite difference, relative to the distance of the ends
    hessian: Hessian = "finite_difference"
    resolution: int | None = None  # of the grid that moves of images are smoothed on

    @property
    def round_cost(self) -> int:
        """Gradients that a round may take, for each sample."""
        return self.tries + (2 if self.hessian == "finite_difference" else 3)


def shorten(
    score: BoundScore, metric: Metric, knots: Tensor, examples: Tensor, budget: Budget, run: Run, how: Shortening,
    bar: Bar | None = None,
) -> Tensor:  # fmt: skip
    """Polylines (batch, knots, *features) of `examples` (batch,), shorter or the same; the ends stay.

    An example leaves when `budget` does not pay for another round.
    """
    work = _Shortener(score, metric, knots.to(score.work_dtype).clone(), examples, budget, run, how)
    for number in range(how.rounds):
        if bar is not None:
            bar.advance(1, work.note())
        if not work.round(number):
            break
    return work.knots


class _Shortener:
    def __init__(
        self, score: BoundScore, metric: Metric, knots: Tensor, examples: Tensor, budget: Budget, run: Run,
        how: Shortening,
    ) -> None:  # fmt: skip
        self.score, self.metric, self.knots, self.examples = score, metric, knots, examples
        self.budget, self.run, self.how = budget, run, how
        self.distance = norms(knots[:, -1] - knots[:, 0], 1).clamp_min(torch.finfo(knots.dtype).tiny)  # (batch,)
        self.step = how.first_step * self.distance
        self.segments = knots.shape[1] - 1
        self.inverse = inverse_laplacian(self.segments - 1, knots)
        self.first = self.last = torch.full_like(self.distance, torch.nan)  # sampled lengths, for the display only

    def note(self) -> str:
        ratio = (self.last / self.first).nanmedian()
        return f"length {float(ratio):.3f} of the start" if torch.isfinite(ratio) else ""

    def round(self, number: int) -> bool:
        """One force, then steps that shorten. False when no example is left."""
        rows = (self.step > self.how.last_step * self.distance).nonzero()[:, 0]
        cost = self.how.round_cost * self.segments * self.how.samples
        rows = rows[self.budget.affords(cost, self.examples[rows.cpu()]).to(rows.device)]
        if not len(rows) or self.segments < 2:
            return False
        t = jitter_positions(self.run, self.segments, self.how.samples, self.knots, FIRST_DRAW + number)
        everyone = self.examples[rows.cpu()]
        now, pull = length_force(self.score, self.metric, self.knots[rows], everyone, t, self.how)
        move = -torch.einsum("kl,bl...->bk...", self.inverse, pull[:, 1:-1])
        move = move if self.how.resolution is None else coarse(move, self.how.resolution)
        move = _largest_one(move)
        self.first = torch.where(torch.isnan(self.first), self.first.index_put((rows,), now), self.first)
        self.last = self.last.index_put((rows,), now)
        todo = torch.arange(len(rows), device=rows.device)
        for _ in range(self.how.tries):
            trial = self.knots[rows[todo]].clone()
            trial[:, 1:-1] += per_row(self.step[rows[todo]], trial) * move[todo]
            length = sampled_length(self.score, self.metric, trial, self.examples[rows[todo].cpu()], t)
            better = length < now[todo]
            self.knots[rows[todo[better]]] = trial[better]
            # On a plateau every step is "better": none may be longer than the way itself.
            longer = self.step[rows[todo]] * torch.where(better, 1.5, 0.25).to(self.step)
            self.step[rows[todo]] = torch.minimum(longer, self.distance[rows[todo]])
            todo = todo[~better]
            if not len(todo):
                break
        return True


def jitter_positions(run: Run, segments: int, samples: int, like: Tensor, draw: int) -> Tensor:
    """Stratified random positions along a polyline, in units of segments, the same for every example: (n,)."""
    n = segments * samples
    jitter = draw_uniform(run.seed, (n,), like, draw)
    return (torch.arange(n, device=jitter.device, dtype=jitter.dtype) + jitter) / samples


def sampled_length(score: BoundScore, metric: Metric, knots: Tensor, examples: Tensor, t: Tensor) -> Tensor:
    """Lengths (rows,) of polylines (rows, knots, *features) by speeds at evenly spread positions t (n,).

    Endless where the score or its gradient is not finite: a bad place, not an error.
    """
    if compares_features(metric):
        return _sampled_chords(score, metric, knots, examples, t)
    points, steps, _, _ = _at(knots, t)
    flat = points.flatten(0, 1)
    gradient, finite = _gradients(score, metric, flat, examples.repeat_interleave(len(t)))
    speed = torch.where(finite, metric.speed(flat, gradient, steps.flatten(0, 1)), torch.inf)
    return speed.view(len(knots), -1).sum(1) * (knots.shape[1] - 1) / len(t)


def length_force(
    score: BoundScore, metric: Metric, knots: Tensor, examples: Tensor, t: Tensor, how: Shortening
) -> tuple[Tensor, Tensor]:
    """`sampled_length` (rows,) and its derivative by the knots, ends included: (rows, knots, *features).

    Costs two gradients per position, three with double back-propagation; under a feature metric one per position and
    knot. Bad places pull nowhere.
    """
    if compares_features(metric):
        return _chord_force(score, metric, knots, examples, t)
    points, steps, k, fraction = _at(knots, t)
    flat, flat_steps = points.flatten(0, 1), steps.flatten(0, 1)
    examples = examples.repeat_interleave(len(t))
    gradient, finite = _gradients(score, metric, flat, examples)
    speed, by_point, by_gradient, by_step = _speed_derivatives(metric, flat, gradient, flat_steps)
    if metric.needs_gradient and how.hessian == "double_backward":
        by_point = by_point + hessian_vector(score, flat, by_gradient, examples)
    elif metric.needs_gradient:
        reach = norms(knots[:, -1] - knots[:, 0], 1).repeat_interleave(len(t))
        # Within the segment's own scale, so that the difference looks at the ground that the segment crosses.
        h = torch.minimum(how.difference * reach, 0.1 * norms(flat_steps, 1)).clamp_min(1e-6 * reach)
        size = norms(by_gradient, 1).clamp_min(torch.finfo(h.dtype).tiny)
        ahead = flat + per_row(h / size, flat) * by_gradient
        there, finite_there = _gradients(score, metric, ahead, examples)
        # A Hessian times a vector, as a difference of gradients.
        by_point = by_point + per_row(torch.where(finite_there, size / h, 0), flat) * (there - gradient)
    by_point, by_step = (
        torch.where(per_row(finite, d), d, 0).nan_to_num(0, 0, 0).view_as(points) for d in (by_point, by_step)
    )
    share = per_row(fraction, by_point[0]).unsqueeze(0)
    pull = torch.zeros_like(knots)
    pull.index_add_(1, k, (1 - share) * by_point - by_step)
    pull.index_add_(1, k + 1, share * by_point + by_step)
    speed, segments = torch.where(finite, speed, torch.inf), knots.shape[1] - 1
    return speed.view(len(knots), -1).sum(1) * segments / len(t), pull * segments / len(t)


def _at(knots: Tensor, t: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Points and segment vectors (rows, n, *features) at positions t (n,), their segments and fractions (n,)."""
    k = t.floor().long().clamp(0, knots.shape[1] - 2)
    fraction = t - k
    a, b = knots[:, k], knots[:, k + 1]
    shape = (1, -1, *[1] * (knots.ndim - 2))
    return a + fraction.view(shape) * (b - a), b - a, k, fraction


def _gradients(score: BoundScore, metric: Metric, points: Tensor, examples: Tensor) -> tuple[Tensor, Tensor]:
    """The gradient (n, *features) where it is finite, as the score is, and whether it is (n,); zero elsewhere.

    A metric that does not look at it is given zeros, which cost nothing.
    """
    if not metric.needs_gradient:
        return torch.zeros_like(points), torch.ones_like(points.flatten(1)[:, 0], dtype=torch.bool)
    value, gradient = score.gradients(points, examples, strict=False)
    finite = torch.isfinite(value) & torch.isfinite(flat_rows(gradient)).all(1)
    return torch.where(per_row(finite, gradient), gradient, 0), finite


def _speed_derivatives(
    metric: Metric, point: Tensor, gradient: Tensor, step: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Speed (rows,) and its derivatives by point, gradient and step (rows, *features); any metric, by autograd."""
    with torch.enable_grad():
        variables = [x.detach().requires_grad_() for x in (point, gradient, step)]
        speed = speed_of(metric, *variables)
        if not speed.requires_grad:
            raise ValueError(f"{type(metric).__name__}.speed has no gradient: compute it from point, gradient and step")
        # A metric may ignore some of them.
        by = torch.autograd.grad(speed.sum(), variables, allow_unused=True, materialize_grads=True)
    return speed.detach(), by[0], by[1], by[2]


def coarse(images: Tensor, resolution: int) -> Tensor:
    """Averages of (…, height, width) on a grid of `resolution`², interpolated back: spatially smooth."""
    size = images.shape[-2:]
    planes = images.reshape(-1, 1, *size)
    grid = (min(resolution, size[0]), min(resolution, size[1]))
    pooled = nn.functional.adaptive_avg_pool2d(planes, grid)
    return nn.functional.interpolate(pooled, size=size, mode="bilinear", align_corners=False).view_as(images)


def inverse_laplacian(n: int, knots: Tensor) -> Tensor:
    """Of the interior knots (n, n): moves along it are smooth, so that a long path straightens in few rounds."""
    ones = torch.ones(max(n - 1, 0), dtype=torch.float64)
    laplacian = 2 * torch.eye(n, dtype=torch.float64) - torch.diag(ones, 1) - torch.diag(ones, -1)
    return torch.linalg.inv(laplacian).to(knots)


def shortest_of(score: BoundScore, metric: Metric, paths: Sequence[Path], run: Run) -> tuple[Tensor, Tensor]:
    """Which path is shortest for each example, and its length: (batch,) twice, measured by the integrator.

    Of equally long paths the first is taken. It is also taken where the budget does not pay for a look at every
    segment. Half of what is left now is not touched: it is for the integral.
    """
    budget = run.budget(score).share(0.5).shared_by(len(paths))
    able, grant = torch.stack([budget.affords(path.n_knots - 1) for path in paths]).all(0), budget.grant()
    quiet, lengths = Run(run.seed, run.max_gradients), []
    for path in paths:
        before = budget.spent()
        measured = integrate(score, path.only(able), metric, measure="length", max_gradients=grant, run=quiet)
        score.settle(before, measured.n_gradients)
        lengths.append(measured.length)
    best, which = torch.stack(lengths).min(0)
    return which.cpu(), best


def _largest_one(move: Tensor) -> Tensor:
    """Moves (batch, knots, *features) whose largest has norm 1; scaled first, since squares of tiny forces vanish."""
    tiny = torch.finfo(move.dtype).tiny
    scaled = move / per_row(move.flatten(1).abs().amax(1).clamp_min(tiny), move)
    return scaled / per_row(norms(scaled, 2).amax(1).clamp_min(tiny), move)


# ---- under a feature metric ----------------------------------------------------------------------------------------
# A polyline is cut at its knots and at positions between them. Its length is the sum of the distances between the
# features of neighbouring points. The derivative needs one first-order gradient per point.


def _sampled_chords(score: BoundScore, metric: FeatureMetric, knots: Tensor, examples: Tensor, t: Tensor) -> Tensor:
    """Lengths (rows,) of polylines (rows, knots, *features), cut at positions t (n,) in units of segments.

    Infinite where a feature is not finite: a bad place, not an error.
    """
    points, _, _ = _cut_at(knots, t)
    features = _features(score, metric, points, examples)
    chord = _chords(metric, features, points)
    return torch.where(torch.isfinite(chord), chord, torch.inf).sum(1).to(knots)


def _chord_force(
    score: BoundScore, metric: FeatureMetric, knots: Tensor, examples: Tensor, t: Tensor
) -> tuple[Tensor, Tensor]:
    """`sampled_chords` (rows,) and its derivative by the knots (rows, knots, *features). Bad places pull nowhere.

    Costs a gradient per point between the ends. What the fixed ends would feel through the model is left out.
    """
    points, k, fraction = _cut_at(knots, t)
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


def _cut_at(knots: Tensor, t: Tensor) -> tuple[Tensor, Tensor, Tensor]:
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
