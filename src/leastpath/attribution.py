"""attribute(): the one verb, and the Attribution it returns."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from leastpath._support.checks import check_whole
from leastpath.integral.integrator import check_settings, integrate
from leastpath.integral.pieces import Weighting
from leastpath.integral.refinement import FIRST_GRADIENTS, ROUNDING, Integral, unknown_integral
from leastpath.metric import Conformal, Metric
from leastpath.path import Path
from leastpath.run import Run
from leastpath.score import (
    Baselines,
    BoundScore,
    Inputs,
    Score,
    at_work,
    baselines_per_example,
    check_rows_are_independent,
    device_of,
    warn_of_training_mode,
)
from leastpath.solution import Solution, Solver, chooses_start, joined
from leastpath.solvers.descent.solver import FEW_FEATURES, Descent
from leastpath.solvers.graph.solver import NeighborGraph
from leastpath.status import Note, Outcome, Status

# A path may come out this much longer than the line, relative to the line, before it is called longer: both lengths
# are measured with an error of their own.
LENGTH_MARGIN = 0.01
EXAMPLES = {"solver": "StraightLine", "metric": "Conformal"}
GRAPH_GRADIENTS = 20_000  # what a graph on generated points needs, about: with a smaller budget it is not the default


@dataclass(frozen=True, repr=False)
class Attribution:
    """Attributions and the evidence for them. Fields are (batch,) unless they say otherwise.

    Example:
        >>> import leastpath as lp
        >>> result = lp.attribute(lp.Score(lambda x: x.prod(1)), torch.ones(2, 2), solver=lp.StraightLine())
        >>> result.values.shape, result.status[0].ok
        (torch.Size([2, 2]), True)
    """

    values: Inputs
    """Same structure, shape and dtype as the inputs (with `layer=`: as the layer's output)."""
    completeness_gap: Tensor
    """Σ values − (f(x) − f(x̄))."""
    cancellation: Tensor
    """Σ|values| − |f(x) − f(x̄)|: the NCC gap. Can be as low as −|completeness_gap|, not lower."""
    length: Tensor
    """Length of the path under the metric, measured by the integrator."""
    length_error: Tensor
    """The integrator's own estimate of the error of `length`; NaN at fixed steps."""
    length_ratio: Tensor
    """length / length of the straight line; NaN where budget or user ended the work before that was measured."""
    certificate: Tensor
    """length / |f(x) − f(x̄)|: ≥ 1 for the model metrics, and 1, as far as `length_error` goes, is provably shortest.
    inf where Δf vanishes, NaN for metrics that do not bound the score."""
    path: Path | None
    """One polyline per example (per example and baseline, where there are several: row b · m + j)."""
    status: tuple[Status, ...]
    """What became of each example; `status[b].value` is the sentence to read."""
    n_gradients: Tensor
    """Model gradients spent, solver and integral together (int64)."""
    score_change: Tensor
    """f(x) − f(x̄): the score at the path's last knot minus that at its first."""
    n_forwards: Tensor
    """Model evaluations without gradient (int64)."""
    attribution_error: Tensor
    """The integrator's own estimate of the error of `values`: Σ|error| up to four features, above that twice its
    Euclidean norm; NaN at fixed steps."""
    baseline_spread: Inputs | None
    """Standard deviation of `values` between baselines, shaped like them; None with one baseline an example."""
    path_spread: Inputs | None
    """Standard deviation of `values` over paths that the solver sampled, shaped like them; None where it sampled
    none."""
    solver: str
    """The solver that found the path, with its settings."""
    metric: str
    """The metric that lengths are measured in."""
    stats: Mapping[str, Any]
    """What else the solver told, and `solver_gradients`: the part of `n_gradients` that it spent itself (int64)."""

    def __repr__(self) -> str:
        ok = sum(s.ok for s in self.status)
        shapes = [tuple(v.shape) for v in (self.values if isinstance(self.values, tuple) else (self.values,))]
        return (
            f"Attribution(values={', '.join(map(str, shapes))}, solver={self.solver}, metric={self.metric}, "
            f"ok={ok}/{len(self.status)}, median |completeness_gap|={float(self.completeness_gap.abs().median()):.2g}, "
            f"median cancellation={float(self.cancellation.median()):.2g}, gradients={int(self.n_gradients.sum())})"
        )


def attribute(
    score: Score,
    inputs: Inputs,
    baselines: Baselines = None,
    *,
    solver: Solver | None = None,
    metric: Metric | None = None,
    tolerance: float | None = 0.01,
    n_steps: int | None = None,
    rule: str = "gauss_legendre",
    weighting: Weighting | None = None,
    max_gradients: int | None = None,
    progress: bool = False,
    seed: int = 0,
) -> Attribution:
    """Explain a score: how much each input feature moved it on the way from the baseline.

    Args:
        score: the model and the number that is explained.
        inputs: (batch, *features), or a tuple of such tensors (one joint path).
        baselines: None (zeros), a number, (1, …), (batch, …), or several an example: (batch, m, …). With a layer:
            raw inputs, or activations shaped like the layer's output.
        solver: what finds the path. None: up to 20 features a graph on generated points, refined, unless
            `max_gradients` is too small for one; `Descent` otherwise. `result.solver` names the choice.
        metric: what lengths are measured in, and what the solver makes short. Conformal by default.

    Rarely needed:
        tolerance: the error that the integrator must reach (see `integrate`). None: exactly `n_steps`.
        n_steps: gradients per path for `tolerance=None`; otherwise where refinement starts.
        rule: "gauss_legendre", "midpoint" or "trapezoid".
        weighting: what a gradient adds to the attribution; the line integral by default.
        max_gradients: budget per example, solver and integral together; solvers leave about half of it to the
            integral. None: as the solver says, and 10,000 for the integral.
        progress: show progress bars.
        seed: of everything random in the solver.

    Example:
        >>> import leastpath as lp
        >>> model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 3)).eval()
        >>> score = lp.Score(model, target=2, output="log_softmax")
        >>> result = lp.attribute(score, torch.rand(5, 4), solver=lp.StraightLine())
        >>> result.values.shape
        torch.Size([5, 4])
    """
    _check_parts(score, solver, metric, baselines)
    check_settings(tolerance, n_steps, rule, weighting, max_gradients)
    check_whole("seed", seed, advice="the same one gives the same result, as seed=0 does")
    metric = metric or Conformal()
    warn_of_training_mode(score.model)
    with at_work(score.model, device_of(inputs)):
        bound, m = bound_with_baselines(score, inputs, baselines)
        start, end = bound.ends(baselines)
        check_rows_are_independent(bound, start, end)
        solver = solver or _default_solver(bound.n_features, max_gradients)
        # Fixed steps are promised, so that no solver may spend them, and a quarter as many are kept for the line.
        reserved = 0 if tolerance is not None or n_steps is None else n_steps + math.ceil(n_steps / 4)
        run = Run(seed, max_gradients, progress, reserved)
        before = bound.gradients_spent.copy()
        solution = solver.solve(bound, metric, start, end, run)
        _check_ends(solution.path, solution.path.start.to(start) if chooses_start(solver) else start, end, solver)
        work = _Measuring(bound, metric, weighting, tolerance, n_steps, rule, run)
        solving = work.spent - torch.as_tensor(before)
        integral = work.of_path(solution, worth_keeping=bool(solving.any()))
        solution, integral, line = _compared(work, solution, integral)
        sampled = work.of_samples(solution.samples)
        return _assembled(work, m, solver, solution, integral, line, solving, sampled)


def _check_parts(score: Any, solver: Any, metric: Any, baselines: Any) -> None:
    """Refuse what is no score, solver or metric, and baselines that a solver would not look at."""
    if not isinstance(score, Score):
        raise ValueError(
            f"score is a {type(score).__name__}, expected a Score: attribute(lp.Score(model, target), inputs)"
        )
    for name, given, kind in (("solver", solver, Solver), ("metric", metric, Metric)):
        if isinstance(given, type):
            raise ValueError(f"{name} is the class {given.__name__}: pass an instance, {name}=lp.{given.__name__}()")
        if given is not None and not isinstance(given, kind):
            raise ValueError(f"{name}={given!r} is no {name}: pass one, as in {name}=lp.{EXAMPLES[name]}()")
    if chooses_start(solver) and baselines is not None:
        raise ValueError(
            f"{type(solver).__name__} chooses its own start, so baselines cannot be given: attribute(score, inputs, "
            f"solver={solver!r})"
        )


@dataclass
class _Measuring:
    """The integrals of one call: how they are made, and what they may still cost."""

    bound: BoundScore
    metric: Metric
    weighting: Weighting | None
    tolerance: float | None
    n_steps: int | None
    rule: str
    run: Run
    interrupted: bool = False  # then a coarse look at what is left must do

    def __post_init__(self) -> None:
        self.spent = torch.as_tensor(self.bound.gradients_spent.copy())  # (batch,) float64
        self.reserved = torch.zeros_like(self.spent)  # gradients kept for later

    @property
    def left(self) -> Tensor | None:
        """(batch,) gradients that may be spent now; None: no limit."""
        if self.run.max_gradients is None:
            return None
        return (self.run.max_gradients - self.spent - self.reserved).clamp_min(0)

    def affords(self, cost: float | Tensor) -> Tensor:
        """(batch,) whether so many gradients are left."""
        left = self.left
        return torch.ones_like(self.spent, dtype=torch.bool) if left is None else left >= cost

    def of_path(self, solution: Solution, worth_keeping: bool) -> Integral:
        """The integral of the solution's path; unknown where it is interrupted and the path alone is worth keeping."""
        left = self.left
        if left is not None and solution.samples:
            self.reserved = torch.floor(left.clamp_min(1) / 2)
        budget = None if left is None else (left.clamp_min(1) - self.reserved).clamp_min(1)
        if budget is not None and self.tolerance is not None:
            # A bent path is compared with the straight line, whose measurement a quarter of the budget is kept for.
            budget = budget - ~solution.path.is_straight * torch.floor(budget / 4)
        integral = self.tried(solution.path, budget, known=solution.known, weighting=self.weighting)
        if integral is None and not worth_keeping:
            raise KeyboardInterrupt
        return unknown_integral(self.bound, len(solution.path)) if integral is None else integral

    def of_samples(self, samples: Sequence[Path]) -> list[Tensor]:
        """Attributions (batch, *features) along further paths, each with its part of what is left."""
        self.reserved = torch.zeros_like(self.spent)
        found: list[Tensor] = []
        for done, path in enumerate(samples):
            left = self.left
            share = None if left is None else torch.floor(left / (len(samples) - done)).clamp_min(1)
            integral = self.tried(path, share, weighting=self.weighting)
            if integral is None:
                break
            found.append(integral.values)
        return found

    def tried(self, path: Path, budget: Tensor | None, **how: Any) -> Integral | None:
        """The integral along a path; None where it was interrupted before anything was known."""
        before = self.bound.gradients_spent.copy()
        steps = (None, FIRST_GRADIENTS) if self.interrupted else (self.tolerance, self.n_steps)
        try:
            integral = integrate(
                self.bound, path, self.metric, tolerance=steps[0], n_steps=steps[1], rule=self.rule, run=self.run,
                max_gradients=budget, **how,
            )  # fmt: skip
        except KeyboardInterrupt:
            self.interrupted = True
            self.spent = self.spent + torch.as_tensor(self.bound.gradients_spent - before)
            return None
        self.spent = self.spent + integral.n_gradients
        self.interrupted |= any(note.outcome is Outcome.INTERRUPTED for note in integral.notes)
        return integral


def _compared(work: _Measuring, solution: Solution, integral: Integral) -> tuple[Solution, Integral, Tensor]:
    """Bent paths beside the straight lines between their ends, which take the place of those that must not be longer.

    Also the lengths of the lines (batch,): NaN where they could not be measured any more.
    """
    bent, known = ~solution.path.is_straight, torch.isfinite(integral.length).cpu()
    lines, payable = Path.straight(solution.path.start, solution.path.end), bent & known & work.affords(1)
    line = torch.where(bent.to(integral.length.device), torch.nan, integral.length)
    measured = work.tried(lines.only(payable), work.left, only_length=True) if payable.any() else None
    if measured is None:
        return solution, integral, line
    line = torch.where(payable.to(line.device), measured.length, line)
    longer = payable & (integral.length > line).cpu()
    if not solution.never_longer or not longer.any():
        return solution, integral, line
    again = longer & work.affords(measured.n_gradients.clamp_min(1))
    better = work.tried(lines.only(again), work.left, weighting=work.weighting) if again.any() else None
    if better is not None:
        measured = measured.where(again, better)
    if work.weighting is not None:  # the attributions of the first measurement are not those that were asked for
        longer = again if better is not None else torch.zeros_like(again)
    if longer.any():
        solution, integral = _with_lines(solution, longer), integral.where(longer, measured)
        line = torch.where(longer.to(line.device), integral.length, line)
    return solution, integral, line


def _default_solver(n_features: int, max_gradients: int | None) -> Solver:
    """A graph sees all of the space between the ends, which is only possible, and dear enough, in few dimensions."""
    if n_features <= FEW_FEATURES and (max_gradients is None or max_gradients >= GRAPH_GRADIENTS):
        return NeighborGraph(generate="adaptive", refine=True)
    return Descent()


def bound_with_baselines(score: Score, inputs: Inputs, baselines: Baselines) -> tuple[BoundScore, int]:
    """The score over the batch, an example counted once for each of its baselines."""
    bound = score.bind(inputs)
    m = baselines_per_example(baselines, inputs, bound.shape if score.layer is not None else None)
    return (bound if m == 1 else score.bind(inputs, m)), m


def _check_ends(path: Path, start: Tensor, end: Tensor, solver: Solver) -> None:
    if len(path) != len(start) or not (torch.equal(path.start.to(start), start) and torch.equal(path.end.to(end), end)):
        raise RuntimeError(
            f"{type(solver).__name__} returned paths that do not begin and end where they were asked to: "
            "a solver must keep the first and last knot exactly"
        )


def _with_lines(solution: Solution, longer: Tensor) -> Solution:
    """The solution with straight lines for the examples in `longer` (batch,), and a note that says so."""
    rows, others = longer.nonzero()[:, 0], (~longer).nonzero()[:, 0]
    note = Note(Outcome.FELL_BACK, "the path found was longer than the straight line, which was used instead")
    lines = Path.straight(*(x[rows.to(x.device)] for x in (solution.path.start, solution.path.end)))

    def samples(of: Tensor) -> tuple[Path, ...]:
        return tuple(path.select(of) for path in solution.samples)

    parts = [(rows, Solution(lines, ((note,),) * len(rows), solution.stats, samples=samples(rows)))]
    if len(others):
        notes = solution.notes and tuple(solution.notes[i] for i in others.tolist())
        parts.append((others, Solution(solution.path.select(others), notes, samples=samples(others))))
    return joined(parts)


def _assembled(
    work: _Measuring,
    m: int,
    solver: Solver,
    solution: Solution,
    integral: Integral,
    line: Tensor,
    solving: Tensor,
    sampled: list[Tensor],
) -> Attribution:
    bound, metric, change, values = work.bound, work.metric, integral.change, integral.values
    magnitude = values.reshape(len(values), -1).abs().sum(1)
    rounding = ROUNDING * bound.eps * torch.maximum(integral.low.abs(), integral.high.abs())
    # No length over no length is one; some length over none is endless.
    ratio = torch.where((line == 0) & (integral.length == 0), torch.ones_like(line), integral.length / line)
    certificate = torch.where(change.abs() <= rounding, torch.inf, (integral.length / change.abs()).clamp_min(1))
    if not metric.bounds_score:
        certificate = torch.full_like(certificate, torch.nan)
    status = [
        Status((*(solution.notes[b] if solution.notes else ()), *_longer(r, work.interrupted), integral.notes[b]))
        for b, r in enumerate(ratio.tolist())
    ]

    def mean(tensor: Tensor) -> Tensor:
        return tensor if m == 1 else tensor.unflatten(0, (-1, m)).mean(1)

    def total(counts: Tensor) -> Tensor:
        return torch.as_tensor(_whole(counts.numpy()).reshape(-1, m).sum(1))

    return Attribution(
        values=bound.split(mean(values)),
        completeness_gap=mean(integral.gap),
        cancellation=mean(magnitude - change.abs()),
        length=mean(integral.length),
        length_error=mean(integral.length_error),
        length_ratio=mean(ratio),
        certificate=_finite_mean(certificate, m),
        path=solution.path,
        status=tuple(_merged(status[b : b + m]) for b in range(0, len(status), m)),
        n_gradients=total(work.spent),
        score_change=mean(change),
        n_forwards=total(torch.as_tensor(bound.forwards_spent)),
        attribution_error=mean(integral.attribution_error),
        baseline_spread=None if m == 1 else bound.split(values.unflatten(0, (-1, m)).std(1)),
        path_spread=bound.split(torch.stack([mean(v) for v in sampled]).std(0)) if len(sampled) > 1 else None,
        solver=repr(solver),
        metric=repr(metric),
        stats={**solution.stats, "solver_gradients": total(solving)},
    )


def without_path(
    values: Inputs,
    completeness_gap: Tensor,
    cancellation: Tensor,
    score_change: Tensor,
    status: tuple[Status, ...],
    *,
    n_gradients: Tensor,
    n_forwards: Tensor,
    solver: str,
    baseline_spread: Inputs | None = None,
    stats: Mapping[str, Any] | None = None,
) -> Attribution:
    """The result of something that integrates nothing: no path, and NaN for all that is measured along one."""
    unknown = torch.full_like(completeness_gap, torch.nan)
    return Attribution(
        values=values,
        completeness_gap=completeness_gap,
        cancellation=cancellation,
        length=unknown,
        length_error=unknown,
        length_ratio=unknown,
        certificate=unknown,
        path=None,
        status=status,
        n_gradients=n_gradients,
        score_change=score_change,
        n_forwards=n_forwards,
        attribution_error=unknown,
        baseline_spread=baseline_spread,
        path_spread=None,
        solver=solver,
        metric="none",
        stats=stats or {},
    )


def _longer(ratio: float, interrupted: bool) -> tuple[Note, ...]:
    if math.isnan(ratio):
        why, kind = (
            ("it was interrupted", Outcome.INTERRUPTED)
            if interrupted
            else ("nothing is left of max_gradients", Outcome.BUDGET_SPENT)
        )
        return (Note(kind, f"whether the path is longer than the straight line is not known: {why}"),)
    if ratio <= 1 + LENGTH_MARGIN:
        return ()
    return (
        Note(
            Outcome.LONGER_THAN_LINE,
            f"the path is {ratio:.3g} × as long as the straight line; try more points or knots, or StraightLine()",
        ),
    )


def _merged(statuses: list[Status]) -> Status:
    """One status for all baselines of an example: each kind of outcome once, with how many baselines it is about."""
    if len(statuses) == 1:
        return statuses[0]
    notes: dict[Outcome, list[Note]] = {}
    for note in sorted((n for s in statuses for n in s.notes), key=lambda n: n.outcome.ok):
        notes.setdefault(note.outcome, []).append(note)
    m = len(statuses)
    return Status(
        tuple(Note(kind, f"for {len(some)} of {m} baselines, e.g.: {some[0].sentence}") for kind, some in notes.items())
    )


def _finite_mean(values: Tensor, m: int) -> Tensor:
    """Mean over an example's m baselines of those that are finite; inf or NaN only where none is."""
    if m == 1:
        return values
    each = values.unflatten(0, (-1, m))
    finite = torch.isfinite(each)
    mean = torch.where(finite, each, 0).sum(1) / finite.sum(1).clamp_min(1)
    return torch.where(finite.any(1), mean, each[:, 0])


def _whole(counts: np.ndarray) -> np.ndarray:
    """Whole numbers whose sum is that of the shares: a shared segment's gradients are split, not multiplied."""
    edges = np.rint(np.concatenate([[0.0], np.cumsum(counts)]))
    return np.diff(edges).astype(np.int64)
