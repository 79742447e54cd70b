"""explain(): explains a data set of any size shard by shard, in one process or on a cluster."""

from __future__ import annotations

import contextlib
import json
import sys
import time
import warnings
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import torch

from leastpath._support.checks import check_kind
from leastpath._support.files import write_atomically
from leastpath._support.store import Store, StoreMismatch
from leastpath.account.run import Clock
from leastpath.integral.accuracy import Limits
from leastpath.jobs.contents import remember, save
from leastpath.jobs.executors import Executor, Processes, end_if_imported_by_a_worker, executor_of
from leastpath.jobs.job import DType, Job, Keep
from leastpath.jobs.lock import FolderInUse, hold_folder
from leastpath.jobs.output import Explanations
from leastpath.jobs.progress import Progress, interruption
from leastpath.jobs.shards import Assignment, Done, read_shard, rows_due
from leastpath.jobs.sources import Items, source_of
from leastpath.methods.explainer import Contender
from leastpath.score.behavior import check_behavior
from leastpath.score.score import Baselines, Score

ORPHANED = 3600.0  # seconds after which a file that no shard refers to was left by a worker that died


def explain(
    dataset: Any,
    model_factory: str | Callable[..., Any],
    method: Contender = "integrated_gradients",
    out: str | Path = "explanations",
    *,
    target: int | Literal["label", "predicted"] | None = None,
    output: Any = "raw",
    baselines: Baselines | str = None,
    executor: str | Executor = "inline",
    shard_size: int = 1024,
    batch_size: int = 32,
    keep: Keep = "values",
    dtype: DType | None = None,
    threads: int | None = None,
    device: str | None = None,
    data_settings: Mapping[str, Any] | None = None,
    model_settings: Mapping[str, Any] | None = None,
    method_settings: Mapping[str, Any] | None = None,
    fail_fast: bool = False,
    keep_failed: bool = False,
    seed: int = 0,
    max_seconds: float | None = None,
    show: bool = True,
    resume: bool = False,
    **executor_settings: Any,
) -> Explanations:
    """Explain every row of a data set, and keep the explanations in a folder.

    The work is cut into shards. The worker that did a shard writes it, completely or not at all. So a job can be killed
    at any moment: the same call continues it, and tries rows again that failed (`keep_failed=True` does not).
    A folder of other data, another model or another method is refused: data are compared by content,
    a model by what it is made of and by its outputs for the first rows. One process at a time works in a folder.

    Args:
        dataset: a file or folder of parquet, CSV, npz, npy or safetensors, a folder of pictures, a map-style dataset or
            its "package.module:name" (see `sources.source_of`).
        model_factory: a function that makes the model, called once in each worker, or its "package.module:name".
        method: a name of `leastpath.methods.METHODS`, a `Method`, a solver, a callable, or "package.module:name" of a
            function that makes one of these.
        out: the folder, which all workers must see.
        target: "predicted" (the class with the highest output), "label" (of the data), a class index, or None where the
            model returns one number per example.
        output: as for `Score`.
        baselines: None (zeros), a number, or a tensor (1, …) that all rows share, or "package.module:name" of one.
        executor: "inline", "processes" (`workers=2`), "ray" (`address=…, num_gpus=1`), or an executor.

    Rarely needed:
        shard_size: rows of a shard, which is what a killed worker loses at most.
        batch_size: rows that are explained together.
        keep: "values", "pixels" (summed over channels) or "nothing" (the table only).
        dtype: of the values on disk; "float16" takes half the space. By default that of the inputs.
        threads: of torch, in each worker; 1 with "processes".
        device: of the model; a GPU where there is one.
        data_settings, model_settings, method_settings: of the source, the factory and the method.
        fail_fast: raise the first error. Otherwise a row that fails is kept with the reason.
        keep_failed: do not try rows again that failed at an earlier start.
        seed: of everything random in the method.
        max_seconds: time for this start of the job. When it is used up, no further row is begun; the same call later
            does the rest. It depends on the machine, and is no part of what the folder is for.
        show: progress on stderr, and after the first rows about how long it will take.
        resume: go on although the data, model or method hold something that cannot be described, such as an open
            connection. It is an error otherwise, since nobody can tell whether it has changed.
        executor_settings: of the executor that is named.

    Ctrl-C finishes the shards that have begun. A second Ctrl-C ends at once.

    Example:
        >>> import tempfile, torch
        >>> rows = [torch.rand(3) for _ in range(10)]
        >>> found = explain(rows, lambda: lambda x: x.prod(1), out=tempfile.mkdtemp(), shard_size=4, show=False)
        >>> found
        Explanations(10 of 10 rows in 3 shards)
    """
    check_kind("data_settings", data_settings or {}, Mapping, "names and values, {name: value}")
    job = Job(
        source_of(dataset, **(data_settings or {})), model_factory, method, out, target=target, output=output,
        model_settings={} if model_settings is None else model_settings,
        method_settings={} if method_settings is None else method_settings, baselines=baselines,
        seed=seed, shard_size=shard_size, batch_size=batch_size, keep=keep, dtype=dtype, device=device, threads=threads,
        fail_fast=fail_fast, keep_failed=keep_failed,
    )  # fmt: skip
    return run_job(job, executor_of(executor, **executor_settings), show=show, resume=resume, max_seconds=max_seconds)


