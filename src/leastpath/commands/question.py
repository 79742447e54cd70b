"""What `leastpath explain` and `compare` explain: a picture or a row of a table, the score and the baselines."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from leastpath._support.optional import optional
from leastpath.commands.arguments import IMAGE_BASELINES, TABLE_BASELINES
from leastpath.features.images import read_image
from leastpath.score.baselines import baseline as made_baseline
from leastpath.score.guards import UnfitInputs
from leastpath.score.outputs import UnreadableOutput
from leastpath.score.score import Score

if TYPE_CHECKING:
    import pandas as pd

TABLES = (".csv", ".tsv", ".csv.gz", ".tsv.gz")
TOP = 5  # classes listed
IN_WORDS = {
    "softmax": "probability", "log_softmax": "log-probability", "sigmoid": "probability", "logit_margin": "log-odds",
}  # fmt: skip


@dataclass(frozen=True)
class Question:
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
    def mean_baseline(self) -> Tensor:
        """(1, *features)"""
        return self.baselines if self.baselines.ndim == self.inputs.ndim else self.baselines.mean(1)

    @property
    def each_baseline(self) -> tuple[Tensor, ...]:
        """Each of them, (1, *features)."""
        return (self.baselines,) if self.baselines.ndim == self.inputs.ndim else self.baselines.unbind(1)


def image_question(
    file: Path,
    model: Callable[[Tensor], Any],
    *,
    size: int = 224,
    target: int | None = None,
    output: str | None = None,
    baseline: str = "black",
    labels: Sequence[str] | None = None,
) -> Question:
    """A picture and a classifier of RGB in [0, 1], (batch, 3, size, size).

    Example:
        >>> import tempfile; from PIL import Image
        >>> file = Path(tempfile.mkdtemp()) / "grey.png"
        >>> Image.new("RGB", (40, 30), "grey").save(file)
        >>> net = nn.Sequential(nn.AvgPool2d(16), nn.Flatten(), nn.Linear(3, 4)).eval()
        >>> image_question(file, net, size=16, target=2).explained
        'probability of class 2'
    """
    image = read_image(file, size)
    logits = _probed(model, image, f"pictures of {size} × {size} pixels: try another --size")

    def made(name: str, score: Score) -> Tensor:
        if name in IMAGE_BASELINES:
            return made_baseline(name, image, score)
        return torch.full_like(image, _number(name, IMAGE_BASELINES))

    # As in the study of truth, whose recommendation for photographs is of probabilities.
    asked = Asked(target, output, usual="softmax")
    return _question(model, image, logits, asked, labels, partial(_joint, baseline, image, made))


def table_question(
    table: pd.DataFrame,
    row: int,
    model: Callable[[Tensor], Any],
    *,
    target: int | None = None,
    output: str | None = None,
    baseline: str = "mean",
    labels: Sequence[str] | None = None,
) -> Question:
    """A row of a table of numbers and a model of such rows, (batch, columns).

    Columns are measured in their standard deviations over the table. The length of a path adds columns up, so they need
    a common unit. Integrated Gradients does not depend on this unit.

    Example:
        >>> import pandas
        >>> table = pandas.DataFrame({"a": [0.0, 200.0, 400.0], "b": [0.0, 0.2, 0.4]})
        >>> table_question(table, 1, nn.Linear(2, 3).eval(), target=0).baselines
        tensor([[1., 1.]])
    """
    if not 0 <= row < len(table):
        raise ValueError(f"--row {row} is not in the table, which has rows 0 to {len(table) - 1}")
    points = torch.as_tensor(table.to_numpy(dtype="float32", copy=True))
    chosen = points[row : row + 1]
    known = torch.isfinite(chosen[0])
    if not bool(known.all()):
        empty = [name for name, is_known in zip(table.columns, known.tolist(), strict=True) if not is_known]
        raise ValueError(f"row {row} has no finite number in {', '.join(map(str, empty))}: fill it first")
    logits = _probed(model, chosen, f"rows of {len(table.columns)} numbers: leave columns out with --drop")
    complete = points[torch.isfinite(points).all(1)]
    unit = complete.std(0) if len(complete) > 1 else torch.ones_like(chosen[0])
    unit = torch.where(unit > 0, unit, 1)  # a column that never changes keeps its unit
    points, inputs = complete / unit, chosen / unit

    def made(name: str, score: Score) -> Tensor:
        if name in ("mean", "samples"):
            return made_baseline(name, inputs, points=points)
        if name == "max_entropy":
            return made_baseline(name, inputs, score, limits=(points.amin(0), points.amax(0)))
        return torch.full_like(chosen, 0.0 if name == "zero" else _number(name, TABLE_BASELINES)) / unit

    joint = partial(_joint, baseline, inputs, made)
    question = _question(Rescaled(model, unit), inputs, logits, Asked(target, output), labels, joint)
    return replace(question, features=[str(column) for column in table.columns])


class Rescaled(nn.Module):
    """A model whose columns are given in other units: (batch, columns), in multiples of `unit` (columns,)."""

    def __init__(self, model: Callable[[Tensor], Any], unit: Tensor) -> None:
        super().__init__()
        self.model, self.unit = model, unit
        self.training = isinstance(model, nn.Module) and model.training

    def forward(self, rows: Tensor) -> Any:
        """(batch, columns) -> the model's output."""
        return self.model(rows * self.unit)


