"""What `leastpath explain` and `compare` explain: a picture or a row of a table, the score and the baselines."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from leastpath._support.checks import write_number
from leastpath.commands.options import IMAGE_BASELINES, MADE_FOR
from leastpath.features.images import read_image
from leastpath.score.baselines import Choice, Several
from leastpath.score.calls import UnreadableOutput
from leastpath.score.failures import reason_of
from leastpath.score.score import Score
from leastpath.tabular import ONE_ROW, Rescaled, unit_of

if TYPE_CHECKING:
    import pandas as pd

TOP = 5  # classes listed
IN_WORDS = {
    "raw": "logit", "softmax": "probability", "log_softmax": "log-probability", "sigmoid": "probability",
    "logit_margin": "log-odds",
}  # fmt: skip


@dataclass(frozen=True)
class Case:
    """One thing to explain: why this score, and not the score at the baseline?"""

    score: Score
    inputs: Tensor
    """(1, *features)"""
    baselines: Tensor
    """(1, *features), or (1, m, *features)"""
    explained: str
    """What is explained, in words."""
    top: list[dict[str, Any]]
    """The model's first classes, or its one output."""
    features: list[str] | None = None
    """Names of a table's columns; None for a picture."""

    @property
    def labels(self) -> list[str]:
        """A table's columns, each with its cell and, in brackets, the baseline's, in the table's own units."""
        assert self.features is not None
        unit = self.score.model.unit if isinstance(self.score.model, Rescaled) else 1.0
        cells, start = (self.inputs * unit)[0].tolist(), (torch.stack(self.each_baseline).mean((0, 1)) * unit).tolist()
        each = zip(self.features, cells, start, strict=True)
        return [f"{name} = {write_number(cell, 4)} ({write_number(at, 4)})" for name, cell, at in each]

    @property
    def each_baseline(self) -> tuple[Tensor, ...]:
        """Each of them, (1, *features)."""
        return (self.baselines,) if self.baselines.ndim == self.inputs.ndim else self.baselines.unbind(1)


def image_case(
    file: Path, model: Callable[[Tensor], Any], *, size: int = MADE_FOR, reading: Mapping[str, bool] | None = None,
    **asked: Any,
) -> Case:  # fmt: skip
    """A picture and a classifier of RGB, or grey, in [0, 1], (batch, channels, size, size).

    `reading` is how it is read, as for `read_image`; `asked` is as for `table_case`.
    """
    image = read_image(file, size, **(reading or {}))
    others = "--grey" if image.shape[1] == 3 else "without --grey"
    logits = _probe(model, image, f"pictures of {image.shape[1]} × {size} × {size}: try another --size, or {others}")
    names: dict[str, Choice] = {name: name for name in IMAGE_BASELINES}
    # The logit: the same forwards explain more of the probability when they are read in it (docs/command-line.md).
    return _case(model, image, logits, names, **{"usual": "raw", "baseline": "black", **asked})


def table_case(table: pd.DataFrame, row: int, model: Callable[[Tensor], Any], **asked: Any) -> Case:
    """A row of a table of numbers and a model of such rows, (batch, columns).

    Columns are measured in their standard deviations over the table. The length of a path adds columns up, so they need
    a common unit. Integrated Gradients does not depend on this unit.

    Args:
        table: of numbers, as `read_table` gives it.
        row: from 0.
        model: that takes the table's columns.
        asked: `target` (None is the model's first class), `output` (None is the usual one of classifiers), `baseline`
            by name, several with commas, and `labels`, the names of the classes.

    Example:
        >>> import pandas
        >>> table = pandas.DataFrame({"a": [0.0, 200.0, 400.0], "b": [0.0, 0.2, 0.4]})
        >>> table_case(table, 1, torch.nn.Linear(2, 3).eval(), target=0).baselines
        tensor([[1., 1.]])
    """
    if not 0 <= row < len(table):
        raise ValueError(f"--row {row} is not in the table, which has rows 0 to {len(table) - 1}")
    points = torch.as_tensor(table.to_numpy(dtype="float32", copy=True))
    chosen = points[row : row + 1]
    logits = _probe(model, chosen, f"rows of {len(table.columns)} numbers: leave columns out with --drop")
    unit = unit_of(points)
    points = points / unit
    names: dict[str, Choice] = {
        "mean": ("mean", {"points": points}), "zero": 0.0, "samples": ("samples", {"points": points}),
        "max_entropy": ("max_entropy", {"limits": (points.amin(0), points.amax(0))}),
    }  # fmt: skip
    case = _case(Rescaled(model, unit), chosen / unit, logits, names, **{"baseline": "mean", **asked})
    if len(points) == 1 and all(torch.equal(start, case.inputs) for start in case.each_baseline):
        raise ValueError(f"{ONE_ROW}: pass a table of more rows, or --baseline zero")
    return replace(case, features=[str(column) for column in table.columns])


