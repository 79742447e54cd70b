"""What a solver is, and what it returns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

from torch import Tensor

from leastpath.metric import Metric
from leastpath.path import Path
from leastpath.run import Run
from leastpath.score import BoundScore
from leastpath.status import Note


@dataclass(frozen=True)
class Solution:
    """A path for every example, with the solver's remarks.

    Args:
        path: starts and ends exactly where it was asked to.
        notes: for each example what the user should know; empty where all went well. None: nothing for anyone.
        stats: whatever else the solver wants to tell; shown as `result.stats`.
    """

    path: Path
    notes: tuple[tuple[Note, ...], ...] | None = None
    stats: Mapping[str, Any] = field(default_factory=dict)


@runtime_checkable
class Solver(Protocol):
    """Finds a path from each start to its end. A frozen dataclass of hyper-parameters: no state between calls."""

    def solve(self, score: BoundScore, metric: Metric, start: Tensor, end: Tensor, run: Run) -> Solution:
        """start, end (batch, *features) -> a path of `batch` examples between exactly these points."""
        ...
