"""Planning: how long a call will take, said after its first gradients, and a watch that ends a search in time."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

from leastpath.account.budget import OutOfTime
from leastpath.account.run import Run
from leastpath.integral.accuracy import Accuracy
from leastpath.score.bound import BoundScore
from leastpath.solvers.solution import PlansGradients, Solver

FIRST = 8  # gradients an example, after which the plan is said …
SOON = 3.0  # … or seconds, if these are over before
OF_LINE, OF_BENT = 120, 200  # gradients that measuring a path typically takes; a bent one with the line beside it
TIME_TO_SOLVE = 0.5  # of max_seconds; the rest is for measuring


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
        return f"about {in_words(total)}{most}: {what}{each}, at {in_words(seconds)} a gradient"


def in_words(seconds: float) -> str:
    """A time that is easy to read.

    Example:
        >>> in_words(0.0123), in_words(75), in_words(7300)
        ('12 ms', '1 min 15 s', '2 h 1 min')
    """
    if seconds < 1:
        return f"{1000 * seconds:.0f} ms" if seconds >= 0.01 else f"{1000 * seconds:.2g} ms"
    minutes, s = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {s} s" if minutes else f"{s} s"
