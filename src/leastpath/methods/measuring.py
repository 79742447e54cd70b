"""Measuring: the integrals of one call, within its budget, and the comparison with the straight line."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from leastpath._support.rows import per_row
from leastpath.account.budget import Budget
from leastpath.account.run import Run
from leastpath.geometry.metric import Metric
from leastpath.geometry.path import Path
from leastpath.integral.accuracy import Accuracy
from leastpath.integral.block import ADDED_FEATURES
from leastpath.integral.integrator import integrate
from leastpath.integral.refinement import FIRST_GRADIENTS
from leastpath.integral.result import Integral, unknown_integral
from leastpath.integral.weightings import Weighting
from leastpath.result.status import Note, Outcome
from leastpath.score.bound import BoundScore
from leastpath.solvers.solution import Solution, join_solutions

LENGTH_FACTOR = 2  # of the tolerance of values: how exact the length of a path is
TIME_FOR_INTEGRALS = 0.9  # of what is left of max_seconds; the rest is for the test by removal


def steps_reserved(accuracy: Accuracy) -> int:
    """Gradients per example that no solver may spend: fixed steps are promised, and a quarter as many for the line."""
    n_steps = accuracy.n_steps
    return 0 if accuracy.tolerance is not None or n_steps is None else n_steps + math.ceil(n_steps / 4)


@dataclass
class Measuring:
    """The integrals of one call: how they are made, and what they may cost.

    If there are further paths, they keep half of what the solver has left. The rest is for the solver's path and the
    straight line.
    """

    bound: BoundScore
    metric: Metric
    weighting: Weighting | None
    accuracy: Accuracy
    run: Run
    has_samples: bool  # whether the solver gave further paths
    interrupted: bool = False  # then a coarse look at the rest must be enough

    def __post_init__(self) -> None:
        self.run = replace(self.run, clock=self.run.clock.part(TIME_FOR_INTEGRALS))
        self.length_gradients = self.line_gradients = torch.zeros(self.bound.batch, dtype=torch.float64)
        self.budget = self.for_path = self.run.budget(self.bound).with_reserved
        if self.has_samples:
            self.for_path = self.budget.keeping(torch.floor(self.budget.left() / 2))

    def of_path(self, solution: Solution, worth_keeping: bool) -> Integral:
        """The integral along the solution's path.

        Where it is interrupted before anything is known, it is unknown, or an error if the path is not worth keeping.
        """
        budget, run, compares = (
            self.for_path,
            self.run,
            self.accuracy.measure == "all" and not solution.path.is_straight.all(),
        )
        if (
            self.accuracy.tolerance is not None and compares
        ):  # a bent path keeps a quarter, for measuring the straight line
            budget = budget.keeping(torch.where(solution.path.is_straight, 0, torch.floor(budget.left() / 4)))
        if compares or solution.samples:
            run = replace(run, clock=run.clock.part(0.75 if compares else 0.5))
        integral = self.tried(solution.path, budget, run, known=solution.known, weighting=self.weighting)
        if integral is None and not worth_keeping:
            raise KeyboardInterrupt
        if integral is None:
            return unknown_integral(self.bound, len(solution.path))
        self.length_gradients = integral.n_gradients - integral.value_gradients
        if self.accuracy.measure == "all":
            return integral
        unknown = torch.full_like(integral.length, torch.nan)
        return replace(integral, length=unknown, length_error=unknown)

    @property
    def length_tolerance(self) -> float | None:
        """Lengths say themselves how exact they are, so they need not be as exact as values.

        With few features they are, since there their errors are the least certain, and gradients the cheapest.
        """
        tolerance = self.accuracy.tolerance
        return None if tolerance is None or self.few_features else min(LENGTH_FACTOR * tolerance, 0.5)

    @property
    def few_features(self) -> bool:
        """Whether there are so few that everything is measured to the tolerance."""
        return self.bound.n_features <= ADDED_FEATURES

    def of_lines(self, lines: Path, **how: Any) -> Integral | None:
        """The integral along straight lines that paths are compared with; what it costs is counted as theirs."""
        before = self.budget.spent()
        measured = self.tried(lines, self.for_path, **how)
        self.line_gradients = self.line_gradients + (self.budget.spent() - before)
        return measured

    def of_samples(self, samples: Sequence[Path]) -> list[Tensor]:
        """Attributions (batch, *features) along further paths, each with an equal part of what is left."""
        found: list[Tensor] = []
        for done, path in enumerate(samples):
            if self.budget.out_of_time:
                break
            budget, run = self.budget.shared_by(len(samples) - done), self.run
            run = replace(run, clock=run.clock.part(1 / (len(samples) - done)))
            integral = self.tried(path, budget, run, weighting=self.weighting, measure="values")
            if integral is None:
                break
            found.append(integral.values)
        return found

    def tried(self, path: Path, budget: Budget, run: Run | None = None, **how: Any) -> Integral | None:
        """The integral along a path; None where it was interrupted before anything was known."""
        before = budget.spent()
        accuracy = replace(self.accuracy, length_tolerance=self.length_tolerance)
        if self.interrupted:
            accuracy = replace(accuracy, tolerance=None, n_steps=FIRST_GRADIENTS)
        try:
            integral = integrate(
                self.bound, path, self.metric, accuracy=accuracy, run=run or self.run, max_gradients=budget.grant(),
                **how,
            )  # fmt: skip
        except KeyboardInterrupt:
            self.interrupted = True
            return None
        budget.settle(before, integral.n_gradients)
        self.interrupted |= any(note.outcome is Outcome.INTERRUPTED for note in integral.notes)
        return integral


@dataclass(frozen=True)
class Line:
    """The straight lines between the ends of the paths: NaN where they could not be measured any more."""

    length: Tensor  # (batch,)
    values: Tensor  # (batch, *features) its attributions, as exact as its length needs


def compared_with_line(work: Measuring, solution: Solution, integral: Integral) -> tuple[Solution, Integral, Line]:
    """Bent paths are measured against the straight lines between their ends.

    A line replaces a path that is longer, if the solution promises never to be longer.
    """
    bent, known = ~solution.path.is_straight, torch.isfinite(integral.length).cpu()
    lines, payable = Path.straight(solution.path.start, solution.path.end), bent & known & work.for_path.affords(1)
    is_bent = bent.to(integral.length.device)
    line = Line(
        torch.where(is_bent, torch.nan, integral.length),
        torch.where(per_row(is_bent, integral.values), torch.nan, integral.values),
    )
    measured = None
    if payable.any():
        rival = None if work.few_features else integral.length
        measured = work.of_lines(lines.only(payable), known=solution.line, measure="length", rival=rival)
    if measured is None:
        return solution, integral, line
    line = _replaced(line, payable, measured)
    longer = payable & (integral.length > line.length).cpu()
    if not solution.never_longer or not longer.any():
        return solution, integral, line
    again = longer & work.for_path.affords(measured.n_gradients.clamp_min(1))
    better = None
    if again.any():
        better = work.of_lines(lines.only(again), known=solution.line, weighting=work.weighting)
    if better is not None:
        measured = measured.where(again, better)
    if work.weighting is not None:  # the attributions of the first measurement are not those that were asked for
        longer = again if better is not None else torch.zeros_like(again)
    if longer.any():
        solution, integral = _with_lines(solution, longer), integral.where(longer, measured)
        line = _replaced(line, longer, integral)
    return solution, integral, line


def _replaced(line: Line, rows: Tensor, measured: Integral) -> Line:
    """The lines, with what was measured of the examples in `rows` (batch,)."""
    at = rows.to(line.length.device)
    return Line(
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
