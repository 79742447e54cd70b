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
    """One computation. `task` gets a watch and returns the name of what it found, and whether it was cut short.

    Example:
        >>> Job(lambda watch: ("key", False), Watch(1)).state
        'running'
    """

    task: Callable[[Watch], tuple[str, bool]]
    watch: Watch
    name: str = field(default_factory=lambda: secrets.token_hex(8))
    state: State = "running"
    result: str | None = None
    said: str = ""
    begun: bool = False
    finished: threading.Event = field(default_factory=threading.Event)

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
            self.result, stopped = self.task(self.watch)
            self.state, self.said = ("stopped", "stopped: this is what was finished") if stopped else ("done", "")
        except KeyboardInterrupt:
            self.state, self.said = "stopped", "stopped before anything was finished"
        except Exception as error:  # the user's model may raise anything
            reason = str(error).strip().partition("\n")[0] or type(error).__name__
            self.state, self.said = "failed", reason
        finally:
            self.finished.set()


class Work:
    """A thread that does jobs one after the other.

    Example:
        >>> work = Work()
        >>> job = work.begin(lambda watch: ("key", False), Watch(1))
        >>> job.finished.wait(10), job.status()["result"]
        (True, 'key')
        >>> work.close()
    """

    def __init__(self) -> None:
        self._jobs: dict[str, Job] = {}
        self._waiting: queue.Queue[Job | None] = queue.Queue()
        self._thread = threading.Thread(target=self._loop, name="leastpath explorer", daemon=True)
        self._thread.start()

    def begin(self, task: Callable[[Watch], tuple[str, bool]], watch: Watch) -> Job:
        """Put a job in the queue."""
        if self._waiting.qsize() >= MOST_WAITING:
            raise ValueError(f"{MOST_WAITING} computations are waiting already: wait for them, or stop some")
        job = Job(task, watch)
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
        for job in self._jobs.values():
            job.watch.stop()
        self._waiting.put(None)
        self._thread.join(timeout=10)

    def _loop(self) -> None:
        while (job := self._waiting.get()) is not None:
            job.run()
