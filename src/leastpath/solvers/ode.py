"""The geodesic equation, solved by collocation: an independent check of the other solvers in low dimension.

A shortest path of a damped metric obeys an ordinary differential equation with both ends given. With q = ‖∇f‖² + ε and
the Hessian H of the score, at constant speed under the metric it is

    Conformal   γ'' = ‖γ'‖² a − 2 (a·γ') γ',    a = ∇log √q = H∇f / q
    RankOne     γ'' = −(γ'ᵀHγ') ∇f / q

At that speed the path moves very fast where the score is flat, and needs a fine mesh. So it is solved at constant
Euclidean speed: the same curves, with γ'' replaced by its component across γ'. For a large ε the solution is the
straight line; ε is then lowered in stages to the metric's own, each solution the first guess of the next.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Annotated

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from leastpath._support.checks import Count, Range, Settings
from leastpath.account.run import Bar, Budget, Run
from leastpath.geometry.metric import Conformal, Metric, RankOne
from leastpath.geometry.path import Path
from leastpath.result.status import Note, Outcome
from leastpath.score.score import BoundScore
from leastpath.solvers.solution import Solution, Stop, join_blocks

Array = NDArray[np.float64]

FIRST_DAMPING = 10.0  # × the mean squared gradient along the line: hardly bent, so the line is a good first guess
FIRST_NODES = 11  # of the mesh; collocation adds nodes where the residual is large
STEADY_RATIO = 10.0  # damping is divided by this from stage to stage …
LEAST_RATIO = 1.5  # … or by less after a failure, down to this
BOWS = (0.25, 0.5, 1.0)  # heights that a bowed first guess may have, as shares of the distance between the ends
BOWED_DAMPING = 0.1  # × the mean squared gradient along the line: where a bowed guess begins
PATIENCE = 50  # a stage may spend this × max_nodes × (features + 1) gradients; stages that converge need far less
SOLVER_SHARE = 0.75  # of the budget; the rest measures the path
CLEARLY = 0.01  # relative: how much shorter a path of more damping must be than one of the target damping
SHORTER = 1e-4  # relative: for a path that saves less, the straight line is used
GAUSS_NODES, GAUSS_WEIGHTS = np.polynomial.legendre.leggauss(3)


@dataclass(frozen=True)
class GeodesicODE(Settings):
    """Solves the geodesic equation with both ends given, for `Conformal` and `RankOne`: smooth scores, few features.

    The direct solver of the paper's discussion. It finds curves that are shortest among their neighbours, which need
    not be the shortest of all. So it tries several first guesses and returns the shortest result. It is for checking
    other solvers: it costs thousands of gradients per example, and kinks (ReLU) end it early, with a note.

    Args:
        n_knots: knots of the returned polyline, equally spaced.
        n_starts: first guesses: the straight line, then bows to both sides of it, the shortest first.

    Rarely needed:
        floor: the damping is never below this share of the mean squared gradient along the line, because the equation
            needs a metric that is nowhere zero. The path's length is always measured with the metric's own damping.
        tolerance: relative residual that collocation must reach.
        max_nodes: of the collocation mesh; if they are too few, the last solution with more damping is used.
        max_features: inputs with more are refused: a Jacobian costs three gradients per feature and node.

    Example:
        >>> import torch, leastpath as lp
        >>> half_plane = lp.Score(lambda x: x[:, 1].log())  # ‖∇f‖ = 1 / x₁: shortest paths are arcs of circles
        >>> ends = torch.tensor([[-1.0, 1.0]]), torch.tensor([[1.0, 1.0]])
        >>> result = lp.attribute(half_plane, ends[1], ends[0], method=lp.GeodesicODE())
        >>> print(f"{float(result.length):.2f}")  # arcosh 3
        1.76
    """

    n_knots: Annotated[int, Range(least=3)] = 65
    n_starts: Count = 3
    floor: Annotated[float, Range(above=0, below=1, hint="a share of the mean squared gradient")] = 1e-4
    tolerance: Annotated[float, Range(above=0, below=1, hint="a relative residual")] = 1e-2
    max_nodes: Annotated[int, Range(above=FIRST_NODES, hint="where the mesh starts")] = 200
    max_features: Count = 20

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
        parts, stop = [], Stop(run)
        with run.bar("geodesics", len(start)) as bar:
            for b in range(len(start)):
                search = _Search(self, score, metric, b, start[b : b + 1], end[b : b + 1], stop)
                with stop.catch():
                    if not stop.caught:
                        search.go(bar)
                bar.advance(note=f"length ratio {search.ratio:.3g}")
                parts.append((torch.tensor([b]), search.solution()))
        return join_blocks(parts)


class _BudgetSpent(Exception):
    """The next gradients would exceed the solver's share of the budget."""


