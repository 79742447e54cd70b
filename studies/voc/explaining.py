"""Every method on every image, and what masking says of it: kept image by image."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from leastpath._support.fingerprint import digest
from leastpath._support.store import Store
from leastpath.commands.run_folder import RunFolder
from leastpath.evaluation.comparison import Comparison
from leastpath.evaluation.masking import Comprehensiveness, LogOdds, LogProbRatio, Masking
from leastpath.evaluation.measure import Measure
from leastpath.evaluation.pairs import compare
from leastpath.methods import Method
from leastpath.result.attribution import Attribution
from leastpath.result.status import finished
from leastpath.score.score import Baselines, Inputs, Score
from studies.voc.config import COLORS, LINE, VocConfig, contenders
from studies.voc.data import VocData
from studies.voc.model import Classifier

CHUNK = 32  # images whose logits are computed at once
BLOCK = 10  # images after which all methods have had their turn
BATCH = 16  # rows in one model call: more gains nothing on a CPU, and memory stays small
MEASURES = ("comprehensiveness", "log_prob_ratio", "log_odds")


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

    Stored results are known by its name and settings; fields that are not compared do not count.
    """

    name: str
    settings: Mapping[str, Any]
    _method: Method = field(compare=False)
    _maps: Store = field(compare=False)
    _names: Mapping[str, str] = field(compare=False)  # of images, by their digests
    _until: float | None = field(default=None, compare=False)

    def __call__(self, score: Score, inputs: Inputs, baselines: Baselines, seed: int) -> Attribution:
        """Explain and keep Σ A and Σ|A| over channels: (height, width) each."""
        if self._until is not None and time.monotonic() > self._until:
            raise KeyboardInterrupt  # what `compare` takes for: enough, return what is finished
        start = baselines if self._method.takes_baselines else None
        result = finished(self._method(score, inputs, start, seed=seed))
        assert isinstance(inputs, Tensor) and isinstance(result.values, Tensor)
        for image, values in zip(inputs, result.values, strict=True):
            planes = {"sum": values.sum(0), "magnitude": values.abs().sum(0)}
            name = self._names[digest(image)]
            self._maps.write(map_key(self.name, name), {"method": self.name, "image": name}, planes)
        return result


def map_key(method: str, image: str) -> str:
    """Where the heat map of a method and an image is kept."""
    return f"map {method} {image}"


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
        masking = Masking(fill=ColorFill(color), probability="softmax")
        kinds: tuple[Callable[..., Measure], ...] = (Comprehensiveness, LogProbRatio, LogOdds)
        measures += [kind(masking, name=f"{title} {name}") for kind, title in zip(kinds, MEASURES, strict=True)]
    return measures


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
