"""Methods with a path: a solver finds it, the integral measures it, and the straight line is its comparison."""

from __future__ import annotations

import inspect
import math
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields, is_dataclass, replace
from typing import Any

import torch
from torch import Tensor

from leastpath._support.checks import show_value
from leastpath._support.rows import per_row
from leastpath.account.run import Budget, Clock, OutOfTime, Run, Watch
from leastpath.features.groups import kind_of_shape
from leastpath.geometry.metric import Conformal, Metric, compares_features
from leastpath.geometry.path import Path
from leastpath.integral.accuracy import ROUNDING, Accuracy, Integral, Limits, unknown_integral
from leastpath.integral.block import ADDED_FEATURES
from leastpath.integral.integrator import FIRST_GRADIENTS, integrate
from leastpath.integral.pieces import Weighting
from leastpath.methods.method import Along, Explained, Method, Problem, Role
from leastpath.result.status import Note, Outcome
from leastpath.score.calls import warn_of_training_mode
from leastpath.score.derivatives import read_features
from leastpath.score.score import BoundScore, Score, check_rows_are_independent
from leastpath.solvers.solution import (
    PlansGradients,
    Solution,
    Solver,
    Stop,
    chooses_start,
    join_solutions,
    straight_with_note,
)

# A path may come out this much longer than the line, relative to the line, before it is called longer: both lengths
# are measured with an error of their own.
LENGTH_MARGIN = 0.01
OF_PHOTOGRAPH = 250  # gradients that measuring an image's path takes
WORDS: Mapping[str, Any] = {  # the settings of every method with a path: everyday words for Accuracy and Limits
    "metric": None,
    "geometry": None,
    "weighting": None,
    **{f.name: f.default for f in fields(Accuracy) if f.name != "length_tolerance"},
    **{f.name: f.default for f in fields(Limits)},
}
NEEDED = {  # what a method needs, and the settings that give it
    "points": ("data points", "points=train_inputs"),
    "decoder": ("an autoencoder", "encoder=vae.encoder, decoder=vae.decoder"),
}
EXAMPLES = {"metric": "Conformal()", "geometry": 'Score(model, target, "logit_margin")', "weighting": "IDGI()"}


@dataclass(frozen=True)
class PathSettings:
    """How a path is found and measured, besides its solver."""

    metric: Metric
    geometry: Score | None
    weighting: Weighting | None
    accuracy: Accuracy
    limits: Limits

    @classmethod
    def of(cls, score: Score, words: Mapping[str, Any]) -> PathSettings:
        """From the words that a user gave."""
        metric, asked, weighting = (words[name] for name in EXAMPLES)
        named: Any = asked if isinstance(asked, str) else None  # the name of an output
        geometry = asked if named is None else replace(score, output=named)
        for name, given, kind in zip(EXAMPLES, (metric, geometry, weighting), (Metric, Score, Weighting), strict=True):
            _check_part(name, given, kind, EXAMPLES[name])
        limits = Limits(**{f.name: words[f.name] for f in fields(Limits)})
        accuracy = Accuracy(**{f.name: words[f.name] for f in fields(Accuracy) if f.name in words})
        if accuracy.measure == "length":
            raise ValueError("measure='length' leaves the values out: use 'all' or 'values', or lp.integrate")
        accuracy.check_with(weighting, limits.max_gradients)
        return cls(metric or Conformal(), geometry, weighting, accuracy, limits)


def _check_part(name: str, given: Any, kind: type, example: str) -> None:
    """Refuse what is no metric, score, weighting or solver."""
    if isinstance(given, type):
        raise ValueError(f"{name} is the class {given.__name__}: pass an instance, {name}=lp.{given.__name__}()")
    if given is not None and (isinstance(given, Tensor) or not isinstance(given, kind)):  # tensors have a `solve`
        raise ValueError(f"{name}={show_value(given)} is not a {name}: pass one, as in {name}=lp.{example}")


# ---- explaining --------------------------------------------------------------------------------------------------


