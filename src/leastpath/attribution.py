"""attribute(): the one verb."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from leastpath._support.checks import check_setting, seed_of
from leastpath.account.budget import Clock, OutOfTime
from leastpath.account.run import Run
from leastpath.features.kinds import Kind, kind_of
from leastpath.geometry.metric import Conformal, Metric, compares_features
from leastpath.geometry.path import Path
from leastpath.integral.integrator import check_settings
from leastpath.integral.result import Integral
from leastpath.integral.sums import ROUNDING, Measure
from leastpath.integral.weightings import Weighting
from leastpath.methods.measuring import Line, Measuring, compared_with_line, steps_reserved
from leastpath.methods.planning import Watch, check_seconds, planned_gradients
from leastpath.removal.tested import Tested, removed_together, tested
from leastpath.result.attribution import Attribution
from leastpath.result.status import Interrupted, Note, Outcome, Status, finished
from leastpath.score.baselines import Several
from leastpath.score.bound import BoundScore
from leastpath.score.derivatives import read_features
from leastpath.score.inputs import Baselines, Inputs
from leastpath.score.outputs import OutputName
from leastpath.score.score import Score, bind_paths
from leastpath.score.untouched import leave_untouched, warn_of_training_mode
from leastpath.solvers.elastic.solver import ElasticBand
from leastpath.solvers.solution import Solution, Solver, Stop, chooses_start, straight_with_note
from leastpath.solvers.straight import StraightLine

# A path may come out this much longer than the line, relative to the line, before it is called longer: both lengths
# are measured with an error of their own.
LENGTH_MARGIN = 0.01
EXAMPLES = {
    "solver": "StraightLine()",
    "metric": "Conformal()",
    "geometry": 'Score(model, target, "logit_margin")',
    "weighting": "IDGI()",
}


def attribute(
    score: Score,
    inputs: Inputs,
    baselines: Baselines | Several = None,
    *,
    solver: Solver | None = None,
    metric: Metric | None = None,
    geometry: Score | OutputName | None = None,
    support: bool | Tensor | None = None,
    tolerance: float | None = 0.01,
    n_steps: int | None = None,
    rule: str = "gauss_legendre",
    weighting: Weighting | None = None,
    max_gradients: int | None = None,
    max_seconds: float | None = None,
    measure: Measure = "all",
    progress: bool = False,
    seed: int = 0,
    on_interrupt: Literal["raise", "return"] = "raise",
) -> Attribution:
    """Explain a score: how much each input feature moved it on the way from the baseline.

    Args:
        score: the model and the number that is explained.
        inputs: (batch, *features), or a tuple of such tensors (one joint path).
        baselines: None (zeros), a number, (1, …), (batch, …), or several an example: (batch, m, …), or by name,
            `lp.baselines.several("black", "mean")`. With a layer: raw inputs, or activations shaped like its output.
        solver: what finds the path. None: what the study of truth chose for this kind of input (docs/truth.md):
            `ElasticBand` for up to 20 features, and else `StraightLine`. `result.solver` names the choice.
        metric: what lengths are measured in, and what the solver makes short. Conformal by default.

    Rarely needed:
        geometry: another score of the same inputs, whose geometry bends the path, or another output of the same
            score: "logit_margin" does not saturate where a softmax does. What is integrated and measured is `score`.
        support: whether removal tests the result. None: where the path is bent. True, False: always, never. Integer
            labels (1 or batch, *features): always, and features with one label are removed together.
        tolerance: the error that the integrator must reach (see `integrate`). None: exactly `n_steps`.
        n_steps: gradients per path for `tolerance=None`; otherwise where refinement starts.
        rule: "gauss_legendre", "midpoint" or "trapezoid".
        weighting: what a gradient adds to the attribution; the line integral by default.
        max_gradients: budget per example, solver and integral together; solvers leave about half of it to the
            integral. None: as the solver says, and 10,000 for the integral.
        max_seconds: time for the call, about half of it for the solver. When it is used up, what is known is returned,
            and the status says what was cut. A model call that has begun is not cut off, and one gradient a segment is
            always taken.
        measure: "values" leaves lengths out, which saves gradients: `length`, `length_ratio` and `certificate` are
            NaN, and a path is not compared with the straight line. "all" measures everything.
        progress: show progress bars, and after the first gradients about how long it will take.
        seed: of everything random in the solver.
        on_interrupt: what Ctrl-C does. "raise": `Interrupted`, a KeyboardInterrupt whose `result` holds what is
            finished, so that a loop around this call ends too. "return": that result; its status says what is missing.

    Example:
        >>> import leastpath as lp
        >>> model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 3)).eval()
        >>> score = lp.Score(model, target=2, output="log_softmax")
        >>> result = lp.attribute(score, torch.rand(5, 4), solver=lp.StraightLine())
        >>> result.values.shape
        torch.Size([5, 4])
    """
    _check_score(score)
    geometry = replace(score, output=geometry) if isinstance(geometry, str) else geometry
    _check_parts(solver, metric, geometry, weighting, baselines)
    check_settings(tolerance, n_steps, rule, weighting, max_gradients)
    seed = seed_of(seed)
    if on_interrupt not in ("raise", "return"):
        raise ValueError(f"on_interrupt={on_interrupt!r} is unknown: use 'raise' or 'return'")
    check_setting("measure", measure, Measure)
    check_seconds(max_seconds)
    metric, clock = metric or Conformal(), Clock(max_seconds)
    warn_of_training_mode(score.model)
    with leave_untouched(score.model, inputs):
        baselines = baselines.of(inputs, score) if isinstance(baselines, Several) else baselines
        bound, start, end, m = bind_paths(score, inputs, baselines)
        removed_together(bound, support, bound.batch // m)  # refuses wrong labels before the solver works
        solver = solver or default_solver(kind_of(bound))
        run = Run(seed, max_gradients, progress, steps_reserved(tolerance, n_steps), clock)
        watch = Watch(run, bound, planned_gradients(solver, tolerance, n_steps, max_gradients))
        solution = _solved(solver, bound, geometry, inputs, m, metric, start, end, watch)
        _check_ends(solution.path, solution.path.start.to(start) if chooses_start(solver) else start, end, solver)
        work = Measuring(bound, metric, weighting, tolerance, n_steps, rule, run, bool(solution.samples), measure)
        solving = work.budget.spent()
        integral = work.of_path(solution, worth_keeping=bool(solving.any()))
        solution, integral, line = compared_with_line(work, solution, integral)
        sampled = work.of_samples(solution.samples)
        test = tested(
            bound, inputs, solution.path, integral.values, line, m, support, max_gradients, in_time=clock.left() > 0
        )
        found = _Found(solver, geometry, solution, integral, line, solving, sampled, test)
        result = _assembled(work, m, found)
    if on_interrupt == "raise":
        if work.interrupted:
            raise Interrupted(result)
        finished(result)
    return result


def _check_score(score: Any) -> None:
    if not isinstance(score, Score):
        raise ValueError(
            f"score is a {type(score).__name__}, expected a Score: attribute(lp.Score(model, target), inputs)"
        )


def default_solver(kind: Kind) -> Solver:
    """What studies/truth chose for a kind of input: clearly worse than the straight line on no net, fill or gate.

    For few features that is the band. For images, tokens and larger tables no bent path has both a better mean and no
    cell in which it is clearly worse, so they keep the line (docs/truth.md).

    Example:
        >>> default_solver("image"), default_solver("few").stiffness
        (StraightLine(), 1.0)
    """
    return ElasticBand() if kind == "few" else StraightLine()


def _check_parts(solver: Any, metric: Any, geometry: Any, weighting: Any, baselines: Any) -> None:
    """Refuse what is no solver, metric, score or weighting, and baselines for a solver that chooses its own start."""
    parts = (solver, Solver), (metric, Metric), (geometry, Score), (weighting, Weighting)
    for name, (given, kind) in zip(EXAMPLES, parts, strict=True):
        if isinstance(given, type):
            raise ValueError(f"{name} is the class {given.__name__}: pass an instance, {name}=lp.{given.__name__}()")
        if given is not None and not isinstance(given, kind):
            raise ValueError(f"{name}={given!r} is not a {name}: pass one, as in {name}=lp.{EXAMPLES[name]}")
    if chooses_start(solver) and baselines is not None:
        raise ValueError(
            f"{type(solver).__name__} chooses its own start, so baselines cannot be given: attribute(score, inputs, "
            f"solver={solver!r})"
        )


def _solved(
    solver: Solver,
    bound: BoundScore,
    geometry: Score | None,
    inputs: Inputs,
    m: int,
    metric: Metric,
    start: Tensor,
    end: Tensor,
    watch: Watch,
) -> Solution:
    """The solver's paths, found for the score itself or for the geometry of another one."""
    if geometry is None:
        return _in_time(solver, bound, metric, start, end, watch)
    ground = geometry.bind(inputs, m)
    if ground.shape != bound.shape:
        raise ValueError(
            f"geometry lives in {tuple(ground.shape)}, the score in {tuple(bound.shape)}: both must have the same layer"
        )
    # One account: what the solver spends on the other score is a part of the same budget.
    ground.gradients_spent, ground.forwards_spent = bound.gradients_spent, bound.forwards_spent
    solution = _in_time(solver, ground, metric, start, end, watch)
    # What it knows and promises is about the other score.
    return replace(solution, known=None, line=None, never_longer=False)


