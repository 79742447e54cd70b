"""Several methods on a folder of pictures, or on rows of a table, from files to a page and a table.

`leastpath compare pictures/ --methods integrated_gradients,guided_ig --measures insertion,deletion`
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from leastpath._support.fingerprint import digest
from leastpath.account.budget import Clock
from leastpath.commands.arguments import DEFAULT_MEASURES, DEFAULT_METHODS, FILLS
from leastpath.commands.classifier import EfficientNetLite0
from leastpath.commands.fitting import MOST_DATA, fitted, spread, with_data
from leastpath.commands.model_files import load_model, made_model, with_weights
from leastpath.commands.question import (
    TABLES,
    Question,
    Rescaled,
    image_question,
    names_in,
    read_table,
    table_question,
)
from leastpath.commands.run_folder import RunFolder, default_folder
from leastpath.evaluation.ceiling import NearOptimalRemoval
from leastpath.evaluation.compare import compare
from leastpath.evaluation.comparison import Comparison
from leastpath.evaluation.measure import Measure
from leastpath.evaluation.table import MEASURES
from leastpath.features.images import PICTURES, read_image
from leastpath.methods import METHODS, Method
from leastpath.methods.explainer import Contender
from leastpath.removal.gain import patches

if TYPE_CHECKING:
    import pandas as pd

CEILING = "near_optimal_removal"
CEILING_CELLS = 8  # a side of a picture: a search over the 16 of other measures would take 16 times as long
CEILING_WORDS = (
    "No explanation but a ceiling: the best order of removal that a search finds. "
    f"Up to 300 columns; pictures: {CEILING_CELLS} × {CEILING_CELLS} patches, about 5,000 forward passes each."
)


@dataclass(frozen=True)
class Kind:
    """What measures depend on: the kind of input, what replaces removed features, and a judge where one is needed."""

    is_table: bool
    fill: str
    judge: nn.Module | None = None

    def ceiling(self, size: int) -> NearOptimalRemoval:
        """Of pictures of so many pixels a side, or of a table's columns."""
        return NearOptimalRemoval("values" if self.is_table else patches(size, size, CEILING_CELLS), self.fill)


SETTINGS: Mapping[str, Mapping[str, Any]] = {"infidelity": {"normalize": True}, "model_randomization": {"stages": 4}}


def offered_measures() -> list[str]:
    """The measures of --measures: all that need nothing, or nothing but a judge.

    Example:
        >>> "deletion" in offered_measures(), "localization" in offered_measures()
        (True, False)
    """
    return [name for name in MEASURES if set(MEASURES.needs(name)) <= {"judge"}]


# ---- the inputs --------------------------------------------------------------------------------------------------


def picture_files(folder: Path, limit: int | None = None) -> list[Path]:
    """The pictures of a folder, by name.

    Example:
        >>> picture_files(Path("nowhere"))
        Traceback (most recent call last):
        ...
        ValueError: nowhere is neither a folder of pictures nor a table: ...
    """
    if not folder.is_dir():
        raise ValueError(
            f"{folder} is neither a folder of pictures nor a table: pass one, as in pictures/ or table.csv"
        )
    files = sorted(file for file in folder.iterdir() if file.suffix.lower() in PICTURES)
    if not files:
        raise ValueError(f"{folder} holds no pictures: they end in {', '.join(PICTURES)}")
    return files[:limit]


def complete_rows(table: pd.DataFrame, limit: int | None = None) -> list[int]:
    """The rows of a table that have a finite number in every column, from 0.

    Example:
        >>> import pandas
        >>> complete_rows(pandas.DataFrame({"a": [1.0, None, 3.0]}))
        [0, 2]
    """
    numbers = torch.as_tensor(table.to_numpy(dtype="float64", copy=True))
    rows = [int(row) for row in torch.isfinite(numbers).all(1).nonzero()[:, 0]]
    if not rows:
        raise ValueError("no row of the table has a number in every column: leave columns out with --drop")
    return rows[:limit]


def other_pictures(source: Path, limit: int | None, size: int) -> Tensor:
    """Pictures of the folder that are not compared, (n, 3, size, size): data for methods that learn from some.

    Example:
        >>> other_pictures(Path("nowhere"), 3, 64)
        Traceback (most recent call last):
        ...
        ValueError: nowhere is neither a folder of pictures nor a table: ...
    """
    files = picture_files(source)[limit:] if limit is not None else []
    return torch.cat([read_image(file, size) for file in spread(_some(files), MOST_DATA["pictures"])])


def other_rows(table: pd.DataFrame, limit: int | None, unit: Tensor) -> Tensor:
    """Rows of the table that are not compared, (n, columns), each column in its unit.

    Example:
        >>> import pandas
        >>> other_rows(pandas.DataFrame({"a": [1.0, 2.0, 3.0]}), 1, torch.tensor([2.0]))
        tensor([[1.0000],
                [1.5000]])
    """
    rows = complete_rows(table)[limit:] if limit is not None else []
    some = spread(_some(rows), MOST_DATA["rows"])
    return torch.as_tensor(table.iloc[some].to_numpy(dtype="float32", copy=True)) / unit


