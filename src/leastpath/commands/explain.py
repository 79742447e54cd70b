"""One picture, or one row of a table, from file to report: several methods, and which of them stands the test.

`leastpath explain cat.jpg`, `leastpath explain table.csv --model model.pt2 --trust-model --row 12`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from leastpath._support.fingerprint import digest
from leastpath._support.optional import optional
from leastpath.commands.answering import Answer, answers, estimate
from leastpath.commands.arguments import IMAGE_SIZE, PICTURE_BASELINE, PICTURE_METHODS, TABLE_METHODS
from leastpath.commands.classifier import EfficientNetLite0, imagenet_classes
from leastpath.commands.explain_page import write_report
from leastpath.commands.fitting import fitted
from leastpath.commands.model_files import load_model
from leastpath.commands.question import (
    TABLES,
    Question,
    image_question,
    names_in,
    read_labels,
    read_table,
    table_question,
)
from leastpath.commands.run_folder import RunFolder, default_folder
from leastpath.methods import METHODS, Method
from leastpath.methods.paths import SolverExplainer
from leastpath.solvers import Descent, GeodesicODE, NeighborGraph, StraightLine, Variational
from leastpath.solvers.solution import Solver, chooses_start

SOLVERS: Mapping[str, Callable[[], Solver]] = {
    "descent": Descent,
    "graph": lambda: NeighborGraph(generate="adaptive", refine=True),
    "variational": Variational,
    "ode": GeodesicODE,
    "straight": StraightLine,
}


def run_explain(
    source: Path,
    out: Path | None = None,
    *,
    methods: str | None = None,
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
    size: int = IMAGE_SIZE,
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
    optional("matplotlib", "the report's pictures need matplotlib", "plot")
    is_table = _is_table(source, model, row)
    chosen = chosen_methods(methods, method, solver, is_table)
    start = baseline or ("mean" if is_table else PICTURE_BASELINE)
    used = EfficientNetLite0() if model is None else load_model(model, model_class, model_args, trust=trust_model)
    names = read_labels(labels) if labels is not None else imagenet_classes() if model is None else None
    settings: dict[str, Any] = {"target": target, "output": output, "labels": names, "baseline": start}
    if is_table and row is not None:
        question = table_question(read_table(source, names_in(*drop)), row, used, **settings)
    else:
        question = image_question(source, used, size=size, **settings)
    config = {
        "source": source.name, "model": None if model is None else digest(model.read_bytes()),
        "model_class": model_class, "model_args": model_args, "methods": [m.name for m in chosen], "solver": solver,
        "explained": question.explained, "inputs": digest(question.inputs), "baselines": digest(question.baselines),
        "max_gradients": max_gradients, "max_seconds": max_seconds, "seed": seed,
    }  # fmt: skip
    run = RunFolder.open(default_folder("explain", resume) if out is None else out, "explain", config, resume=resume)
    limits = {"max_gradients": max_gradients, "max_seconds": max_seconds}
    found = _answered(question, run, chosen, limits, seed)
    title = source.name if row is None else f"{source.name}, row {row}"
    print(write_report(run, question, found, title, start))
    print(run.path / "report.html")
    return run


def _answered(
    question: Question, run: RunFolder, methods: Sequence[Method], limits: Mapping[str, float | None], seed: int
) -> list[Answer]:
    """The answers, best supported first, after a word on the time that they take."""
    missing = [method for method in methods if method.name not in run.store]
    if missing:
        side = question.inputs.shape[-1]
        what = "" if question.features is not None else f"The picture is brought to {side} × {side} pixels (--size). "
        print(f"{what}{estimate(question, missing, limits)}", file=sys.stderr, flush=True)
    found = answers(question, run, methods, limits, seed)
    return sorted(found, key=lambda answer: -answer.support)


def chosen_methods(methods: str | None, method: str | None, solver: str | None, is_table: bool) -> list[Method]:
    """The methods to compare, in the order given. --method and --solver are compared with Integrated Gradients.

    Example:
        >>> [method.name for method in chosen_methods("idgi, occlusion", None, None, False)]
        ['idgi', 'occlusion']
    """
    if solver is not None and solver not in SOLVERS:
        raise ValueError(f"--solver {solver!r} is unknown: use one of {', '.join(SOLVERS)}")
    if methods is not None and method is not None:
        raise ValueError(f"--method {method} is a shorter way to say --methods: use --methods {methods},{method}")
    if methods is None:
        default = TABLE_METHODS if is_table else PICTURE_METHODS
        methods = default if method is None and solver is None else f"integrated_gradients,{method or ''}"
        if find_spec("captum") is None:
            methods = methods.replace(",occlusion", "") if methods == default else methods
    names = names_in(methods)
    if not names and solver is None:
        raise ValueError("--methods names no method: use names of `leastpath methods`, with commas between them")
    found = [fitted(METHODS[name], is_table=is_table) for name in names]
    return found if solver is None else [*found, _of_solver(SOLVERS[solver]())]


def _of_solver(solver: Solver) -> Method:
    explain, title = SolverExplainer(solver), f"Geodesic IG ({type(solver).__name__})"
    takes_baselines = not chooses_start(solver)
    return Method("geodesic", title, "path", "", True, explain, explain.defaults, takes_baselines=takes_baselines)


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