def _in_time(solver: Solver, score: BoundScore, metric: Metric, start: Tensor, end: Tensor, watch: Watch) -> Solution:
    """The solver's paths, or its best so far when its part of the time is used up; the line, if there is nothing."""
    try:
        with watch.over_solver(watch.score, score):
            return solver.solve(score, metric, start, end, watch.for_solver)
    except OutOfTime as late:
        return straight_with_note(start, end, Stop(watch.for_solver, late).note(""))


def _check_ends(path: Path, start: Tensor, end: Tensor, solver: Solver) -> None:
    if len(path) != len(start) or not (torch.equal(path.start.to(start), start) and torch.equal(path.end.to(end), end)):
        raise RuntimeError(
            f"{type(solver).__name__} returned paths that do not begin and end where they were asked to: "
            "a solver must keep the first and last knot exactly"
        )


@dataclass(frozen=True)
class _Found:
    """What a call has found, before it is averaged over baselines."""

    solver: Solver
    geometry: Score | None
    solution: Solution
    integral: Integral
    line: Line
    solving: Tensor  # (batch,) gradients of the solver
    sampled: list[Tensor]
    test: Tested


def _assembled(work: Measuring, m: int, found: _Found) -> Attribution:
    solution, integral, line = found.solution, found.integral, found.line.length
    bound, metric, change, values = work.bound, work.metric, integral.change, integral.values
    magnitude = values.reshape(len(values), -1).abs().sum(1)
    # Where the line has no length, the ratio is 1 for a path without length and infinite for any other.
    ratio = torch.where((line == 0) & (integral.length == 0), torch.ones_like(line), integral.length / line)
    status = [
        Status(
            (
                *(solution.notes[b] if solution.notes else ()),
                *_longer(r, work, found.geometry),
                integral.notes[b],
            )
        )
        for b, r in enumerate(ratio.cpu().numpy().tolist())
    ]

    def mean(tensor: Tensor) -> Tensor:
        return tensor if m == 1 else tensor.unflatten(0, (-1, m)).mean(1)

    def total(counts: Tensor) -> Tensor:
        return torch.as_tensor(_integers(counts.numpy()).reshape(-1, m).sum(1))

    return Attribution(
        values=bound.space.split(mean(values)),
        completeness_gap=mean(integral.gap),
        cancellation=mean(magnitude - change.abs()),
        length=mean(integral.length),
        length_error=mean(integral.length_error),
        length_ratio=mean(ratio),
        certificate=_finite_mean(_certificate(work, solution.path, integral), m),
        path=solution.path,
        status=tuple(found.test.told(b, _merged(status[b * m : (b + 1) * m])) for b in range(len(status) // m)),
        support=found.test.support.to(change.device, change.dtype),
        n_gradients=total(work.budget.spent()),
        score_change=mean(change),
        n_forwards=total(torch.as_tensor(bound.forwards_spent)) + found.test.n_forwards,
        attribution_error=mean(integral.attribution_error),
        baseline_spread=None if m == 1 else bound.space.split(values.unflatten(0, (-1, m)).std(1)),
        path_spread=None
        if len(found.sampled) < 2
        else bound.space.split(torch.stack([*map(mean, found.sampled)]).std(0)),
        solver=repr(found.solver),
        geometry=repr(found.geometry or bound.score),
        metric=repr(metric),
        stats={**solution.stats, **_costs(work, found, total), "line_support": found.test.line},
    )


def _costs(work: Measuring, found: _Found, total: Callable[[Tensor], Tensor]) -> dict[str, Tensor]:
    """Gradients (batch,) of each part of a call. They add up to `n_gradients`: what is not another's is the values'."""
    parts = {"solver": found.solving, "length": work.length_gradients, "line": work.line_gradients}
    costs = {f"{name}_gradients": total(spent) for name, spent in parts.items()}
    costs["value_gradients"] = total(work.budget.spent()) - sum(costs.values())
    return costs


def _certificate(work: Measuring, path: Path, integral: Integral) -> Tensor:
    """(batch,) length over what no length can be below: the change of score, or the distance of the path's ends."""
    bound, metric, length = work.bound, work.metric, integral.length
    if work.measure == "values":
        return torch.full_like(length, torch.nan)
    if compares_features(metric):
        everyone = torch.arange(len(path))
        first, last = (end.to(bound.work_dtype) for end in (path.start, path.end))
        before, after = (read_features(bound, end, everyone, metric) for end in (first, last))
        least = metric.distance(before, after, last - first).to(length)
        rounding = ROUNDING * bound.eps * torch.ones_like(least)
    elif metric.bounds_score:
        least = integral.change.abs()
        rounding = ROUNDING * bound.eps * torch.maximum(integral.low.abs(), integral.high.abs())
    else:
        return torch.full_like(length, torch.nan)
    return torch.where(least <= rounding, torch.inf, (length / least).clamp_min(1))


def _longer(ratio: float, work: Measuring, geometry: Score | None) -> tuple[Note, ...]:
    if math.isnan(ratio):
        if work.measure == "values":
            return ()
        limit = "max_seconds" if work.budget.out_of_time else "max_gradients"
        why, kind = f"nothing is left of {limit}", Outcome.BUDGET_SPENT
        if work.interrupted:
            why, kind = "it was interrupted", Outcome.INTERRUPTED
        return (Note(kind, f"whether the path is longer than the straight line is not known: {why}"),)
    if ratio <= 1 + LENGTH_MARGIN:
        return ()
    if geometry is not None:
        longer = f"for the explained score the path is {ratio:.3g} × as long as the straight line"
        return (Note(Outcome.SOLVER_NOTE, f"{longer}; it was found for the geometry of {geometry.output!r}"),)
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
    return Status(tuple(Note(kind, _of_baselines(some, len(statuses))) for kind, some in notes.items()))


def _of_baselines(notes: list[Note], m: int) -> str:
    """One sentence for notes of one kind, from as many of an example's m baselines."""
    alike = len({note.sentence for note in notes}) == 1
    if alike and len(notes) == m:
        return notes[0].sentence
    count = f"{len(notes)} of {m}" if len(notes) < m else "both" if m == 2 else f"all {m}"
    return f"from {count} baselines{'' if alike else ', for instance'}: {notes[0].sentence}"


def _finite_mean(values: Tensor, m: int) -> Tensor:
    """Mean over an example's m baselines of those that are finite; inf or NaN only where none is."""
    if m == 1:
        return values
    each = values.unflatten(0, (-1, m))
    finite = torch.isfinite(each)
    mean = torch.where(finite, each, 0).sum(1) / finite.sum(1).clamp_min(1)
    return torch.where(finite.any(1), mean, each[:, 0])


def _integers(counts: np.ndarray) -> np.ndarray:
    """Whole numbers with the same sum: gradients that several examples share are split into fractions."""
    edges = np.rint(np.concatenate([[0.0], np.cumsum(counts)]))
    return np.diff(edges).astype(np.int64)
