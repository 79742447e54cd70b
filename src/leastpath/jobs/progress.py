"""What a running job says: one live display on a terminal, plain lines elsewhere."""

from __future__ import annotations

import math
import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, TextIO

from leastpath.jobs.shards import Done

EVERY = 10.0  # seconds between plain lines


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
        self._live: Any = None

    def add(self, done: Done) -> None:
        """A shard is finished."""
        self.done += done.rows
        self.gradients += done.gradients
        self.failures += done.failures
        self._first = self._first or (time.monotonic(), done.rows)
        self._show()

    @property
    def rate(self) -> float:
        """Rows a second, of this run; from the second shard on without the time that workers took to start."""
        begin, before = self._first if self._first and self._first[1] < self.done else (self.start, 0)
        return (self.done - before) / max(time.monotonic() - begin, 1e-9)

    def line(self) -> str:
        """All there is to say, in one line."""
        total = self.there + self.done
        left = (self.rows - total) / self.rate if self.done else float("nan")
        parts = [
            f"{total:,}/{self.rows:,} rows ({total / max(self.rows, 1):.0%})",
            f"{self.rate:,.0f} rows/s" if self.rate >= 100 else f"{self.rate:.3g} rows/s",
            f"{_time(left)} left",
            f"{self.gradients:,} gradients",
        ]
        if self.failures:
            reasons = "; ".join(f"{n} × {reason}" for reason, n in self.failures.most_common(3))
            parts.append(f"{self.failures.total():,} failed: {reasons}")
        return ", ".join(parts)

    @contextmanager
    def shown(self) -> Iterator[Progress]:
        """Keep the display up for the time of a `with` block."""
        if self.stream is None:
            yield self
        elif not self.stream.isatty():
            if self.there:
                self._print(f"resuming: {self.there:,} of {self.rows:,} rows are there already")
            yield self
            self._print(self.line())
        else:
            with self._terminal():
                yield self

    @contextmanager
    def _terminal(self) -> Iterator[None]:
        try:
            from rich.console import Console
            from rich.live import Live
        except ImportError:
            yield
            self._print(self.line())
            return
        with Live(console=Console(file=self.stream), refresh_per_second=4, get_renderable=self._drawn) as live:
            self._live = live
            yield

    def _drawn(self) -> Any:
        from rich.console import Group
        from rich.progress_bar import ProgressBar
        from rich.text import Text

        return Group(ProgressBar(total=self.rows, completed=self.there + self.done, width=60), Text(self.line()))

    def _show(self) -> None:
        if self.stream is None or self._live is not None:
            return
        if time.monotonic() - self._last > EVERY:
            self._last = time.monotonic()
            self._print(self.line())

    def _print(self, words: str) -> None:
        print(f"{time.strftime('%H:%M:%S')} {words}", file=self.stream, flush=True)


def _time(seconds: float) -> str:
    if math.isnan(seconds):
        return "?"
    minutes, s = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}h{minutes:02d}m" if hours else f"{minutes}m{s:02d}s" if minutes else f"{s}s"


class Interruption:
    """Ctrl-C as a wish: the first finishes what has begun, the second ends at once.

    Example:
        >>> with Interruption() as stop:
        ...     stop()
        False
    """

    def __init__(self, stream: TextIO | None = None) -> None:
        self.stream, self.wanted = stream, False
        self._before: Any = None

    def __call__(self) -> bool:
        return self.wanted

    def __enter__(self) -> Interruption:
        if threading.current_thread() is threading.main_thread():
            self._before = signal.signal(signal.SIGINT, self._heard)
        return self

    def __exit__(self, *_: object) -> None:
        if self._before is not None:
            signal.signal(signal.SIGINT, self._before)

    def _heard(self, _number: int, _frame: FrameType | None) -> None:
        if self.wanted:
            raise KeyboardInterrupt
        self.wanted = True
        if self.stream is not None:
            print("\nfinishing the shards that have begun; Ctrl-C again ends at once", file=self.stream, flush=True)