def _explain_by_path(problem: Problem, solver: Solver, how: PathSettings) -> Explained:
    """Find a path for each row, integrate along it, and compare it with the straight line."""
    accuracy, limits, clock = how.accuracy, how.limits, Clock(how.limits.max_seconds)
    run = replace(
        problem.run, max_gradients=limits.max_gradients, reserved=_steps_reserved(accuracy), clock=clock
    )  # fmt: skip
    watch = Watch(run, problem.bound, lambda: planned_gradients(solver, accuracy, limits.max_gradients))
    solution = _solve(problem, solver, how, watch)
    _check_ends(problem, solution.path, solver)
    work = _begin_measuring(problem.bound, how, run, bool(solution.samples))
    solving = work.budget.spent()
    integral = _measure_path(work, solution, worth_keeping=bool(solving.any()))
    solution, integral, line = _compare_with_line(work, solution, integral)
    samples = _measure_samples(work, solution.samples)
    # Where the line has no length, the ratio is 1 for a path without length and infinite for any other.
    ratio = torch.where(
        (line.length == 0) & (integral.length == 0), torch.ones_like(line.length), integral.length / line.length
    )
    notes = [
        (*(solution.notes[b] if solution.notes else ()), *_longer(r, work, how.geometry), integral.notes[b])
        for b, r in enumerate(ratio.cpu().numpy().tolist())
    ]
    along = Along(
        solution.path, line.values, integral.gap, integral.length, integral.length_error, ratio,
        _certificate(work, solution.path, integral), integral.attribution_error, work.budget.spent(), samples,
        repr(how.geometry or problem.score), repr(how.metric), work.interrupted,
    )  # fmt: skip
    found, described = integral.values, repr(solver)
    stats = {**solution.stats, **_costs(problem, work, solving)}
    return Explained(found, stats, change=integral.change, notes=notes, along=along, run=run, described=described)


def _solve(problem: Problem, solver: Solver, how: PathSettings, watch: Watch) -> Solution:
    """The solver's paths, found for the score itself or for the geometry of another one."""
    bound = problem.bound
    if how.geometry is None:
        return _solve_in_time(problem, solver, bound, how.metric, watch)
    warn_of_training_mode(how.geometry.model)
    ground = how.geometry.bind(problem.inputs, problem.m)
    if ground.shape != bound.shape:
        raise ValueError(
            f"geometry lives in {tuple(ground.shape)}, the score in {tuple(bound.shape)}: both must have the same layer"
        )
    check_rows_are_independent(ground, problem.start, problem.end)
    # One account: what the solver spends on the other score is a part of the same budget.
    ground.gradients_spent, ground.forwards_spent = bound.gradients_spent, bound.forwards_spent
    solution = _solve_in_time(problem, solver, ground, how.metric, watch)
    # What it knows and promises is about the other score.
    return replace(solution, known=None, line=None, never_longer=False)


def _solve_in_time(problem: Problem, solver: Solver, score: BoundScore, metric: Metric, watch: Watch) -> Solution:
    """The solver's paths, or its best so far when its part of the time is used up; the line, if there is nothing."""
    try:
        with watch.over_solver(watch.score, score):
            found: Any = solver.solve(score, metric, problem.start, problem.end, watch.for_solver)
    except OutOfTime as late:
        return straight_with_note(problem.start, problem.end, Stop(watch.for_solver, late).note(""))
    if not isinstance(found, Solution):
        raise ValueError(f"{type(solver).__name__}.solve returned a {type(found).__name__}, expected a lp.Solution")
    return found


def _check_ends(problem: Problem, path: Path, solver: Solver) -> None:
    end = problem.end
    start = path.start.to(end) if chooses_start(solver) else problem.start
    if len(path) != len(start) or not (torch.equal(path.start.to(start), start) and torch.equal(path.end.to(end), end)):
        raise RuntimeError(
            f"{type(solver).__name__} returned paths that do not begin and end where they were asked to: "
            "a solver must keep the first and last knot exactly"
        )


