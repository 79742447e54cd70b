"""The paper's Pascal VOC experiment: what is lost when the pixels that an explanation ranks highest are masked?

A 20-way head is trained on frozen features, the predicted class of some validation images is explained by every method,
and the explanations are judged by masking. `python -m studies.voc --data VOCdevkit`.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import torch
from torch import Tensor, nn

from leastpath._support.fingerprint import digest
from leastpath._support.interruption import finished
from leastpath._support.store import Store
from leastpath.attribution import Attribution
from leastpath.commands.run_folder import RunFolder, default_folder
from leastpath.evaluation.compare import compare
from leastpath.evaluation.comparison import Comparison
from leastpath.evaluation.masking import Comprehensiveness, LogOdds, LogProbRatio, Masking
from leastpath.evaluation.measure import Measure
from leastpath.methods import METHODS, Method
from leastpath.run import Run
from leastpath.score import Baselines, Inputs, Score
from leastpath.solvers import Descent
from studies.voc.backbones import BACKBONES, DEFAULT, Backbone, load_backbone
from studies.voc.data import VocData, download_voc, open_voc
from studies.voc.model import Classifier, Training, average_precision, train_head
from studies.voc.sampled import SAMPLED

try:
    import typer
except ImportError:  # only the command needs it; `leastpath` says how to get it
    typer = None  # type: ignore[assignment]
if TYPE_CHECKING:
    from collections.abc import Callable

LINE = "integrated_gradients"
FULL = "geodesic_variational_full"  # the authors' iterations and points, whatever the budget of the others
OUTPUTS = ("log_softmax", "softmax", "sigmoid", "raw")
COLORS = {"black": 0.0, "white": 1.0}
CHUNK = 32  # images whose features are one unit of work
BLOCK = 10  # images after which all methods have had their turn
BATCH = 16  # rows in one model call: more gains nothing on a CPU, and memory stays small
PAPER_METHODS: tuple[str, ...] = (
    "random", "input_x_gradient", "gradient_shap", "integrated_gradients", "kernel_shap", "occlusion", "guided_ig",
    "idgi", "idgi_sampled", "geodesic_descent", "geodesic_idgi", "geodesic_sampled", "geodesic_variational",
)  # fmt: skip
"""The methods of the paper's Table 2, with IDGI and our own beside them."""


@dataclass(frozen=True)
class VocConfig:
    """All that the results depend on, but for the images themselves.

    Example:
        >>> VocConfig(images=100).size
        128
    """

    images: int = 100
    """Explained images: of the validation images, shuffled by the seed."""
    skip: int = 0
    """Shuffled images to leave out before: those that settings were chosen on, for instance."""
    size: int = 128
    backbone: str = DEFAULT
    weights: str | None = None
    output: str = "log_softmax"
    """What is explained."""
    baseline: str = "black"
    """"black", "white" or "grey", the colour that the network's normalisation maps to zero."""
    methods: tuple[str, ...] = PAPER_METHODS
    steps: int = 50
    """Gradients of methods that take a fixed number of them."""
    budget: int = 500
    """Gradients an image of the geodesic methods, solver and integral together."""
    seed: int = 0
    training: Training = field(default_factory=Training)

    def __post_init__(self) -> None:
        for name, given, known in (
            ("output", self.output, OUTPUTS),
            ("baseline", self.baseline, (*COLORS, "grey")),
            ("backbone", self.backbone, tuple(BACKBONES)),
        ):
            if given not in known:
                raise ValueError(f"{name}={given!r} is unknown: use one of {', '.join(known)}")
        for name, number, least in (
            ("images", self.images, 1), ("size", self.size, 16), ("steps", self.steps, 1), ("budget", self.budget, 1),
            ("skip", self.skip, 0),
        ):  # fmt: skip
            if number < least:
                raise ValueError(f"{name}={number} must be at least {least}")
        for name in self.methods:
            known_method(name)  # names that do not exist are refused here, not after the training


@dataclass(frozen=True)
class ColorFill:
    """Masked values show one colour, (3,) in [0, 1]."""

    color: tuple[float, ...]

    def __call__(self, inputs: Tensor) -> Tensor:
        """(batch, 3, height, width) -> the same shape, of that colour."""
        return torch.tensor(self.color, dtype=inputs.dtype).view(1, 3, 1, 1).expand_as(inputs)


