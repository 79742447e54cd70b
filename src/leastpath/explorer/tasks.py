"""Work in the background: one task at a time, with progress, that can be stopped."""

from __future__ import annotations

import queue
import secrets
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

from leastpath.explorer.meter import Meter
from leastpath.score.failures import reason_of

State = Literal["running", "done", "stopped", "failed"]
MOST_WAITING = 32


class Unknown(LookupError):
    """Something was asked for that is not there."""


@dataclass
class Task:
    """One computation. `work` gets its task and returns the name of what it found, and whether it was cut short.

    The work may `show` what it has before it is done.
    """

    work: Callable[[Task], tuple[str, bool]]
    meter: Meter
    purpose: str | None = None
    """Tasks with the same one do the same."""
    name: str = field(default_factory=lambda: secrets.token_hex(8))
    state: State = "running"
    result: str | None = None
    said: str = ""
    begun: bool = False
    finished: threading.Event = field(default_factory=threading.Event)
    shown: threading.Event = field(default_factory=threading.Event)

    def show(self, result: str) -> None:
        """There is something to see, though the work goes on."""
        self.result = result
        self.shown.set()

    def wait_for_news(self, seen: str | None, patience: float) -> None:
        """Until there is a result, or after `seen` until the end; at most `patience` seconds."""
        (self.shown if seen is None else self.finished).wait(patience)

    def status(self) -> dict[str, Any]:
        """What the page shows of it."""
        sentence = self.said
        if self.state == "running":
            sentence = self.meter.sentence if self.begun else "waiting for the computation before"
        done = self.meter.done if self.state == "running" else 1.0
        return {"task": self.name, "state": self.state, "done": done, "sentence": sentence, "result": self.result}

    def run(self) -> None:
        """Do the work. The state says what happened."""
        self.begun = True
        try:
            self.result, stopped = self.work(self)
            self.state, self.said = ("stopped", "stopped: this is what was finished") if stopped else ("done", "")
        except KeyboardInterrupt:
            self.state, self.said = "stopped", "stopped before anything was finished"
        except Exception as error:  # the user's model may raise anything
            self.state, self.said = "failed", reason_of(error)
        finally:
            self.finished.set()
            self.shown.set()


class Worker:
    """A thread that does tasks one after the other."""

    def __init__(self) -> None:
        self._tasks: dict[str, Task] = {}
        self._waiting: queue.Queue[Task | None] = queue.Queue()
        self._thread = threading.Thread(target=self._loop, name="leastpath explorer", daemon=True)
        self._thread.start()

    def begin(self, work: Callable[[Task], tuple[str, bool]], meter: Meter, purpose: str | None = None) -> Task:
        """Put a task in the queue, or find the one that serves the same purpose and is not over."""
        for known in list(self._tasks.values()):
            if purpose is not None and known.purpose == purpose and known.state == "running" and known.meter.goes_on:
                return known
        if self._waiting.qsize() >= MOST_WAITING:
            raise ValueError(f"{MOST_WAITING} computations are waiting already: wait for them, or stop some")
        task = Task(work, meter, purpose)
        self._tasks[task.name] = task
        self._waiting.put(task)
        return task

    def find(self, name: str) -> Task:
        """The task of this name."""
        if name not in self._tasks:
            raise Unknown(f"no task is called {name!r}")
        return self._tasks[name]

    def close(self) -> None:
        """Stop all tasks and end the thread."""
        for task in list(self._tasks.values()):
            task.meter.stop(for_good=True)
        self._waiting.put(None)
        self._thread.join(timeout=10)

    def _loop(self) -> None:
        while (task := self._waiting.get()) is not None:
            task.run()