def _some(rest: list[Any]) -> list[Any]:
    if not rest:
        raise ValueError(
            "a method of --methods learns from data, and all inputs are compared: keep some for it with --limit"
        )
    return rest


def joined(questions: Sequence[Question]) -> Question:
    """Several questions to one model as one: each input keeps its own target."""
    first = questions[0]
    targets = [question.score.target for question in questions]
    target: Any = None if targets[0] is None else torch.tensor(targets)
    inputs, baselines = (torch.cat([getattr(q, part) for q in questions]) for part in ("inputs", "baselines"))
    return replace(first, score=replace(first.score, target=target), inputs=inputs, baselines=baselines)


# ---- the command -------------------------------------------------------------------------------------------------


def chosen_measures(names: str, kind: Kind) -> list[Measure]:
    """Measures by their names, with commas.

    Example:
        >>> [measure.name for measure in chosen_measures("deletion, insertion", Kind(True, "baseline"))]
        ['deletion', 'insertion']
    """
    chosen = []
    for name in names_in(names):
        if name not in offered_measures():
            raise ValueError(f"--measures {name!r} is unknown: use {', '.join(offered_measures())}")
        if kind.is_table and "table" not in MEASURES.fits(name):
            raise ValueError(f"--measures {name!r} compares pictures, and this is a table: leave it out")
        settings = dict(SETTINGS.get(name, {}))
        if "judge" in MEASURES.needs(name):
            if kind.judge is None:
                raise ValueError(
                    f"--measures {name!r} needs a judge: pass --judge weights.safetensors, the weights of a copy "
                    "of the model that leastpath.evaluation.fine_tuned(model, data) made"
                )
            settings["judge"] = kind.judge
        chosen.append(MEASURES.make(name, "table" if kind.is_table else "image", fill=kind.fill, **settings))
    return chosen


def chosen_methods(names: str, kind: Kind, size: int) -> dict[str, Contender]:
    """Methods by their names, with commas, and the ceiling of removal.

    Example:
        >>> list(chosen_methods("random,near_optimal_removal", Kind(True, "mean"), 224))
        ['random', 'near_optimal_removal']
    """
    wanted = names_in(names)
    if not wanted:
        raise ValueError("--methods is empty: name at least one, as in --methods integrated_gradients")
    # An unknown name is an error that lists those that are known.
    return {
        name: kind.ceiling(size) if name == CEILING else fitted(METHODS[name], is_table=kind.is_table)
        for name in wanted
    }


def write_results(run: RunFolder, found: Comparison, about: str = "") -> None:
    """report.html, which says what it is about, table.csv (a row a method) and results.csv (a row a method, input)."""
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


def run_compare(
    source: Path,
    out: Path | None = None,
    *,
    methods: str = DEFAULT_METHODS,
    measures: str = DEFAULT_MEASURES,
    model: Path | None = None,
    factory: str | None = None,
    model_class: str | None = None,
    model_args: str | None = None,
    trust_model: bool = False,
    judge: Path | None = None,
    target: int | None = None,
    output: str | None = None,
    baseline: str | None = None,
    fill: str = "baseline",
    size: int = 224,
    drop: Sequence[str] = (),
    limit: int | None = None,
    max_seconds: float | None = None,
    seed: int = 0,
    resume: bool = False,
) -> RunFolder:
    """`leastpath compare`: see `leastpath.commands.arguments.compare` for what is given.

    Example:
        >>> run_compare(Path("pictures"), methods="random,integrated_gradients")  # doctest: +SKIP
    """
    kind = Kind(source.name.lower().endswith(TABLES), fill)
    if fill not in FILLS or (kind.is_table and fill in ("blur", "linear")):
        known = [name for name in FILLS if not kind.is_table or name not in ("blur", "linear")]
        raise ValueError(f"--fill {fill!r} is unknown for this input: use {', '.join(known)}")
    wanted = chosen_methods(methods, kind, size)
    if judge is not None:
        if "fine_tuned_fidelity" not in names_in(measures):
            raise ValueError("--judge is for one measure, which is not asked for: add --measures fine_tuned_fidelity")
        kind = replace(kind, judge=_judge(judge, model, factory, model_class, model_args, trust_model))
    judged = chosen_measures(measures, kind)
    if not kind.is_table:
        picture_files(source)  # refused before a model is loaded
    elif not source.is_file():
        raise ValueError(f"{source} is not a file: pass a folder of pictures, or a table as .csv")
    used = _model(model, factory, model_class, model_args, trust_model, kind)
    columns = names_in(*drop)
    asked: dict[str, Any] = {"target": target, "output": output}
    question, names = _questions(source, kind, used, columns, limit, size, baseline, asked)
    wanted = _with_data(wanted, question, source, columns, limit, size)
    if question.baselines.ndim > question.inputs.ndim and fill == "baseline":
        raise ValueError("--fill baseline needs one baseline an input, and --baseline gives several: use --fill mean")
    config = {
        "model": None if model is None else digest(model.read_bytes()), "factory": factory,
        "model_class": model_class, "model_args": model_args, "output": question.score.output, "target": target,
        "baseline": baseline, "fill": fill, "measures": [m.name for m in judged], "size": size, "seed": seed,
        **({} if judge is None else {"judge": digest(judge.read_bytes())}),
    }  # fmt: skip
    run = RunFolder.open(default_folder("compare", resume) if out is None else out, "compare", config, resume=resume)
    with warnings.catch_warnings():
        for said in ("interrupted with", "stopped after"):  # said below, in the command's own words
            warnings.filterwarnings("ignore", said, UserWarning)
        clock = Clock(max_seconds)
        found = compare(
            wanted, question.score, question.inputs, question.baselines, judged, store=run.path / "pairs",
            names=names, seed=seed, max_seconds=max_seconds, progress=True, resume=resume,
        )  # fmt: skip
    about = in_words(source, question, kind, size=size, target=target, baseline=baseline)
    return _told(run, found, about, f"stopped after {clock.words}" if clock.left() == 0 else "interrupted")


