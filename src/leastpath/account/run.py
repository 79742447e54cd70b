"""Run: what one call carries along: its seed, its budget of gradients and of time, and its progress display.

The budget is the one ledger of gradients and of time: what each example has spent and may still spend. The score
counts the rows that it differentiates, for each example. A budget is a limit on this count, and everything that spends
gradients asks one first. A part of the work gets a stricter budget, made from the one of the call. All budgets of a
call read the same count, so that what one part spends is gone for all the others. Time counts in the same way: when it
is used up, nothing is left of any budget.
"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from functools import cached_property

import torch
from torch import Tensor

from leastpath._support.checks import in_words, seed_of
from leastpath._support.rows import draw_normal, draw_uniform
from leastpath.score.score import BoundScore

Examples = Tensor | int | slice  # which examples of the batch


EVERYONE = slice(None)


class OutOfTime(Exception):
    """The time for a search is used up. Solvers end as they do at Ctrl-C: with their best so far."""


STOPS = KeyboardInterrupt, OutOfTime  # what ends a search early


@dataclass(frozen=True)
class Clock:
    """The time of one call, from the moment it is made.

    Args:
        max_seconds: how many there are. None: as many as it takes.
        now: the time in seconds; another clock for tests.

    Example:
        >>> ticks = iter([100.0, 103.0, 112.0])
        >>> clock = Clock(10, lambda: next(ticks))
        >>> clock.left(), clock.left()
        (7.0, 0.0)
    """

    max_seconds: float | None = None
    now: Callable[[], float] = time.monotonic
    begin: float = math.nan  # when the call began; the moment it is made by default
    asked: float | None = None  # what the user said, of which this may be a part

    def __post_init__(self) -> None:
        if math.isnan(self.begin):
            object.__setattr__(self, "begin", self.now())
        if self.asked is None:
            object.__setattr__(self, "asked", self.max_seconds)

    def spent(self) -> float:
        """Seconds since the call began."""
        return self.now() - self.begin

    def left(self) -> float:
        """Seconds that are left; infinite without a limit."""
        return math.inf if self.max_seconds is None else max(0.0, self.max_seconds - self.spent())

    def part(self, share: float) -> Clock:
        """A clock that ends when a share of what is left now is used up."""
        return self if self.max_seconds is None else replace(self, max_seconds=self.spent() + share * self.left())

    @property
    def words(self) -> str:
        """For a sentence: after how much of which time."""
        return f"{self.spent():.3g} seconds (max_seconds={self.asked:g})"

    def affordable(self, gradients: float) -> float:
        """How many gradients the rest of the time pays for, if they take as long as `gradients` did so far."""
        if self.max_seconds is None or not gradients:
            return math.inf if self.left() else 0.0
        return self.left() * gradients / max(self.spent(), 1e-9)


NO_LIMIT = Clock()


@dataclass(frozen=True)
class Budget:
    """How many gradients each example of a bound score may spend. Made by `Run.budget`.

    `share`, `shared_by`, `at_most` and `keeping` make stricter budgets. They divide what is left at that moment, and
    what is reserved is not in them.

    Args:
        score: the one that counts.
        limit: (batch,) float64, the count that an example must not pass. Infinite: there is no limit.
        reserved: (batch,) the part of it that only `with_reserved` may spend.
        clock: the time of the call. None: time does not matter.

    Example:
        >>> import leastpath as lp
        >>> score = lp.Score(lambda x: x.prod(1)).bind(torch.ones(2, 3))
        >>> budget = lp.Run(max_gradients=100, reserved=20).budget(score)
        >>> half = budget.share(0.5)
        >>> _ = score.gradients(torch.ones(30, 3), torch.zeros(30, dtype=torch.long))  # all for the first example
        >>> budget.spent().tolist(), budget.left().tolist(), half.left().tolist()
        ([30.0, 0.0], [50.0, 80.0], [20.0, 50.0])
        >>> half.affords(25).tolist()
        [False, True]
    """

    score: BoundScore
    limit: Tensor
    reserved: Tensor
    clock: Clock | None = None

    @classmethod
    def of(cls, score: BoundScore, max_gradients: int | None, reserved: int = 0, clock: Clock | None = None) -> Budget:
        """The budget of a call: `max_gradients` an example, or no limit, of which some are reserved."""
        limit = torch.full((score.batch,), torch.inf if max_gradients is None else max_gradients, dtype=torch.float64)
        return cls(score, limit, torch.full_like(limit, reserved), clock)

    # ---- questions -----------------------------------------------------------------------------------------------

    @property
    def limited(self) -> bool:
        """Whether there is a limit, of gradients or of time that is used up."""
        return self.out_of_time or bool(torch.isfinite(self.limit).any())

    @cached_property
    def _endless(self) -> bool:
        """Whether no example has a limit: then a part of it has none either, whatever is reserved."""
        return bool(torch.isposinf(self.limit).all())

    @property
    def out_of_time(self) -> bool:
        """Whether the time of the call is used up: then nothing is left, whatever was spent."""
        return self.clock is not None and self.clock.left() == 0

    def spent(self, examples: Examples = EVERYONE) -> Tensor:
        """(n,) gradients that these examples have spent so far, in the whole call."""
        return torch.as_tensor(self.score.gradients_spent)[examples].clone()

    def left(self, examples: Examples = EVERYONE) -> Tensor:
        """(n,) gradients that these examples may still spend, without what is reserved."""
        left = ((self.limit - self.reserved)[examples] - self.spent(examples)).clamp_min(0)
        return torch.zeros_like(left) if self.out_of_time else left

    def least_left(self, examples: Examples = EVERYONE) -> float:
        """What each of these examples may still spend: the smallest of what they have left."""
        return float(self.left(examples).min())

    def affords(self, cost: float | Tensor, examples: Examples = EVERYONE) -> Tensor:
        """(n,) whether these examples may spend `cost` gradients more, one number or (n,)."""
        return self.left(examples) >= cost

    def grant(self) -> Tensor | None:
        """(batch,) what is left, as `integrate(max_gradients=…)` takes it: at least 1, and None without a limit."""
        return self.left().clamp_min(1) if self.limited else None

    # ---- stricter budgets ----------------------------------------------------------------------------------------

    @property
    def with_reserved(self) -> Budget:
        """The same budget with what is reserved: for the integral, which it is reserved for."""
        return replace(self, reserved=torch.zeros_like(self.reserved))

    def share(self, part: float) -> Budget:
        """A part of what is left. The reserved gradients count in the whole, but are never in the part."""
        if self._endless and not self.out_of_time:
            return self
        return self._stricter(part * (self.limit - self.spent()))

    def shared_by(self, n: int) -> Budget:
        """One of n equal parts of what is left."""
        return self._stricter(self.left() / n)

    def at_most(self, cost: float | Tensor) -> Budget:
        """No more than `cost` gradients from now on: one number or (batch,)."""
        return self._stricter(_counts(cost))

    def keeping(self, cost: float | Tensor) -> Budget:
        """What is left when `cost` gradients are kept for something else: one number or (batch,)."""
        if self._endless and not self.out_of_time:
            return self
        return self._stricter(self.left() - torch.where(torch.isfinite(self.limit), _counts(cost), 0))

    def _stricter(self, room: Tensor) -> Budget:
        """`room` (batch,) gradients from now on, or what is left where that is less."""
        limit = self.spent() + torch.minimum(room, self.left()).clamp_min(0)
        return replace(self, limit=limit, reserved=torch.zeros_like(limit))

    # ---- costs that several examples share -----------------------------------------------------------------------

    def pool(self, examples: Tensor) -> Budget:
        """All that `examples` (n,) have left, in the hands of the first, who spends for all of them."""
        limit = self.spent()
        limit[examples[0]] += self.left(examples).sum()
        return replace(self, limit=limit, reserved=torch.zeros_like(limit))


def _counts(cost: float | Tensor) -> Tensor:
    return torch.as_tensor(cost, dtype=torch.float64)


class Bar:
    """A progress display that shows nothing; the others have the same method."""

    def advance(self, steps: float = 1, note: str = "") -> None:
        """Some steps are done; `note` replaces the text at the end of the bar."""


Show = Callable[[str, float], None]
"""Is told what is going on, and the share of it that is done, from 0 to 1."""


_shown_by: ContextVar[Show | None] = ContextVar("shown_by", default=None)


@contextmanager
def shown_by(show: Show) -> Iterator[None]:
    """For the time of a `with` block, and in its thread only, progress bars are shown by a function of one's own.

    Example:
        >>> with shown_by(lambda what, share: print(what, share)), Run().bar("solving", 4) as bar:
        ...     bar.advance(2)
        solving 0.0
        solving 0.5
    """
    token = _shown_by.set(show)
    try:
        yield
    finally:
        _shown_by.reset(token)


@dataclass(frozen=True)
class Run:
    """Seed, budget and display of one call. Holds no state: two solvers given the same run draw the same numbers.

    `max_gradients` is per example, for solver and integral together. `reserved` of them are the integral's: no solver
    may spend them. `clock` has the time of the call. `budget` says what is left.

    Example:
        >>> import torch
        >>> run = Run(seed=3)
        >>> like = torch.zeros(())
        >>> torch.equal(run.noise((2,), like, draw=1), run.noise((2,), like, draw=1))
        True
    """

    seed: int = 0
    max_gradients: int | None = None
    progress: bool = False
    reserved: int = 0
    clock: Clock = NO_LIMIT

    def __post_init__(self) -> None:
        object.__setattr__(self, "seed", seed_of(self.seed))

    def budget(self, score: BoundScore) -> Budget:
        """What each example of a bound score may still spend. Solvers take a share: `run.budget(score).share(0.5)`."""
        return Budget.of(score, self.max_gradients, self.reserved, self.clock)

    def noise(self, shape: tuple[int, ...], like: Tensor, draw: int = 0) -> Tensor:
        """Standard normal numbers of one draw. The same for every example: a batch gives what a loop gives."""
        return draw_normal(self.seed, shape, like, draw)

    def uniform(self, shape: tuple[int, ...], like: Tensor, draw: int = 0) -> Tensor:
        """Uniform numbers in [0, 1) of one draw, the same for every example."""
        return draw_uniform(self.seed, shape, like, draw)

    def say(self, sentence: str) -> None:
        """One line beside the progress bars; nothing unless `progress` is set."""
        if self.progress:
            print(sentence, file=sys.stderr, flush=True)

    @contextmanager
    def bar(self, description: str, total: float) -> Iterator[Bar]:
        """A progress bar for the time of a `with` block; silent unless `progress` is set or somebody watches."""
        with self._make_bar(description, total) as bar:
            bar.advance(0)  # shows it
            yield bar

    @contextmanager
    def _make_bar(self, description: str, total: float) -> Iterator[Bar]:
        show = _shown_by.get()
        if show is not None:
            yield _ToldBar(show, description, total)
            return
        if not self.progress:
            yield Bar()
            return
        try:
            import rich.progress as display
        except ImportError:
            line = _LineBar(description, total)
            yield line
            line.close()
            return
        columns = (
            display.TextColumn("{task.description}"),
            display.BarColumn(),
            display.TaskProgressColumn(),
            display.TimeRemainingColumn(),
            display.TextColumn("{task.fields[note]}"),
        )
        with display.Progress(*columns) as shown:
            yield _RichBar(shown, shown.add_task(description, total=total, note=""))


class _RichBar(Bar):
    def __init__(self, shown: object, task: object) -> None:
        self._shown, self._task = shown, task

    def advance(self, steps: float = 1, note: str = "") -> None:
        self._shown.update(self._task, advance=steps, note=note)  # type: ignore[attr-defined]


class _ToldBar(Bar):
    """Tells a function of one's own."""

    def __init__(self, show: Show, description: str, total: float) -> None:
        self._show, self._description, self._total, self._done = show, description, total, 0.0

    def advance(self, steps: float = 1, note: str = "") -> None:
        self._done += steps
        self._show(self._description, min(1.0, self._done / max(self._total, 1e-9)))


