"""What a solver is, and what it returns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor

from leastpath.account.run import STOPS, OutOfTime, Run
from leastpath.geometry.metric import Metric
from leastpath.geometry.path import Path
from leastpath.integral.pieces import KnownSegments
from leastpath.result.status import Note, Outcome
from leastpath.score.score import BoundScore


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

    `solve` is all that it needs. It may say `chooses_start = True`: its paths begin where it likes, and `attribute`
    refuses baselines.

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
        """One polyline per example; None where there is none."""


@runtime_checkable
class PlansGradients(Protocol):
    """What a solver declares that knows how many gradients it will take: `attribute(…, progress=True)` says it."""

    @property
    def planned_gradients(self) -> int:
        """Per example, about."""


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
    """The paths of a result, for a solver that learns from them."""
    if not hasattr(result, "path"):
        raise ValueError(
            f"result is a {type(result).__name__}, expected what attribute returns: attribute(…, method=Descent())"
        )
    if not isinstance(result.path, Path):
        raise ValueError("the result has no paths to learn from: pass the result of attribute(…, method=Descent())")
    return result.path


def chooses_start(solver: object) -> bool:
    """Whether a solver, or a class of solvers, begins its paths where it likes. One that does not say so does not."""
    return bool(getattr(solver, "chooses_start", False))


LINE = "the straight line was used"
GRADIENTS_PER_KNOT = 6  # of the budget, so that the integral can measure and verify every segment


def straight_with_note(start: Tensor, end: Tensor, note: Note) -> Solution:
    """Straight lines, and why: what a solver that fails returns."""
    return Solution(Path.straight(start, end), tuple((note,) for _ in range(len(start))))


def affordable_knots(score: BoundScore, run: Run, wanted: int, least: int) -> int:
    """How many knots a path may have that costs nothing to find, so that the budget pays for its integral."""
    payable = run.budget(score).with_reserved.shared_by(GRADIENTS_PER_KNOT).least_left()
    return int(max(least, min(wanted, payable)))


def no_gradients_note(run: Run) -> Note:
    """Why a path that is walked gradient by gradient was not."""
    sentence = f"max_gradients={run.max_gradients} leaves no gradients for a bent path: {LINE}; raise it"
    return Note(Outcome.BUDGET_SPENT, sentence)


def split_ends(
    start: Tensor, end: Tensor, per_block: int, dtype: torch.dtype | None = None
) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
    """Blocks of at most `per_block` examples: their numbers (n,) on the CPU and their ends (n, *features)."""
    for examples in torch.arange(len(start)).split(max(1, per_block)):
        rows = examples.to(start.device)
        yield examples, start[rows].to(dtype or start.dtype), end[rows].to(dtype or end.dtype)


def join_solutions(parts: Sequence[tuple[Tensor, Solution]]) -> Solution:
    """Solutions for disjoint sets of examples (each with its example numbers) as one, in the order of the examples."""
    if len(parts) == 1 and torch.equal(parts[0][0], torch.arange(len(parts[0][1].path))):
        only = parts[0][1]
        return replace(only, notes=only.notes or ((),) * len(only.path), never_longer=False)
    order = torch.argsort(torch.cat([examples for examples, _ in parts]))
    solutions = [solution for _, solution in parts]
    path, shifts = _join_paths([solution.path for solution in solutions], order)
    notes = [note for solution in solutions for note in solution.notes or ((),) * len(solution.path)]
    stats = {name: value for solution in solutions for name, value in solution.stats.items()}
    known = [
        s.known.renumber(shift + torch.arange(len(s.path.points)))
        for s, shift in zip(solutions, shifts, strict=True)
        if s.known
    ]
    # The line of example b has the points 2 b and 2 b + 1.
    lines = [s.line.renumber((2 * of[:, None] + torch.arange(2)).flatten()) for of, s in parts if s.line]
    # A part that sampled fewer paths than another repeats its own: there is nothing else as plausible.
    samples = tuple(
        _join_paths([s.samples[k] if k < len(s.samples) else s.path for s in solutions], order)[0]
        for k in range(max(len(s.samples) for s in solutions))
    )
    in_order = tuple(notes[i] for i in order.tolist())
    known_segments, known_lines = (KnownSegments.join(some) if some else None for some in (known, lines))
    return Solution(path, in_order, stats, known_segments, samples=samples, line=known_lines)


def join_blocks(parts: Sequence[tuple[Tensor, Solution]]) -> Solution:
    """`join_solutions` for blocks of examples in order, whose stats are tensors with one row per example."""
    stats = {name: torch.cat([part.stats[name] for _, part in parts]) for name in parts[0][1].stats}
    return replace(join_solutions(parts), stats=stats)


def _join_paths(paths: Sequence[Path], order: Tensor) -> tuple[Path, list[int]]:
    """Paths of disjoint sets of examples as one, reordered, and by how much the rows of each one's points moved."""
    shifts = torch.tensor([0, *(len(path.points) for path in paths)]).cumsum(0).tolist()[:-1]
    route = torch.cat([path.route + shift for path, shift in zip(paths, shifts, strict=True)])
    offsets = torch.cat([torch.zeros(1, dtype=torch.long), torch.cat([path.n_knots for path in paths]).cumsum(0)])
    return Path(torch.cat([path.points for path in paths]), route, offsets).select(order), shifts
