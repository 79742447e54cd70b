"""Run: what one call carries along: its seed, its budget of gradients and of time, and its progress display."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace

from torch import Tensor

from leastpath._support.draws import draw_normal, draw_uniform
from leastpath._support.numbers import in_words
from leastpath.account.budget import Budget, Clock, OutOfTime
from leastpath.score.bound import BoundScore


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
    clock: Clock = field(default_factory=Clock)

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
        show(description, 0.0)

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
    planned: tuple[int, int]
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
            score.after_gradients = self
        try:
            yield
        finally:
            self.solving = False

    def sentence(self, seconds: float) -> str:
        """The plan, where a gradient takes `seconds`."""
        finding, measuring = self.planned
        total = seconds * (finding + measuring) * self.score.batch
        what = (
            f"{finding} gradients to find a path and {measuring} to measure it" if finding else f"{measuring} gradients"
        )
        each = f" for each of {self.score.batch} examples" if self.score.batch > 1 else ""
        limit = self.run.clock.asked
        most = "" if limit is None else f", and no more than max_seconds={limit:g}"
        return f"about {in_words(total)}{most}: {what}{each}, at {in_words(seconds)} per gradient"