class _LineBar(Bar):
    """Where rich is not installed: one line on stderr that is written over."""

    def __init__(self, description: str, total: float) -> None:
        self._description, self._total, self._done = description, total, 0.0

    def advance(self, steps: float = 1, note: str = "") -> None:
        self._done += steps
        share = min(1.0, self._done / max(self._total, 1e-9))
        print(f"\r{self._description} {share:4.0%} {note}", end="", file=sys.stderr, flush=True)

    def close(self) -> None:
        print(file=sys.stderr)


FIRST = 8  # gradients per example, after which the plan is said …


SOON = 3.0  # … or seconds, if these are over before


TIME_TO_SOLVE = 0.5  # of max_seconds; the rest is for measuring


@dataclass
class Watch:
    """Looks at the clock after each call of `gradients`.

    It says the plan once, and while a solver works it ends this work when its part of the time is used up.
    """

    run: Run
    score: BoundScore
    plan: Callable[[], tuple[int, int]]  # gradients to find a path and to measure it, about
    said: bool = False

    def __post_init__(self) -> None:
        self.for_solver = replace(self.run, clock=self.run.clock.part(TIME_TO_SOLVE))
        self.solving = False

    def __call__(self) -> None:
        spent = float(self.score.gradients_spent.sum())
        if self.run.progress and not self.said and (spent >= FIRST * self.score.batch or self.run.clock.spent() > SOON):
            self.said = True
            self.run.say(self.sentence(self.run.clock.spent() / spent))
        if self.solving and self.for_solver.clock.left() == 0:
            raise OutOfTime

    @contextmanager
    def over_solver(self, *scores: BoundScore) -> Iterator[None]:
        """While a solver works on these scores, which share one count."""
        self.solving = True
        for score in scores:
            if self.run.progress or self.run.clock.max_seconds is not None:
                score.after_gradients = self
        try:
            yield
        finally:
            self.solving = False

    def sentence(self, seconds: float) -> str:
        """The plan, where a gradient takes `seconds`."""
        finding, measuring = self.plan()
        total = seconds * (finding + measuring) * self.score.batch
        what = (
            f"{finding} gradients to find a path and {measuring} to measure it" if finding else f"{measuring} gradients"
        )
        each = f" for each of {self.score.batch} examples" if self.score.batch > 1 else ""
        limit = self.run.clock.asked
        most = "" if limit is None else f", and no more than max_seconds={limit:g}"
        return f"about {in_words(total)}{most}: {what}{each}, at {in_words(seconds)} per gradient"
