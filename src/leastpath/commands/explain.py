"""One picture, or one row of a table, from file to report: Integrated Gradients beside Geodesic IG or another method.

`leastpath explain cat.jpg`, `leastpath explain table.csv --model model.pt2 --trust-model --row 12`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from leastpath._support.fingerprint import digest
from leastpath.attribution import Attribution, attribute
from leastpath.commands.classifier import EfficientNetLite0
from leastpath.commands.model_files import load_model
from leastpath.commands.pictures import show
from leastpath.commands.run_folder import RunFolder, default_folder
from leastpath.evaluation.masking import FULL_AREAS, Masking
from leastpath.evaluation.support import SymmetricRelevanceGain
from leastpath.methods import METHODS, Method
from leastpath.report import Report, bars, heatmap
from leastpath.report.canvas import SERIES, array, limit, new_figure, without_ticks
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
    question: Question,
    run: RunFolder,
    used: Solver | Method | None,
    max_gradients: int | None,
    seed: int,
    max_seconds: float | None = None,
) -> list[Answer]:
    """Integrated Gradients, and the geodesic or another method. What the run's store already has is not computed."""
    found = []
    for key, chosen in (("straight", StraightLine()), ("geodesic", used)):
        if key not in run.store:
            limits = {"max_gradients": max_gradients, "max_seconds": max_seconds}
            _keep(run, key, question, finished(_explained(question, chosen, limits, seed)), seed)
        unit = run.store.read(key)
        title = f"Geodesic IG ({unit.record['solver'].partition('(')[0]})"
        if key == "straight":
            title = "Integrated Gradients"
        elif isinstance(used, Method):
            title = used.title
        found.append(Answer(title, unit.record, **unit.arrays))
    return found


def _explained(
    question: Question, used: Solver | Method | None, limits: Mapping[str, float | None], seed: int
) -> Attribution:
    given: dict[str, Any] = {**limits, "seed": seed, "progress": True}
    if not isinstance(used, Method):
        return attribute(question.score, question.inputs, question.baselines, solver=used, support=True, **given)
    for name in limits:
        if name not in used.defaults:
            given.pop(name)
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
    max_seconds: float | None = None,
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
        "max_gradients": max_gradients, "max_seconds": max_seconds, "seed": seed,
    }  # fmt: skip
    run = RunFolder.open(default_folder("explain", resume) if out is None else out, "explain", config, resume=resume)
    found = answers(question, run, chosen, max_gradients, seed, max_seconds)
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
