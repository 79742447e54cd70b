"""The nets whose explanations are judged, each with inputs that it has not seen."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from leastpath.features.groups import patches
from leastpath.features.images import read_image
from leastpath.score.score import Score
from studies.findings.config import Setting
from studies.findings.nets import accuracy, load_or_train
from studies.findings.study import Record
from studies.truth.nets import CELLS, SIZE, folder, image_problem, model_of, open_digits
from studies.truth.problem import Opened, Problem
from studies.truth.tables import open_adult
from studies.truth.text import open_sentences

Sort = Literal["table", "digits", "text", "photograph"]


@dataclass(frozen=True)
class Task:
    """One net with its inputs. Odd-numbered inputs are reported: settings were chosen on even-numbered ones.

    Args:
        name: as on the command line.
        title: of the row of the table that it belongs to; several nets may share one.
        sort: of its inputs.
        open: trains or loads the net; ValueError or ImportError with a sentence where something is missing.
        inputs: how many are reported.
        block: how many are judged at once.
        seconds: of one input, roughly.

    Example:
        >>> TASKS["wine-0"].numbers(3)
        [1, 3, 5]
    """

    name: str
    title: str
    sort: Sort
    open: Callable[[Setting, Path | None], Opened]
    inputs: int
    block: int
    seconds: float

    def numbers(self, most: int | None = None) -> list[int]:
        """Of the inputs that are reported."""
        return [2 * k + 1 for k in range(min(self.inputs, most or self.inputs))]

    def blocks(self, most: int | None = None) -> list[list[int]]:
        """The same, in units of work."""
        numbers = self.numbers(most)
        return [numbers[at : at + self.block] for at in range(0, len(numbers), self.block)]


# ---- small tables ------------------------------------------------------------------------------------------------


def open_small(name: Literal["cancer", "wine"], seed: int, setting: Setting, data: Path | None) -> Opened:
    """Breast cancer (30 columns) or wine (13): half of the rows train a net of 64 units, the other half is explained.

    The baseline is the mean of the rows that the net was trained on, which are standardised: 0.
    """
    from sklearn import datasets

    table, label = (datasets.load_breast_cancer if name == "cancer" else datasets.load_wine)(return_X_y=True)
    order = torch.randperm(len(table), generator=torch.Generator().manual_seed(seed))
    inputs, answers = torch.tensor(table)[order].float(), torch.tensor(label)[order].long()
    half = len(inputs) // 2
    inputs = (inputs - inputs[:half].mean(0)) / inputs[:half].std(0)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        net = nn.Sequential(nn.Linear(inputs.shape[1], 64), nn.ReLU(), nn.Linear(64, int(answers.max()) + 1))

    def train() -> Record:
        optimizer = torch.optim.AdamW(net.parameters(), 1e-2, weight_decay=1e-2)
        for _ in range(5 if setting.quick else 100):
            optimizer.zero_grad()
            cross_entropy(net(inputs[:half]), answers[:half]).backward()
            optimizer.step()
        return {"accuracy": accuracy(net, inputs[half:], answers[half:])}

    quality = load_or_train(setting, f"net verdict {name} {seed}", net, train)
    unseen = inputs[half:]

    def problem(rows: Sequence[int]) -> Problem:
        some = unseen[list(rows)]
        with torch.no_grad():
            targets = net(some).argmax(1)
        return Problem(
            lambda output: Score(net, targets, output), "log_softmax", some, torch.zeros_like(some)[:, None], {}, None
        )

    return Opened(len(unseen), problem, quality)


# ---- photographs -------------------------------------------------------------------------------------------------


def photographs(data: Path | None) -> list[Path]:
    """ImageNet samples and VOC's validation images in turn, none of which was looked at before settings were fixed.

    Even-numbered samples, and every sixth image of VOC, were.
    """
    samples = sorted(folder(data, "imagenet_samples").glob("*.JPEG"))[1::2]
    voc = folder(data, "VOCdevkit") / "VOC2012"
    names = (voc / "ImageSets" / "Main" / "val.txt").read_text(encoding="utf-8").split()[3::6]
    others = [voc / "JPEGImages" / f"{name}.jpg" for name in names]
    return [file for pair in zip(samples, others, strict=False) for file in pair]


def open_photographs(
    name: Literal["efficientnet_lite0", "mobilenet_v2"], setting: Setting, data: Path | None
) -> Opened:
    """A net of ImageNet's classes, at 128 pixels; from black and from the image's own mean."""
    files = photographs(data)
    if name == "efficientnet_lite0":
        from leastpath.commands.classifier import EfficientNetLite0

        net: nn.Module = EfficientNetLite0()
    else:
        net = model_of(data, name)

    def problem(rows: Sequence[int]) -> Problem:
        # All of these files are odd-numbered ones of their folders: see `photographs`.
        images = torch.cat([read_image(files[row // 2], SIZE) for row in rows])
        with torch.no_grad():
            targets = net(images).argmax(1)
        labels: Tensor = patches(SIZE, SIZE, CELLS)
        return image_problem(net, images, targets, "log_softmax", labels=labels)

    return Opened(2 * len(files), problem, {})


# ---- the table ---------------------------------------------------------------------------------------------------


def _small(name: Any, title: str, inputs: int, nets: int) -> list[Task]:
    return [
        Task(f"{name}-{seed}", title, "table", partial(open_small, name, seed), inputs, 100, 0.1)
        for seed in range(nets)
    ]


_ALL = (
    *_small("cancer", "breast cancer, 30 columns", 142, 2),
    *_small("wine", "wine, 13 columns", 44, 5),
    Task("adult", "Adult, 13 columns", "table", open_adult, 200, 100, 0.1),
    Task("digits-mlp", "digits, MLP", "digits", partial(open_digits, "mlp"), 200, 50, 0.3),
    Task("digits-cnn", "digits, CNN", "digits", partial(open_digits, "cnn relu"), 200, 50, 0.5),
    Task("text", "SST-2, MiniLM", "text", open_sentences, 60, 5, 20.0),
    Task("photo-efficientnet", "photographs, EfficientNet-lite0", "photograph",
         partial(open_photographs, "efficientnet_lite0"), 60, 1, 60.0),
    Task("photo-mobilenet", "photographs, MobileNet-v2", "photograph",
         partial(open_photographs, "mobilenet_v2"), 60, 1, 60.0),
)  # fmt: skip
TASKS: Mapping[str, Task] = MappingProxyType({task.name: task for task in _ALL})
"""By name."""
