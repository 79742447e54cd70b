"""One picture, or one row of a table, from file to report: Integrated Gradients beside Geodesic IG or another method.

`leastpath explain cat.jpg`, `leastpath explain table.csv --model model.pt2 --trust-model --row 12`.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from leastpath._support.fingerprint import digest
from leastpath.attribution import Attribution, attribute
from leastpath.baselines import baseline as made_baseline
from leastpath.commands.arguments import IMAGE_BASELINES, TABLE_BASELINES
from leastpath.commands.classifier import EfficientNetLite0
from leastpath.commands.model_files import load_model
from leastpath.commands.pictures import show
from leastpath.commands.run_folder import RunFolder, default_folder
from leastpath.evaluation.masking import FULL_AREAS, Masking
from leastpath.evaluation.support import SymmetricRelevanceGain
from leastpath.guards import UnfitInputs
from leastpath.images import read_image
from leastpath.methods import METHODS, Method
from leastpath.outputs import UnreadableOutput
from leastpath.report import Report, bars, heatmap
from leastpath.report.canvas import SERIES, array, limit, new_figure, without_ticks
from leastpath.score import Score
from leastpath.solution import Solver
from leastpath.solvers import Descent, GeodesicODE, NeighborGraph, StraightLine, Variational
from leastpath.status import finished

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

TABLES = (".csv", ".tsv", ".csv.gz", ".tsv.gz")
TOP = 5  # classes listed
SOLVERS: Mapping[str, Callable[[], Solver]] = {
    "descent": Descent,
    "graph": lambda: NeighborGraph(generate="adaptive", refine=True),
    "variational": Variational,
    "ode": GeodesicODE,
    "straight": StraightLine,
}
EVIDENCE = (
    "support", "line_support", "completeness_gap", "cancellation", "length", "length_ratio", "certificate",
    "score_change", "n_gradients",
)  # fmt: skip


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
        'log_softmax of class 2'
    """
    image = read_image(file, size)
    logits = _probed(model, image, f"pictures of {size} × {size} pixels: try another --size")

    def made(name: str, score: Score) -> Tensor:
        if name in IMAGE_BASELINES:
            return made_baseline(name, image, score)
        return torch.full_like(image, _number(name, IMAGE_BASELINES))

    return _question(model, image, logits, target, output, labels, partial(_joint, baseline, image, made))


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
    question = _question(Rescaled(model, unit), inputs, logits, target, output, labels, joint)
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


def _question(
    model: Callable[[Tensor], Any],
    inputs: Tensor,
    logits: Tensor,
    target: int | None,
    output: str | None,
    labels: Sequence[str] | None,
    baseline: Callable[[Score], Tensor],
) -> Question:
    n_classes = 1 if logits.ndim == 1 else logits.shape[1]
    if n_classes == 1:
        if target not in (None, 0):
            raise ValueError(f"--target {target}: the model has one output, which needs no target")
        chosen, kind, words = None, output or "raw", "the model's output"
    else:
        chosen = int(logits[0].argmax()) if target is None else target
        if not 0 <= chosen < n_classes:
            raise ValueError(f"--target {chosen} is not a class of the model, which has 0 to {n_classes - 1}")
        kind, words = output or "log_softmax", f"class {_name(chosen, labels)}"
    # Some exported programs take only the batch size that they were exported with.
    score = Score(model, chosen, kind, batch_size=None if _takes_batches(model, inputs) else 1)  # type: ignore[arg-type]
    explained = words if kind == "raw" else f"{kind} of {words}"
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


# ---- answering ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Answer:
    """The result of one method, as it is stored."""

    title: str
    record: dict[str, Any]
    values: Tensor
    """(1, *features)"""
    x: Tensor
    """(areas,)"""
    deletion: Tensor
    """(areas,) the probability, or score, with the features of highest |A| replaced by the baseline."""
    insertion: Tensor
    """(areas,) with only these left."""


def answers(
    question: Question, run: RunFolder, used: Solver | Method | None, max_gradients: int | None, seed: int
) -> list[Answer]:
    """Integrated Gradients, and the geodesic or another method. What the run's store already has is not computed."""
    found = []
    for key, chosen in (("straight", StraightLine()), ("geodesic", used)):
        if key not in run.store:
            _keep(run, key, question, finished(_explained(question, chosen, max_gradients, seed)), seed)
        unit = run.store.read(key)
        title = f"Geodesic IG ({unit.record['solver'].partition('(')[0]})"
        if key == "straight":
            title = "Integrated Gradients"
        elif isinstance(used, Method):
            title = used.title
        found.append(Answer(title, unit.record, **unit.arrays))
    return found


