"""Work in the background: one job at a time, with progress, that can be stopped."""

from __future__ import annotations

import queue
import secrets
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

from leastpath.explorer.watch import Watch

State = Literal["running", "done", "stopped", "failed"]
MOST_WAITING = 32


@dataclass
class Job:
    """One computation. `task` gets its job and returns the name of what it found, and whether it was cut short.

    The task may `show` what it has before it is done.

    Example:
        >>> Job(lambda job: ("key", False), Watch(1)).state
        'running'
    """

    task: Callable[[Job], tuple[str, bool]]
    watch: Watch
    purpose: str | None = None
    """Jobs with the same one do the same."""
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
            sentence = self.watch.sentence if self.begun else "waiting for the computation before"
        done = self.watch.done if self.state == "running" else 1.0
        return {"job": self.name, "state": self.state, "done": done, "sentence": sentence, "result": self.result}

    def run(self) -> None:
        """Do the work. Whatever happens is told by the state."""
        self.begun = True
        try:
            self.result, stopped = self.task(self)
            self.state, self.said = ("stopped", "stopped: this is what was finished") if stopped else ("done", "")
        except KeyboardInterrupt:
            self.state, self.said = "stopped", "stopped before anything was finished"
        except Exception as error:  # the user's model may raise anything
            reason = str(error).strip().partition("\n")[0] or type(error).__name__
            self.state, self.said = "failed", reason
        finally:
            self.finished.set()
            self.shown.set()


class Work:
    """A thread that does jobs one after the other.

    Example:
        >>> work = Work()
        >>> job = work.begin(lambda job: ("key", False), Watch(1))
        >>> job.finished.wait(10), job.status()["result"]
        (True, 'key')
        >>> work.close()
    """

    def __init__(self) -> None:
        self._jobs: dict[str, Job] = {}
        self._waiting: queue.Queue[Job | None] = queue.Queue()
        self._thread = threading.Thread(target=self._loop, name="leastpath explorer", daemon=True)
        self._thread.start()

    def begin(self, task: Callable[[Job], tuple[str, bool]], watch: Watch, purpose: str | None = None) -> Job:
        """Put a job in the queue, or find the one that serves the same purpose and is not over."""
        for known in list(self._jobs.values()):
            if purpose is not None and known.purpose == purpose and known.state == "running" and known.watch.goes_on:
                return known
        if self._waiting.qsize() >= MOST_WAITING:
            raise ValueError(f"{MOST_WAITING} computations are waiting already: wait for them, or stop some")
        job = Job(task, watch, purpose)
        self._jobs[job.name] = job
        self._waiting.put(job)
        return job

    def job(self, name: str) -> Job:
        """The job of this name. KeyError where there is none."""
        return self._jobs[name]

    def stop(self, name: str) -> Job:
        """Ask a job to stop. One that has not begun never does."""
        job = self._jobs[name]
        job.watch.stop()
        return job

    def close(self) -> None:
        """Stop all jobs and end the thread."""
        for job in list(self._jobs.values()):
            job.watch.stop(for_good=True)
        self._waiting.put(None)
        self._thread.join(timeout=10)

    def _loop(self) -> None:
        while (job := self._waiting.get()) is not None:
            job.run()
