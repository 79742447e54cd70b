"""A folder in VOC's layout, a backbone that takes no time and a small configuration, for tests of the study."""

from pathlib import Path

import numpy as np
import torch
from PIL import Image
from torch import nn

from studies.voc.backbones import Backbone
from studies.voc.config import VocConfig
from studies.voc.data import CLASSES
from studies.voc.model import Training

TINY = VocConfig(
    images=4, size=16, output="softmax", methods=("integrated_gradients", "idgi", "geodesic_descent", "random"),
    steps=6, budget=120, training=Training(lr=0.02, max_epochs=60),
)  # fmt: skip
ANNOTATION = "<annotation><object><name>{}</name></object></annotation>"
USED = ("cat", "dog")  # bright squares on the left, dark ones on the right


def tiny_voc(folder: Path, train: int = 40, val: int = 8, size: int = 24) -> Path:
    """VOCdevkit/VOC2012 with pictures of squares; returns VOCdevkit."""
    root = folder / "VOCdevkit" / "VOC2012"
    for part in ("JPEGImages", "Annotations", "ImageSets/Main", "SegmentationClass"):
        (root / part).mkdir(parents=True)
    generator = np.random.default_rng(0)
    for split, n in (("train", train), ("val", val)):
        names = [f"{split}_{i:03d}" for i in range(n)]
        (root / "ImageSets" / "Main" / f"{split}.txt").write_text("\n".join(names) + "\n")
        for i, name in enumerate(names):
            pixels, mask = generator.integers(80, 120, (size, size, 3)), np.zeros((size, size), np.uint8)
            here = (slice(6, 18), slice(4, 11) if i % 2 == 0 else slice(13, 20))
            pixels[here] = 240 if i % 2 == 0 else 10
            mask[here] = CLASSES.index(USED[i % 2]) + 1
            Image.fromarray(pixels.astype(np.uint8)).save(root / "JPEGImages" / f"{name}.jpg", quality=95)
            (root / "Annotations" / f"{name}.xml").write_text(ANNOTATION.format(USED[i % 2]))
            palette = Image.fromarray(mask).convert("P")
            palette.putpalette([value for i in range(256) for value in (i, i, i)])
            palette.save(root / "SegmentationClass" / f"{name}.png")
    return root.parent


def tiny_backbone() -> Backbone:
    """A small convolutional net with the same random weights every time."""
    generator = torch.Generator().manual_seed(0)
    net = nn.Sequential(nn.Conv2d(3, 6, 3, stride=2), nn.GELU(), nn.AdaptiveAvgPool2d(3), nn.Flatten())
    for parameter in net.parameters():
        nn.init.normal_(parameter, 0, 0.5, generator=generator)
    return Backbone("tiny", lambda images: net((images - 0.5) / 0.25), net, torch.full((3,), 0.5))