@dataclass(frozen=True)
class Asked:
    """What is asked for: a class or None for the first one, an output or None for the usual one of classifiers.

    Example:
        >>> Asked(None, None, usual="softmax").target is None
        True
    """

    target: int | None
    output: str | None
    usual: str = "log_softmax"


def _question(
    model: Callable[[Tensor], Any],
    inputs: Tensor,
    logits: Tensor,
    asked: Asked,
    labels: Sequence[str] | None,
    baseline: Callable[[Score], Tensor],
) -> Question:
    target, output = asked.target, asked.output
    n_classes = 1 if logits.ndim == 1 else logits.shape[1]
    if n_classes == 1:
        if target not in (None, 0):
            raise ValueError(f"--target {target}: the model has one output, which needs no target")
        chosen, kind, words = None, output or "raw", "the model's output"
    else:
        chosen = int(logits[0].argmax()) if target is None else target
        if not 0 <= chosen < n_classes:
            raise ValueError(f"--target {chosen} is not a class of the model, which has 0 to {n_classes - 1}")
        kind, words = output or asked.usual, f"class {_name(chosen, labels)}"
    # Some exported programs take only the batch size that they were exported with.
    score = Score(model, chosen, kind, batch_size=None if _takes_batches(model, inputs) else 1)  # type: ignore[arg-type]
    explained = words if kind == "raw" else f"{IN_WORDS.get(kind, kind)} of {words}"
    return Question(score, inputs, baseline(score), explained, _top(logits, labels))


def _probed(model: Callable[[Tensor], Any], inputs: Tensor, advice: str) -> Tensor:
    try:
        logits = Score(model).outputs(inputs)
    except UnreadableOutput:
        raise
    except Exception as error:  # the user's model may raise anything
        reason = str(error.__cause__ if isinstance(error, UnfitInputs) else error).strip().splitlines()[0][:200]
        raise ValueError(f"the model does not take {advice} ({reason})") from error
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


def _joint(names: str, inputs: Tensor, made: Callable[[str, Score], Tensor], score: Score) -> Tensor:
    """One baseline as it is made, (1, *features) or (1, m, *features); several with commas as (1, m, *features)."""
    parts = [made(name.strip(), score) for name in names.split(",")]
    if len(parts) == 1:
        return parts[0]
    return torch.cat([part.unsqueeze(1) if part.ndim == inputs.ndim else part for part in parts], 1)


def _number(text: str, known: Sequence[str]) -> float:
    try:
        return float(text)
    except ValueError:
        raise ValueError(f"--baseline {text!r} is unknown: use {', '.join(known)}, or a number") from None


# ---- files ----------------------------------------------------------------------------------------------------------


def names_in(*given: str) -> list[str]:
    """The names in options that take several with commas, each once.

    Example:
        >>> names_in("age, hours", "age,")
        ['age', 'hours']
    """
    return list(dict.fromkeys(name.strip() for one in given for name in one.split(",") if name.strip()))


def separator_of(file: Path) -> str:
    """What stands between the cells of a table's file: a tab in .tsv files, else a comma.

    Example:
        >>> separator_of(Path("table.tsv.gz")), separator_of(Path("table.csv"))
        ('\\t', ',')
    """
    return "\t" if ".tsv" in file.name.lower() else ","


def read_frame(file: Path, drop: Sequence[str] = ()) -> pd.DataFrame:
    """A table, without the columns to drop.

    Example:
        >>> read_frame(Path("nowhere.csv"))
        Traceback (most recent call last):
        ...
        ValueError: nowhere.csv cannot be read as a table: ...
    """
    pandas = optional("pandas", "tables need pandas", "tabular")
    try:
        table = pandas.read_csv(file, sep=separator_of(file))
    except (OSError, ValueError) as error:
        raise ValueError(f"{file} cannot be read as a table: {str(error).partition(chr(10))[0]}") from error
    unknown = [name for name in drop if name not in table.columns]
    if unknown:
        raise ValueError(f"--drop {unknown[0]!r} is not a column: the table has {', '.join(map(str, table.columns))}")
    return table.drop(columns=list(drop))


def read_table(file: Path, drop: Sequence[str] = ()) -> pd.DataFrame:
    """A table of numbers, without the columns to drop.

    Example:
        >>> read_table(Path("nowhere.csv"))
        Traceback (most recent call last):
        ...
        ValueError: nowhere.csv cannot be read as a table: ...
    """
    import pandas as pd

    table = read_frame(file, drop)
    words = [str(c) for c in table.columns if not pd.api.types.is_numeric_dtype(table[c])]
    if words:
        raise ValueError(
            f"{', '.join(words)} hold no numbers: encode them as the model expects, or --drop {','.join(words)}"
        )
    return table


def read_labels(file: Path) -> list[str]:
    """Class names: one a line, a JSON list, or a JSON object from index to name (or to a list that ends with it)."""
    if not file.is_file():
        raise ValueError(f"{file} is not a file: pass class names, one a line or as JSON")
    text = file.read_text(encoding="utf-8")
    if file.suffix != ".json":
        return [line.strip() for line in text.splitlines() if line.strip()]
    try:
        given = json.loads(text)
    except json.JSONDecodeError as error:
        raise ValueError(f"{file} is not JSON: {error}") from error
    names = [given[str(i)] for i in range(len(given))] if isinstance(given, dict) else given
    return [str(name[-1] if isinstance(name, list) else name) for name in names]