def in_words(
    source: Path, question: Question, kind: Kind, *, size: int, target: int | None, baseline: str | None
) -> str:
    """What is compared, in a sentence.

    Example:
        >>> import leastpath as lp
        >>> score, rows = lp.Score(nn.Linear(2, 3).eval(), 1, "softmax"), torch.ones(1, 2)
        >>> asked = Question(score, rows, rows, "softmax of class 1", [], ["a", "b"])
        >>> in_words(Path("data/table.csv"), asked, Kind(True, "mean"), size=224, target=1, baseline=None)
        'Inputs: table.csv. Explained: softmax of class 1, from mean. Removed features become: mean.'
    """
    inputs = source.name if kind.is_table else f"{source.resolve().name}, {size} pixels"
    chosen = "the model's first class" if target is None else f"class {target}"
    of = "the model's output" if question.score.target is None else f"{question.score.output} of {chosen}"
    start = baseline or ("mean" if kind.is_table else "black")
    return f"Inputs: {inputs}. Explained: {of}, from {start}. Removed features become: {kind.fill}."


def _told(run: RunFolder, found: Comparison, about: str, why: str) -> RunFolder:
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


def _questions(
    source: Path,
    kind: Kind,
    model: Callable[[Tensor], Any],
    drop: Sequence[str],
    limit: int | None,
    size: int,
    baseline: str | None,
    asked: Mapping[str, Any],
) -> tuple[Question, list[str]]:
    """All inputs as one question, and their names."""
    if kind.is_table:
        table = read_table(source, drop)
        rows = complete_rows(table, limit)
        each = [table_question(table, row, model, baseline=baseline or "mean", **asked) for row in rows]
        return joined(each), [f"row {row}" for row in rows]
    files = picture_files(source, limit)
    each = [image_question(file, model, size=size, baseline=baseline or "black", **asked) for file in files]
    return joined(each), [file.name for file in files]


def _with_data(
    wanted: Mapping[str, Contender],
    question: Question,
    source: Path,
    drop: Sequence[str],
    limit: int | None,
    size: int,
) -> dict[str, Contender]:
    """Methods that learn from data get the pictures or rows that are not compared."""
    model = question.score.model

    @cache
    def data() -> Tensor:
        if isinstance(model, Rescaled):
            return other_rows(read_table(source, drop), limit, model.unit)
        return other_pictures(source, limit, size)

    represent = None if isinstance(model, Rescaled) or not isinstance(model, nn.Module) else model
    return {
        name: with_data(method, data, represent) if isinstance(method, Method) else method
        for name, method in wanted.items()
    }


def _model(
    file: Path | None,
    factory: str | None,
    model_class: str | None,
    arguments: str | None,
    trust: bool,
    kind: Kind,
) -> Callable[[Tensor], Any]:
    if file is not None and factory is not None:
        raise ValueError("--model and --factory both give a model: pass one of the two")
    if factory is not None:
        return made_model(factory, arguments)
    if file is not None:
        return load_model(file, model_class, arguments, trust=trust)
    if kind.is_table:
        raise ValueError(
            "a table needs its model: leastpath compare table.csv --model weights.safetensors --model-class "
            "package.module:Class, or --factory package.module:function"
        )
    return EfficientNetLite0()


def _judge(
    file: Path,
    model: Path | None,
    factory: str | None,
    model_class: str | None,
    arguments: str | None,
    trust: bool,
) -> nn.Module:
    """A model like the explained one, with weights of its own."""
    if not file.is_file():
        raise ValueError(f"--judge {file} is not a file: pass the weights of the fine-tuned copy of your model")
    if model is not None:
        judge = load_model(file, model_class, arguments, trust=trust)
    else:
        judge = EfficientNetLite0() if factory is None else made_model(factory, arguments)
    if not isinstance(judge, nn.Module):
        raise ValueError(f"--factory {factory!r} makes a {type(judge).__name__}, and --judge needs a torch.nn.Module")
    return judge if model is not None else with_weights(judge, file, factory or "the ImageNet classifier")
