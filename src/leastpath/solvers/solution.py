"""What a solver is, and what it returns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Protocol, runtime_checkable

import torch
from torch import Tensor

from leastpath.account.budget import STOPS, OutOfTime
from leastpath.account.run import Run
from leastpath.geometry.metric import Metric
from leastpath.geometry.path import Path
from leastpath.integral.pieces import Estimate, KnownSegments
from leastpath.result.status import Note, Outcome
from leastpath.score.bound import BoundScore


@dataclass(frozen=True)
class Solution:
    """A path for every example, with the solver's remarks.

    Args:
        path: starts and ends exactly where it was asked to.
        notes: for each example what the user should know; empty where all went well. None: nothing for anyone.
        stats: whatever else the solver wants to tell; shown as `result.stats`.
        never_longer: where the path measures longer than the straight line, the line is to take its place.
        known: segments whose gradients the solver has summed already, so that the integrator only verifies them.
        line: the same of the straight lines between the ends, which `Path.straight` numbers.
        samples: further paths between the same ends, all as plausible as `path`; their attributions give
            `result.path_spread`.

    Example:
        >>> Solution(Path.straight(torch.zeros(2, 3), torch.ones(2, 3))).path.is_straight
        tensor([True, True])
    """

    path: Path
    notes: tuple[tuple[Note, ...], ...] | None = None
    stats: Mapping[str, Any] = field(default_factory=dict)
    known: KnownSegments | None = None
    never_longer: bool = False
    samples: tuple[Path, ...] = ()
    line: KnownSegments | None = None


@runtime_checkable
class Solver(Protocol):
    """Finds a path from each start to its end. A frozen dataclass of hyper-parameters: no state between calls.

    `solve` is all that it needs. What it may declare besides is `ChoosesStart`.

    Example:
        >>> import leastpath as lp
        >>> isinstance(lp.StraightLine(), Solver), isinstance(lp.Conformal(), Solver)
        (True, False)
    """

    def solve(self, score: BoundScore, metric: Metric, start: Tensor, end: Tensor, run: Run) -> Solution:
        """start, end (batch, *features) -> a path of `batch` examples between exactly these points."""
        ...


class Solved(Protocol):
    """What has the paths of solved examples: an `Attribution`."""

    @property
    def path(self) -> Path | None:
        """One polyline an example; None where there is none."""


@runtime_checkable
class ChoosesStart(Protocol):
    """What a solver declares whose paths begin where it likes. `attribute` then refuses baselines.

    Example:
        >>> import leastpath as lp
        >>> isinstance(lp.BlurIG(), ChoosesStart), isinstance(lp.StraightLine(), ChoosesStart)
        (True, False)
    """

    chooses_start: ClassVar[bool]


@runtime_checkable
class PlansGradients(Protocol):
    """What a solver declares that knows how many gradients it will take, for the plan that a call says.

    Example:
        >>> import leastpath as lp
        >>> isinstance(lp.ElasticBand(), PlansGradients), lp.ElasticBand().planned_gradients
        (True, 130)
    """

    @property
    def planned_gradients(self) -> int:
        """An example, about."""


class Stop:
    """What has ended a search early, Ctrl-C or the end of its time, and the note that says so: one per call of `solve`.

    Example:
        >>> stop = Stop(Run())
        >>> with stop.catch():
        ...     raise KeyboardInterrupt
        >>> stop.caught, stop.note("interrupted: the straight line was used").outcome.value
        (True, 'interrupted')
    """

    def __init__(self, run: Run, cause: BaseException | None = None) -> None:
        self.run, self.cause = run, cause

    @property
    def caught(self) -> bool:
        """Whether something has ended the search."""
        return self.cause is not None

    @contextmanager
    def catch(self) -> Iterator[None]:
        """A part of the search, which ends quietly where something stops it."""
        try:
            yield
        except STOPS as cause:
            self.cause = cause

    def note(self, interrupted: str) -> Note:
        """For an example that the end of the search left unfinished; `interrupted` is the sentence after Ctrl-C."""
        if not isinstance(self.cause, OutOfTime):
            return Note(Outcome.INTERRUPTED, interrupted)
        sentence = f"stopped after {self.run.clock.words}: the search for a path was cut short; raise max_seconds"
        return Note(Outcome.BUDGET_SPENT, sentence)


def paths_of(result: Any) -> Path:
    """The paths of a result, for a solver that learns from them.

    Example:
        >>> import leastpath as lp
        >>> result = lp.attribute(lp.Score(lambda x: x.prod(1)), torch.ones(2, 2), solver=lp.StraightLine())
        >>> len(paths_of(result))
        2
    """
    if not hasattr(result, "path"):
        raise ValueError(
            f"result is a {type(result).__name__}, expected what attribute returns: attribute(…, solver=Descent())"
        )
    if not isinstance(result.path, Path):
        raise ValueError("the result has no paths to learn from: pass the result of attribute(…, solver=Descent())")
    return result.path


def chooses_start(solver: object) -> bool:
    """Whether a solver, or a class of solvers, begins its paths where it likes. One that does not say so does not."""
    return isinstance(solver, ChoosesStart) and solver.chooses_start


def straight_with_note(start: Tensor, end: Tensor, note: Note) -> Solution:
    """Straight lines, and why: what a solver that fails returns."""
    return Solution(Path.straight(start, end), tuple((note,) for _ in range(len(start))))


def joined(parts: Sequence[tuple[Tensor, Solution]]) -> Solution:
    """Solutions for disjoint sets of examples (each with its example numbers) as one, in the order of the examples."""
    if len(parts) == 1 and torch.equal(parts[0][0], torch.arange(len(parts[0][1].path))):
        only = parts[0][1]
        return replace(only, notes=only.notes or ((),) * len(only.path), never_longer=False)
    order = torch.argsort(torch.cat([examples for examples, _ in parts]))
    solutions = [solution for _, solution in parts]
    path, shifts = _joined_paths([solution.path for solution in solutions], order)
    notes = [note for solution in solutions for note in solution.notes or ((),) * len(solution.path)]
    stats: dict[str, Any] = {}
    for solution in solutions:
        stats |= solution.stats
    known = [_moved(s.known, shift) for s, shift in zip(solutions, shifts, strict=True) if s.known is not None]
    lines = [_of_examples(s.line, examples) for examples, s in parts if s.line is not None]
    # A part that sampled fewer paths than another repeats its own: there is nothing else as plausible.
    samples = tuple(
        _joined_paths([s.samples[k] if k < len(s.samples) else s.path for s in solutions], order)[0]
        for k in range(max(len(s.samples) for s in solutions))
    )
    told = tuple(notes[i] for i in order.tolist())
    return Solution(path, told, stats, _joined_known(known), samples=samples, line=_joined_known(lines))


def joined_blocks(parts: Sequence[tuple[Tensor, Solution]]) -> Solution:
    """`joined` for blocks of examples in order, whose stats are tensors with one row an example."""
    stats = {name: torch.cat([part.stats[name] for _, part in parts]) for name in parts[0][1].stats}
    return replace(joined(parts), stats=stats)


def _joined_paths(paths: Sequence[Path], order: Tensor) -> tuple[Path, list[int]]:
    """Paths of disjoint sets of examples as one, reordered, and by how much the rows of each one's points moved."""
    shifts = torch.tensor([0, *(len(path.points) for path in paths)]).cumsum(0).tolist()[:-1]
    route = torch.cat([path.route + shift for path, shift in zip(paths, shifts, strict=True)])
    offsets = torch.cat([torch.zeros(1, dtype=torch.long), torch.cat([path.n_knots for path in paths]).cumsum(0)])
    return Path(torch.cat([path.points for path in paths]), route, offsets).select(order), shifts


def _moved(known: KnownSegments, shift: int) -> KnownSegments:
    """The same over points whose rows have moved."""
    return replace(known, tail=known.tail + shift, head=known.head + shift)


def _of_examples(lines: KnownSegments, examples: Tensor) -> KnownSegments:
    """Straight lines of some examples (n,) as they are numbered among the lines of all."""
    tail, head = (2 * examples[ends // 2] + ends % 2 for ends in (lines.tail, lines.head))
    return replace(lines, tail=tail, head=head)


def _joined_known(parts: Sequence[KnownSegments]) -> KnownSegments | None:
    if not parts:
        return None
    spans = [part.span for part in parts if part.span is not None]  # all of them, or none
    return KnownSegments(
        torch.cat([part.tail for part in parts]),
        torch.cat([part.head for part in parts]),
        torch.cat([part.group for part in parts]),
        Estimate.join([part.estimate for part in parts]),
        torch.cat(spans) if spans else None,
    )