class _Diverged(Exception):
    """Collocation has left the domain of the score, or does not come to an end."""


@dataclass
class _Equation:
    """The geodesic equation of one example as y' = F(y), y = (γ, γ'), for scipy: y is (2 · features, nodes)."""

    score: BoundScore
    metric: Conformal | RankOne
    example: int
    h: float  # step of the differences of gradients
    k: float  # step of the differences of those, for the Jacobian
    budget: Budget
    damping: float = 0.0  # ε of the stage
    patience: Budget | None = None  # of the stage
    _seen: dict[bytes, tuple[Array, Array]] = field(default_factory=dict)

    def gradients(self, points: Array) -> tuple[Array, Array]:
        """∇f at `points` (m, features), and the points as the model's precision rounds them."""
        if not self.budget.affords(len(points), self.example):
            raise _BudgetSpent
        if self.patience is not None and not self.patience.affords(len(points), self.example):
            raise _Diverged
        rows = torch.as_tensor(points).to(self.score.dtype)
        try:
            _, gradient = self.score.gradients(
                rows.reshape(-1, *self.score.shape).to(self.score.device), torch.full((len(rows),), self.example)
            )
        except ValueError:  # not finite: a trial step of collocation left the domain of the score
            return np.full_like(points, np.nan), points
        return gradient.reshape(points.shape).cpu().double().numpy(), rows.double().numpy()

    def bend(self, x: Array, v: Array) -> tuple[Array, Array]:
        """∇f and H u at x (m, features), where u is the unit vector along ∇f (Conformal) or v (RankOne)."""
        conformal = isinstance(self.metric, Conformal)
        key = x.tobytes() if conformal else x.tobytes() + v.tobytes()
        if key in self._seen:
            return self._seen[key]
        m = len(x)
        gradient = self.gradients(x)[0] if conformal else v
        u = _unit(gradient)
        g, at = self.gradients(np.concatenate([x + self.h * u, x - self.h * u]))
        if not conformal:
            gradient = (g[:m] + g[m:]) / 2  # as exact as the differences, at no extra cost
        moved = _dot(at[:m] - at[m:], u)  # 2h up to rounding
        slope = np.where(moved > 0, (g[:m] - g[m:]) / np.where(moved > 0, moved, 1), 0)
        # Collocation asks again for the last nodes and midpoints: for the Jacobian, and in the next stage.
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
        shifted = (x[None] + self.k * np.eye(n)[:, None]).reshape(n * m, n)
        base = self.acceleration(x, v)
        kept = self._seen
        by_x = (self.acceleration(shifted, np.tile(v, (n, 1))).reshape(n, m, n) - base) / self.k
        self._seen = kept
        jacobian = np.zeros((2 * n, 2 * n, m))
        jacobian[:n, n:] = np.eye(n)[:, :, None]
        jacobian[n:, :n] = by_x.transpose(2, 0, 1)  # from (moved, node, component)
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


@dataclass(frozen=True)
class _Found:
    """A path: its polyline, its length under the metric itself, and the damping it was found at."""

    knots: Array  # (n_knots, features)
    length: float
    damping: float  # infinite: a first guess, not a solution
    nodes: int


@dataclass(frozen=True)
class _Mesh:
    """A guess or a solution on the mesh of collocation."""

    t: Array  # (nodes,)
    y: Array  # (2 · features, nodes)
    length: float  # under the metric itself