@dataclass(frozen=True)
class Keeping:
    """A method that also keeps its heat maps, for pictures and localisation, and stops when time is up.

    Stored results are known by its name and settings; what begins with an underscore does not count.
    """

    name: str
    settings: Mapping[str, Any]
    _method: Method
    _maps: Store
    _names: Mapping[str, str]  # of images, by their digests
    _until: float | None = None

    def __call__(self, score: Score, inputs: Inputs, baselines: Baselines, seed: int) -> Attribution:
        """Explain and keep Σ A and Σ|A| over channels: (height, width) each."""
        if self._until is not None and time.monotonic() > self._until:
            raise KeyboardInterrupt  # what `compare` takes for: enough, return what is finished
        result = finished(self._method(score, inputs, baselines, seed=seed))
        assert isinstance(inputs, Tensor) and isinstance(result.values, Tensor)
        for image, values in zip(inputs, result.values, strict=True):
            planes = {"sum": values.sum(0), "magnitude": values.abs().sum(0)}
            name = self._names[digest(image)]
            self._maps.write(map_key(self.name, name), {"method": self.name, "image": name}, planes)
        return result


def map_key(method: str, image: str) -> str:
    """Where the heat map of a method and an image is kept."""
    return f"map {method} {image}"


# ---- the parts of the experiment ---------------------------------------------------------------------------------


def contenders(config: VocConfig) -> dict[str, Method]:
    """The methods with the settings of this experiment.

    Example:
        >>> contenders(VocConfig(methods=("gradient_shap",), steps=20))["gradient_shap"].defaults["n_samples"]
        20
    """
    return {name: _contender(name, config) for name in config.methods}


def known_method(name: str) -> Method:
    """Of the table of methods, or one that this experiment adds."""
    if name == FULL:
        usual = METHODS["geodesic_variational"].with_settings(n_samples=0)
        return replace(usual, name=FULL, title="Geodesic IG (variational, full)")
    return SAMPLED[name] if name in SAMPLED else METHODS[name]


def _contender(name: str, config: VocConfig) -> Method:
    method = known_method(name)
    settings = _settings(name, config)
    return method.with_settings(**{key: value for key, value in settings.items() if key in method.defaults})