def _explained(question: Question, used: Solver | Method | None, max_gradients: int | None, seed: int) -> Attribution:
    given: dict[str, Any] = {"max_gradients": max_gradients, "seed": seed, "progress": True}
    if not isinstance(used, Method):
        return attribute(question.score, question.inputs, question.baselines, solver=used, support=True, **given)
    if "max_gradients" not in used.defaults:
        given.pop("max_gradients")
    if "support" in used.defaults:
        given["support"] = True
    return used(question.score, question.inputs, question.baselines if used.takes_baselines else None, **given)


def _keep(run: RunFolder, key: str, question: Question, result: Attribution, seed: int) -> None:
    assert isinstance(result.values, Tensor)
    features = "values" if question.features is not None else "pixels"
    masking = Masking(FULL_AREAS, features=features, fill="baseline")
    arrays = {"values": result.values, "x": torch.tensor(FULL_AREAS)}
    for name, keep in (("deletion", False), ("insertion", True)):
        scores = masking.curves(question.score, question.inputs, question.mean_baseline, result, keep=keep, seed=seed)
        arrays[name] = scores.probability()[1][0, 0]
    evidence = {**vars(result), "support": _support(question, result)}
    evidence["line_support"] = result.stats.get("line_support", [math.nan])
    record = {name: float(evidence[name][0]) for name in EVIDENCE}
    what = {"kind": scores.kind, "solver": result.solver, "metric": result.metric, "status": result.status[0].value}
    run.store.write(key, {**record, **what}, arrays)


def _support(question: Question, result: Attribution) -> Tensor:
    """(1,) as `attribute` measured it, or the same of a method that has no path and so did not measure it."""
    if result.path is not None:
        return result.support
    features = "values" if question.features is not None else "patches"
    return SymmetricRelevanceGain(features)(question.score, question.inputs, question.mean_baseline, result).values


# ---- showing -----------------------------------------------------------------------------------------------------


def write_report(run: RunFolder, question: Question, found: Sequence[Answer], title: str) -> None:
    """report.html, and the same pictures as PNG in figures/."""
    scale, what = "The largest attributions, one scale for both.", "columns"
    if question.features is None:
        scale, what = "Channels summed: red raises the score, blue lowers it. ", "pixels"
        scale += "Above, both on one scale; below, each on its own."
    report = Report(title, f"Explained: {question.explained}.")
    report.section("What the model says").table(question.top)
    report.section("Attributions")
    show(report, run, _attributions(question, found), "attributions", scale)
    report.section("Evidence").table(
        _evidence(found),
        "support: how much more the prediction loses without the features that the explanation ranks first than "
        "without those that it ranks last; 0 is a random order, higher is better. line support: of the straight line. "
        "completeness gap: Σ values − Δf. cancellation: Σ|values| − |Δf|. length ratio: of the path to the straight "
        "line. certificate: length over |Δf|, at least 1; 1 is provably shortest.",
    )
    for answer in found:
        report.text(f"{answer.title}: {answer.record['status']}")
    report.section("Masking")
    words = (
        f"Left: the {what} of highest |attribution| are replaced by the baseline; lower is better. Right: only these "
        "are left; higher is better."
    )
    show(report, run, _masking(found), "masking", words)
    run.write("report.html", report.html())


def _attributions(question: Question, found: Sequence[Answer]) -> Figure:
    if question.features is not None:
        figure = new_figure(11, 1.6 + 0.32 * min(16, len(question.features)))
        axes = figure.subplots(1, len(found), sharex=True, squeeze=False)
        for ax, answer in zip(axes[0], found, strict=True):
            bars(answer.values[0], question.features, title=answer.title, ax=ax)
        everything = torch.cat([a.values.flatten() for a in found])
        low, high = min(0.0, float(everything.min())), max(0.0, float(everything.max()))
        room = 0.2 * (high - low)  # for the numbers beside the bars
        axes[0, 0].set_xlim(low - room, high + room)
        return figure
    end = limit(array(torch.cat([a.values for a in found]).sum(1)), 99)
    figure = new_figure(4.2 * len(found) + 3.4, 8)
    axes = figure.subplots(2, len(found) + 1, squeeze=False)
    axes[0, 0].imshow(question.inputs[0].clamp(0, 1).permute(1, 2, 0).numpy())
    axes[0, 0].set_title("picture", fontsize="medium")
    axes[1, 0].imshow(question.mean_baseline[0].clamp(0, 1).permute(1, 2, 0).numpy())
    axes[1, 0].set_title("baseline", fontsize="medium")
    without_ticks(axes[:, 0])
    for j, answer in enumerate(found, 1):
        heatmap(answer.values, scale=end, title=answer.title, colorbar=j == len(found), ax=axes[0, j])
        heatmap(answer.values, question.inputs, ax=axes[1, j])
    return figure


