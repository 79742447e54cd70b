"""The geodesic equation itself, solved by collocation: an independent check of the other solvers in low dimension.

A shortest path of a damped metric obeys an ordinary differential equation with both ends given. For q = ‖∇f‖² + ε and
the Hessian H of the score, the equations of motion at constant speed under the metric are

    Conformal   γ'' = ‖γ'‖² a − 2 (a·γ') γ',    a = ∇log √q = H∇f / q
    RankOne     γ'' = −(γ'ᵀHγ') ∇f / q

Only the component of γ'' across the path bends it; the component along it sets the pace. At constant speed under the
metric the path rushes through flat ground, which no mesh likes, so it is walked at constant Euclidean speed instead:
the same curves, with γ'' replaced by its component across γ'. For a large ε the solution is the straight line; ε is then
lowered step by step to the metric's own, each solution the first guess of the next.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.integrate import solve_bvp
from torch import Tensor

from leastpath.metric import Conformal, Metric, RankOne
from leastpath.path import Path
from leastpath.run import Bar, Run
from leastpath.score import BoundScore
from leastpath.solution import Solution, joined, straight_with_note
from leastpath.status import Note, Outcome

Array = NDArray[np.float64]

FIRST_DAMPING = 10.0  # × the mean squared gradient along the line: hardly bent, so the line is a good first guess
FIRST_NODES = 11  # of the mesh; collocation adds its own where the residual asks for more
STEADY_RATIO = 10.0  # damping is divided by this from stage to stage …
LEAST_RATIO = 1.3  # … or by less after a failure, down to this
BOW = 0.5  # height of a bowed first guess, as a share of the distance between the ends
BOWED_DAMPING = 0.1  # × the mean squared gradient: where a bowed guess begins if the target itself is out of reach
SOLVER_SHARE = 0.75  # of max_gradients; the rest measures the path
SHORTER = 1e-4  # relative: a path that saves less than this is the straight line
GAUSS_NODES, GAUSS_WEIGHTS = np.polynomial.legendre.leggauss(3)


@dataclass(frozen=True)
class GeodesicODE:
    """Solves the geodesic equation with both ends given, for `Conformal` and `RankOne`: smooth scores, few features.

    The direct solver of the paper's discussion. It finds curves that are shortest among their neighbours, which need
    not be the shortest of all: hence several first guesses, of which the shortest result is returned. Its worth is in
    checking other solvers: it costs thousands of gradients an example, and kinks (ReLU) end it early, with a note.

    Args:
        n_knots: knots of the returned polyline, equally spaced.
        n_starts: first guesses: the straight line, then bows to both sides of it, in pairs.

    Rarely needed:
        floor: the damping is never below this share of the mean squared gradient along the line: the equation needs a
            metric that is nowhere zero. The path's length is always measured under the metric as it is.
        tolerance: relative residual that collocation must reach.
        max_nodes: of the collocation mesh; where it is not enough, the last solution with more damping is used.
        max_features: refuse inputs with more: a Jacobian costs three gradients a feature and node.
        step: of the finite differences of gradients, as a share of the distance between the ends. None: by the
            precision of the inputs. A larger one rounds off the kinks of piecewise linear nets.

    Example:
        >>> import torch, leastpath as lp
        >>> half_plane = lp.Score(lambda x: x[:, 1].log())  # ‖∇f‖ = 1 / x₁: shortest paths are arcs of circles
        >>> ends = torch.tensor([[-1.0, 1.0]]), torch.tensor([[1.0, 1.0]])
        >>> result = lp.attribute(half_plane, ends[1], ends[0], solver=lp.GeodesicODE())
        >>> print(f"{float(result.length):.2f}")  # arcosh 3
        1.76
    """

    n_knots: int = 65
    n_starts: int = 3
    floor: float = 1e-4
    tolerance: float = 1e-3
    max_nodes: int = 300
    max_features: int = 20
    step: float | None = None

    def __post_init__(self) -> None:
        if self.n_knots < 3 or self.n_starts < 1:
            raise ValueError(f"n_knots={self.n_knots} must be at least 3 and n_starts={self.n_starts} at least 1")
        if not 0 < self.floor < 1:
            raise ValueError(f"floor={self.floor} must be between 0 and 1: a share of the mean squared gradient")
        if not 0 < self.tolerance < 1 or (self.step is not None and not 0 < self.step < 1):
            raise ValueError(f"tolerance={self.tolerance} and step={self.step} must be between 0 and 1")
        if self.max_nodes <= FIRST_NODES:
            raise ValueError(f"max_nodes={self.max_nodes} must be above {FIRST_NODES}, where the mesh starts")

    def solve(self, score: BoundScore, metric: Metric, start: Tensor, end: Tensor, run: Run) -> Solution:
        """start, end (batch, *features) -> a polyline of `n_knots` knots for each example, or its straight line."""
        if not isinstance(metric, Conformal | RankOne):
            raise ValueError(
                f"GeodesicODE knows the geodesic equations of Conformal and RankOne, got {metric!r}: "
                "pass metric=Conformal(), or use Descent or NeighborGraph"
            )
        if score.n_features > self.max_features:
            raise ValueError(
                f"GeodesicODE is for up to max_features={self.max_features} features, got {score.n_features}: "
                f"use Descent, or raise the limit with GeodesicODE(max_features={score.n_features})"
            )
        parts, interrupted = [], False
        with run.bar("geodesics", len(start)) as bar:
            for b in range(len(start)):
                ends = start[b : b + 1], end[b : b + 1]
                search = _Search(self, score, metric, b, *ends, run)
                if not interrupted:
                    interrupted = search.go(bar)
                else:
                    search.ended = "interrupted"
                bar.advance(note=f"length ratio {search.ratio:.3g}")
                parts.append((torch.tensor([b]), search.solution(*ends)))
        return _with_stats(parts)


def _with_stats(parts: list[tuple[Tensor, Solution]]) -> Solution:
    """One solution of all, whose stats have a number an example."""
    whole = joined(parts)
    keys = parts[0][1].stats
    stats = {key: torch.tensor([solution.stats[key] for _, solution in parts]) for key in keys}
    return Solution(whole.path, whole.notes, stats)


# ---- the equation ------------------------------------------------------------------------------------------------


class _BudgetSpent(Exception):
    """The next gradients would exceed the solver's share of the budget."""


