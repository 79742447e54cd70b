"""Methods with a path: a solver finds it, the integral measures it, and the straight line is its comparison."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields, is_dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from leastpath.account.budget import Clock, OutOfTime
from leastpath.account.limits import Limits
from leastpath.geometry.metric import Conformal, Metric, compares_features
from leastpath.geometry.path import Path
from leastpath.integral.accuracy import ROUNDING, Accuracy
from leastpath.integral.result import Integral
from leastpath.integral.weightings import Weighting
from leastpath.methods.measuring import Measuring, compared_with_line, steps_reserved
from leastpath.methods.method import Method, Role
from leastpath.methods.planning import Watch, planned_gradients
from leastpath.methods.problem import Along, Explained, Problem
from leastpath.result.status import Note, Outcome
from leastpath.score.bound import BoundScore
from leastpath.score.derivatives import read_features
from leastpath.score.score import Score
from leastpath.solvers.solution import Solution, Solver, Stop, chooses_start, straight_with_note

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
EXAMPLES = {
    "metric": "Conformal()",
    "geometry": 'Score(model, target, "logit_margin")',
    "weighting": "IDGI()",
}


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
            check_part(name, given, kind, EXAMPLES[name])
        if words["measure"] == "length":
            raise ValueError("measure='length' leaves the values out: use 'all' or 'values', or lp.integrate")
        accuracy = Accuracy(**{f.name: words[f.name] for f in fields(Accuracy) if f.name in words})
        limits = Limits(**{f.name: words[f.name] for f in fields(Limits)})
        accuracy.check_with(weighting, limits.max_gradients)
        return cls(metric or Conformal(), geometry, weighting, accuracy, limits)


def check_part(name: str, given: Any, kind: type, example: str) -> None:
    """Refuse what is no metric, score, weighting or solver."""
    if isinstance(given, type):
        raise ValueError(f"{name} is the class {given.__name__}: pass an instance, {name}=lp.{given.__name__}()")
    if given is not None and not isinstance(given, kind):
        raise ValueError(f"{name}={given!r} is not a {name}: pass one, as in {name}=lp.{example}")


# ---- explaining --------------------------------------------------------------------------------------------------


def explain_by_path(problem: Problem, solver: Solver, how: PathSettings) -> Explained:
    """Find a path for each row, integrate along it, and compare it with the straight line."""
    accuracy, limits, clock = how.accuracy, how.limits, Clock(how.limits.max_seconds)
    run = replace(
        problem.run, max_gradients=limits.max_gradients, reserved=steps_reserved(accuracy), clock=clock
    )  # fmt: skip
    watch = Watch(run, problem.bound, planned_gradients(solver, accuracy, limits.max_gradients))
    solution = _solve(problem, solver, how, watch)
    _check_ends(problem, solution.path, solver)
    work = Measuring(problem.bound, how.metric, how.weighting, accuracy, run, bool(solution.samples))
    solving = work.budget.spent()
    integral = work.of_path(solution, worth_keeping=bool(solving.any()))
    solution, integral, line = compared_with_line(work, solution, integral)
    samples = work.of_samples(solution.samples)
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
    stats = {**solution.stats, **_costs(problem, work, solving)}
    return Explained(
        integral.values, stats, change=integral.change, notes=notes, along=along, run=run, described=repr(solver)
    )  # fmt: skip


def _solve(problem: Problem, solver: Solver, how: PathSettings, watch: Watch) -> Solution:
    """The solver's paths, found for the score itself or for the geometry of another one."""
    bound = problem.bound
    if how.geometry is None:
        return _solve_in_time(problem, solver, bound, how.metric, watch)
    ground = how.geometry.bind(problem.inputs, problem.m)
    if ground.shape != bound.shape:
        raise ValueError(
            f"geometry lives in {tuple(ground.shape)}, the score in {tuple(bound.shape)}: both must have the same layer"
        )
    # One account: what the solver spends on the other score is a part of the same budget.
    ground.gradients_spent, ground.forwards_spent = bound.gradients_spent, bound.forwards_spent
    solution = _solve_in_time(problem, solver, ground, how.metric, watch)
    # What it knows and promises is about the other score.
    return replace(solution, known=None, line=None, never_longer=False)


def _solve_in_time(problem: Problem, solver: Solver, score: BoundScore, metric: Metric, watch: Watch) -> Solution:
    """The solver's paths, or its best so far when its part of the time is used up; the line, if there is nothing."""
    try:
        with watch.over_solver(watch.score, score):
            return solver.solve(score, metric, problem.start, problem.end, watch.for_solver)
    except OutOfTime as late:
        return straight_with_note(problem.start, problem.end, Stop(watch.for_solver, late).note(""))


