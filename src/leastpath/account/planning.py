"""Planning: how long a call will take, said after its first gradients, and a watch that ends a search in time."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

from leastpath._support.numbers import in_words
from leastpath.account.budget import OutOfTime
from leastpath.account.run import Run
from leastpath.score.bound import BoundScore

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