def _certificate(work: _Measuring, path: Path, integral: Integral) -> Tensor:
    """(batch,) length over what no length can be below: the change of score, or the distance of the path's ends."""
    bound, metric, length = work.bound, work.how.metric, integral.length
    if work.how.accuracy.measure == "values":
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


def _longer(ratio: float, work: _Measuring, geometry: Score | None) -> tuple[Note, ...]:
    """What to say of a path that is longer than the line, or of which that is not known."""
    if math.isnan(ratio):
        if work.how.accuracy.measure == "values":
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


def _costs(problem: Problem, work: _Measuring, solving: Tensor) -> dict[str, Tensor]:
    """Gradients (batch,) of each part of a call. They add up to `n_gradients`: what is not another's is the values'."""
    parts = {"solver": solving, "length": work.length_gradients, "line": work.line_gradients}
    costs = {f"{name}_gradients": problem.count(spent) for name, spent in parts.items()}
    costs["value_gradients"] = problem.count(work.budget.spent()) - sum(costs.values())
    return costs


# ---- as methods --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class BySolver:
    """A class of solvers, or one that somebody made, as a method's explain.

    Settings are the solver's and those of the integral (`WORDS`). Where both have one of the same name it is the
    integral's, unless `own` lists it; a solver made by hand, `solver=`, keeps all of its own.
    """

    name: str
    solver: Solver | type[Solver]
    own: tuple[str, ...] = ()
    changed: Mapping[str, Any] = field(default_factory=dict)  # defaults that differ from the solver's or integral's
    needs: tuple[str, ...] = ()

    @property
    def defaults(self) -> dict[str, Any]:
        """All settings with their defaults."""
        words = {name: value for name, value in WORDS.items() if name not in self.own}
        return {**_fields_of(self.solver), **words, **({"solver": None} if self._is_class else {}), **self.changed}

    @property
    def _is_class(self) -> bool:
        return isinstance(self.solver, type)

    def check(self, score: Score, settings: Mapping[str, Any]) -> None:
        """Refuse settings that cannot work, before the model runs."""
        self._parts(score, dict(settings))

    def _parts(self, score: Score, settings: dict[str, Any]) -> tuple[Solver, PathSettings]:
        words = {name: settings.pop(name) for name in WORDS if name not in self.own}
        if words["tolerance"] is None:  # fixed steps: as many as the solver takes
            words |= {name: settings[name] for name in self.own}
        how = PathSettings.of(score, {**WORDS, **words})
        return self._make_solver(settings), how

    def _make_solver(self, settings: dict[str, Any]) -> Solver:
        if not isinstance(self.solver, type):
            kept = {name: value for name, value in _fields_of(self.solver).items() if name not in WORDS}
            changed = {name: value for name, value in settings.items() if value is not kept[name]}
            return replace(self.solver, **changed) if changed else self.solver  # type: ignore[type-var]
        given: Solver | None = settings.pop("solver")
        _check_part("solver", given, Solver, "StraightLine()")
        if given is None and self.needs and all(settings[name] is None for name in self.needs):
            what, example = NEEDED[self.needs[0]]
            raise ValueError(f"{self.name} needs {what}: pass {self.needs[0]}, as in method(score, inputs, {example})")
        return self.solver(**settings) if given is None else given

    def __call__(self, problem: Problem, **settings: Any) -> Explained:
        solver, how = self._parts(problem.score, settings)
        return _explain_by_path(problem, solver, how)

    def cost(self, shape: Sequence[int], settings: Mapping[str, Any]) -> tuple[int, int] | None:
        """About how many gradients a path takes to find and to measure."""
        if self.needs and settings.get("solver") is None:
            return None
        solver = settings.get("solver") or (self.solver() if isinstance(self.solver, type) else self.solver)
        accuracy = Accuracy(settings["tolerance"], settings.get("n_steps"))
        most = settings["max_gradients"]
        finding, measuring = planned_gradients(solver, accuracy, None if most is None else int(most))
        if kind_of_shape(shape) == "image" and accuracy.tolerance is not None and most is None:
            measuring = max(measuring, OF_PHOTOGRAPH)
        return finding + measuring, 0


