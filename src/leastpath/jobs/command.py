"""`leastpath run job.toml`: a job from a file."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any


def run(
    job: Path,
    executor: str | None = None,
    workers: int | None = None,
    address: str | None = None,
    out: Path | None = None,
    fail_fast: bool = False,
    report: bool = True,
) -> None:
    """Explain a data set as a job file says. Run it again to go on where it was stopped.

    Args:
        job: a TOML file with the tables [data], [model], [explain] and [run].
        executor: inline, processes or ray, instead of the one in the file.
        workers: number of local worker processes.
        address: of a Ray cluster.
        out: folder of the output, instead of the one in the file.
        fail_fast: stop at the first row that fails.
        report: write report.html beside the explanations when all is done.
    """
    from dataclasses import replace

    from leastpath.jobs.driver import run_job
    from leastpath.jobs.executors import executor_of
    from leastpath.jobs.job import Job
    from leastpath.jobs.page import report as written

    read, settings = Job.from_toml(job)
    kind, settings = _chosen(settings, executor, workers, address)
    if out is not None:
        read = replace(read, out=out)
    if read.threads is None and kind == "processes":
        read = replace(read, threads=1)
    read = replace(read, fail_fast=fail_fast or read.fail_fast)
    found = run_job(read, executor_of(kind, **settings))
    if not found.finished:
        sys.exit(130)  # as after Ctrl-C: there is more to do
    print(found)
    if report:
        written(found, Path(read.out) / "report.html", dataset=read.source)
        print(f"report: {Path(read.out) / 'report.html'}")


def _chosen(
    settings: dict[str, Any], executor: str | None, workers: int | None, address: str | None
) -> tuple[str, dict[str, Any]]:
    """The executor and its settings: the file's, overruled by the command line."""
    kind = settings.pop("executor", "inline")
    if executor is not None and executor != kind:
        kind, settings = executor, {}
    if workers is not None:
        kind = "processes" if executor is None else kind
        settings["workers"] = workers
    if address is not None:
        kind = "ray" if executor is None else kind
        settings["address"] = address
    return kind, settings
