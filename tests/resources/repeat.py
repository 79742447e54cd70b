"""The same work again and again: memory, open files and threads must stay what they were.

`python -m resources --times 500` repeats each job 500 times and prints what is left behind; the suite repeats it less.
"""

from __future__ import annotations

import gc
import io
import os
import tempfile
import threading
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import torch

import leastpath as lp
import toy_jobs
from helpers import cnn, flat_points, mlp

SCORE, X = lp.Score(mlp(), 1), flat_points(3, 4, 1)
IMAGES = flat_points(2, 72, 1).view(2, 2, 6, 6)


@dataclass(frozen=True)
class Left:
    """What repetitions left behind, after as many to warm up."""

    megabytes: float
    files: int
    threads: int


def repeat(work: Callable[[], Any], times: int) -> Left:
    """Do the work `times` times to warm up, and `times` times to measure."""
    for _ in range(times):
        work()
    gc.collect()
    before = resident(), open_files(), threading.active_count()
    for _ in range(times):
        work()
    gc.collect()
    return Left(resident() - before[0], open_files() - before[1], threading.active_count() - before[2])


def resident() -> float:
    """Megabytes of this process in memory."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGESIZE") / 2**20


def open_files() -> int:
    return len(os.listdir("/proc/self/fd"))


# ---- what is repeated --------------------------------------------------------------------------------------------


@cache
def explained() -> lp.Attribution:
    return lp.attribute(SCORE, X, method="integrated_gradients")


def draw_figures() -> None:
    from leastpath import report

    report.bars(explained().values[0], list("abcd")).savefig(io.BytesIO(), format="png")
    report.heatmaps({"a": IMAGES, "b": -IMAGES}).savefig(io.BytesIO(), format="png")


def write_page() -> None:
    from leastpath import report

    page = report.Report("repeated")
    page.figure(report.bars(explained().values[0], list("abcd")), "values")
    page.html()


def show_result() -> None:
    explained()._repr_html_()


def explain() -> None:
    lp.attribute(SCORE, X, method="elastic_band", max_gradients=60)


def explain_images() -> None:
    lp.METHODS["grad_cam"](lp.Score(cnn(), 1), IMAGES)


def judge() -> None:
    lp.verdict(SCORE, X, X, draws=19)


def run_job() -> None:
    from leastpath import jobs

    with tempfile.TemporaryDirectory() as folder:
        jobs.explain(list(X), toy_jobs.summing, toy_jobs.four_steps_of, folder, show=False, shard_size=2)


def keep_and_load() -> None:
    with tempfile.TemporaryDirectory() as folder:
        lp.load(explained().save(Path(folder) / "r.leastpath"))


def explain_prompt() -> None:
    from leastpath.language import explain

    explain(*language_model(), "the cat sat on", " the", support=False)


@cache
def language_model() -> tuple[torch.nn.Module, Any]:
    from leastpath.language.toy import toy_model

    return toy_model()


WORK: dict[str, Callable[[], None]] = {
    "figures": draw_figures,
    "pages": write_page,
    "results as HTML": show_result,
    "attribute": explain,
    "images": explain_images,
    "verdict": judge,
    "jobs": run_job,
    "files": keep_and_load,
    "prompts": explain_prompt,
}
