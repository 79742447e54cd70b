"""One picture, or one row of a table, from file to report: several methods, and which of them stands the test.

`leastpath explain cat.jpg`, `leastpath explain table.csv --model model.pt2 --trust-model --row 12`. A prompt of
a language model has a file of its own, `explain_prompt.py`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from leastpath._support.fingerprint import digest
from leastpath._support.optional import import_optional
from leastpath.commands.answers import Answer, answers, estimate
from leastpath.commands.case import Case, image_case, table_case
from leastpath.commands.classifier import imagenet_classes
from leastpath.commands.explain_page import write_report
from leastpath.commands.files import TABLES, kind_of_file, names_in, read_labels, read_table
from leastpath.commands.fitting import stay_in_range
from leastpath.commands.model_files import GivenModel
from leastpath.commands.options import MADE_FOR, SIZE_PRICE, ExplainOptions, JudgeOptions
from leastpath.commands.run_folder import RunFolder, default_folder
from leastpath.features.groups import Kind
from leastpath.methods import METHODS, Method, method_of
from leastpath.solvers import Descent, GeodesicODE, NeighborGraph, StraightLine, Variational
from leastpath.solvers.solution import Solver

OLD_SOLVERS: Mapping[str, Callable[[], Solver]] = {  # of --solver, which goes with the next version
    "descent": Descent,
    "graph": lambda: NeighborGraph(generate="adaptive", refine=True),
    "variational": Variational,
    "ode": GeodesicODE,
    "straight": StraightLine,
}
OLD = "--solver is called --method now and will go: --method geodesic_descent, or another name of `leastpath methods`"


def run_explain(options: ExplainOptions) -> RunFolder:
    """What `leastpath explain` does: a folder with report.html and PNG figures.

    Example:
        >>> run_explain(ExplainOptions(source="cat.jpg", methods="idgi,occlusion"))  # doctest: +SKIP
    """
    if options.model_dir is not None:
        from leastpath.commands.explain_prompt import run_explain_prompt

        return run_explain_prompt(options)
    import_optional("matplotlib", "the report's pictures need matplotlib", "plot")
    model = GivenModel(options)
    check_source(options, model)
    source = Path(options.source)
    kind = kind_of_file(source)
    methods = choose_methods(options.methods, options.method, options.solver, kind)
    start = options.baseline or ("mean" if kind == "table" else "black,mean")
    case = read_case(options, model, start)
    config = {
        "source": source.name, **model.identity, "methods": [m.name for m in methods], "solver": options.solver,
        "explained": case.explained, "inputs": digest(case.inputs), "baselines": digest(case.baselines),
        "max_gradients": options.max_gradients, "max_seconds": options.max_seconds, "seed": options.seed,
    }  # fmt: skip
    folder = default_folder("explain", options.resume) if options.out is None else options.out
    run = RunFolder.open(folder, "explain", config, resume=options.resume)
    limits = {"max_gradients": options.max_gradients, "max_seconds": options.max_seconds}
    found = _answers(case, run, methods, limits, options.seed)
    title = source.name if options.row is None else f"{source.name}, row {options.row}"
    print(write_report(run, case, found, title, start))
    print(run.path / "report.html")
    return run


def read_case(options: ExplainOptions | JudgeOptions, model: GivenModel, baseline: str) -> Case:
    """What is explained, from its files."""
    used, source = model.load(), Path(options.source)
    labels = None if model.is_given else imagenet_classes()
    if options.labels is not None:
        labels = read_labels(options.labels)
    asked: dict[str, Any] = {
        "target": options.target, "output": options.output, "labels": labels, "baseline": baseline,
    }  # fmt: skip
    if options.row is not None:
        table = read_table(source, names_in(*options.drop), options.missing)
        return table_case(table, options.row, used, **asked)
    if not model.is_given and options.size < MADE_FOR:
        print(f"The classifier was made for {MADE_FOR} pixels. {SIZE_PRICE}", file=sys.stderr)
    return image_case(source, used, size=options.size, reading=options.reading, **asked)


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


def choose_methods(methods: str | None, method: str | None, solver: str | None, kind: Kind) -> list[Method]:
    """The methods to compare, in the order given; without any, those that are recommended for the kind of input.

    --method and --solver are compared with Integrated Gradients.
    """
    if solver is not None:
        if solver not in OLD_SOLVERS:
            raise ValueError(f"--solver {solver!r} is unknown: use one of {', '.join(OLD_SOLVERS)}")
        print(OLD, file=sys.stderr)
    if methods is not None and method is not None:
        raise ValueError(f"--method {method} is a shorter way to say --methods: use --methods {methods},{method}")
    if methods is not None:
        found = [METHODS[name] for name in names_in(methods)]
    elif method is not None or solver is not None:
        found = [METHODS[name] for name in names_in("integrated_gradients", method or "")]
    else:
        found = [m for m in METHODS.fitting(kind) if kind in m.recommended and m.is_installed]
    if not found and solver is None:
        raise ValueError("--methods names no method: use names of `leastpath methods`, with commas between them")
    found = [stay_in_range(method, kind) for method in found]
    if solver is None:
        return found
    old = OLD_SOLVERS[solver]()
    return [*found, replace(method_of(old), name="geodesic", title=f"Geodesic IG ({type(old).__name__})")]


def check_source(options: ExplainOptions | JudgeOptions, model: GivenModel) -> None:
    """Refuse what is neither a picture, nor a table with its model and a row."""
    of_table = kind_of_file(Path(options.source)) == "table"
    if of_table and (not model.is_given or options.row is None):
        raise ValueError(
            "a table needs its model and a row: leastpath explain table.csv --model weights.safetensors "
            "--model-class package.module:Class --row 12"
        )
    if not of_table and options.row is not None:
        raise ValueError(f"--row is for tables ({', '.join(TABLES)}), and {Path(options.source).name} is a picture")
