"""Attributions that have no path: what is left of the evidence when nothing is integrated."""

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
from leastpath.attribution import Attribution, bound_with_baselines, without_path
from leastpath.bound import BoundScore
from leastpath.guards import check_rows_are_independent, device_of, untouched, warn_of_training_mode
from leastpath.run import Bar, Run
from leastpath.score import Baselines, Inputs, Score
from leastpath.status import Note, Outcome, Status


@dataclass(frozen=True)
class Problem:
    """What is explained, in one space whatever the inputs: (rows, *shape), a row for each example and baseline."""

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
    """What a pathless method found.

    Args:
        values: (rows, *shape).
        stats: becomes `result.stats`.
        remarks: a sentence for each row; empty where there is nothing to say.
        change: (rows,) the change of score that values are held against, where it is not that between the ends.
        uses_all_baselines: the m rows of an example are one answer drawn from all its baselines, m times.
    """

    values: Tensor
    stats: Mapping[str, Any] = field(default_factory=dict)
    remarks: Sequence[str] = ()
    change: Tensor | None = None
    uses_all_baselines: bool = False


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
    """Run `explain` on the problem and add the evidence that needs no path. Leaves model and random state alone."""
    warn_of_training_mode(score.model)
    with untouched(score.model, device_of(inputs)):
        bound, m = bound_with_baselines(score, inputs, baselines)
        start, end = bound.ends(baselines)
        check_rows_are_independent(bound, start, end)
        rows = torch.arange(len(end))
        change = bound.values(end, rows) - bound.values(start, rows)
        # Captum differentiates by itself: neither the caller's mode nor its inference tensors may reach it.
        with (
            torch.inference_mode(False),
            torch.enable_grad(),
            Run(seed, None, progress).bar(described.partition("(")[0], len(end)) as bar,
        ):
            a, b = (x.clone() if x.is_inference() else x for x in (start, end))
            explained = explain(Problem(bound, a, b, change, m, seed, bar))
    values = explained.values.detach().to(bound.work_dtype)
    _check_finite(values, bound, described)
    return _assembled(bound, m, values, change if explained.change is None else explained.change, explained, described)


def method_without_path(
    described: Callable[..., str],
) -> Callable[[Callable[..., Explained]], Callable[..., Attribution]]:
    """Make a method of a function `(problem, *, settings) -> Explained`.

    The method is called like all others: (score, inputs, baselines=None, *, settings, seed=0, progress=False).

    Args:
        described: from the settings to what results call the method.

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
            explain = functools.partial(explain_rows, **given)
            return pathless(
                score, inputs, baselines, explain, described=described(**given), seed=seed, progress=progress
            )

        shared = list(inspect.signature(method, follow_wrapped=False).parameters.values())[:-1]
        method.__signature__ = inspect.Signature([*shared[:3], *own, *shared[3:]], return_annotation="Attribution")  # type: ignore[attr-defined]
        return method

    return made


def _assembled(
    bound: BoundScore, m: int, values: Tensor, change: Tensor, explained: Explained, described: str
) -> Attribution:
    flat = flat_rows(values)

    def mean(tensor: Tensor) -> Tensor:
        return tensor if m == 1 else tensor.unflatten(0, (-1, m)).mean(1)

    def total(counts: np.ndarray) -> Tensor:
        return torch.as_tensor(np.rint(counts).astype(np.int64).reshape(-1, m).sum(1))

    spread = m > 1 and not explained.uses_all_baselines
    return without_path(
        bound.split(mean(values)),
        mean(flat.sum(1) - change),
        mean(flat.abs().sum(1) - change.abs()),
        mean(change),
        tuple(_status(flat[row : row + m], explained.remarks, row, described) for row in range(0, len(flat), m)),
        n_gradients=total(bound.gradients_spent),
        n_forwards=total(bound.forwards_spent),
        solver=described,
        baseline_spread=bound.split(values.unflatten(0, (-1, m)).std(1)) if spread else None,
        stats=explained.stats,
    )


def _status(flat: Tensor, remarks: Sequence[str], row: int, described: str) -> Status:
    notes = []
    if not flat.any():
        notes.append(
            Note(Outcome.FLAT, f"{described} gives zero everywhere; choose another baseline, target, output or setting")
        )
    if remarks and remarks[row]:
        notes.append(Note(Outcome.SOLVER_NOTE, remarks[row]))
    return Status((*notes, Note(Outcome.SOLVER_NOTE, f"{described} has no path, so nothing certifies its values")))


def _check_finite(values: Tensor, bound: BoundScore, described: str) -> None:
    bad = (~torch.isfinite(flat_rows(values)).all(1)).nonzero()
    if len(bad):
        raise ValueError(
            f"{described} gives NaN or infinite attributions for example {bound.row(int(bad[0]))}: look for sqrt(0), "
            "log(0), 0/0 or norm(0) in the model"
        )
