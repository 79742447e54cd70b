"""The picture at the top of the README: photographs, what explains them method beside method, and what removal says.

    python docs/make_readme_picture.py [--out docs/_generated/readme.png] [--size 160]

Needs `leastpath[cli]` and the classifier of `leastpath explain`. The photographs are scikit-image's espresso and cat.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import torch
from PIL import Image
from skimage.data import chelsea, coffee
from torch import Tensor

import leastpath as lp
from leastpath.commands.classifier import EfficientNetLite0, imagenet_classes
from leastpath.report.heat import heat_row

METHODS = {
    "windows_in_context": "leastpath: windows in context",
    "integrated_gradients": "Integrated Gradients",
    "idgi": "IDGI",
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
    score, baselines = lp.Score(model, int(target), batch_size=32), lp.baselines.several("black", "mean")
    referee = lp.Referee(score, x, baselines)
    axes[0].imshow(x[0].permute(1, 2, 0).numpy())
    axes[0].set_title(f"the photograph\n{imagenet_classes()[int(target)]}, {float(p):.0%}", fontsize=10)
    for axis, (name, title) in zip(axes[1:], METHODS.items(), strict=True):
        result = lp.attribute(score, x, baselines, method=name, support=referee)
        heat_row([axis], [result.values], x, view="smooth", colorbar=False)
        axis.set_title(f"{title}\nsupport {float(result.support[0]):+.2f}: {_say(result)}", fontsize=10)
        print(title, result.status[0].value, flush=True)


def _say(result: lp.Attribution) -> str:
    words = {lp.Outcome.UNSUPPORTED: "no better than chance"}
    verdict = result.status[0].outcomes[0]
    return words.get(verdict, verdict.value)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("docs/_generated/readme.png"))
    parser.add_argument("--size", type=int, default=160)
    given = parser.parse_args()
    figure, axes = plt.subplots(2, 1 + len(METHODS), figsize=(10.4, 5.9), layout="constrained")
    for row, picture in zip(axes, (coffee(), chelsea()), strict=True):
        draw_photograph(row, square(picture, given.size))
    for axis in axes.flat:
        axis.set_xticks([])
        axis.set_yticks([])
    figure.savefig(given.out, dpi=110)
    picture = Image.open(given.out).convert("RGB").quantize(256)
    picture.save(given.out, optimize=True)
    print(f"{given.out}: {given.out.stat().st_size // 1000} kB")


if __name__ == "__main__":
    main()
