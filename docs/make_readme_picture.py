"""The picture at the top of the README: a photograph and half-moons, Integrated Gradients beside leastpath.

    python docs/make_readme_picture.py [--out docs/_generated/readme.png] [--size 160]

Needs `leastpath[cli]` and, for the photograph (scikit-image's cat), the classifier of `leastpath explain`.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import torch
from PIL import Image
from skimage.data import chelsea
from sklearn.datasets import make_moons
from torch import Tensor, nn

import leastpath as lp
from leastpath.commands.classifier import EfficientNetLite0, imagenet_classes
from leastpath.evaluation import symmetric_relevance_gain
from leastpath.methods import METHODS
from leastpath.report.heat import heat_row


def cat(size: int) -> Tensor:
    """scikit-image's photograph of a cat, cut square: (1, 3, size, size) in [0, 1]."""
    picture = Image.fromarray(chelsea())
    left = (picture.width - picture.height) // 2
    square = picture.crop((left, 0, left + picture.height, picture.height)).resize((size, size))
    return torch.tensor(np.asarray(square)).permute(2, 0, 1)[None].float() / 255


def draw_photograph(axes: Any, size: int) -> None:
    """The picture, and what Integrated Gradients and random staircases credit, each with its support."""
    model, x = EfficientNetLite0(), cat(size)
    with torch.no_grad():
        p, target = model(x).softmax(1)[0].max(0)
    score = lp.Score(model, int(target), "softmax")
    baselines = lp.baselines.several("black", "mean")
    found = {
        "Integrated Gradients": lp.attribute(score, x, method=lp.StraightLine()).values,
        "leastpath: staircases": METHODS["staircase"](score, x, baselines).values,
    }
    shown = x[0].permute(1, 2, 0).numpy()
    axes[0].imshow(shown)
    axes[0].set_title(f"the photograph\n{imagenet_classes()[int(target)]}, {float(p):.0%}", fontsize=10)
    glow: Any = {"signed": False, "view": "smooth", "share": False, "colorbar": False}
    heat_row(axes[1:], list(found.values()), x, **glow)
    for axis, (title, values) in zip(axes[1:], found.items(), strict=True):
        gains = [
            float(symmetric_relevance_gain(score, x, values, fill=fill, groups="patches"))
            for fill in ("baseline", "mean", "blur")
        ]
        axis.set_title(f"{title}\nsupport {np.mean(gains):+.2f}", fontsize=10)


def draw_moons(axes: Any) -> None:
    """Half-moons: what the second feature gets, from a baseline, along the line and along the band."""
    points, labels = make_moons(1200, noise=0.1, random_state=0)
    x, y = torch.tensor(points, dtype=torch.float32), torch.tensor(labels)
    net = trained(x, y)
    score, baseline = lp.Score(net, 1, "log_softmax"), torch.tensor([[-0.5, -0.5]])
    shown = x[800:]
    for axis, (title, solver) in zip(
        axes,
        {
            "Integrated Gradients": lp.StraightLine(),
            "leastpath: neighbour graph": lp.NeighborGraph(x[:800]),
            "leastpath: elastic band": lp.ElasticBand(),
        }.items(),
        strict=True,
    ):
        result = lp.attribute(score, shown, baseline, method=solver, support=False)
        size = result.values.abs().sum(1).clamp_max(20)
        dots = axis.scatter(
            *shown.T, c=size, s=9, cmap="viridis", vmin=0, vmax=float(score(shown).detach().abs().max())
        )
        axis.plot(*baseline[0], "x", color="black")
        axis.set_title(f"{title}\nΣ|values| − |Δf|: mean {float(result.cancellation.mean()):.2f}", fontsize=10)
    axes[0].figure.colorbar(dots, ax=list(axes), label="Σ|values|", location="bottom", aspect=60, pad=0.03)


def trained(x: Tensor, y: Tensor) -> nn.Module:
    """A small network of half-moons, the same every time."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        net = nn.Sequential(nn.Linear(2, 10), nn.ReLU(), nn.Linear(10, 10), nn.ReLU(), nn.Linear(10, 2))
        optimizer = torch.optim.Adam(net.parameters(), 1e-2)
        for _ in range(300):
            optimizer.zero_grad()
            nn.functional.cross_entropy(net(x[:800]), y[:800]).backward()
            optimizer.step()
    return net.requires_grad_(False).eval()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("docs/_generated/readme.png"))
    parser.add_argument("--size", type=int, default=160)
    given = parser.parse_args()
    figure, axes = plt.subplots(2, 3, figsize=(9, 6.9), layout="constrained")
    draw_photograph(axes[0], given.size)
    draw_moons(axes[1])
    for axis in axes.flat:
        axis.set_xticks([])
        axis.set_yticks([])
    figure.savefig(given.out, dpi=110)
    picture = Image.open(given.out).convert("RGB").quantize(256)
    picture.save(given.out, optimize=True)
    print(f"{given.out}: {given.out.stat().st_size // 1000} kB")


if __name__ == "__main__":
    main()