def join_cases(cases: Sequence[Case]) -> Case:
    """Several cases of one model as one: each input keeps its own target."""
    first = cases[0]
    targets = [case.score.target for case in cases]
    target: Any = None if targets[0] is None else torch.tensor(targets)
    inputs, baselines = (torch.cat([getattr(case, part) for case in cases]) for part in ("inputs", "baselines"))
    return replace(first, score=replace(first.score, target=target), inputs=inputs, baselines=baselines)


def _case(
    model: Callable[[Tensor], Any],
    inputs: Tensor,
    logits: Tensor,
    names: Mapping[str, Choice],
    *,
    baseline: str,
    target: int | None = None,
    output: str | None = None,
    usual: str = "log_softmax",
    labels: Sequence[str] | None = None,
) -> Case:
    n_classes = 1 if logits.ndim == 1 else logits.shape[1]
    if n_classes == 1:
        if target not in (None, 0):
            raise ValueError(f"--target {target}: the model has one output, which needs no target")
        chosen, output, words = None, output or "raw", "the model's output"
    else:
        chosen = int(logits[0].argmax()) if target is None else target
        if not 0 <= chosen < n_classes:
            raise ValueError(f"--target {chosen} is not a class of the model, which has 0 to {n_classes - 1}")
        output, words = output or usual, f"class {_name(chosen, labels)}"
    # Some exported programs take only the batch size that they were exported with.
    score = Score(model, chosen, output, batch_size=None if _takes_batches(model, inputs) else 1)  # type: ignore[arg-type]
    explained = words if chosen is None and output == "raw" else f"{IN_WORDS.get(output, output)} of {words}"
    return Case(score, inputs, _baselines(baseline, names, inputs, score), explained, _top(logits, labels))


def _baselines(given: str, names: Mapping[str, Choice], inputs: Tensor, score: Score) -> Tensor:
    """(1, *features), or for several, with commas or as a name makes them, (1, m, *features)."""
    choices = [_baseline(name.strip(), names, score) for name in given.split(",")]
    each = Several(tuple(choices)).of(inputs, score)
    return each[:, 0] if each.shape[1] == 1 else each


def _baseline(name: str, names: Mapping[str, Choice], score: Score) -> Choice:
    if name in names:
        return names[name]
    try:
        number = float(name)
    except ValueError:
        raise ValueError(f"--baseline {name!r} is unknown: use {', '.join(names)}, or a number") from None
    return number / score.model.unit[None] if isinstance(score.model, Rescaled) else number


def _probe(model: Callable[[Tensor], Any], inputs: Tensor, advice: str) -> Tensor:
    """What the model says of one input: (1, classes) or (1,)."""
    try:
        logits = Score(model).outputs(inputs)
    except UnreadableOutput:
        raise
    except Exception as error:  # the user's model may raise anything
        raise ValueError(f"the model does not take {advice} ({reason_of(error)[:200]})") from error
    if logits.ndim > 2:
        raise ValueError(f"the model returns {tuple(logits.shape)} for one input, expected (1, classes) or (1,)")
    return logits.float()


def _takes_batches(model: Callable[[Tensor], Any], inputs: Tensor) -> bool:
    try:
        Score(model, batch_size=2).outputs(torch.cat([inputs, inputs]))
        return True
    except Exception:  # the checks of exported programs can raise any error
        return False


def _top(logits: Tensor, labels: Sequence[str] | None) -> list[dict[str, Any]]:
    if logits.ndim == 1 or logits.shape[1] == 1:
        return [{"output": float(logits.flatten()[0])}]
    probability, order = logits[0].softmax(0).topk(min(TOP, logits.shape[1]))
    return [
        {"class": _name(int(c), labels), "probability": float(p), "logit": float(logits[0, c])}
        for p, c in zip(probability, order, strict=True)
    ]


def _name(index: int, labels: Sequence[str] | None) -> str:
    if labels is None:
        return str(index)
    if index >= len(labels):
        raise ValueError(f"--labels has {len(labels)} names, too few for class {index}: pass one for each class")
    return f"{index} ({labels[index]})"
