"""Executors: where shards are done.

An executor turns shard numbers into `Done` objects, in the order in which they finish. Workers write their shards
themselves, to storage that all of them see. Only counts come back.
"""

from __future__ import annotations

import ctypes
import os
import signal
import threading
import time
import warnings
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing import connection, current_process, get_all_start_methods, get_context, parent_process
from multiprocessing.process import BaseProcess
from typing import Annotated, Any, Protocol

import torch

from leastpath._support.checks import Count, NotNegative, Range, Settings
from leastpath._support.files import reason_of
from leastpath._support.optional import import_optional
from leastpath.jobs.shards import Assignment, Done, run_shard

Stop = Callable[[], bool]


class Executor(Protocol):
    """Does shards somewhere."""

    def run(self, assignment: Assignment, shards: Iterable[int], stop: Stop) -> Iterator[Done]:
        """Do the shards. When `stop()` turns true, finish what has begun and return."""


@dataclass(frozen=True)
class InProcess:
    """One shard after the other, in this process: for small jobs, one GPU, and debugging.

    Example:
        >>> import tempfile, torch
        >>> import leastpath.jobs as jobs
        >>> rows, model = [torch.rand(3) for _ in range(4)], lambda: lambda x: x.prod(1)
        >>> jobs.explain(rows, model, out=tempfile.mkdtemp(), executor=InProcess(), show=False)
        Explanations(4 of 4 rows in 1 shard)
    """

    def run(self, assignment: Assignment, shards: Iterable[int], stop: Stop) -> Iterator[Done]:
        """Do the shards in this process, whose threads are as before when the job ends."""
        threads = torch.get_num_threads()
        try:
            worker = assignment.worker()
            for shard in shards:
                if stop():
                    return
                yield worker.do(shard)
        finally:
            torch.set_num_threads(threads)


@dataclass(frozen=True)
class Processes(Settings):
    """Worker processes on this machine. A worker that dies is replaced, and its shard is done again.

    Args:
        workers: how many; the number of cores by default.
        max_retries: how often a shard may lose its worker before it is given up.
        start_method: "spawn" is safe everywhere; "fork" starts faster, but does not work with CUDA or threads.

    Example:
        >>> import leastpath.jobs as jobs
        >>> jobs.explain("rows.parquet", "mypackage:model", executor=Processes(workers=2))  # doctest: +SKIP
        Explanations(100,000 of 100,000 rows in 98 shards)
    """

    workers: Count | None = None
    max_retries: Annotated[int, Range(least=0)] = 3
    start_method: str = "spawn"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.start_method not in get_all_start_methods():
            known = ", ".join(get_all_start_methods())
            raise ValueError(f"start_method={self.start_method!r} is unknown here: use one of {known}")

    def run(self, assignment: Assignment, shards: Iterable[int], stop: Stop) -> Iterator[Done]:
        """Do the shards in processes, each of which keeps its model."""
        todo = deque(shards)
        n = min(self.workers or os.cpu_count() or 1, max(1, len(todo)))
        # One pool for each worker: where one worker of a pool dies, what the whole pool does is lost.
        free = [self._worker() for _ in range(n)]
        running: dict[Future[Done], tuple[_OneWorker, int]] = {}
        deaths: Counter[int] = Counter()
        try:
            while running or (todo and not stop()):
                while free and todo and not stop():
                    worker, shard = free.pop(), todo.popleft()
                    try:
                        running[worker.pool.submit(run_shard, assignment.pickled, shard)] = worker, shard
                    except BrokenProcessPool:  # it died while it was idle
                        free.append(self._replacement(worker))
                        todo.appendleft(shard)
                    except (EOFError, ConnectionError) as error:  # of a fork server, which imports the script as well
                        raise ValueError(_UNGUARDED) from error
                for future in wait(running, timeout=0.2, return_when=FIRST_COMPLETED).done:
                    worker, shard = running.pop(future)
                    if not isinstance(future.exception(), BrokenProcessPool):
                        free.append(worker)
                        yield future.result()
                        continue
                    free.append(self._replacement(worker))
                    deaths[shard] += 1
                    if deaths[shard] <= self.max_retries:
                        todo.appendleft(shard)
                    else:
                        reason = f"its worker died {deaths[shard]} times (out of memory? pass a smaller batch_size)"
                        _warn_of_loss(shard, reason)
        finally:
            for worker in [*free, *(worker for worker, _ in running.values())]:
                end_pool(worker.pool)

    def _worker(self) -> _OneWorker:
        context = get_context(self.start_method)
        begun = context.RawValue("b", 0)  # no Event: a worker that is killed while it holds its lock keeps it for ever
        return _OneWorker(ProcessPoolExecutor(1, context, initializer=begin_worker, initargs=(begun,)), begun)

    def _replacement(self, dead: _OneWorker) -> _OneWorker:
        codes = [_exit_code(process) for process in (dead.pool._processes or {}).values()]
        dead.pool.shutdown(wait=False)
        _refuse_a_script_that_no_worker_can_import(dead, codes[0] if codes else None)
        return self._worker()