def _fields_of(solver: Any) -> dict[str, Any]:
    """The settings of a solver, or of a class of them, with their defaults; None where there is none."""
    if not is_dataclass(solver):
        return {}
    if isinstance(solver, type):
        return {f.name: None if f.default is MISSING else f.default for f in fields(solver)}
    return {f.name: getattr(solver, f.name) for f in fields(solver) if f.init}


def path_method(
    name: str, title: str, solver: Solver | type[Solver], summary: str, *, weighting: Weighting | None = None,
    own: tuple[str, ...] = (), needs: tuple[str, ...] = (), **more: Any,
) -> Method:  # fmt: skip
    """A method that finds its path by a solver; `more` are fields of `Method`."""
    fixed = {} if weighting is None or weighting.complete else {"tolerance": None, "n_steps": 50}
    changed = {} if weighting is None else {"weighting": weighting, **fixed}
    explain = BySolver(name, solver, own, changed, needs)
    role: Role = "path" if weighting is None else "weighting"
    return Method(
        name, title, role, summary, weighting is None or weighting.complete, explain, explain.defaults,
        takes_baselines=not chooses_start(solver), needs=needs, costs=explain.cost, **more,
    )  # fmt: skip


def method_of_solver(solver: Solver) -> Method:
    """A solver that somebody made, as a method.

    Example:
        >>> import leastpath as lp
        >>> method_of_solver(lp.StraightLine()).name
        'StraightLine'
    """
    name, said = type(solver).__name__, " ".join((inspect.getdoc(solver) or "").partition("\n\n")[0].split())
    is_written = said and not said.startswith(f"{name}(")  # what a dataclass writes itself
    said = said if is_written else "The line integral of the gradient along a path of your own."
    return path_method(name, name, solver, said)


LENGTH_FACTOR = 2  # of the tolerance of values: how exact the length of a path is
TIME_FOR_INTEGRALS = 0.9  # of what is left of max_seconds; the rest is for the test by removal
OF_LINE, OF_BENT = 120, 200  # gradients that measuring a path typically takes; a bent one with the line beside it


