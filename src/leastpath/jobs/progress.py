"""What a running job prints: one live display on a terminal, plain lines elsewhere."""

from __future__ import annotations

import math
import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING, TextIO

from leastpath._support.checks import in_words
from leastpath.jobs.shards import Done

if TYPE_CHECKING:
    from rich.live import Live

EVERY = 10.0  # seconds between plain lines
QUICK = 5.0  # seconds: what takes no longer needs no plan


class Progress:
    """Counts what is done, and shows it.

    Args:
        rows: of the whole job.
        there: rows that were done before.
        stream: where to; None shows nothing.
    """

    def __init__(self, rows: int, there: int = 0, stream: TextIO | None = sys.stderr) -> None:
        self.rows, self.there, self.stream = rows, there, stream
        self.done = self.gradients = 0
        self.failures: Counter[str] = Counter()
        self.start = self._last = time.monotonic()
        self._first: tuple[float, int] | None = None  # when the first shard was done, and its rows
        self._begun: float | None = None  # rows per second of a worker, before the first shard is done
        self._live = self._planned = False

    def note_pace(self, rows: int, seconds: float) -> None:
        """A worker in this process has done some rows of its first shards: then it is known how long all will take."""
        self._begun = rows / max(seconds, 1e-9)
        self._say_plan()

    def _say_plan(self) -> None:
        left = self.rows - self.there - self.done
        if self._planned or self.stream is None or self._live or left < QUICK * self.rate:
            return
        self._planned = True
        self._print(f"about {in_words(left / self.rate)} for {left:,} rows, at {self._pace()}")

    def add(self, done: Done) -> None:
        """Count a finished shard."""
        self.done += done.rows
        self.gradients += done.gradients
        self.failures += done.failures
        self._first = self._first or (time.monotonic(), done.rows)
        self._say_plan()
        if self.stream is not None and not self._live and time.monotonic() - self._last > EVERY:
            self._last = time.monotonic()
            self._print(self.line())

    @property
    def rate(self) -> float:
        """Rows per second of this run. From the second shard on, the time that workers took to start does not count."""
        if self._begun is not None and not self.done:
            return self._begun
        begin, before = self._first if self._first and self._first[1] < self.done else (self.start, 0)
        return (self.done - before) / max(time.monotonic() - begin, 1e-9)

    def line(self) -> str:
        """Rows done, rate, time left, gradients and failures, in one line."""
        total = self.there + self.done
        left = (self.rows - total) / self.rate if self.done or self._begun else float("nan")
        parts = [
            f"{total:,}/{self.rows:,} rows ({total / max(self.rows, 1):.0%})",
            self._pace(),
            f"{_time(left)} left",
            f"{self.gradients:,} gradients",
        ]
        if self.failures:
            reasons = "; ".join(f"{n} × {reason}" for reason, n in self.failures.most_common(3))
            parts.append(f"{self.failures.total():,} failed: {reasons}")
        return ", ".join(parts)

    def _pace(self) -> str:
        return f"{self.rate:,.0f} rows/s" if self.rate >= 100 else f"{self.rate:.3g} rows/s"

    @contextmanager
    def show(self) -> Iterator[Progress]:
        """Keep the display up for the time of a `with` block."""
        if self.stream is None:
            yield self
            return
        if self.stream.isatty():
            with self._display():
                yield self
            return
        if self.there:
            self._print(f"resuming: {self.there:,} of {self.rows:,} rows are there already")
        yield self
        self._print(self.line())

    def _display(self) -> Live:
        from rich.console import Console, Group
        from rich.live import Live
        from rich.progress_bar import ProgressBar
        from rich.text import Text

        def draw() -> Group:
            bar = ProgressBar(total=self.rows, completed=self.there + self.done, width=60)
            return Group(bar, Text(self.line()))

        self._live = True
        return Live(console=Console(file=self.stream), refresh_per_second=4, get_renderable=draw)

    def _print(self, words: str) -> None:
        print(f"{time.strftime('%H:%M:%S')} {words}", file=self.stream, flush=True)


def _time(seconds: float) -> str:
    if math.isnan(seconds):
        return "?"
    minutes, s = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}h{minutes:02d}m" if hours else f"{minutes}m{s:02d}s" if minutes else f"{s}s"


@contextmanager
def interruption(stream: TextIO | None = None) -> Iterator[Callable[[], bool]]:
    """Whether Ctrl-C was pressed, as a function. The first finishes what has begun, the second ends at once."""
    pressed = False

    def on_signal(_number: int, _frame: FrameType | None) -> None:
        nonlocal pressed
        if pressed:
            raise KeyboardInterrupt
        pressed = True
        if stream is not None:
            print("\nfinishing the shards that have begun; Ctrl-C again ends at once", file=stream, flush=True)

    if threading.current_thread() is not threading.main_thread():  # only the main thread can handle signals
        yield lambda: False
        return
    before = signal.signal(signal.SIGINT, on_signal)
    try:
        yield lambda: pressed
    finally:
        signal.signal(signal.SIGINT, before)