def run_job(
    job: Job, executor: Executor, *, show: bool = True, resume: bool = False, max_seconds: float | None = None
) -> Explanations:
    """Do what is left of a job, or as much of it as there is time for.

    Example:
        >>> import tempfile, torch
        >>> from leastpath.jobs.executors import InProcess
        >>> rows, out = source_of([torch.rand(2)]), tempfile.mkdtemp()
        >>> job = Job(rows, lambda: lambda x: x.prod(1), "integrated_gradients", out)
        >>> run_job(job, InProcess(), show=False)
        Explanations(1 of 1 rows in 1 shard)
    """
    Limits(max_seconds=max_seconds)
    clock = Clock(max_seconds)
    if isinstance(executor, Processes):
        end_if_imported_by_a_worker()
        if job.threads is None:
            job = replace(job, threads=1)  # the threads of several workers would compete for the same cores
    if not len(job.source):
        raise ValueError("the data set is empty")
    with job.importing(), hold_folder(Path(job.out)) as lost:
        return _run_held(job, executor, show, resume, lost, clock)


def _run_held(
    job: Job, executor: Executor, show: bool, resume: bool, lost: Callable[[], bool], clock: Clock
) -> Explanations:
    """Do what is left of a job whose folder this process holds, until the time is used up."""
    store, config = _open_store(job, resume)
    # Also shards that have rows which failed: the reason may have passed.
    shards = range(job.n_shards)
    missing = [n for n in shards if (unit := read_shard(store, n)) is None or rows_due(unit, job.keep_failed)]
    there = len(job.source) - sum(len(job.rows(shard)) for shard in missing)
    progress = Progress(len(job.source), there, sys.stderr if show else None)
    reported = set(shards) - set(missing)
    no_time = False  # for any row of a shard
    try:
        with progress.show(), interruption(progress.stream) as pressed:
            until = None if clock.max_seconds is None else time.time() + clock.left()
            assignment = Assignment(job, config, until, progress.note_pace)
            for done in executor.run(assignment, missing, lambda: pressed() or lost() or clock.left() == 0):
                if not done.rows:
                    no_time = True
                    continue
                progress.add(done)
                reported.add(done.shard)
                if done.failures.total() == progress.done:  # most often a mistake in the job's settings
                    _warn_of_failure(done)
    finally:
        found = _wait_for_output(job.out, reported)
        late = clock.asked is not None and bool(no_time or found.cut or clock.left() == 0)
        if show and not found.finished:
            why = f"stopped after {clock.words}: " if late else ""
            kept = f"{found.done:,} of {len(found):,} rows are done and kept in {job.out}"
            print(f"{why}{kept}. To go on, start the job again", file=sys.stderr)
    if lost():
        raise FolderInUse(f"{job.out} was taken over by another process, since this one stood still: it does the rest")
    if not found.done and not pressed() and not late:
        raise ChildProcessError(
            f"no row of {job.out} was explained: all workers died or were lost, and the warnings say how. Give them "
            "more memory, or a smaller batch_size, and start the job again"
        )
    if found.finished:
        store.tidy(older_than=ORPHANED)
    return found


def _open_store(job: Job, resume: bool) -> tuple[Store, dict[str, Any]]:
    """The store of a job and its configuration, once data and model are known to be those of the last start."""
    digests = Path(job.out) / "contents.json"
    remember(digests)
    model = job.model(torch.device("cpu"))
    config = job.config(model)
    store = Store(job.out, config, resume=resume)
    _check_rows(job)
    rows = job.first_rows()
    if rows is not None:
        check_behavior(job.out, Score(model), rows)
    files = getattr(job.source, "files", None)
    if files is not None:
        save(digests, files)
    return store, config


def _check_rows(job: Job) -> None:
    """Refuse a dataset whose rows are others than at the last start, as far as a few of them show."""
    if not isinstance(job.source, Items):
        return
    note, now = Path(job.out) / "rows.json", job.source.some_rows()
    kept: dict[str, str] = {}
    with contextlib.suppress(OSError, ValueError):
        kept = dict(json.loads(note.read_text(encoding="utf-8")))
    other = next((i for i in now if kept.get(i, now[i]) != now[i]), None)
    if other is not None:
        raise StoreMismatch(
            f"row {other} of the data is not what it was when {job.out} was begun: give another folder, or the old data"
        )
    if now.keys() - kept.keys():
        write_atomically(note, json.dumps(kept | now).encode())


def _wait_for_output(out: str | Path, reported: set[int]) -> Explanations:
    """The output, with all that workers have reported: a network's file system may show it a moment later."""
    for wait in (0.1, 0.4, 1.5, 4.0):
        found = Explanations(out)
        if not reported.intersection(found.missing):
            break
        time.sleep(wait)
    return Explanations(out)


def _warn_of_failure(done: Done) -> None:
    reason = done.failures.most_common(1)[0][0]
    warnings.warn(
        f"all {done.rows} rows of the first shard failed ({reason}). If this is a mistake in the job, stop it, correct "
        "it, and give another folder; fail_fast=True raises the first error with its traceback",
        UserWarning,
        stacklevel=4,
    )
