"""What the library measures, found without it: shortest paths in closed form or from a fine grid, dense quadrature."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import eikonalfm
import numpy as np
import torch
from torch import Tensor

import leastpath as lp

# ---- scores: (batch, 2) -> (batch,) ------------------------------------------------------------------------------


def half_plane(x: Tensor) -> Tensor:
    """log x₁, so ‖∇f‖ = 1 / x₁: `Conformal` is the hyperbolic metric of the upper half-plane."""
    return x[:, 1].log()


def bump(x: Tensor) -> Tensor:
    """A Gaussian hill at the origin: shortest paths go round it. Undamped, they would go round by way of infinity."""
    return torch.exp(-(x**2).sum(1) / (2 * 0.4**2))


def ramp(x: Tensor) -> Tensor:
    """A sigmoid cliff along a wavy line: `Conformal` crosses it at right angles, `RankOne` anywhere."""
    return torch.sigmoid(5 * (x[:, 0] + 0.3 * torch.sin(2 * x[:, 1])))


def valley(x: Tensor) -> Tensor:
    """tanh of a saddle: steep on the diagonals, flat at the origin and along the axes' far ends."""
    return torch.tanh(x[:, 0] ** 2 - 0.5 * x[:, 1] ** 2 + 0.5 * x[:, 0])


# ---- the half-plane, in closed form ------------------------------------------------------------------------------


def half_plane_length(a: Tensor, b: Tensor) -> Tensor:
    """Hyperbolic distance between a (batch, 2) and b (batch, 2): (batch,)."""
    return torch.arccosh(1 + ((b - a) ** 2).sum(1) / (2 * a[:, 1] * b[:, 1]))


def half_plane_off_arc(points: Tensor, a: Tensor, b: Tensor) -> Tensor:
    """How far points (n, 2) are from the geodesic between a (2,) and b (2,): Euclidean, (n,).

    Geodesics are half-circles that meet the line x₁ = 0 at right angles, and vertical lines where both ends are above
    each other.
    """
    if a[0] == b[0]:
        return (points[:, 0] - a[0]).abs()
    centre = (b.square().sum() - a.square().sum()) / (2 * (b[0] - a[0]))
    from_centre = torch.stack([points[:, 0] - centre, points[:, 1]], 1)
    return (torch.linalg.vector_norm(from_centre, dim=1) - torch.hypot(a[0] - centre, a[1])).abs()


# ---- any conformal metric, by fast marching ----------------------------------------------------------------------


def grid_length(
    score: Callable[[Tensor], Tensor], damping: float, a: tuple[float, float], b: tuple[float, float]
) -> float:
    """Length of the shortest path from a to b under Conformal(damping) in the square [−2, 2]², on 1001 × 1001 nodes.

    Both ends must lie on the grid: multiples of 0.004. Paths that would leave the square are not found.
    """
    (i, j), spacing = _node(b), 4 / (GRID - 1)
    arrival = _arrival(score, damping, a)
    off_border = 0.05 / spacing < min(i, j, GRID - 1 - i, GRID - 1 - j)
    assert off_border, f"{b} is too near the border of the square"
    return float(arrival[i, j])


GRID = 1001


def _node(point: tuple[float, float]) -> tuple[int, int]:
    where = [(x + 2) / 4 * (GRID - 1) for x in point]
    rounded = [round(w) for w in where]
    assert max(abs(w - r) for w, r in zip(where, rounded, strict=True)) < 1e-6, f"{point} is not on the grid"
    return rounded[0], rounded[1]


@cache
def _arrival(score: Callable[[Tensor], Tensor], damping: float, a: tuple[float, float]) -> np.ndarray:
    """Arrival times at all nodes of a front that starts at a and moves at 1 / √(‖∇f‖² + damping)."""
    side = torch.linspace(-2, 2, GRID, dtype=torch.float64)
    points = torch.cartesian_prod(side, side).requires_grad_()
    (gradient,) = torch.autograd.grad(score(points).sum(), points)
    slowness = lp.Conformal(damping).speed(points, gradient, torch.eye(2).double()[0].expand_as(points))
    # Factored: the distance from the source is divided out, as its kink there would spoil the order everywhere.
    spacing = (4 / (GRID - 1),) * 2
    velocity = 1 / slowness.detach().reshape(GRID, GRID).numpy()
    factor = eikonalfm.factored_fast_marching(velocity, _node(a), spacing, 2)
    return factor * eikonalfm.distance(velocity.shape, spacing, _node(a), indexing="ij")


# ---- any path, by brute force ------------------------------------------------------------------------------------

SPEEDS: dict[str, Callable[[Tensor, Tensor, float], Tensor]] = {  # gradients, steps (n, features) and damping -> (n,)
    "Conformal": lambda g, step, eps: (g.square().sum(1) + eps).sqrt() * step.norm(dim=1),
    "RankOne": lambda g, step, eps: ((g * step).sum(1).square() + eps * step.square().sum(1)).sqrt(),
    "NoCancellation": lambda g, step, eps: (g * step).abs().sum(1) + eps**0.5 * step.norm(dim=1),
    "Euclidean": lambda g, step, eps: (1 + eps) ** 0.5 * step.norm(dim=1),
}


@dataclass(frozen=True)
class Dense:
    """What thousands of equal steps along one polyline add up to, with plain PyTorch."""

    values: Tensor  # (features,) the line integral of the gradient
    length: float
    spread: float  # largest minus smallest score on the way


def dense(score: Callable[[Tensor], Tensor], knots: Tensor, metric: lp.Metric, n: int = 20_000) -> Dense:
    """The midpoint rule in n steps along knots (knots, *features), in float64; score: (n, *features) -> (n,)."""
    knots = knots.detach().double()
    size = knots.diff(dim=0).flatten(1).norm(dim=1)
    each = (n * size / size.sum().clamp_min(1e-300)).ceil().long().clamp_min(8)  # steps a segment
    segment = torch.arange(len(size)).repeat_interleave(each)
    within = torch.arange(len(segment)) - (each.cumsum(0) - each)[segment]
    a, step = knots[:-1][segment], (knots.diff(dim=0) / each.view(-1, *[1] * (knots.ndim - 1)))[segment]
    middle = (a + (within + 0.5).view(-1, *[1] * (knots.ndim - 1)) * step).requires_grad_()
    value = score(middle)
    (gradient,) = torch.autograd.grad(value.sum(), middle)
    value = value.detach()
    speed = SPEEDS[type(metric).__name__](gradient.flatten(1), step.flatten(1), metric.damping)
    return Dense((gradient * step).sum(0), float(speed.sum()), float(value.max() - value.min()))