@dataclass(frozen=True)
class _OneWorker:
    """A pool of one process, and whether that process has got as far as being ready for work."""

    pool: ProcessPoolExecutor
    begun: ctypes.c_byte  # in shared memory: 1


def end_if_imported_by_a_worker() -> None:
    """End a worker that runs the job once more, because it imports the script that starts the job."""
    if getattr(current_process(), "_inheriting", False):  # set while a new process imports the main script
        os._exit(UNGUARDED)


_UNGUARDED = (
    "each worker process imports your script, and the script starts the job when it is imported: put the call under "
    '`if __name__ == "__main__":`'
)


def _refuse_a_script_that_no_worker_can_import(dead: _OneWorker, code: int | None) -> None:
    """ValueError for a worker that ended before it began, as its replacement would.

    That is known from the worker itself, and does not depend on who collects its exit code. A worker that the system
    killed, which has a negative code, may have better luck next time.
    """
    if dead.begun.value or (code is not None and code < 0):
        return
    if code == FAILED:
        raise ValueError(
            "a worker process imports your script, which failed: its error stands above. Put what only the main "
            'process can do under `if __name__ == "__main__":`'
        )
    raise ValueError(_UNGUARDED)


def _exit_code(dead: BaseProcess, patience: float = 10.0) -> int | None:
    """The exit code of a process that has just ended.

    A pool knows that its worker died when the worker's files close. Its exit code comes a moment later, and is unknown
    for another moment while the pool's own thread collects it.
    """
    given_up = time.monotonic() + patience
    while dead.exitcode is None and time.monotonic() < given_up:
        time.sleep(0.005)
    return dead.exitcode


def _warn_of_loss(shard: int, reason: str) -> None:
    warnings.warn(f"shard {shard} was given up: {reason}. Start the job again to retry it", UserWarning, stacklevel=3)


def begin_worker(begun: ctypes.c_byte | None = None) -> None:
    """A worker says that it has begun, if somebody waits for that.

    It ignores Ctrl-C, which its parent handles, and ends when its parent ends.
    """
    if begun is not None:
        begun.value = 1
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = parent_process()

    def follow() -> None:
        connection.wait([parent.sentinel])  # type: ignore[union-attr]
        os._exit(1)

    threading.Thread(target=follow, daemon=True).start()


def end_pool(pool: ProcessPoolExecutor) -> None:
    """End a worker. One that is still busy, after an error or a second Ctrl-C, is terminated."""
    processes = list((pool._processes or {}).values())
    busy = bool(pool._pending_work_items)
    pool.shutdown(wait=not busy, cancel_futures=True)
    if busy:
        for process in processes:
            with suppress(ProcessLookupError, ValueError):
                process.terminate()


