"""Several methods on a folder of pictures, or on rows of a table, from files to a page and a table.

`leastpath compare pictures/ --methods integrated_gradients,guided_ig --measures insertion,deletion`
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Mapping
from functools import cache, partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from leastpath._support.fingerprint import digest
from leastpath.account.run import Clock
from leastpath.commands.case import IN_WORDS, Case, image_case, join_cases, table_case
from leastpath.commands.files import kind_of_file, names_in, picture_files, read_table
from leastpath.commands.fitting import MOST_PICTURES, MOST_ROWS, give_data, spread, stay_in_range
from leastpath.commands.model_files import GivenModel
from leastpath.commands.options import FILLS, CompareOptions
from leastpath.commands.run_folder import RunFolder, default_folder
from leastpath.evaluation.ceiling import NearOptimalRemoval
from leastpath.evaluation.comparison import Comparison
from leastpath.evaluation.measure import Measure
from leastpath.evaluation.pairs import compare
from leastpath.evaluation.table import MEASURES
from leastpath.features.groups import Kind, patches
from leastpath.features.images import read_image
from leastpath.methods import METHODS, Method
from leastpath.methods.explainer import Contender
from leastpath.tabular import Rescaled

CEILING = "near_optimal_removal"
CEILING_CELLS = 8  # a side of a picture: a search over the 16 of other measures would take 16 times as long
CEILING_WORDS = (
    "No explanation but a ceiling: the best order of removal that a search finds. "
    f"Up to 300 columns; pictures: {CEILING_CELLS} × {CEILING_CELLS} patches, about 5,000 forward passes each."
)


SETTINGS: Mapping[str, Mapping[str, Any]] = {"infidelity": {"normalize": True}, "model_randomization": {"stages": 4}}


def offered_measures() -> list[str]:
    """The measures of --measures: all that need nothing, or nothing but a judge.

    Example:
        >>> "deletion" in offered_measures(), "localization" in offered_measures()
        (True, False)
    """
    return [name for name in MEASURES if set(MEASURES.needs(name)) <= {"judge"}]


def choose_measures(names: str, kind: Kind, fill: str, judge: nn.Module | None = None) -> list[Measure]:
    """Measures by their names, with commas."""
    chosen = []
    for name in names_in(names):
        if name not in offered_measures():
            raise ValueError(f"--measures {name!r} is unknown: use {', '.join(offered_measures())}")
        if kind not in MEASURES.fits(name):
            raise ValueError(f"--measures {name!r} compares pictures, and this is a table: leave it out")
        settings = dict(SETTINGS.get(name, {}))
        if "judge" in MEASURES.needs(name):
            if judge is None:
                raise ValueError(
                    f"--measures {name!r} needs a judge: pass --judge weights.safetensors, the weights of a copy "
                    "of the model that leastpath.evaluation.fine_tune(model, data) made"
                )
            settings["judge"] = judge
        chosen.append(MEASURES.make(name, kind, fill=fill, **settings))
    return chosen


def choose_methods(names: str, kind: Kind, fill: str, size: int) -> dict[str, Contender]:
    """Methods by their names, with commas, and the ceiling of removal."""
    wanted = names_in(names)
    if not wanted:
        raise ValueError("--methods is empty: name at least one, as in --methods integrated_gradients")
    ceiling = NearOptimalRemoval(None if kind == "table" else patches(size, size, CEILING_CELLS), fill)
    # An unknown name is an error that lists those that are known.
    return {name: ceiling if name == CEILING else stay_in_range(METHODS[name], kind) for name in wanted}


def write_results(run: RunFolder, found: Comparison, about: str = "") -> None:
    """report.html, table.csv (a row per method) and results.csv (a row per method and input)."""
    table = found.table()
    table.columns = [" ".join(column) for column in table.columns]
    run.write("table.csv", table.to_csv())
    run.write("results.csv", found.per_example.to_csv(index=False))
    run.write("report.html", found.to_html(about=about))


def print_choices() -> None:
    """What --list shows: methods and measures by name."""
    print("methods (--methods):")
    for name, method in METHODS.items():
        print(f"  {name:26s} {method.summary}")
    print(f"  {CEILING:26s} {CEILING_WORDS}")
    print("measures (--measures):")
    for name in offered_measures():
        remarks = f"{' Needs --judge.' if MEASURES.needs(name) else ''}"
        remarks += "" if "table" in MEASURES.fits(name) else " Pictures only."
        print(f"  {name:28s} {MEASURES.summary(name)}{remarks}")


def run_compare(options: CompareOptions) -> RunFolder:
    """What `leastpath compare` does: a folder with report.html, table.csv and results.csv.

    Example:
        >>> run_compare(CompareOptions(source=Path("pictures"), methods="random,idgi"))  # doctest: +SKIP
    """
    model, kind = GivenModel(options), kind_of_file(options.source)
    fills = [name for name in FILLS if kind == "image" or name not in ("blur", "linear")]
    if options.fill not in fills:
        raise ValueError(f"--fill {options.fill!r} is unknown for this input: use {', '.join(fills)}")
    usual = f"random,integrated_gradients,{'elastic_band' if kind == 'table' else 'windows_in_context'}"
    wanted = choose_methods(usual if options.methods is None else options.methods, kind, options.fill, options.size)
    judge = None if options.judge is None else _load_judge(options, model)
    measures = choose_measures(options.measures, kind, options.fill, judge)
    _check_source(options.source, kind, model)
    case, names = _read_cases(options, kind, model.load())
    wanted = _give_data(wanted, case, options)
    if case.baselines.ndim > case.inputs.ndim and options.fill == "baseline":
        raise ValueError("--fill baseline needs one baseline per input, and --baseline gives several: use --fill mean")
    config = {
        **model.identity, "output": case.score.output, "target": options.target, "baseline": options.baseline,
        "fill": options.fill, "measures": [m.name for m in measures], "size": options.size, "seed": options.seed,
        **options.reading, **({} if options.judge is None else {"judge": digest(options.judge.read_bytes())}),
    }  # fmt: skip
    folder = default_folder("compare", options.resume) if options.out is None else options.out
    run = RunFolder.open(folder, "compare", config, resume=options.resume)
    with warnings.catch_warnings():
        for said in ("interrupted with", "stopped after"):  # said below, in the command's own words
            warnings.filterwarnings("ignore", said, UserWarning)
        clock = Clock(options.max_seconds)
        found = compare(
            wanted, case.score, case.inputs, case.baselines, measures, store=run.path / "pairs", names=names,
            controls=options.controls, seed=options.seed, max_seconds=options.max_seconds, progress=True,
            resume=options.resume,
        )  # fmt: skip
    why = f"stopped after {clock.words}" if clock.left() == 0 else "interrupted"
    return _report(run, found, in_words(options, case), why)


def _load_judge(options: CompareOptions, model: GivenModel) -> nn.Module:
    if "fine_tuned_fidelity" not in names_in(options.measures):
        raise ValueError("--judge is for one measure, which is not asked for: add --measures fine_tuned_fidelity")
    assert options.judge is not None
    return model.load_judge(options.judge)


def _check_source(source: Path, kind: Kind, model: GivenModel) -> None:
    """Refused before a model is loaded."""
    if kind != "table":
        picture_files(source)
        return
    if not model.is_given:
        raise ValueError(
            "a table needs its model: leastpath compare table.csv --model weights.safetensors --model-class "
            "package.module:Class, or --factory package.module:function"
        )


def in_words(options: CompareOptions, case: Case) -> str:
    """What is compared, in a sentence."""
    of_table, source = case.features is not None, options.source
    inputs = source.name if of_table else f"{source.resolve().name}, {options.size} pixels"
    chosen = "the model's first class" if options.target is None else f"class {options.target}"
    output = str(case.score.output)
    of = "the model's output" if case.score.target is None else f"{IN_WORDS.get(output, output)} of {chosen}"
    start = options.baseline or ("mean" if of_table else "black")
    return f"Inputs: {inputs}. Explained: {of}, from {start}. Removed features become: {options.fill}."


def _report(run: RunFolder, found: Comparison, about: str, why: str) -> RunFolder:
    """Write what was found, and say it; and why not all, if it is not all."""
    if len(found.per_example):
        write_results(run, found, about)
        print(found)
        for _, row in found.failures.head(3).iterrows():
            print(f"{row['method']} failed on {row['name']}: {row['failure']}")
        print(run.path / "report.html")
    if not found.finished:
        print(f"{why}: go on with --resume --out {run.path}", file=sys.stderr)
        sys.exit(130)  # the usual code after Ctrl-C
    return run


def _read_cases(options: CompareOptions, kind: Kind, model: Callable[[Tensor], Any]) -> tuple[Case, list[str]]:
    """All inputs as one case, and their names."""
    asked: dict[str, Any] = {"target": options.target, "output": options.output}
    asked |= {} if options.baseline is None else {"baseline": options.baseline}
    if kind == "table":
        table = read_table(options.source, names_in(*options.drop), options.missing)
        rows = range(len(table))[: options.limit]
        return join_cases([table_case(table, row, model, **asked) for row in rows]), [f"row {row}" for row in rows]
    files = picture_files(options.source, options.limit)
    asked |= {"size": options.size, "reading": options.reading}
    each = [image_case(file, model, **asked) for file in files]
    return join_cases(each), [file.name for file in files]


def _give_data(wanted: Mapping[str, Contender], case: Case, options: CompareOptions) -> dict[str, Contender]:
    """Methods that learn from data get the pictures or rows that are not compared."""
    model, data = case.score.model, cache(partial(_other_inputs, case, options))
    represent = None if isinstance(model, Rescaled) or not isinstance(model, nn.Module) else model
    return {
        name: give_data(method, data, represent) if isinstance(method, Method) else method
        for name, method in wanted.items()
    }


def _other_inputs(case: Case, options: CompareOptions) -> Tensor:
    """Inputs that are not compared, (n, *features); of a table, each column in its unit."""
    unit = case.score.model.unit if isinstance(case.score.model, Rescaled) else None
    table = None if unit is None else read_table(options.source, names_in(*options.drop), options.missing)
    rest: list[Any] = picture_files(options.source) if table is None else list(range(len(table)))
    rest = [] if options.limit is None else rest[options.limit :]
    if not rest:
        raise ValueError(
            "a method of --methods learns from data, and all inputs are compared: keep some for it with --limit"
        )
    if table is None or unit is None:
        return torch.cat([read_image(file, options.size, **options.reading) for file in spread(rest, MOST_PICTURES)])
    rows = table.iloc[spread(rest, MOST_ROWS)].to_numpy(dtype="float32", copy=True)
    return torch.as_tensor(rows) / unit
