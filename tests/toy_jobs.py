"""Data, a model and methods for tests of jobs. Workers import this file by its name."""

import math
import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

import leastpath as lp
from helpers import mlp


@dataclass(frozen=True)
class Numbered:
    """Row i is (i, sin i, cos i, 1): every input says which it is."""

    n: int = 40
    bad: tuple[int, ...] = ()
    unreadable: tuple[int, ...] = ()

    def __len__(self) -> int:
        return self.n

    def __getitem__(self, i: int) -> tuple[Tensor, int]:
        if i in self.unreadable:
            raise OSError("this row is unreadable")
        if i >= self.n:
            raise IndexError(i)
        x = torch.tensor([i, math.sin(i), math.cos(i), 1.0])
        return (x * torch.nan if i in self.bad else x), i % 3


def numbered(n: int = 40) -> Numbered:
    return Numbered(n)


class Net(torch.nn.Module):
    """Sees all of a row but its number."""

    def __init__(self) -> None:
        super().__init__()
        self.net = mlp(3)

    def forward(self, x: Tensor) -> Tensor:
        return self.net(x[:, 1:]) + 0 * x[:, :1]


def model() -> Net:
    return Net()


@dataclass(frozen=True)
class Logged:
    """Integrated gradients that write down which rows they explain, take their time, and may kill their process."""

    log: str
    seconds: float = 0.0
    deadly: int = -1  # the row whose first explanation, or each, is the death of its worker
    always: bool = False

    def __call__(self, score, inputs, baselines, seed):
        rows = [int(i) for i in inputs[:, 0].tolist()]
        with open(self.log, "a") as file:  # small appends are not torn
            file.write(f"{os.getpid()} {' '.join(map(str, rows))}\n")
        marker = Path(f"{self.log}.dead")
        if self.deadly in rows and (self.always or not marker.exists()):
            marker.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(self.seconds)
        return lp.attribute(score, inputs, baselines, method=lp.StraightLine(), tolerance=None, n_steps=4, seed=seed)


def logged(**settings) -> Logged:
    return Logged(**settings)


def four_steps(score, inputs, baselines=None, *, seed=0, progress=False):
    return lp.attribute(score, inputs, baselines, method=lp.StraightLine(), tolerance=None, n_steps=4, seed=seed)


def line_of(log) -> list[int]:
    """All rows that were explained, in the order of the log."""
    lines = Path(log).read_text().splitlines() if Path(log).exists() else []
    return [int(row) for line in lines for row in line.split()[1:]]


def pids_of(log) -> set[int]:
    return {int(line.split()[0]) for line in Path(log).read_text().splitlines()}


def summing():
    return lambda x: x.sum(1)


def four_steps_of(score, inputs, baselines, seed):
    return four_steps(score, inputs, baselines, seed=seed)


@dataclass(frozen=True)
class Logged4:
    """Four steps that write down how many rows each call had."""

    log: str

    def __call__(self, score, inputs, baselines, seed):
        with open(self.log, "a") as file:
            file.write(f"{len(inputs)}\n")
        return four_steps(score, inputs, baselines, seed=seed)