class _Search:
    """The search for one example's shortest path: stages of falling damping from every first guess."""

    def __init__(
        self, solver: GeodesicODE, score: BoundScore, metric: Conformal | RankOne, example: int, start: Tensor,
        end: Tensor, stop: Stop,
    ) -> None:  # fmt: skip
        self.solver, self.stop, self.start, self.end = solver, stop, start, end
        self.a, self.b = (x.reshape(-1).cpu().double().numpy() for x in (start, end))
        self.distance = float(np.linalg.norm(self.b - self.a))
        # A step is short enough for a score that varies over a tenth of the distance, and long enough for rounding.
        size = max(self.distance, 1e-2 * float(np.abs([self.a, self.b]).max()))
        share = 0.2 * score.eps ** (1 / 3)
        budget = stop.run.budget(score).share(SOLVER_SHARE)
        self.equation = _Equation(score, metric, example, share * size, 10 * share * size, budget)
        self.line_length = np.nan
        self.target = np.nan  # damping to end at
        self.typical = 0.0  # mean squared gradient along the line
        self.best: _Found | None = None
        self.ended = ""  # why the search stopped early; empty where it did not

    @property
    def ratio(self) -> float:
        """Length over the line's, as sampled."""
        return self.best.length / self.line_length if self.best is not None and self.line_length > 0 else 1.0

    @property
    def bent(self) -> bool:
        """Whether a path was found that is shorter than the straight line."""
        return self.best is not None and self.ratio < 1 - SHORTER

    def go(self, bar: Bar) -> None:
        """Search until done, out of budget or interrupted."""
        if self.distance == 0 or len(self.a) == 1:  # no path to bend, or no direction to bend it in
            return
        try:
            with np.errstate(all="ignore"):  # trial steps may overflow; only whether they converge matters
                line = self.a + np.linspace(0, 1, self.solver.n_knots)[:, None] * (self.b - self.a)
                self.line_length, squares = self._measure(line)
                self.typical = float(squares.mean())
                self.target = max(self.equation.metric.damping, self.solver.floor * self.typical)
                for guess, dampings in self._guesses() if self.typical > 0 else ():
                    for damping in dampings:  # until a result is no longer than the guess
                        if self._lower_damping(guess, damping, bar) <= guess.length:
                            break
        except _BudgetSpent:
            self.ended = "budget"

    def _measure(self, knots: Array, damping: float | None = None) -> tuple[float, Array]:
        """Length of a polyline (knots, features), and ‖∇f‖² where it was sampled. None: the metric's own damping."""
        metric = self.equation.metric if damping is None else replace(self.equation.metric, damping=damping)
        step = np.diff(knots, axis=0)
        t = (1 + GAUSS_NODES) / 2
        points = (knots[:-1, None] + t[:, None] * step[:, None]).reshape(-1, knots.shape[1])
        steps = (GAUSS_WEIGHTS[:, None] / 2 * step[:, None]).reshape(points.shape)
        gradients, _ = self.equation.gradients(points)
        speed = metric.speed(*(torch.as_tensor(x) for x in (points, gradients, steps)))
        length = float(speed.sum())
        return length if np.isfinite(length) else np.inf, (gradients**2).sum(1)

    def _guesses(self) -> Iterator[tuple[_Mesh, list[float]]]:
        """First guesses, each with the dampings that it may begin at."""
        first = max(self.target, FIRST_DAMPING * self.typical)
        t = np.linspace(0, 1, FIRST_NODES)
        line = np.concatenate([np.outer(self.a, 1 - t) + np.outer(self.b, t), np.outer(self.b - self.a, 1 + 0 * t)])
        yield _Mesh(t, line, self.line_length), [first]
        if self.best is None:  # failed even near the line: kinks, or a score with other scales than the line's
            return
        # With little damping at once a bow may diverge; with much it returns to the line.
        later = sorted({self.target, max(self.target, BOWED_DAMPING * self.typical)}, reverse=True)
        fine = np.linspace(0, 1, self.solver.n_knots)[:, None]
        for side in self._sides(t):
            bow = np.concatenate([np.outer(side, np.sin(np.pi * t)), np.outer(side, np.pi * np.cos(np.pi * t))])
            knots = self.a + fine * (self.b - self.a) + np.sin(np.pi * fine) * side
            yield _Mesh(t, line + bow, self._keep(knots, np.inf, 0)), later

    def _sides(self, t: Array) -> list[Array]:
        """The bows of first guesses: the best height of each side of the line, then the second best of each, …"""
        wanted, along = self.solver.n_starts - 1, (self.b - self.a) / self.distance
        line, shape = self.a + t[:, None] * (self.b - self.a), np.sin(np.pi * t)[:, None]
        ranked: list[tuple[int, float, Array]] = []
        for draw in range(min((wanted + 1) // 2, len(along) - 1)):  # two features have only one direction across
            noise = self.stop.run.noise((len(along),), torch.zeros(1, dtype=torch.float64), draw).numpy()
            across = self.distance * _unit((noise - (noise @ along) * along)[None])[0]
            for side in (across, -across):
                bows = [(self._measure(line + shape * h * side, self.target)[0], h) for h in BOWS]
                ranked += [(rank, length, h * side) for rank, (length, h) in enumerate(sorted(bows))]
        return [bow for *_, bow in sorted(ranked, key=lambda entry: entry[:2])[:wanted]]

    def _lower_damping(self, guess: _Mesh, damping: float, bar: Bar) -> float:
        """Lower the damping to the target, or as far as possible: the length at the target, infinite if not reached."""
        solved, ratio = self._stage(guess, damping, bar), STEADY_RATIO
        while solved is not None and damping > self.target and ratio > LEAST_RATIO:
            lower = max(self.target, damping / ratio)
            following = self._stage(solved, lower, bar)
            if following is not None:
                solved, damping = following, lower
            else:
                ratio = ratio**0.5
        return np.inf if solved is None or damping > self.target else solved.length

    def _stage(self, guess: _Mesh, damping: float, bar: Bar) -> _Mesh | None:
        """The solution at one damping, or None if collocation fails."""
        from scipy.integrate import solve_bvp  # a fifth of a second to import, and only this solver needs it

        equation, n = self.equation, len(self.a)
        equation.damping = damping
        equation.patience = equation.budget.at_most(PATIENCE * self.solver.max_nodes * (n + 1))
        by_start = np.eye(2 * n) * (np.arange(2 * n) < n)[:, None]
        try:
            solved = solve_bvp(
                equation.derivative,
                lambda ya, yb: np.concatenate([ya[:n] - self.a, yb[:n] - self.b]),
                guess.t,
                guess.y,
                fun_jac=equation.jacobian,
                bc_jac=lambda ya, yb: (by_start, np.roll(by_start, n, axis=0)),
                tol=self.solver.tolerance,
                max_nodes=self.solver.max_nodes,
            )
        except _Diverged:
            return None
        finally:
            equation.patience = None
        if not solved.success:
            return None
        length = self._keep(solved.sol(np.linspace(0, 1, self.solver.n_knots))[:n].T, damping, len(solved.x))
        bar.advance(0, f"length ratio {self.ratio:.3g}, damping {damping:.2g}")
        return _Mesh(solved.x, solved.y, length)

    def _keep(self, knots: Array, damping: float, nodes: int) -> float:
        """Measure a polyline, and remember it if it is the best so far."""
        knots[0], knots[-1] = self.a, self.b
        length, _ = self._measure(knots)
        found = _Found(knots, length, damping, nodes)
        if length < np.inf and (self.best is None or self._rank(found) < self._rank(self.best)):
            self.best = found
        return length

    def _rank(self, found: _Found) -> float:
        """Its length. A path of more damping than the target must be clearly shorter to win."""
        return found.length * (1 if found.damping <= self.target else 1 + CLEARLY)

    def solution(self) -> Solution:
        """The best path found, or the straight line, with a note."""
        best, note, start = self.best, self._note(), self.start
        stats = {
            "damping": torch.tensor([best.damping if best else np.nan]),
            "nodes": torch.tensor([best.nodes if best else 0]),
        }
        notes = ((note,) if note else (),)
        if best is None or not self.bent:
            return Solution(Path.straight(start, self.end), notes, stats)
        inner = torch.as_tensor(best.knots[1:-1]).to(start.dtype).to(start.device)
        knots = torch.cat([start, inner.reshape(-1, *start.shape[1:]), self.end])
        return Solution(Path.polyline(knots[None]), notes, stats)

    def _note(self) -> Note | None:
        best, solver = self.best, self.solver
        used = f"the best path so far is {self.ratio:.3g} × the line" if self.bent else "the straight line was used"
        if self.stop.caught:
            return self.stop.note(f"interrupted in the search for a geodesic: {used}")
        if self.ended == "budget":
            budget = f"the budget max_gradients={self.stop.run.max_gradients}"
            sentence = f"{budget} ended the search for a geodesic: {used}; raise it"
            return Note(Outcome.BUDGET_SPENT if self.bent else Outcome.FELL_BACK, sentence)
        if not self.typical > 0:  # no search was needed, or the score is flat: the line is as short as any path
            return None
        remedy = f"raise max_nodes={solver.max_nodes}, ask for more damping, or, if the score has kinks, use Descent"
        if best is None:
            sentence = "collocation failed even close to the straight line, which was used"
            return Note(Outcome.FELL_BACK, f"{sentence}; {remedy}")
        others = f"raise n_starts={solver.n_starts}, or use Descent"
        if best.damping == np.inf:
            sentence = f"a first guess ({self.ratio:.3g} × the line) is shorter than every geodesic found, and was used"
            return Note(Outcome.NOT_CONVERGED, f"{sentence}; {others}")
        if best.damping > self.target:
            sentence = f"collocation reached damping {best.damping:.2g}, not {self.target:.2g}: {used}"
            return Note(Outcome.NOT_CONVERGED if self.bent else Outcome.FELL_BACK, f"{sentence}; {remedy}")
        if self.ratio > 1 + SHORTER:
            sentence = f"the geodesic found is {self.ratio:.3g} × as long as the straight line, which was used"
            return Note(Outcome.FELL_BACK, f"{sentence}; {others}")
        return None