def planned_gradients(solver: Solver, accuracy: Accuracy, max_gradients: int | None) -> tuple[int, int]:
    """How many gradients an example will take, about: to find its path, and to measure it.

    Example:
        >>> import leastpath as lp
        >>> planned_gradients(lp.StraightLine(), Accuracy(tolerance=None, n_steps=50), None)
        (0, 50)
    """
    finding = solver.planned_gradients if isinstance(solver, PlansGradients) else 0
    measuring = OF_BENT if finding else OF_LINE
    if accuracy.tolerance is None and accuracy.n_steps is not None:
        measuring = accuracy.n_steps + (accuracy.n_steps // 4 if finding else 0)
    if max_gradients is None:
        return finding, measuring
    return min(finding, max_gradients // 2), min(measuring, max_gradients - min(finding, max_gradients // 2))


def _steps_reserved(accuracy: Accuracy) -> int:
    """Gradients per example that no solver may spend: fixed steps are promised, and a quarter as many for the line."""
    n_steps = accuracy.n_steps
    return 0 if accuracy.tolerance is not None or n_steps is None else n_steps + math.ceil(n_steps / 4)


@dataclass
class _Measuring:
    """The integrals of one call: how they are made, and what they may cost.

    If there are further paths, they keep half of what the solver has left. The rest is for the solver's path and the
    straight line.
    """

    bound: BoundScore
    how: PathSettings
    run: Run
    budget: Budget
    for_path: Budget
    length_gradients: Tensor  # (rows,) what the length took beyond the values
    line_gradients: Tensor  # (rows,) those of the straight line
    interrupted: bool = False  # then a coarse look at the rest must be enough


def _begin_measuring(bound: BoundScore, how: PathSettings, run: Run, has_samples: bool) -> _Measuring:
    """Nothing is measured yet. `has_samples`: whether the solver gave further paths."""
    run = replace(run, reserved=0, clock=run.clock.part(TIME_FOR_INTEGRALS))  # what is reserved is for the integrals
    budget = for_path = run.budget(bound)
    if has_samples:
        for_path = budget.keeping(torch.floor(budget.left() / 2))
    none = torch.zeros(bound.batch, dtype=torch.float64)
    return _Measuring(bound, how, run, budget, for_path, none, none)


def _measure_path(work: _Measuring, solution: Solution, worth_keeping: bool) -> Integral:
    """The integral along the solution's path.

    Where it is interrupted before anything is known, it is unknown, or an error if the path is not worth keeping.
    """
    budget, run, asked, straight = work.for_path, work.run, work.how.accuracy, solution.path.is_straight
    compares = asked.measure == "all" and not straight.all()
    if asked.tolerance is not None and compares:  # a bent path keeps a quarter, for measuring the straight line
        budget = budget.keeping(torch.where(straight, 0, torch.floor(budget.left() / 4)))
    if compares or solution.samples:
        run = replace(run, clock=run.clock.part(0.75 if compares else 0.5))
    integral = _try_integral(work, solution.path, budget, run, known=solution.known, weighting=work.how.weighting)
    if integral is None and not worth_keeping:
        raise KeyboardInterrupt
    if integral is None:
        return unknown_integral(work.bound, len(solution.path))
    work.length_gradients = integral.n_gradients - integral.value_gradients
    if asked.measure == "all":
        return integral
    unknown = torch.full_like(integral.length, torch.nan)
    return replace(integral, length=unknown, length_error=unknown)


def _has_few_features(work: _Measuring) -> bool:
    """Whether there are so few that everything is measured to the tolerance."""
    return work.bound.n_features <= ADDED_FEATURES


def _choose_accuracy(work: _Measuring) -> Accuracy:
    """Lengths say themselves how exact they are, so they need not be as exact as values.

    With few features they are, since there their errors are the least certain, and gradients the cheapest.
    """
    asked = work.how.accuracy
    if work.interrupted:
        return replace(asked, tolerance=None, n_steps=FIRST_GRADIENTS)
    if asked.tolerance is None or _has_few_features(work):
        return asked
    return replace(asked, length_tolerance=min(LENGTH_FACTOR * asked.tolerance, 0.5))


def _measure_lines(work: _Measuring, lines: Path, **how: Any) -> Integral | None:
    """The integral along straight lines that paths are compared with; what it costs is counted as theirs."""
    before = work.budget.spent()
    measured = _try_integral(work, lines, work.for_path, work.run, **how)
    work.line_gradients = work.line_gradients + (work.budget.spent() - before)
    return measured


def _measure_samples(work: _Measuring, samples: Sequence[Path]) -> list[Tensor]:
    """Attributions (batch, *features) along further paths, each with an equal part of what is left."""
    found: list[Tensor] = []
    for done, path in enumerate(samples):
        if work.budget.out_of_time:
            break
        budget, run = work.budget.shared_by(len(samples) - done), work.run
        run = replace(run, clock=run.clock.part(1 / (len(samples) - done)))
        integral = _try_integral(work, path, budget, run, weighting=work.how.weighting, measure="values")
        if integral is None:
            break
        found.append(integral.values)
    return found


def _try_integral(work: _Measuring, path: Path, budget: Budget, run: Run, **how: Any) -> Integral | None:
    """The integral along a path; None where it was interrupted before anything was known."""
    before, granted = budget.spent(), budget.grant()
    try:
        integral = integrate(
            work.bound, path, work.how.metric, accuracy=_choose_accuracy(work), run=run, max_gradients=granted, **how
        )
    except KeyboardInterrupt:
        work.interrupted = True
        return None
    work.bound.settle(before, integral.n_gradients)
    work.interrupted |= any(note.outcome is Outcome.INTERRUPTED for note in integral.notes)
    return integral


@dataclass(frozen=True)
class _Line:
    """The straight lines between the ends of the paths: NaN where they could not be measured any more."""

    length: Tensor  # (batch,)
    values: Tensor  # (batch, *features) its attributions, as exact as its length needs


def _compare_with_line(work: _Measuring, solution: Solution, integral: Integral) -> tuple[Solution, Integral, _Line]:
    """Bent paths are measured against the straight lines between their ends.

    A line replaces a path that is longer, if the solution promises never to be longer.
    """
    bent, known = ~solution.path.is_straight, torch.isfinite(integral.length).cpu()
    lines, payable = Path.straight(solution.path.start, solution.path.end), bent & known & (work.for_path.left() >= 1)
    is_bent = bent.to(integral.length.device)
    line = _Line(
        torch.where(is_bent, torch.nan, integral.length),
        torch.where(per_row(is_bent, integral.values), torch.nan, integral.values),
    )
    measured, may_replace = None, solution.never_longer and work.how.weighting is None
    if payable.any():
        measured = _measure_lines(
            work, lines.only(payable), known=solution.line, rival=integral.length,
            measure="all" if may_replace else "length",
        )  # fmt: skip
    if measured is None:
        return solution, integral, line
    # A line that could not be measured to the end takes no path's place: what was not looked at would make it longer.
    cut_short = (Outcome.BUDGET_SPENT, Outcome.INTERRUPTED)
    is_known = torch.tensor([note.outcome not in cut_short for note in measured.notes])
    shorter = (measured.length < integral.length).cpu()
    line = _put_lines(line, payable & (is_known | ~shorter), measured)
    longer = payable & is_known & shorter
    if not solution.never_longer or not longer.any():
        return solution, integral, line
    if not may_replace:  # the attributions of the first measurement are not those that were asked for
        longer &= work.for_path.left() >= measured.n_gradients.clamp_min(1)
        better = None
        if longer.any():
            better = _measure_lines(work, lines.only(longer), known=solution.line, weighting=work.how.weighting)
        if better is None:
            return solution, integral, line
        measured = better
    solution, integral = _with_lines(solution, longer), integral.where(longer, measured)
    return solution, integral, _put_lines(line, longer, integral)


def _put_lines(line: _Line, rows: Tensor, measured: Integral) -> _Line:
    """The lines, with what was measured of the examples in `rows` (batch,)."""
    at = rows.to(line.length.device)
    return _Line(
        torch.where(at, measured.length, line.length),
        torch.where(per_row(at, line.values), measured.values, line.values),
    )


def _with_lines(solution: Solution, longer: Tensor) -> Solution:
    """The solution with straight lines for the examples in `longer` (batch,), and a note that says so."""
    rows, others = longer.nonzero()[:, 0], (~longer).nonzero()[:, 0]
    note = Note(Outcome.FELL_BACK, "the path found was longer than the straight line, which was used instead")
    lines = Path.straight(*(x[rows.to(x.device)] for x in (solution.path.start, solution.path.end)))

    def samples(of: Tensor) -> tuple[Path, ...]:
        return tuple(path.select(of) for path in solution.samples)

    # A remark on the solver's work as a whole still holds; one on the path that is gone does not.
    remarks = [
        tuple(n for n in notes if n.outcome is Outcome.SOLVER_NOTE) for notes in solution.notes or ((),) * len(longer)
    ]
    kept = tuple((*remarks[i], note) for i in rows.tolist())
    parts = [(rows, Solution(lines, kept, solution.stats, samples=samples(rows)))]
    if len(others):
        notes = solution.notes and tuple(solution.notes[i] for i in others.tolist())
        parts.append((others, Solution(solution.path.select(others), notes, samples=samples(others))))
    return join_solutions(parts)
