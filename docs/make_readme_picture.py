"""The picture at the top of the README: a photograph, what explains it method beside method, and what removal says.

    python docs/make_readme_picture.py [--out docs/_generated/readme.jpg] [--size 224]

Needs `leastpath[cli]` and the classifier of `leastpath explain`. The photograph is scikit-image's espresso.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import torch
from PIL import Image
from skimage.data import coffee
from torch import Tensor

import leastpath as lp
from leastpath.commands.classifier import EfficientNetLite0, imagenet_classes
from leastpath.features.images import edges_of
from leastpath.report.heat import heat_row

METHODS = {
    "windows_in_context": "windows in context, the default",
    "integrated_gradients": "Integrated Gradients",
}


def square(picture: np.ndarray, size: int) -> Tensor:
    """The middle of a photograph: (1, 3, size, size) in [0, 1]."""
    side = min(picture.shape[:2])
    top, left = ((length - side) // 2 for length in picture.shape[:2])
    cut = Image.fromarray(picture[top : top + side, left : left + side]).resize((size, size))
    return torch.tensor(np.asarray(cut)).permute(2, 0, 1)[None].float() / 255


def draw_photograph(axes: Any, x: Tensor) -> None:
    """The photograph, and the map of each method with its verdict; all judged by the same removals."""
    model = EfficientNetLite0()
    with torch.no_grad():
        p, target = model(x).softmax(1)[0].max(0)
    score, baselines = lp.Score(model, int(target), "softmax", batch_size=32), lp.baselines.several("black", "mean")
    referee = lp.Referee(score, x, baselines)
    axes[0].imshow(x[0].permute(1, 2, 0).numpy())
    axes[0].set_title(f"the photograph\n{imagenet_classes()[int(target)]}, {float(p):.0%}", fontsize=9)
    maps = {
        title: lp.attribute(score, x, baselines, method=name, support=False).values for name, title in METHODS.items()
    }
    maps["edges, which know no model"] = edges_of(x[0])[None].expand_as(x)
    for axis, (title, values) in zip(axes[1:], maps.items(), strict=True):
        found = referee.judge(values)
        heat_row([axis], [values], x, view="smooth", colorbar=False)
        numbers = f"support {float(found.support[0]):+.2f}: {found.status[0].outcomes[0].value}"
        axis.set_title(f"{title}\n{numbers}", fontsize=9)
        print(title, found.status[0].value, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("docs/_generated/readme.jpg"))
    parser.add_argument("--size", type=int, default=224)
    given = parser.parse_args()
    figure, axes = plt.subplots(1, 2 + len(METHODS), figsize=(10.4, 3.1), layout="constrained")
    draw_photograph(axes, square(coffee(), given.size))
    for axis in axes:
        axis.set_xticks([])
        axis.set_yticks([])
    # A JPEG: photographs in a palette of 256 colours have bands.
    figure.savefig(given.out, dpi=110, bbox_inches="tight", pad_inches=0.03, pil_kwargs={"quality": 90})
    print(f"{given.out}: {given.out.stat().st_size // 1000} kB")


if __name__ == "__main__":
    main()
