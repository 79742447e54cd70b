"""Jobs and the explorer at work for minutes, while something goes wrong in every round.

`python -m faults --minutes 5` soaks both and prints what became of it: rows that were lost, rows that stand twice, rows
that are wrong, and by how much the memory grew. A round of jobs is one job, disturbed once and then started again; a
round of the explorer is a fault, and then a question whose answer is known.
"""

from __future__ import annotations

import contextlib
import errno
import multiprocessing
import os
import random
import shutil
import signal
import tempfile
import threading
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

import leastpath as lp
import toy_jobs
from explorer_subjects import served
from helpers import flat_points, mlp
from leastpath import jobs
from leastpath.explorer.session import Session
from leastpath.explorer.sources.tensors import TensorSource
from resources.repeat import resident

ROWS, SHARD = 24, 4
TAKES = 0.3  # seconds, about, of one start: faults are drawn from this time


@dataclass
class Tally:
    """What became of all rounds."""

    faults: Counter[str] = field(default_factory=Counter)
    rows: int = 0
    lost: int = 0
    double: int = 0
    wrong: int = 0
    sizes: list[float] = field(default_factory=list)  # megabytes in memory after each round

    @property
    def growth(self) -> float:
        """Megabytes, from the end of the first quarter, when all is warm, to the end: medians of five rounds."""
        n = len(self.sizes) // 4
        return float(np.median(self.sizes[-5:]) - np.median(self.sizes[n : n + 5])) if n else 0.0

    @property
    def ok(self) -> bool:
        return not (self.lost or self.double or self.wrong) and self.growth < 30

    def __str__(self) -> str:
        faults = ", ".join(f"{n} × {name}" for name, n in sorted(self.faults.items()))
        return (
            f"{len(self.sizes)} rounds ({faults}), {self.rows:,} rows: {self.lost} lost, {self.double} double, "
            f"{self.wrong} wrong, memory {self.growth:+.1f} MB"
        )


# ---- jobs --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class OnDisk:
    """A data set of one file a row."""

    folder: Path

    def __len__(self) -> int:
        return ROWS

    def __getitem__(self, i: int) -> tuple[Tensor, int]:
        if i >= ROWS:
            raise IndexError(i)
        return torch.from_numpy(np.load(self.folder / f"{i}.npy")), i % 3

    @classmethod
    def write(cls, folder: Path) -> OnDisk:
        folder.mkdir()
        for i in range(ROWS):
            np.save(folder / f"{i}.npy", toy_jobs.Numbered()[i][0].numpy())
        return cls(folder)


def slowly(score: lp.Score, inputs: Any, baselines: Any, seed: int) -> lp.Attribution:
    """Four steps, in a time in which something can go wrong."""
    time.sleep(TAKES / (2 * ROWS / SHARD))
    return toy_jobs.four_steps(score, inputs, baselines, seed=seed)


