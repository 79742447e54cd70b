"""`leastpath run job.toml`: a job from a file."""

import sys
from pathlib import Path
from typing import Annotated, Any

from typer import Argument, Option


def run(
    job: Annotated[Path, Argument(help="TOML file with the tables data, model, explain and run.", show_default=False)],
    executor: Annotated[str | None, Option(help="inline, processes or ray, instead of the file's.")] = None,
    workers: Annotated[int | None, Option(min=1, help="Local worker processes.")] = None,
    address: Annotated[str | None, Option(help="Of a Ray cluster; auto finds the one of this machine.")] = None,
    out: Annotated[Path | None, Option(help="Folder of the output, instead of the file's.")] = None,
    max_seconds: Annotated[float | None, Option(help="Time for this start; the next one goes on.")] = None,
    fail_fast: Annotated[bool, Option("--fail-fast", help="Stop at the first row that fails.")] = False,
    keep_failed: Annotated[
        bool, Option("--keep-failed", help="Do not try rows again that failed at an earlier start.")
    ] = False,
    allow: Annotated[
        list[str], Option("--allow", metavar="MODULE", help="A module that the job file may import from elsewhere.")
    ] = [],  # noqa: B006
    resume: Annotated[
        bool, Option("--resume", help="Go on although something in the job cannot be described, and may have changed.")
    ] = False,
    report: Annotated[bool, Option(help="Write report.html beside the explanations.")] = True,
) -> None:
    """Explain a data set of any size, as a job file says. Run it again to continue a job that was stopped.

    Ctrl-C finishes the shards that have begun, and --max-seconds ends between two batches. A job that is not finished
    exits with 130, and one in which every row failed with 1.
    """
    from collections import Counter
    from dataclasses import replace

    from leastpath.jobs.driver import run_job
    from leastpath.jobs.executors import executor_of
    from leastpath.jobs.job import Job
    from leastpath.jobs.page import report as write_report

    read, settings = Job.from_toml(job, allow)
    kind, settings = _choose_executor(settings, executor, workers, address)
    if out is not None:
        read = replace(read, out=out)
    read = replace(read, fail_fast=fail_fast or read.fail_fast, keep_failed=keep_failed or read.keep_failed)
    found = run_job(read, executor_of(kind, **settings), resume=resume, max_seconds=max_seconds)
    if not found.finished:
        sys.exit(130)  # the usual code after Ctrl-C
    print(found)
    if report:
        file = Path(read.out) / "report.html"
        with read.importing():
            write_report(found, file, dataset=read.source)
        print(f"report: {file}")
    if found.failed == len(found):
        reasons = Counter[str]()
        for shard in found.shards:
            reasons.update(shard.record["failures"])
        raise ValueError(f"all {len(found):,} rows failed: {reasons.most_common(1)[0][0]}")


def _choose_executor(
    settings: dict[str, Any], executor: str | None, workers: int | None, address: str | None
) -> tuple[str, dict[str, Any]]:
    """The executor and its settings: those of the file, unless the command line gives others."""
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
