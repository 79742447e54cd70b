"""One picture, or one row of a table, from file to report: several methods, and which of them stands the test.

`leastpath explain cat.jpg`, `leastpath explain table.csv --model model.pt2 --trust-model --row 12`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from importlib.util import find_spec
from typing import Any

from leastpath._support.fingerprint import digest
from leastpath._support.optional import optional
from leastpath.commands.answers import Answer, answers, estimate
from leastpath.commands.case import Case, image_case, table_case
from leastpath.commands.classifier import imagenet_classes
from leastpath.commands.explain_page import write_report
from leastpath.commands.files import TABLES, is_table, names_in, read_labels, read_table
from leastpath.commands.fitting import fitted
from leastpath.commands.model_files import GivenModel
from leastpath.commands.options import PICTURE_METHODS, TABLE_METHODS, ExplainOptions
from leastpath.commands.run_folder import RunFolder, default_folder
from leastpath.methods import METHODS, Method, method_of
from leastpath.solvers import Descent, GeodesicODE, NeighborGraph, StraightLine, Variational
from leastpath.solvers.solution import Solver

SOLVERS: Mapping[str, Callable[[], Solver]] = {
    "descent": Descent,
    "graph": lambda: NeighborGraph(generate="adaptive", refine=True),
    "variational": Variational,
    "ode": GeodesicODE,
    "straight": StraightLine,
}


def run_explain(options: ExplainOptions) -> RunFolder:
    """What `leastpath explain` does: a folder with report.html and PNG figures.

    Example:
        >>> run_explain(ExplainOptions(source=Path("cat.jpg"), methods="idgi,occlusion"))  # doctest: +SKIP
    """
    optional("matplotlib", "the report's pictures need matplotlib", "plot")
    model = GivenModel(options)
    _check_source(options, model)
    of_table = is_table(options.source)
    methods = choose_methods(options.methods, options.method, options.solver, of_table)
    start = options.baseline or ("mean" if of_table else "black,mean")
    case = _read_case(options, model, start)
    config = {
        "source": options.source.name, **model.identity, "methods": [m.name for m in methods], "solver": options.solver,
        "explained": case.explained, "inputs": digest(case.inputs), "baselines": digest(case.baselines),
        "max_gradients": options.max_gradients, "max_seconds": options.max_seconds, "seed": options.seed,
    }  # fmt: skip
    folder = default_folder("explain", options.resume) if options.out is None else options.out
    run = RunFolder.open(folder, "explain", config, resume=options.resume)
    limits = {"max_gradients": options.max_gradients, "max_seconds": options.max_seconds}
    found = _answers(case, run, methods, limits, options.seed)
    title = options.source.name if options.row is None else f"{options.source.name}, row {options.row}"
    print(write_report(run, case, found, title, start))
    print(run.path / "report.html")
    return run


def _read_case(options: ExplainOptions, model: GivenModel, baseline: str) -> Case:
    used = model.load()
    labels = None if model.is_given else imagenet_classes()
    if options.labels is not None:
        labels = read_labels(options.labels)
    asked: dict[str, Any] = {
        "target": options.target, "output": options.output, "labels": labels, "baseline": baseline,
    }  # fmt: skip
    if options.row is not None:
        return table_case(read_table(options.source, names_in(*options.drop)), options.row, used, **asked)
    return image_case(options.source, used, size=options.size, **asked)


def _answers(
    case: Case, run: RunFolder, methods: Sequence[Method], limits: Mapping[str, float | None], seed: int
) -> list[Answer]:
    """The answers, best supported first, after a word on the time that they take."""
    missing = [method for method in methods if method.name not in run.store]
    if missing:
        side = case.inputs.shape[-1]
        what = "" if case.features is not None else f"The picture is brought to {side} × {side} pixels (--size). "
        print(f"{what}{estimate(case, missing, limits)}", file=sys.stderr, flush=True)
    found = answers(case, run, methods, limits, seed)
    return sorted(found, key=lambda answer: -answer.support)


def choose_methods(methods: str | None, method: str | None, solver: str | None, of_table: bool) -> list[Method]:
    """The methods to compare, in the order given. --method and --solver are compared with Integrated Gradients.

    Example:
        >>> [method.name for method in choose_methods("idgi, occlusion", None, None, False)]
        ['idgi', 'occlusion']
    """
    if solver is not None and solver not in SOLVERS:
        raise ValueError(f"--solver {solver!r} is unknown: use one of {', '.join(SOLVERS)}")
    if methods is not None and method is not None:
        raise ValueError(f"--method {method} is a shorter way to say --methods: use --methods {methods},{method}")
    if methods is None:
        default = TABLE_METHODS if of_table else PICTURE_METHODS
        methods = default if method is None and solver is None else f"integrated_gradients,{method or ''}"
        if find_spec("captum") is None:
            methods = methods.replace(",occlusion", "") if methods == default else methods
    names = names_in(methods)
    if not names and solver is None:
        raise ValueError("--methods names no method: use names of `leastpath methods`, with commas between them")
    found = [fitted(METHODS[name], is_table=of_table) for name in names]
    return found if solver is None else [*found, _of_solver(SOLVERS[solver]())]


def _of_solver(solver: Solver) -> Method:
    return replace(method_of(solver), name="geodesic", title=f"Geodesic IG ({type(solver).__name__})", summary="")


def _check_source(options: ExplainOptions, model: GivenModel) -> None:
    """Refuse what is neither a picture, nor a table with its model and a row."""
    if not options.source.is_file():
        raise ValueError(f"{options.source} is not a file: pass a picture, or a table as .csv")
    of_table = is_table(options.source)
    if of_table and (not model.is_given or options.row is None):
        raise ValueError(
            "a table needs its model and a row: leastpath explain table.csv --model weights.safetensors "
            "--model-class package.module:Class --row 12"
        )
    if not of_table and options.row is not None:
        raise ValueError(f"--row is for tables ({', '.join(TABLES)}), and {options.source.name} is a picture")