def start(data: OnDisk, out: Path, **how: Any) -> Any:
    settings = {"target": "label", "shard_size": SHARD, "batch_size": SHARD // 2, "show": False}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that rows failed, and that a forked process had threads
        return jobs.explain(data, toy_jobs.model, slowly, out, **settings, **how)


Fault = Callable[[OnDisk, Path, random.Random], None]


def kill_a_worker(data: OnDisk, out: Path, draw: random.Random) -> None:
    """kill -9 of one of two workers; a worker that dies is replaced, so this start ends well."""
    with later(draw.uniform(0.1, TAKES), lambda: kill_one(draw)):
        start(data, out, executor=jobs.Processes(workers=2, start_method="fork"))


def kill_the_driver(data: OnDisk, out: Path, draw: random.Random) -> None:
    """kill -9 of the process that runs the job."""
    driver = multiprocessing.get_context("fork").Process(target=start, args=(data, out))
    driver.start()
    driver.join(draw.uniform(0.05, TAKES))
    if driver.is_alive():
        os.kill(driver.pid, signal.SIGKILL)
    driver.join()


def fill_the_disk(data: OnDisk, out: Path, draw: random.Random) -> None:
    """From some write on, there is no space left."""
    real, left = os.fsync, draw.randrange(2 * ROWS // SHARD)

    def write(handle: int) -> None:
        nonlocal left
        left -= 1
        if left < 0:
            raise OSError(errno.ENOSPC, "No space left on device")
        real(handle)

    with instead(os, "fsync", write), contextlib.suppress(OSError):
        start(data, out)


def set_the_clock_back(data: OnDisk, out: Path, draw: random.Random) -> None:
    """By an hour, in the middle of the work."""
    with clock_back(draw.uniform(0, TAKES)):
        start(data, out, max_seconds=600)


def take_a_file_away(data: OnDisk, out: Path, draw: random.Random) -> None:
    """An input cannot be read for a while; its row fails, or the start does, and the next start does it."""
    with spoilt(data, draw, Path.unlink):
        start(data, out)


def spoil_a_file(data: OnDisk, out: Path, draw: random.Random) -> None:
    """An input holds no array for a while."""
    with spoilt(data, draw, lambda file: file.write_bytes(file.read_bytes()[:40])):
        start(data, out)


@contextlib.contextmanager
def spoilt(data: OnDisk, draw: random.Random, how: Callable[[Path], Any]) -> Iterator[None]:
    """Something happens to an input at some moment; afterwards it is as it was."""
    file = data.folder / f"{draw.randrange(ROWS)}.npy"
    content = file.read_bytes()
    with later(draw.uniform(0, TAKES / 2), lambda: how(file)), contextlib.suppress(OSError, ValueError, EOFError):
        yield
    file.write_bytes(content)


OF_JOBS: dict[str, Fault] = {
    "worker killed": kill_a_worker,
    "driver killed": kill_the_driver,
    "disk full": fill_the_disk,
    "clock set back": set_the_clock_back,
    "file away": take_a_file_away,
    "file spoilt": spoil_a_file,
}


def soak_jobs(until: Callable[[int], bool], seed: int = 0) -> Tally:
    """Jobs, each disturbed once and then started again, while `until(rounds)` is not true."""
    draw, tally, names = random.Random(seed), Tally(), list(OF_JOBS)
    with tempfile.TemporaryDirectory() as folder:
        data = OnDisk.write(Path(folder) / "rows")
        expected = start(data, Path(folder) / "undisturbed").values(0, ROWS)
        while not until(len(tally.sizes)):
            out, fault = Path(folder) / "out", names[len(tally.sizes) % len(names)]
            OF_JOBS[fault](data, out, draw)
            found = start(data, out)
            indices = found.table(["index"])["index"].tolist()
            values = found.values(0, ROWS)
            there = values.isfinite().flatten(1).all(1)
            tally.faults[fault] += 1
            tally.rows += ROWS
            tally.lost += ROWS - len(set(indices)) + int((~there).sum()) + len(found.verify())
            tally.double += len(indices) - len(set(indices))
            # A row that failed is explained later, without its neighbors; the batch's size may change the last bit.
            same = torch.isclose(values, expected, rtol=1e-5, atol=1e-7)
            tally.wrong += int((~same)[there].flatten(1).any(1).sum())
            shutil.rmtree(out)
            tally.sizes.append(resident())
    return tally


# ---- the explorer ------------------------------------------------------------------------------------------------

POINTS = flat_points(6, 4, 1)
METHODS = ("integrated_gradients", "input_x_gradient", "elastic_band", "guided_ig", "occlusion")
ASKED = [(sample, method) for method in METHODS for sample in range(len(POINTS))]


class Fragile(torch.nn.Module):
    """A net that can be made to fail, or to take its time."""

    def __init__(self) -> None:
        super().__init__()
        self.net, self.trouble = mlp(), lambda: None

    def forward(self, x: Tensor) -> Tensor:
        self.trouble()
        return self.net(x)


def fail() -> None:
    raise RuntimeError("the weights are gone")


def no_space() -> None:
    raise OSError(errno.ENOSPC, "No space left on device")


def the_model_fails(client: Any, net: Fragile, question: dict[str, Any], draw: random.Random) -> None:
    """In the middle of an explanation, which ends with its reason."""
    net.trouble = draw.choice([fail, no_space])
    wait_for(client, question)
    net.trouble = lambda: None


def the_page_stops(client: Any, net: Fragile, question: dict[str, Any], draw: random.Random) -> None:
    """Stop, or a tab that is closed, in the middle of an explanation."""
    net.trouble = partial(time.sleep, 0.002)
    task = client.post("/api/explain", json=question).json()["task"]
    time.sleep(draw.uniform(0, 0.1))
    client.post(f"/api/tasks/{task}/{draw.choice(['stop', 'leave'])}", json={})
    net.trouble = lambda: None


def the_clock_goes_back(client: Any, net: Fragile, question: dict[str, Any], draw: random.Random) -> None:
    """By an hour, during an explanation."""
    with clock_back(0.0):
        wait_for(client, question)


def a_file_cannot_be_read(client: Any, net: Fragile, question: dict[str, Any], draw: random.Random) -> None:
    """An upload that is no file of any kind; it is refused, and is no sample."""
    before = client.get("/api/state").json()["samples"]
    name = draw.choice(["a.npy", "a.png", "a.csv", "a.leastpath"])
    told = client.post("/api/upload", params={"name": name}, content=draw.randbytes(draw.randrange(400)))
    if not 400 <= told.status_code < 500 or client.get("/api/state").json()["samples"] != before:
        raise AssertionError(f"{name} of noise was answered with {told.status_code}")


OF_EXPLORER: dict[str, Callable[..., None]] = {
    "model fails": the_model_fails,
    "page stops": the_page_stops,
    "clock set back": the_clock_goes_back,
    "file unreadable": a_file_cannot_be_read,
}


def wait_for(client: Any, question: dict[str, Any]) -> dict[str, Any] | None:
    """The result of a question; None where it was refused, or its task did not finish."""
    task = client.post("/api/explain", json=question).json().get("task")
    if task is None:
        return None
    while (status := client.get(f"/api/tasks/{task}").json())["state"] == "running":
        time.sleep(0.005)
    return client.get(f"/api/results/{status['result']}").json() if status["state"] == "done" else None


def soak_explorer(until: Callable[[int], bool], seed: int = 0) -> Tally:
    """Sessions of thirty questions, before each of which something goes wrong, while `until(rounds)` is not true."""
    draw, tally, names = random.Random(seed), Tally(), list(OF_EXPLORER)
    expected: dict[tuple[int, str], Any] = {}
    while not until(len(tally.sizes)):
        net = Fragile().eval()
        with served(Session(TensorSource(lp.Score(net), POINTS))) as client:
            for sample, method in draw.sample(ASKED, len(ASKED)):
                if until(len(tally.sizes)):
                    break
                question = {"method": method, "about": {"sample": sample}}
                fault = names[len(tally.sizes) % len(names)]
                OF_EXPLORER[fault](client, net, question, draw)
                found = wait_for(client, question)
                results = client.get("/api/state", params={"about": f'{{"sample": {sample}}}'}).json()["results"]
                tally.faults[fault] += 1
                tally.rows += 1
                tally.lost += found is None
                tally.double += len(results) - len(set(results))
                if found is not None:
                    tally.wrong += expected.setdefault((sample, method), found["values"]) != found["values"]
                tally.sizes.append(resident())
    return tally


# ---- faults ------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def instead(where: Any, name: str, function: Any) -> Iterator[None]:
    real = getattr(where, name)
    setattr(where, name, function)
    try:
        yield
    finally:
        setattr(where, name, real)


@contextlib.contextmanager
def clock_back(after: float) -> Iterator[None]:
    """The clock on the wall is an hour slow after some seconds; the one that only counts cannot be set."""
    real, begin = time.time, time.monotonic()
    with instead(time, "time", lambda: real() - 3600 * (time.monotonic() - begin > after)):
        yield


@contextlib.contextmanager
def later(seconds: float, do: Callable[[], Any]) -> Iterator[None]:
    """Do something after some seconds, at the latest at the end."""
    timer = threading.Timer(seconds, do)
    timer.start()
    try:
        yield
    finally:
        timer.join()


def kill_one(draw: random.Random) -> None:
    """kill -9 of a process that this one has started, if there is one."""
    tasks = Path("/proc/self/task").iterdir()
    children = [int(pid) for task in tasks for pid in (task / "children").read_text().split()]
    with contextlib.suppress(ProcessLookupError):
        if children:
            os.kill(draw.choice(children), signal.SIGKILL)