def _masking(found: Sequence[Answer]) -> Figure:
    figure = new_figure(10, 3.6)
    axes = figure.subplots(1, 2, sharey=True)
    for ax, name, words in ((axes[0], "deletion", "masked"), (axes[1], "insertion", "kept")):
        for color, answer in zip(SERIES, found, strict=False):
            ax.plot(answer.x, getattr(answer, name), color=color, label=answer.title)
        ax.set_xlabel(f"share {words}, highest |attribution| first")
        ax.grid(alpha=0.3)
    axes[0].set_ylabel("probability" if found[0].record["kind"] == "log_odds" else "score")
    axes[0].legend(frameon=False, fontsize="small")
    return figure


def _evidence(found: Sequence[Answer]) -> pd.DataFrame:
    import pandas as pd

    rows = {a.title: {name.replace("n_", "").replace("_", " "): a.record[name] for name in EVIDENCE} for a in found}
    return pd.DataFrame.from_dict(rows, orient="index")


# ---- files -------------------------------------------------------------------------------------------------------


def read_table(file: Path, drop: Sequence[str] = ()) -> pd.DataFrame:
    """A table of numbers, without the columns to drop.

    Example:
        >>> read_table(Path("nowhere.csv"))
        Traceback (most recent call last):
        ...
        ValueError: nowhere.csv cannot be read as a table: ...
    """
    import pandas as pd

    try:
        table = pd.read_csv(file, sep="\t" if ".tsv" in file.name else ",")
    except (OSError, ValueError) as error:
        raise ValueError(f"{file} cannot be read as a table: {error}") from error
    unknown = [name for name in drop if name not in table.columns]
    if unknown:
        raise ValueError(f"--drop {unknown[0]!r} is not a column: the table has {', '.join(map(str, table.columns))}")
    table = table.drop(columns=list(drop))
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


def run_explain(
    source: Path,
    out: Path | None = None,
    *,
    model: Path | None = None,
    model_class: str | None = None,
    model_args: str | None = None,
    trust_model: bool = False,
    row: int | None = None,
    target: int | None = None,
    output: str | None = None,
    solver: str | None = None,
    method: str | None = None,
    baseline: str | None = None,
    size: int = 224,
    labels: Path | None = None,
    drop: Sequence[str] = (),
    max_gradients: int | None = None,
    seed: int = 0,
    resume: bool = False,
) -> RunFolder:
    """What `leastpath explain` does; its arguments are those of the command (`commands/arguments.py`).

    Writes a folder with report.html and PNG figures.
    """
    chosen = _chosen(solver, method)
    is_table = _is_table(source, model, row)
    used = EfficientNetLite0() if model is None else load_model(model, model_class, model_args, trust=trust_model)
    names = None if labels is None else read_labels(labels)
    settings: dict[str, Any] = {"target": target, "output": output, "labels": names}
    if is_table and row is not None:
        columns = [name.strip() for given in drop for name in given.split(",") if name.strip()]
        question = table_question(read_table(source, columns), row, used, baseline=baseline or "mean", **settings)
    else:
        question = image_question(source, used, size=size, baseline=baseline or "black", **settings)
    config = {
        "source": source.name, "model": None if model is None else digest(model.read_bytes()),
        "model_class": model_class, "model_args": model_args, "solver": solver, "method": method,
        "explained": question.explained, "inputs": digest(question.inputs), "baselines": digest(question.baselines),
        "max_gradients": max_gradients, "seed": seed,
    }  # fmt: skip
    run = RunFolder.open(default_folder("explain", resume) if out is None else out, "explain", config, resume=resume)
    found = answers(question, run, chosen, max_gradients, seed)
    write_report(run, question, found, source.name if row is None else f"{source.name}, row {row}")
    print(run.path / "report.html")
    return run


def _chosen(solver: str | None, method: str | None) -> Solver | Method | None:
    """What is compared with Integrated Gradients; None leaves the choice to `attribute`."""
    if solver is not None and solver not in SOLVERS:
        raise ValueError(f"--solver {solver!r} is unknown: use one of {', '.join(SOLVERS)}")
    if solver is not None and method is not None:
        raise ValueError(
            f"--solver {solver} is for Geodesic IG, and --method {method} replaces it: pass one of the two"
        )
    if method is not None:
        return METHODS[method]
    return None if solver is None else SOLVERS[solver]()


def _is_table(source: Path, model: Path | None, row: int | None) -> bool:
    """Whether the source is a table, which needs a model and a row."""
    if not source.is_file():
        raise ValueError(f"{source} is not a file: pass a picture, or a table as .csv")
    is_table = source.name.lower().endswith(TABLES)
    if is_table and (model is None or row is None):
        raise ValueError(
            "a table needs its model and a row: leastpath explain table.csv --model weights.safetensors "
            "--model-class package.module:Class --row 12"
        )
    if not is_table and row is not None:
        raise ValueError(f"--row is for tables ({', '.join(TABLES)}), and {source.name} is a picture")
    return is_table