class _Diverged(Exception):
    """Collocation asks for the Jacobian where the score is not finite."""


@dataclass
class _Equation:
    """The geodesic equation of one example as y' = F(y), y = (γ, γ'), for scipy: y is (2 · features, nodes)."""

    score: BoundScore
    metric: Conformal | RankOne
    example: int
    h: float  # step of the differences of gradients
    limit: float  # gradients that the example may have spent
    damping: float = 0.0  # ε of the stage
    _seen: dict[bytes, tuple[Array, Array]] = field(default_factory=dict)

    def gradients(self, points: Array) -> tuple[Array, Array]:
        """∇f at `points` (m, features), and the points as the model's precision rounds them."""
        if self.score.gradients_spent[self.example] + len(points) > self.limit:
            raise _BudgetSpent
        rows = torch.as_tensor(points).to(self.score.dtype)
        try:
            _, gradient = self.score.gradients(
                rows.reshape(-1, *self.score.shape).to(self.score.device), torch.full((len(rows),), self.example)
            )
        except ValueError:  # not finite: a trial step of collocation left the domain of the score and is taken back
            return np.full_like(points, np.nan), points
        return gradient.reshape(points.shape).double().cpu().numpy(), rows.double().numpy()

    def bend(self, x: Array, v: Array) -> tuple[Array, Array]:
        """∇f and H u at x (m, features), where u is the unit vector along ∇f (Conformal) or v (RankOne)."""
        conformal = isinstance(self.metric, Conformal)
        key = x.tobytes() if conformal else x.tobytes() + v.tobytes()
        if key in self._seen:
            return self._seen[key]
        gradient, _ = self.gradients(x)
        u = _unit(gradient if conformal else v)
        g, at = self.gradients(np.concatenate([x + self.h * u, x - self.h * u]))
        m = len(x)
        moved = ((at[:m] - at[m:]) * u).sum(1, keepdims=True)  # 2h up to rounding
        slope = np.where(moved > 0, (g[:m] - g[m:]) / np.where(moved > 0, moved, 1), 0)
        # Collocation comes back to the nodes and midpoints it has seen last: for the Jacobian, and in the next stage.
        self._seen = dict([*self._seen.items(), (key, (gradient, slope))][-4:])
        return gradient, slope

    def acceleration(self, x: Array, v: Array) -> Array:
        """γ'' at constant Euclidean speed, all (m, features)."""
        gradient, slope = self.bend(x, v)
        q = (gradient**2).sum(1, keepdims=True) + self.damping
        if isinstance(self.metric, Conformal):
            force = _dot(v, v) * slope * np.sqrt(_dot(gradient, gradient)) / q
        else:
            force = -_dot(v, v) * _dot(_unit(v), slope) * gradient / q
        return force - _dot(force, v) * v / _dot(v, v)

    def derivative(self, _t: Array, y: Array) -> Array:
        n = len(y) // 2
        return np.concatenate([y[n:], self.acceleration(y[:n].T.copy(), y[n:].T.copy()).T])

    def jacobian(self, _t: Array, y: Array) -> Array:
        """∂F/∂y (2 · features, 2 · features, nodes): by differences in γ, in closed form in γ'."""
        n, m = len(y) // 2, y.shape[1]
        x, v = y[:n].T.copy(), y[n:].T.copy()
        k = 10 * self.h  # differences of differences need a longer step
        shifted = (x[None] + k * np.eye(n)[:, None]).reshape(n * m, n)
        base = self.acceleration(x, v)
        kept = self._seen
        by_x = (self.acceleration(shifted, np.tile(v, (n, 1))).reshape(n, m, n) - base) / k  # (moved, node, component)
        self._seen = kept
        jacobian = np.zeros((2 * n, 2 * n, m))
        jacobian[:n, n:] = np.eye(n)[:, :, None]
        jacobian[n:, :n] = by_x.transpose(2, 0, 1)
        jacobian[n:, n:] = self._by_velocity(x, v).transpose(1, 2, 0)
        if not np.isfinite(jacobian).all():
            raise _Diverged
        return jacobian

    def _by_velocity(self, x: Array, v: Array) -> Array:
        """∂γ''/∂γ' (m, features, features)."""
        gradient, slope = self.bend(x, v)
        q = (gradient**2).sum(1, keepdims=True) + self.damping
        eye = np.eye(x.shape[1])
        if isinstance(self.metric, Conformal):
            a = slope * np.sqrt(_dot(gradient, gradient)) / q
            return 2 * _outer(a, v) - _outer(v, a) - _dot(a, v)[:, :, None] * eye
        speed2 = _dot(v, v)
        along = _dot(gradient, v) / speed2
        across = gradient - along * v
        hv = slope * np.sqrt(speed2)  # H γ'
        by_across = _outer(-v / speed2, gradient) - along[:, :, None] * eye + 2 * _outer(along * v / speed2, v)
        return -(2 * _outer(across, hv) + _dot(v, hv)[:, :, None] * by_across) / q[:, :, None]


def _dot(a: Array, b: Array) -> Array:
    return (a * b).sum(1, keepdims=True)


def _outer(a: Array, b: Array) -> Array:
    return a[:, :, None] * b[:, None, :]


def _unit(a: Array) -> Array:
    size = np.sqrt(_dot(a, a))
    return a / np.where(size > 0, size, 1)