def _settings(name: str, config: VocConfig) -> dict[str, Any]:
    """Fixed steps for what integrates once; half of the budget for the solver of what finds its path first."""
    fixed: dict[str, Any] = {"tolerance": None, "n_steps": config.steps}
    window = max(1, config.size // 8)
    solver = Descent(max_gradients=max(1, config.budget // 2))
    special: dict[str, dict[str, Any]] = {
        "occlusion": {"window": window, "stride": window},
        "kernel_shap": {"n_samples": 4 * config.steps},
        "gradient_shap": {"n_samples": config.steps},
        "guided_ig": fixed,
        "geodesic_variational": {"n_points": 10, "n_samples": 0, "max_gradients": config.budget},
        "geodesic_descent": {"solver": solver, "max_gradients": config.budget},
        "geodesic_idgi": {"solver": solver, **fixed},
        "as_printed": {"solver": solver, **fixed},
        "geodesic_sampled": {"solver_gradients": solver.max_gradients},
    }
    straight = ("integrated_gradients", "idgi", "idg", "blur_ig")
    return special.get(name, fixed if name in straight else {})


def cached_features(
    data: VocData, names: Sequence[str], size: int, backbone: Backbone, store: Store, title: str
) -> Tensor:
    """Features (n, width) of images, computed once: a chunk that is in the store is read from there."""
    chunks = []
    with Run(progress=True).bar(f"features of {title}", len(names)) as bar:
        for first in range(0, len(names), CHUNK):
            some = names[first : first + CHUNK]
            key = f"features {digest([some, size, backbone.fingerprint])}"
            if key not in store:
                with torch.no_grad():
                    store.write(key, {"images": list(some)}, {"features": backbone(data.images(some, size))})
            chunks.append(store.read(key).arrays["features"])
            bar.advance(len(some))
    return torch.cat(chunks)


def trained_classifier(
    data: VocData, config: VocConfig, backbone: Backbone, run: RunFolder, cache: Store
) -> Classifier:
    """The head of an earlier start, or a new one, and how good it is on the validation images."""
    train, val = data.names("train"), data.names("val")
    if "head" not in run.store:
        features = cached_features(data, train, config.size, backbone, cache, "train")
        found = train_head(features, data.labels(train), config.training, seed=config.seed)
        logits = found.head(cached_features(data, val, config.size, backbone, cache, "val"))
        labels = data.labels(val)
        record = {
            "epochs": found.epochs,
            "held_out_loss": found.held_out_loss,
            "train_images": len(train),
            "val_images": len(val),
            "mean_average_precision": float(average_precision(logits, labels).nanmean()),
            "top_class_is_present": float(labels.gather(1, logits.argmax(1, keepdim=True)).mean()),
        }
        run.store.write("head", record, found.head.state_dict())
    state = run.store.read("head").arrays
    head = nn.utils.skip_init(nn.Linear, state["weight"].shape[1], state["weight"].shape[0])
    head.load_state_dict(state)
    return Classifier(backbone, head)


def chosen_images(names: Sequence[str], config: VocConfig) -> list[str]:
    """The images to explain: shuffled by the seed, the first `skip` left out.

    Example:
        >>> chosen_images(["a", "b", "c"], VocConfig(images=2)) == chosen_images(["c", "b", "a"], VocConfig(images=2))
        True
    """
    names = sorted(names)
    order = torch.randperm(len(names), generator=torch.Generator().manual_seed(config.seed)).tolist()
    chosen = [names[i] for i in order][config.skip : config.skip + config.images]
    if len(chosen) < config.images:
        raise ValueError(
            f"{config.images} images after {config.skip} skipped are more than the {len(names)} of the validation "
            f"images: pass --images {max(1, len(names) - config.skip)}"
        )
    return chosen


def masking_measures(grey: Sequence[float]) -> list[Measure]:
    """Comprehensiveness, log-probability ratio and log-odds of masked values, filled with grey and with black."""
    measures: list[Measure] = []
    for name, color in (("grey", tuple(grey)), ("black", (0.0, 0.0, 0.0))):
        masking = Masking(features="values", fill=ColorFill(color), probability="softmax")
        kinds: tuple[Callable[..., Measure], ...] = (Comprehensiveness, LogProbRatio, LogOdds)
        measures += [kind(masking, name=f"{title} {name}") for kind, title in zip(kinds, MEASURES, strict=True)]
    return measures


MEASURES = ("comprehensiveness", "log_prob_ratio", "log_odds")


def explained(
    data: VocData, config: VocConfig, model: Classifier, run: RunFolder, minutes: float | None = None
) -> Comparison:
    """Every method on every image, kept image by image: what is in the run's folder is not computed again."""
    names = chosen_images(data.names("val"), config)
    images = data.images(names, config.size)
    with torch.no_grad():
        logits = torch.cat([model(chunk) for chunk in images.split(CHUNK)])
    targets = logits.argmax(1)
    grey = model.backbone.grey
    color = grey if config.baseline == "grey" else torch.full((3,), COLORS[config.baseline])
    baseline = color.view(1, 3, 1, 1).expand(1, 3, config.size, config.size).contiguous()
    until = None if minutes is None else time.monotonic() + 60 * minutes
    known = {digest(image): name for image, name in zip(images, names, strict=True)}
    methods = {
        name: Keeping(name, method.defaults, method, run.store, known, until)
        for name, method in contenders(config).items()
    }
    reference = LINE if LINE in methods else config.methods[0]

    def compared(n: int, methods: Mapping[str, Keeping]) -> Comparison:
        score = Score(model, targets[:n], config.output, batch_size=BATCH)  # type: ignore[arg-type]
        return compare(
            methods, score, images[:n], baseline, masking_measures(grey.tolist()), store=run.path / "comparison",
            names=names[:n], reference=reference, seed=config.seed, progress=True,
        )  # fmt: skip

    # Some images at a time, so that whenever time is up most images have all methods. What is done costs nothing.
    for n in [*range(BLOCK, config.images, BLOCK), config.images]:
        found = compared(n, methods)
        if not found.finished:  # later images may have some methods from an earlier start: all that is there counts
            found = compared(config.images, {name: replace(m, _until=0.0) for name, m in methods.items()})
            break
    record = {"names": names, "targets": targets.tolist(), "probability": logits.softmax(1).amax(1).tolist()}
    run.store.write("explained", record)
    return found


def run_voc(
    data: VocData,
    config: VocConfig,
    folder: str | Path,
    *,
    resume: bool = False,
    minutes: float | None = None,
    cache: str | Path | None = None,
    backbone: Backbone | None = None,
) -> RunFolder:
    """The whole experiment, into a folder: trains, explains, measures, reports.

    Args:
        data: a checked VOC folder.
        config: what to do.
        folder: where results go.
        resume: go on with what is in the folder.
        minutes: stop explaining after that long and report what is finished; resume later.
        cache: folder of features that several runs share; the run's own by default.
        backbone: instead of the one that the config names.
    """
    from studies.voc.report import write_report

    backbone = backbone or load_backbone(config.backbone, config.weights)
    if backbone.size not in (None, config.size):
        raise ValueError(f"{backbone.name} takes images of {backbone.size} pixels only: pass --size {backbone.size}")
    run = RunFolder.open(folder, "voc", _identity(data, config, backbone), resume=resume)
    features = run.store if cache is None else Store(cache, {"kind": "features"})
    model = trained_classifier(data, config, backbone, run, features)
    comparison = explained(data, config, model, run, minutes)
    write_report(run, data, config, comparison, backbone)
    return run


def _identity(data: VocData, config: VocConfig, backbone: Backbone) -> dict[str, Any]:
    """What all results of a folder share. Methods may be added to it, so they are no part of this."""
    settings = {name: value for name, value in asdict(config).items() if name not in ("methods", "weights")}
    images = digest([data.names("train"), data.names("val")])
    return {**settings, "backbone": backbone.name, "fingerprint": backbone.fingerprint, "names": images}


def command(
    data: Annotated[Path, typer.Option(help="VOCdevkit, or the folder of a year in it, as published.")],
    out: Annotated[Path | None, typer.Option(help="Folder for the results; out/voc by default.")] = None,
    resume: Annotated[bool, typer.Option(help="Go on with an interrupted run in the same folder.")] = False,
    download: Annotated[bool, typer.Option(help="Fetch VOC 2012 (2 GB) into --data first.")] = False,
    images: Annotated[int, typer.Option(help="Validation images to explain.")] = 100,
    skip: Annotated[int, typer.Option(help="Shuffled images to leave out before these.")] = 0,
    size: Annotated[int, typer.Option(help="Side of the images, in pixels.")] = 128,
    backbone: Annotated[str, typer.Option(help=f"Frozen network: {', '.join(BACKBONES)}.")] = DEFAULT,
    weights: Annotated[Path | None, typer.Option(help="Its weights, .safetensors or .pth; else downloaded.")] = None,
    methods: Annotated[
        str, typer.Option(help=f"Names of `leastpath methods`, with commas; also {', '.join([*SAMPLED, FULL])}.")
    ] = ",".join(PAPER_METHODS),
    output: Annotated[str, typer.Option(help=f"What is explained: {', '.join(OUTPUTS)}.")] = "log_softmax",
    baseline: Annotated[str, typer.Option(help="black, white or grey.")] = "black",
    steps: Annotated[int, typer.Option(help="Gradients of methods with a fixed number of them.")] = 50,
    budget: Annotated[int, typer.Option(help="Gradients an image of the geodesic methods.")] = 500,
    seed: Annotated[int, typer.Option(help="Of the choice of images, the training and the methods.")] = 0,
    minutes: Annotated[float | None, typer.Option(help="Stop after that long and report what is finished.")] = None,
    cache: Annotated[Path | None, typer.Option(help="Folder of features that several runs share.")] = None,
    threads: Annotated[int | None, typer.Option(help="Threads of torch.")] = None,
) -> None:
    """Pascal VOC: train a head on frozen features, explain, mask; the paper's Table 2 beside ours.

    Writes a folder with raw results, figures and report.html.
    """
    if threads is not None:
        torch.set_num_threads(threads)
    if download:
        data = download_voc(data)
    chosen = tuple(name.strip() for name in methods.split(",") if name.strip())
    config = VocConfig(
        images, skip, size, backbone, None if weights is None else str(weights), output, baseline, chosen, steps,
        budget, seed,
    )  # fmt: skip
    folder = default_folder("voc", resume) if out is None else out
    run = run_voc(open_voc(data), config, folder, resume=resume, minutes=minutes, cache=cache)
    print(run.path / "report.html")
