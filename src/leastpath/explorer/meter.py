"""Meter: how far the work on a model has come, and the wish to stop it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from torch import Tensor, nn

from leastpath.account.run import shown_by
from leastpath.score.score import Score

MOST_SILENCE = 90.0  # seconds without a question, after which nobody seems to wait; hidden tabs ask once a minute
LAST_SECONDS = 5.0  # that another page has to ask, when one has left


class Meter:
    """Counts the rows that a model is given, and interrupts it when asked to.

    Args:
        expected: rows that the work will take, roughly.
    """

    def __init__(self, expected: int) -> None:
        self.expected = max(1, expected)
        self.rows = 0
        self.stage = ""
        self.stopped = False
        self._wanted, self._for_good = threading.Event(), False
        self._begun = self._asked = time.monotonic()

    def stop(self, for_good: bool = False) -> None:
        """Interrupt the work at the model's next call, as Ctrl-C would: what is finished by then is kept.

        For good, nothing more is asked of the model, not even what a result still needs.
        """
        self._for_good = self._for_good or for_good
        self._wanted.set()

    def ask(self) -> None:
        """Somebody waits for the work."""
        self._asked = time.monotonic()

    def leave(self) -> None:
        """Somebody does not any more. It ends soon, unless somebody else asks."""
        self._asked = min(self._asked, time.monotonic() - MOST_SILENCE + LAST_SECONDS)

    @property
    def goes_on(self) -> bool:
        """Whether nobody asked to stop."""
        return not self._wanted.is_set()

    def count(self, rows: int) -> None:
        """The model is about to be given some rows. Raises KeyboardInterrupt, once, where a stop was asked for.

        Where nobody waits any more, it does so for good.
        """
        if time.monotonic() - self._asked > MOST_SILENCE:
            self.stop(for_good=True)
        if self._wanted.is_set() and (self._for_good or not self.stopped):
            self.stopped = True
            raise KeyboardInterrupt
        self.rows += rows

    @property
    def done(self) -> float:
        """The share of the work that is done, from 0 to 0.99: a guess by rows."""
        return min(0.99, self.rows / self.expected)

    @property
    def sentence(self) -> str:
        """What is going on, and how long it may still take."""
        if self._wanted.is_set():
            return "stopping: what is finished is being put together"
        left = (time.monotonic() - self._begun) * (1 / self.done - 1) if self.done else None
        times = "" if left is None else f"about {left:.0f} second{'' if round(left) == 1 else 's'} left"
        return ", ".join(part for part in (self.stage, times) if part) or "starting"

    def over(self, score: Score) -> Score:
        """The same score, metered."""
        return replace(score, model=MeteredModel(score.model, self))

    def show_bars(self) -> Any:
        """For a `with` block: progress bars that are opened in it are shown here."""
        return shown_by(self._show)

    def _show(self, description: str, share: float) -> None:
        self.stage = f"{description} {share:.0%}" if 0 < share < 1 else description


class MeteredModel(nn.Module):
    """A model that tells a meter of every call."""

    def __init__(self, model: Callable[..., Any], meter: Meter) -> None:
        super().__init__()
        self.model, self.meter = model, meter
        self.training = isinstance(model, nn.Module) and model.training

    def forward(self, *arguments: Any) -> Any:
        """What the model says."""
        first = arguments[0] if arguments else None
        self.meter.count(len(first) if isinstance(first, Tensor) and first.ndim else 1)
        return self.model(*arguments)
