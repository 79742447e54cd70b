"""Work in the background: one task at a time, with progress, that can be stopped; and what was found lately."""

from __future__ import annotations

import queue
import secrets
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Generic, Literal, TypeVar

from leastpath._support.checks import check_kind
from leastpath.explorer.meter import Meter
from leastpath.score.failures import reason_of

T = TypeVar("T")
State = Literal["running", "done", "stopped", "failed"]
EMPTY: Mapping[str, Any] = MappingProxyType({})  # a request that says nothing: what is shown first
MOST_WAITING = 32
MOST_KEPT = 60  # results; the oldest go first
MOST_TOLD = 200  # tasks that are over, and can still be asked about


def check_mapping(name: str, given: Any) -> Mapping[str, Any]:
    """What a request says, where it must be an object."""
    check_kind(name, given, Mapping, "an object: {} is what is shown first")
    return given


class Unknown(LookupError):
    """Something was asked for that is not there."""


@dataclass
class Task:
    """One computation. `work` gets its task and returns the name of what it found, and whether it was cut short.

    The work may `show` what it has before it is done. When it is over it is forgotten, with all that it holds.
    """

    work: Callable[[Task], tuple[str, bool]] | None
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
        self.meter.ask()
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
            assert self.work is not None
            self.meter.count(0)  # nobody may want it any more
            self.result, stopped = self.work(self)
            self.state, self.said = ("stopped", "stopped: this is what was finished") if stopped else ("done", "")
        except KeyboardInterrupt:
            self.state, self.said = "stopped", "stopped before anything was finished"
        except Exception as error:  # the user's model may raise anything
            self.state, self.said = "failed", reason_of(error)
        finally:
            self.work = None
            self.finished.set()
            self.shown.set()


class Worker:
    """A thread that does tasks one after the other."""

    def __init__(self) -> None:
        self._tasks: dict[str, Task] = {}
        self._waiting: queue.Queue[Task | None] = queue.Queue()
        self._ended = threading.Event()  # an interrupted join takes a thread that works on for one that ended
        threading.Thread(target=self._loop, name="leastpath explorer", daemon=True).start()

    def begin(self, work: Callable[[Task], tuple[str, bool]], meter: Meter, purpose: str | None = None) -> Task:
        """Put a task in the queue, or find the one that serves the same purpose and is not over."""
        for known in list(self._tasks.values()):
            if purpose is not None and known.purpose == purpose and known.state == "running" and known.meter.goes_on:
                return known
        if self._waiting.qsize() >= MOST_WAITING:
            raise ValueError(f"{MOST_WAITING} computations are waiting already: wait for them, or stop some")
        task = Task(work, meter, purpose)
        over = [name for name, known in list(self._tasks.items()) if known.finished.is_set()]
        for name in over[: max(0, len(self._tasks) - MOST_TOLD)]:
            self._tasks.pop(name, None)
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
        self._ended.wait(timeout=10)

    def _loop(self) -> None:
        while (task := self._waiting.get()) is not None:
            task.run()
        self._ended.set()


class Kept(Generic[T]):
    """What was found lately, by key. Threads may ask at once."""

    def __init__(self) -> None:
        self._found: dict[str, T] = {}
        self._lock = threading.Lock()

    def put(self, key: str, found: T) -> None:
        """Keep it. The oldest goes where there are too many."""
        with self._lock:
            self._found[key] = found
            while len(self._found) > MOST_KEPT:
                del self._found[next(iter(self._found))]

    def get(self, key: str) -> T | None:
        """What has this key, if anything does."""
        return self._found.get(key)

    def ask(self, key: str) -> T:
        """The same, where it must be there."""
        found = self.get(key)
        if found is None:
            raise Unknown(f"no result is called {key!r}: explain first")
        return found

    def items(self) -> list[tuple[str, T]]:
        """All of it, the oldest first."""
        with self._lock:
            return list(self._found.items())


class Working(Generic[T]):
    """What sessions share: tasks in the background, and what they found."""

    def __init__(self) -> None:
        self._worker, self._found = Worker(), Kept[T]()

    def close(self) -> None:
        """Stop all work."""
        self._worker.close()

    def task(self, name: str, seen: str | None = None, patience: float = 0.0) -> dict[str, Any]:
        """How far a task has come. Where that is no more than `seen`, some seconds are waited for news."""
        task = self._worker.find(name)
        task.wait_for_news(seen, patience)
        return task.status()

    def stop(self, name: str) -> dict[str, Any]:
        """Ask a task to stop. One that has not begun never does."""
        task = self._worker.find(name)
        task.meter.stop()
        return task.status()

    def start_first(self) -> list[Task]:
        """Begin with what the page asks for first, before it asks."""
        raise NotImplementedError

    def finish_first(self) -> None:
        """The same, waited for: a page without a server needs its results."""
        for task in self.start_first():
            while not task.finished.is_set():
                task.wait_for_news("", 1.0)

    def leave(self, name: str) -> dict[str, Any]:
        """A page does not ask any more: the task ends soon, unless another page does."""
        task = self._worker.find(name)
        task.meter.leave()
        return task.status()