@dataclass(frozen=True)
class Ray(Settings):
    """Tasks of a Ray cluster (`leastpath[ray]`). Where a node dies, its tasks run again on other nodes.

    Args:
        address: of the cluster, as for `ray.init`; None starts one on this machine, or uses the one in RAY_ADDRESS.
        num_cpus, num_gpus: what one task takes; fractions share a GPU.
        max_retries: how often a task may lose its worker.
        in_flight: tasks handed to Ray at a time; by default a quarter more than can run.
        init: further arguments of `ray.init`.

    Example:
        >>> executor_of("ray", num_gpus=0.5)
        Ray(address=None, num_cpus=1, num_gpus=0.5, max_retries=3, in_flight=None, init={})
    """

    address: str | None = None
    num_cpus: NotNegative = 1
    num_gpus: NotNegative = 0
    max_retries: Annotated[int, Range(least=-1)] = 3
    in_flight: Count | None = None
    init: dict[str, Any] = field(default_factory=dict)

    def run(self, assignment: Assignment, shards: Iterable[int], stop: Stop) -> Iterator[Done]:
        """Do the shards as Ray tasks. Each worker process keeps its model for its next task."""
        ray = import_optional("ray", "the Ray executor needs Ray", "ray")
        started_here = not ray.is_initialized()
        if started_here:
            ray.init(address=self.address, log_to_driver=False, logging_level="warning", **self.init)
        try:
            self._refuse_too_much(ray)
            task = ray.remote(
                num_cpus=self.num_cpus, num_gpus=self.num_gpus, max_retries=self.max_retries, retry_exceptions=False
            )(run_shard)
            job, todo = ray.put(assignment.pickled), deque(shards)
            running: dict[Any, int] = {}
            while running or (todo and not stop()):
                while todo and len(running) < self._window(ray) and not stop():
                    shard = todo.popleft()
                    running[task.remote(job, shard)] = shard
                for reference in ray.wait(list(running), timeout=0.2)[0]:
                    done = self._result(ray, reference, running.pop(reference))
                    if done is not None:
                        yield done
        finally:
            if started_here:
                ray.shutdown()

    def _refuse_too_much(self, ray: Any) -> None:
        """A task that fits no node would wait for ever, without a word."""
        nodes = [node.get("Resources", {}) for node in ray.nodes() if node.get("Alive", True)]
        needs = {"CPU": self.num_cpus, "GPU": self.num_gpus}
        if any(all(node.get(kind, 0) >= need for kind, need in needs.items()) for node in nodes):
            return
        largest = {kind: max((node.get(kind, 0) for node in nodes), default=0) for kind in needs}
        raise ValueError(
            f"a task takes num_cpus={self.num_cpus} and num_gpus={self.num_gpus}, and no node of the cluster has both "
            f"(at most {largest['CPU']:g} CPUs and {largest['GPU']:g} GPUs): ask for less"
        )

    def _window(self, ray: Any) -> int:
        """How many tasks to hand over: as many as can run, and a quarter more, so that no worker waits for one."""
        have = ray.cluster_resources()
        needs = {"CPU": self.num_cpus, "GPU": self.num_gpus}
        slots = max(1, int(min((have.get(kind, 0) / need for kind, need in needs.items() if need > 0), default=1)))
        return self.in_flight or slots + max(1, slots // 4)

    @staticmethod
    def _result(ray: Any, reference: Any, shard: int) -> Done | None:
        try:
            done: Done = ray.get(reference)
            return done
        except ray.exceptions.RayTaskError as error:
            raise error.as_instanceof_cause() from error
        except ray.exceptions.RayError as error:
            _warn_of_loss(shard, f"{type(error).__name__}, {reason_of(error)}")
            return None


FAILED = 1  # Python's exit code after an error
UNGUARDED = 77  # the exit code of a worker that found the job's own call while it imported the script
EXECUTORS: dict[str, type] = {"inline": InProcess, "processes": Processes, "ray": Ray}


def executor_of(given: str | Executor, **settings: Any) -> Executor:
    """An executor by its name, "inline", "processes" or "ray", with its settings; or one as it is.

    Example:
        >>> executor_of("processes", workers=2)
        Processes(workers=2, max_retries=3, start_method='spawn')
    """
    is_known = given in EXECUTORS if isinstance(given, str) else hasattr(given, "run")
    if not is_known:
        raise ValueError(f"executor={given!r} is unknown: use one of {', '.join(EXECUTORS)}")
    if not isinstance(given, str):
        if settings:
            raise ValueError(f"settings {sorted(settings)} belong to the executor: give them where it is made")
        return given
    try:
        made: Executor = EXECUTORS[given](**settings)
    except TypeError as error:
        raise ValueError(f"the executor {given!r} does not take {sorted(settings)}: {error}") from None
    return made
