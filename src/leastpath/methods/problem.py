"""What a method is asked, and what it answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from leastpath.account.run import Bar, Run
from leastpath.geometry.path import Path
from leastpath.result.attribution import Attribution
from leastpath.result.status import Note
from leastpath.score.bound import BoundScore
from leastpath.score.score import Baselines, Inputs, Score, bind_paths
from leastpath.score.untouched import ordinary


@dataclass(frozen=True)
class Problem:
    """What is explained, as points of one space: (rows, *shape), one row per example and baseline.

    Row b · m + j is baseline j of example b.
    """

    score: Score
    bound: BoundScore
    inputs: Inputs  # as the user gave them
    baselines: Baselines
    start: Tensor  # (rows, *shape)
    end: Tensor  # (rows, *shape)
    m: int  # baselines per example
    run: Run
    bar: Bar = field(default_factory=Bar)  # of a method that shows its progress by rows

    @classmethod
    def bind(cls, score: Score, inputs: Inputs, baselines: Baselines, run: Run) -> Problem:
        """The score over a batch, an example counted once for each of its baselines."""
        bound, start, end, m = bind_paths(score, inputs, baselines)
        return cls(score, bound, inputs, baselines, ordinary(start), ordinary(end), m, run)

    def __len__(self) -> int:
        return len(self.end)

    @property
    def seed(self) -> int:
        """Of everything random."""
        return self.run.seed

    @cached_property
    def change(self) -> Tensor:
        """(rows,) f(end) − f(start)."""
        rows = torch.arange(len(self.end))
        return (self.bound.values(self.end, rows) - self.bound.values(self.start, rows)).detach()

    def mean(self, of_rows: Tensor) -> Tensor:
        """(rows, …) -> (examples, …), the mean over each example's baselines."""
        return of_rows if self.m == 1 else of_rows.unflatten(0, (-1, self.m)).mean(1)

    def spread(self, of_rows: Tensor) -> Tensor | None:
        """(rows, …) -> (examples, …), the standard deviation between an example's baselines; None if it has one."""
        return None if self.m == 1 else of_rows.unflatten(0, (-1, self.m)).std(1)


@dataclass(frozen=True)
class Along:
    """What only a method with a path knows, of each row."""

    path: Path
    line: Tensor  # (rows, *shape) attributions along the straight line, NaN where they were not measured
    gap: Tensor  # (rows,) of the integral
    length: Tensor
    length_error: Tensor
    length_ratio: Tensor
    certificate: Tensor
    attribution_error: Tensor
    gradients: Tensor  # (rows,) float64, those of a shared segment split
    samples: Sequence[Tensor] = ()  # (rows, *shape) attributions along further paths
    geometry: str = "none"
    metric: str = "none"
    interrupted: bool = False


@dataclass(frozen=True)
class Explained:
    """What a method found. Rows are those of the problem."""

    values: Tensor  #: (rows, *shape)
    stats: Mapping[str, Any] = field(default_factory=dict)  #: becomes `result.stats`
    remarks: Sequence[str] = ()  #: a sentence for each row, which may be empty
    change: Tensor | None = None  #: (rows,), the change of score to add up to; None: that between the ends
    uses_all_baselines: bool = False  #: the m rows of an example are one answer from all its baselines, m times
    notes: Sequence[tuple[Note, ...]] = ()  #: for each row, what the user should know, where remarks do not say it
    along: Along | None = None  #: what is known of a path; None for methods without one
    run: Run | None = None  #: of a call with limits of its own, for the test's part of them
    described: str = ""  #: what the result calls the method, with its settings
    whole: Attribution | None = None  #: the answer of a function that gives results itself