def _check_ends(problem: Problem, path: Path, solver: Solver) -> None:
    end = problem.end
    start = path.start.to(end) if chooses_start(solver) else problem.start
    if len(path) != len(start) or not (torch.equal(path.start.to(start), start) and torch.equal(path.end.to(end), end)):
        raise RuntimeError(
            f"{type(solver).__name__} returned paths that do not begin and end where they were asked to: "
            "a solver must keep the first and last knot exactly"
        )


def _certificate(work: Measuring, path: Path, integral: Integral) -> Tensor:
    """(batch,) length over what no length can be below: the change of score, or the distance of the path's ends."""
    bound, metric, length = work.bound, work.metric, integral.length
    if work.accuracy.measure == "values":
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
    """What to say of a path that is longer than the line, or of which that is not known."""
    if math.isnan(ratio):
        if work.accuracy.measure == "values":
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


def whole_numbers(counts: Tensor, m: int) -> Tensor:
    """(rows,) -> (examples,) int64 with the same sum: gradients that several examples share come in fractions."""
    edges = np.rint(np.concatenate([[0.0], np.cumsum(counts.numpy())]))
    return torch.as_tensor(np.diff(edges).astype(np.int64).reshape(-1, m).sum(1))


def _costs(problem: Problem, work: Measuring, solving: Tensor) -> dict[str, Tensor]:
    """Gradients (batch,) of each part of a call. They add up to `n_gradients`: what is not another's is the values'."""
    parts = {"solver": solving, "length": work.length_gradients, "line": work.line_gradients}
    costs = {f"{name}_gradients": whole_numbers(spent, problem.m) for name, spent in parts.items()}
    costs["value_gradients"] = whole_numbers(work.budget.spent(), problem.m) - sum(costs.values())
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
        return self._made(settings), how

    def _made(self, settings: dict[str, Any]) -> Solver:
        if not isinstance(self.solver, type):
            kept = {name: value for name, value in _fields_of(self.solver).items() if name not in WORDS}
            changed = {name: value for name, value in settings.items() if value is not kept[name]}
            return replace(self.solver, **changed) if changed else self.solver  # type: ignore[type-var]
        given: Solver | None = settings.pop("solver")
        check_part("solver", given, Solver, "StraightLine()")
        if given is None and self.needs and all(settings[name] is None for name in self.needs):
            what, example = NEEDED[self.needs[0]]
            raise ValueError(f"{self.name} needs {what}: pass {self.needs[0]}, as in method(score, inputs, {example})")
        return given or self.solver(**settings)

    def __call__(self, problem: Problem, **settings: Any) -> Explained:
        solver, how = self._parts(problem.score, settings)
        return explain_by_path(problem, solver, how)

    def cost(self, shape: Sequence[int], settings: Mapping[str, Any]) -> tuple[int, int] | None:
        """About how many gradients a path takes to find and to measure."""
        if self.needs and settings.get("solver") is None:
            return None
        solver = settings.get("solver") or (self.solver() if isinstance(self.solver, type) else self.solver)
        accuracy = Accuracy(settings["tolerance"], settings.get("n_steps"))
        most = settings["max_gradients"]
        finding, measuring = planned_gradients(solver, accuracy, None if most is None else int(most))
        if len(shape) == 3 and accuracy.tolerance is not None and most is None:
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
    name: str,
    title: str,
    solver: Solver | type[Solver],
    summary: str,
    *,
    weighting: Weighting | None = None,
    own: tuple[str, ...] = (),
    needs: tuple[str, ...] = (),
    **more: Any,
) -> Method:
    """A method that finds its path by a solver; `more` are fields of `Method`."""
    fixed = {} if weighting is None or weighting.complete else {"tolerance": None, "n_steps": 50}
    changed = {} if weighting is None else {"weighting": weighting, **fixed}
    explain = BySolver(name, solver, own, changed, needs)
    role: Role = "path" if weighting is None else "weighting"
    complete, starts_itself = weighting is None or weighting.complete, chooses_start(solver)
    return Method(
        name, title, role, summary, complete, explain, explain.defaults, takes_baselines=not starts_itself,
        needs=needs, costs=explain.cost, **more,
    )  # fmt: skip


def method_of_solver(solver: Solver) -> Method:
    """A solver that somebody made, as a method.

    Example:
        >>> import leastpath as lp
        >>> method_of_solver(lp.StraightLine()).name
        'StraightLine'
    """
    name = type(solver).__name__
    return path_method(name, name, solver, "The line integral of the gradient along a path of your own.")
