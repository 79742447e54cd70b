"""Run: what one call carries along: its seed, its gradient budget and its progress display."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from leastpath.bound import BoundScore
from leastpath.budget import Budget


class Bar:
    """A progress display that shows nothing; the others have the same method."""

    def advance(self, steps: float = 1, note: str = "") -> None:
        """Some steps are done; `note` replaces the text at the end of the bar."""


@dataclass(frozen=True)
class Run:
    """Seed, budget and display of one call. Holds no state: two solvers given the same run draw the same numbers.

    `max_gradients` is per example, for solver and integral together. `reserved` of them are the integral's: no solver
    may spend them. `budget` says what is left.

    Example:
        >>> run = Run(seed=3)
        >>> like = torch.zeros(())
        >>> torch.equal(run.noise((2,), like, draw=1), run.noise((2,), like, draw=1))
        True
    """

    seed: int = 0
    max_gradients: int | None = None
    progress: bool = False
    reserved: int = 0

    def budget(self, score: BoundScore) -> Budget:
        """What each example of a bound score may still spend. Solvers take a share: `run.budget(score).share(0.5)`."""
        return Budget.of(score, self.max_gradients, self.reserved)

    def noise(self, shape: tuple[int, ...], like: Tensor, draw: int = 0) -> Tensor:
        """Standard normal numbers of one draw. The same for every example: a batch gives what a loop gives."""
        return torch.randn(shape, **self._drawn(draw)).to(like.device, like.dtype)

    def uniform(self, shape: tuple[int, ...], like: Tensor, draw: int = 0) -> Tensor:
        """Uniform numbers in [0, 1) of one draw, the same for every example."""
        return torch.rand(shape, **self._drawn(draw)).to(like.device, like.dtype)

    def _drawn(self, draw: int) -> dict[str, Any]:
        """How to draw: in float32 on the CPU, whatever the program's defaults are, so that they change no result."""
        generator = torch.Generator("cpu").manual_seed((int(self.seed) * 1_000_003 + draw) % 2**63)
        return {"generator": generator, "dtype": torch.float32, "device": "cpu"}

    @contextmanager
    def bar(self, description: str, total: float) -> Iterator[Bar]:
        """A progress bar for the time of a `with` block; silent unless `progress` is set."""
        if not self.progress:
            yield Bar()
            return
        try:
            import rich.progress as display
        except ImportError:
            line = _LineBar(description, total)
            yield line
            line.close()
            return
        columns = (
            display.TextColumn("{task.description}"),
            display.BarColumn(),
            display.TaskProgressColumn(),
            display.TimeRemainingColumn(),
            display.TextColumn("{task.fields[note]}"),
        )
        with display.Progress(*columns) as shown:
            yield _RichBar(shown, shown.add_task(description, total=total, note=""))


class _RichBar(Bar):
    def __init__(self, shown: object, task: object) -> None:
        self._shown, self._task = shown, task

    def advance(self, steps: float = 1, note: str = "") -> None:
        self._shown.update(self._task, advance=steps, note=note)  # type: ignore[attr-defined]


class _LineBar(Bar):
    """Where rich is not installed: one line on stderr that is written over."""

    def __init__(self, description: str, total: float) -> None:
        self._description, self._total, self._done = description, total, 0.0

    def advance(self, steps: float = 1, note: str = "") -> None:
        self._done += steps
        share = min(1.0, self._done / max(self._total, 1e-9))
        print(f"\r{self._description} {share:4.0%} {note}", end="", file=sys.stderr, flush=True)

    def close(self) -> None:
        print(file=sys.stderr)
