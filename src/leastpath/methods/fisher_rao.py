"""A path in the space of predictions: from the input towards the uniform distribution, in the Fisher–Rao geometry.

The idea is FRInGe's (Martino & Tschiatschek 2026): reference and schedule are predictions, not inputs, and the path in
input space follows by the pull-back of the Fisher metric, within trust regions. The step below is our own. Square roots
of probabilities are points of a sphere, and 2 arccos⟨√p, √q⟩ is the Fisher–Rao distance.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from leastpath._support.checks import Count, NotNegative, Positive, Settings
from leastpath._support.rows import flat_rows, norms, per_row
from leastpath.account.run import Run
from leastpath.geometry.metric import Metric
from leastpath.geometry.path import Path
from leastpath.methods.attack import Limits, check_limits, check_logits, clip_to
from leastpath.result.status import Note, Outcome
from leastpath.score.derivatives import output_gradients, push_forward
from leastpath.score.score import BoundScore
from leastpath.solvers.solution import Solution, straight_with_note

SOLVER_SHARE = 0.4  # of the budget; the rest is for the integral
HALVINGS = 4  # of a step that leaves its trust region
ARRIVED = 0.02  # of the first distance


@dataclass(frozen=True, eq=False)
class FisherRaoPath(Settings):
    """Steps along the natural gradient of the softmax, from the input towards a prediction that knows nothing.

    With φ = 2√softmax and its Jacobian J, a step δ solves min ‖J δ − v‖² + λ‖δ‖² by a few conjugate gradients, where v
    is the next piece of the great circle from φ(x) to the goal. Products Jᵀr are gradients, products J δ differences of
    two forwards. A step is cut to `max_step`, and halved while it moves the prediction more than twice as far as asked
    (the trust radius) or brings it no nearer to the goal. The path is this walk, backwards, so it starts where the walk
    ended. It takes no baselines.

    Args:
        goal: (classes,) probabilities to walk to. None: uniform.
        n_pieces: pieces of the great circle; the trust radius is one piece.
        n_products: conjugate gradients per step, two gradients each.
        damping: λ in units of ‖J s‖² / ‖s‖², s = Jᵀv.
        max_step: longest step, as a share of the input's norm.
        limits: the ends of the values' range, (0, 1) for images; None: no limits.

    Example:
        >>> import leastpath as lp
        >>> score = lp.Score(torch.nn.Linear(3, 4).eval(), target=1, output="softmax")
        >>> result = lp.attribute(score, torch.ones(2, 3), method=FisherRaoPath())
        >>> bool((result.stats["distance_left"] < result.stats["distance"]).all())
        True
    """

    goal: Tensor | None = None
    n_pieces: Count = 20
    n_products: Count = 2
    damping: NotNegative = 0.01
    max_step: Positive = 0.2
    limits: Limits = None

    chooses_start: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        check_limits(self.limits)

    def solve(self, score: BoundScore, metric: Metric, start: Tensor, end: Tensor, run: Run) -> Solution:
        """end (batch, *features) -> polylines that end there; `start` is only used where the budget is empty."""
        n = int(min(self.n_pieces, run.budget(score).share(SOLVER_SHARE).least_left() // (2 * self.n_products)))
        if n < 1:
            sentence = f"max_gradients={run.max_gradients} leaves no gradients for a path: a line from zero was used"
            return straight_with_note(start, end, Note(Outcome.BUDGET_SPENT, sentence))
        walk = _Course(self, score, end)
        with run.bar("fisher-rao", n) as bar:
            for _ in range(n):
                walk.step()
                bar.advance()
        knots = [
            torch.stack([*(reversed(points) if points else [x]), x]) for points, x in zip(walk.knots, end, strict=True)
        ]
        left, first = walk.distance(), walk.first
        notes = tuple(
            ()
            if share <= 0.5
            else (Note(Outcome.SOLVER_NOTE, f"the prediction kept {share:.0%} of its way to the goal"),)
            for share in (left / first.clamp_min(1e-12)).tolist()
        )
        return Solution(Path.ragged(knots), notes, {"distance": first, "distance_left": left})


class _Course:
    """The current points of the examples, and their predictions on the sphere of radius 2."""

    def __init__(self, solver: FisherRaoPath, score: BoundScore, end: Tensor) -> None:
        self.solver, self.score, self.dtype = solver, score, end.dtype
        self.x = end.to(score.work_dtype, copy=True)
        self.scale = norms(flat_rows(self.x), 1).clamp_min(1e-6)  # (batch,)
        self.at = self._predict(self.x, torch.arange(len(end)))
        self.goal = self._goal(self.at.shape[1])
        self.first = self.distance()
        self.piece = self.first / solver.n_pieces
        self.knots: list[list[Tensor]] = [[] for _ in end]
        self.walking = torch.arange(len(end))

    def _goal(self, classes: int) -> Tensor:
        if self.solver.goal is None:
            return torch.full((classes,), 2 * classes**-0.5).to(self.x)
        given = self.solver.goal.detach().to(self.x)
        if given.shape != (classes,) or given.min() < 0 or abs(float(given.sum()) - 1) > 1e-3:
            raise ValueError(
                f"goal has shape {tuple(given.shape)}, expected probabilities ({classes},) that add up to 1"
            )
        return 2 * (given / given.sum()).sqrt()

    def _predict(self, points: Tensor, rows: Tensor) -> Tensor:
        return _on_sphere(check_logits(self.score.outputs(points, rows), "fisher_rao"))

    def distance(self, at: Tensor | None = None) -> Tensor:
        """Fisher–Rao distance to the goal: (n,)."""
        return _apart(self.at if at is None else at, self.goal)

    def step(self) -> None:
        """One step of each example that is under way."""
        distance = self.distance()
        rows = self.walking[(distance > ARRIVED * self.first)[self.walking].cpu()]
        if not len(rows):
            self.walking = rows
            return
        ask = torch.minimum(self.piece, distance)[rows]
        move = self._natural(rows, _along(self.at[rows], self.goal) * ask[:, None])
        longest = self.solver.max_step * self.scale[rows] / norms(flat_rows(move), 1).clamp_min(1e-30)
        move = move * per_row(longest.clamp_max(1), move)
        open_rows = torch.arange(len(rows))
        kept: list[tuple[Tensor, Tensor, Tensor]] = []
        for _ in range(HALVINGS):
            at = rows[open_rows]
            point = clip_to(self.x[at] + move[open_rows], self.solver.limits)
            there = self._predict(point, at)
            good = (_apart(there, self.at[at]) <= 2 * ask[open_rows]) & (self.distance(there) < distance[at])
            kept.append((at[good.cpu()], point[good], there[good]))
            open_rows = open_rows[~good.cpu()]
            move = move / 2
            if not len(open_rows):
                break
        for at, point, there in kept:
            self.x[at], self.at[at] = point, there
            for row, knot in zip(at.tolist(), point.to(self.dtype), strict=True):
                self.knots[row].append(knot)
        stuck = rows[open_rows]
        self.walking = rows[~torch.isin(rows, stuck)]

    def _natural(self, rows: Tensor, v: Tensor) -> Tensor:
        """δ (n, *features) of min ‖J δ − v‖² + λ‖δ‖², by conjugate gradients from zero."""
        rest, s = v, self._pull_back(rows, v)
        move, p, size = torch.zeros_like(s), s, flat_rows(s).square().sum(1)
        damping = None
        for k in range(self.solver.n_products):
            q, length = self._push_forward(rows, p), flat_rows(p).square().sum(1)
            if damping is None:
                damping = self.solver.damping * q.square().sum(1) / length.clamp_min(1e-30)
            alpha = size / (q.square().sum(1) + damping * length).clamp_min(1e-30)
            move, rest = move + per_row(alpha, p) * p, rest - alpha[:, None] * q
            if k + 1 == self.solver.n_products:
                break
            s = self._pull_back(rows, rest) - per_row(damping, move) * move
            size, before = flat_rows(s).square().sum(1), size
            p = s + per_row(size / before.clamp_min(1e-30), p) * p
        return move

    def _pull_back(self, rows: Tensor, v: Tensor) -> Tensor:
        """Jᵀv: a gradient each."""

        def along(outputs: Tensor, part: slice) -> Tensor:
            return (_on_sphere(outputs) * v[part]).sum(1)

        return output_gradients(self.score, self.x[rows], rows, along)[1]

    def _push_forward(self, rows: Tensor, move: Tensor) -> Tensor:
        """J δ: exact, since the rounding of a difference would differ from batch to batch."""
        return push_forward(self.score, self.x[rows], rows, _on_sphere, move)


def _on_sphere(logits: Tensor) -> Tensor:
    """2√softmax of logits (n, classes), by way of logarithms, whose slope is finite everywhere."""
    return 2 * (0.5 * logits.log_softmax(1)).exp()


def _apart(a: Tensor, b: Tensor) -> Tensor:
    """2 arccos⟨√p, √q⟩ between points of the sphere (n, classes): (n,). By the chord, exact also for small angles."""
    return 4 * ((a - b).norm(dim=-1) / 4).clamp_max(1).asin()


def _along(a: Tensor, goal: Tensor) -> Tensor:
    """Unit tangents (n, classes) of the great circles from a (n, classes) to the goal."""
    tangent = goal - a * (a * goal).sum(1, keepdim=True) / 4
    return tangent / tangent.norm(dim=1, keepdim=True).clamp_min(1e-12)
