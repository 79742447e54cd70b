"""Attributions without a path, and the evidence that exists without one."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from leastpath._support.rows import flat_rows
from leastpath.account.run import Bar, Run
from leastpath.result.attribution import Attribution, without_path
from leastpath.result.status import Note, Outcome, Status
from leastpath.score.bound import BoundScore
from leastpath.score.score import Baselines, Inputs, Score, bind_paths
from leastpath.score.untouched import leave_untouched, ordinary, warn_of_training_mode


@dataclass(frozen=True)
class Problem:
    """What is explained, as points of one space: (rows, *shape), a row for each example and baseline."""

    bound: BoundScore
    start: Tensor  # (rows, *shape)
    end: Tensor  # (rows, *shape)
    change: Tensor  # (rows,) f(end) - f(start)
    m: int  # baselines an example: row b · m + j is baseline j of example b
    seed: int
    bar: Bar

    def __len__(self) -> int:
        return len(self.end)


@dataclass(frozen=True)
class Explained:
    """What a pathless method found."""

    values: Tensor  #: (rows, *shape)
    stats: Mapping[str, Any] = field(default_factory=dict)  #: becomes `result.stats`
    remarks: Sequence[str] = ()  #: a sentence for each row, which may be empty
    change: Tensor | None = None  #: (rows,), the change of score to add up to; None: that between the ends
    uses_all_baselines: bool = False  #: the m rows of an example are one answer from all its baselines, m times


def pathless(
    score: Score,
    inputs: Inputs,
    baselines: Baselines,
    explain: Callable[[Problem], Explained],
    *,
    described: str,
    seed: int = 0,
    progress: bool = False,
) -> Attribution:
    """Run `explain` on the problem and add the evidence that needs no path. Model and random state stay as they are."""
    warn_of_training_mode(score.model)
    with leave_untouched(score.model, inputs):
        bound, start, end, m = bind_paths(score, inputs, baselines)
        rows = torch.arange(len(end))
        change = bound.values(end, rows) - bound.values(start, rows)
        # Captum differentiates: the caller's gradient mode and its inference tensors must not reach it.
        shown = Run(seed, None, progress).bar(described.partition("(")[0], len(end))
        with torch.inference_mode(False), torch.enable_grad(), shown as bar:
            explained = explain(Problem(bound, ordinary(start), ordinary(end), change, m, seed, bar))
    return _assembled(bound, m, change if explained.change is None else explained.change, explained, described)


def method_without_path(
    described: Callable[..., str], *, chooses_start: bool = False
) -> Callable[[Callable[..., Explained]], Callable[..., Attribution]]:
    """Make a method of a function `(problem, *, settings) -> Explained`.

    The method is called like all others: (score, inputs, baselines=None, *, settings, seed=0, progress=False).

    Args:
        described: from the settings to what results call the method.
        chooses_start: the method finds its own reference, so baselines are refused.

    Example:
        >>> @method_without_path(lambda scale: f"Change({scale})")
        ... def change(problem: Problem, *, scale: float = 1.0) -> Explained:
        ...     return Explained(scale * (problem.end - problem.start))
        >>> change(Score(lambda x: x.sum(1)), torch.ones(1, 2), scale=3.0).values
        tensor([[3., 3.]])
    """

    def made(explain_rows: Callable[..., Explained]) -> Callable[..., Attribution]:
        own = list(inspect.signature(explain_rows).parameters.values())[1:]  # after the problem
        defaults = {parameter.name: parameter.default for parameter in own}

        @functools.wraps(explain_rows)
        def method(
            score: Score,
            inputs: Inputs,
            baselines: Baselines = None,
            *,
            seed: int = 0,
            progress: bool = False,
            **settings: Any,
        ) -> Attribution:
            given = defaults | settings
            if chooses_start and baselines is not None:
                name = explain_rows.__name__
                raise ValueError(f"{name} finds its own reference, so baselines cannot be given: {name}(score, inputs)")
            explain, name = functools.partial(explain_rows, **given), described(**given)
            return pathless(score, inputs, baselines, explain, described=name, seed=seed, progress=progress)

        shared = list(inspect.signature(method, follow_wrapped=False).parameters.values())[:-1]
        method.__signature__ = inspect.Signature([*shared[:3], *own, *shared[3:]], return_annotation="Attribution")  # type: ignore[attr-defined]
        return method

    return made


def _assembled(bound: BoundScore, m: int, change: Tensor, explained: Explained, described: str) -> Attribution:
    values = explained.values.detach().to(bound.work_dtype)
    flat = flat_rows(values)
    bad = (~torch.isfinite(flat).all(1)).nonzero()
    if len(bad):
        example, causes = bound.space.row(int(bad[0])), "sqrt(0), log(0), 0/0 or norm(0)"
        raise ValueError(f"{described} gives NaN or infinite attributions for example {example}: look for {causes}")

    def mean(tensor: Tensor) -> Tensor:
        return tensor if m == 1 else tensor.unflatten(0, (-1, m)).mean(1)

    def total(counts: np.ndarray) -> Tensor:
        return torch.as_tensor(np.rint(counts).astype(np.int64).reshape(-1, m).sum(1))

    spread = m > 1 and not explained.uses_all_baselines
    return without_path(
        bound.space.split(mean(values)),
        mean(flat.sum(1) - change),
        mean(flat.abs().sum(1) - change.abs()),
        mean(change),
        tuple(_status(flat[row : row + m], explained.remarks, row, described) for row in range(0, len(flat), m)),
        n_gradients=total(bound.gradients_spent),
        n_forwards=total(bound.forwards_spent),
        solver=described,
        baseline_spread=bound.space.split(values.unflatten(0, (-1, m)).std(1)) if spread else None,
        stats=explained.stats,
    )


def _status(flat: Tensor, remarks: Sequence[str], row: int, described: str) -> Status:
    notes = []
    if not flat.any():
        remedy = "choose another baseline, target, output or setting"
        notes.append(Note(Outcome.FLAT, f"{described} gives zero everywhere; {remedy}"))
    if remarks and remarks[row]:
        notes.append(Note(Outcome.SOLVER_NOTE, remarks[row]))
    return Status(
        (*notes, Note(Outcome.SOLVER_NOTE, "this method has no path, so it has no length and no certificate"))
    )
