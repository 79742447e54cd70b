"""The one oracle of fuzzing: a call is right, or refused in one sentence at the door. All else is a finding."""

from __future__ import annotations

import linecache
import signal
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import leastpath as lp

SOURCE = str(Path(lp.__file__).parent)
LONGEST = 900  # letters of an error
PATIENCE = 20  # seconds: every case is small, so what takes longer hangs
Verdict = str  # "right", "sentence", or a finding: "raw", "wrong", "hang"
FINDINGS = ("raw", "wrong", "hang")


@dataclass(frozen=True)
class Outcome:
    verdict: Verdict
    words: str = ""

    @property
    def is_finding(self) -> bool:
        return self.verdict in FINDINGS


class Wrong(AssertionError):
    """An answer that was given, and is not right."""


class Hangs(BaseException):
    """Raised by the clock; no BaseException, so that nobody takes it for an error of the model."""


def judge(call: Callable[[], Any], check: Callable[[Any], None] = lambda answer: None) -> Outcome:
    """What becomes of a call; `check` raises `Wrong` if its answer is not right."""
    try:
        with warnings.catch_warnings(), time_limit(PATIENCE):
            warnings.simplefilter("ignore")
            check(call())
    except Hangs:
        return Outcome("hang", f"no answer after {PATIENCE} s")
    except Wrong as wrong:
        return Outcome("wrong", str(wrong))
    except Exception as error:
        return judge_error(error)
    return Outcome("right")


def judge_error(error: Exception) -> Outcome:
    """A sentence of our own, or a raw error of Python, torch or NumPy."""
    words = str(error).strip()
    frame = traceback.extract_tb(error.__traceback__)[-1]
    line = linecache.getline(frame.filename, frame.lineno or 0).strip()
    ours = frame.filename.startswith(SOURCE) and line.startswith("raise")
    expected = isinstance(error, (ValueError, TypeError, OSError, ImportError, KeyError, IndexError))
    place = f"{Path(frame.filename).name}:{frame.lineno}"
    if not ours or not expected:
        return Outcome("raw", f"{type(error).__name__} at {place}: {words.splitlines()[0][:200] if words else ''}")
    if not words or "\n" in words or len(words) > LONGEST:
        return Outcome("raw", f"no sentence at {place}: {words[:200]!r}")
    return Outcome("sentence", words)


@contextmanager
def time_limit(seconds: int) -> Iterator[None]:
    """Of the processor, so that a busy machine is no hang; what only waits gets ten times as much of the clock."""

    def ring(*_: Any) -> None:
        raise Hangs

    before = [signal.signal(number, ring) for number in (signal.SIGPROF, signal.SIGALRM)]
    signal.setitimer(signal.ITIMER_PROF, seconds)
    signal.alarm(10 * seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.alarm(0)
        for number, handler in zip((signal.SIGPROF, signal.SIGALRM), before, strict=True):
            signal.signal(number, handler)
