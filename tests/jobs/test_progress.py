"""What a job says while it runs."""

import io
import os
import signal
import sys
from collections import Counter

import pytest

from leastpath.jobs import progress as module
from leastpath.jobs.progress import Progress, interruption
from leastpath.jobs.shards import Done


def test_a_line_says_done_rate_time_left_gradients_and_failures(monkeypatch):
    clock = iter([0.0])
    monkeypatch.setattr(module.time, "monotonic", lambda: next(clock, 2.0))
    progress = Progress(1000, there=400, stream=None)
    progress.add(Done(0, 100, gradients=5000, failures=Counter({"ValueError: NaN": 3, "OSError": 1})))
    assert progress.line() == (
        "500/1,000 rows (50%), 50 rows/s, 10s left, 5,000 gradients, 4 failed: 3 × ValueError: NaN; 1 × OSError"
    )


def test_the_rate_leaves_out_the_start_of_the_workers(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(module.time, "monotonic", lambda: now[0])
    progress = Progress(10_000, stream=None)
    for now[0], rows in ((20.0, 100), (21.0, 1000), (22.0, 1000)):
        progress.add(Done(0, rows))
    assert progress.rate == 1000 and "1,000 rows/s, 8s left" in progress.line()


def test_a_plan_is_said_once_after_the_first_rows(monkeypatch):
    """By a worker in this process after its first batch, by others after the first shard; not for what is quick."""
    monkeypatch.setattr(module.time, "monotonic", lambda: 100.0)
    stream = io.StringIO()
    progress = Progress(1000, there=400, stream=stream)
    progress.note_pace(4, 2.0)
    progress.note_pace(8, 4.0)
    progress.add(Done(0, 100))
    assert stream.getvalue().splitlines()[0][9:] == "about 5 min 0 s for 600 rows, at 2 rows/s"
    assert len(stream.getvalue().splitlines()) == 1
    progress = Progress(1000, stream=stream)
    assert "? left" in progress.line()
    progress.note_pace(4, 2.0)
    assert "2 rows/s, 8m20s left" in progress.line()
    quick = io.StringIO()
    Progress(1000, stream=quick).note_pace(900, 1.0)
    assert not quick.getvalue()


@pytest.mark.parametrize(("seconds", "words"), [(float("nan"), "?"), (5, "5s"), (65, "1m05s"), (7260, "2h01m")])
def test_times_are_short(seconds, words):
    assert module._time(seconds) == words


def test_plain_lines_where_there_is_no_terminal(monkeypatch):
    monkeypatch.setattr(module, "EVERY", 0.0)
    stream = io.StringIO()
    with Progress(20, stream=stream).show() as progress:
        progress.add(Done(0, 10))
        progress.add(Done(1, 10))
    lines = stream.getvalue().splitlines()
    assert len(lines) == 3 and "10/20 rows (50%)" in lines[0] and "20/20 rows (100%)" in lines[-1]
    assert "\x1b" not in stream.getvalue() and "\r" not in stream.getvalue()


def test_one_live_display_on_a_terminal():
    pytest.importorskip("rich")

    class Terminal(io.StringIO):
        def isatty(self):
            return True

    stream = Terminal()
    with Progress(20, stream=stream).show() as progress:
        progress.add(Done(0, 20))
    assert "20/20 rows (100%)" in stream.getvalue()


@pytest.mark.skipif(sys.platform == "win32", reason="sends a POSIX signal")
def test_the_first_ctrl_c_is_a_wish_and_the_second_an_order():
    stream = io.StringIO()
    before = signal.getsignal(signal.SIGINT)
    with interruption(stream) as stop:
        assert not stop()
        os.kill(os.getpid(), signal.SIGINT)
        assert stop() and "finishing the shards" in stream.getvalue()
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is before
