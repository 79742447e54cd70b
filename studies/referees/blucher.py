"""Pixel flipping by several fills and sizes of superpixels, after Blücher et al. (TMLR 2024): is their order ours?

Own code, from the paper's description: an image is cut into superpixels, which are removed in the order of an
explanation, most important first and least important first. The symmetric relevance gain is the area between both.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from time import process_time
from types import MappingProxyType
from typing import Annotated, Any

import numpy as np
import torch
from torch import Tensor
from typer import Option

import leastpath as lp
from leastpath.evaluation.support import prepare_fill
from leastpath.features.groups import label_groups
from leastpath.features.images import edges_of, read_image
from leastpath.methods import METHODS
from leastpath.removal.chance import draw_fields
from leastpath.removal.curves import Fill, Order, Samples, judged_score, measure_curves
from studies.referees.kept import FILES, Kept, names_of
from studies.truth.nets import BATCH, CAFFE_GREY, SIZE, folder, model_of, shuffled

PUBLISHED: Mapping[str, tuple[float, float]] = MappingProxyType(
    {
        "lrp": (0.36, 0.37), "smooth_grad": (0.30, 0.35), "saliency": (0.22, 0.26),
        "integrated_gradients": (0.12, 0.13), "smooth_integrated_gradients": (0.06, 0.11),
        "input_x_gradient": (0.03, 0.02), "random": (0.0, 0.0),
    }
)  # fmt: skip
"""The gain of their seven methods on two ResNet-50, mean over their five fills and four sizes of superpixels."""
SUPERPIXELS = (25, 100)
SHARES = (0.2, 0.5, 0.8)
SETTINGS: Mapping[str, Mapping[str, Any]] = {  # few, for time
    "smooth_grad": {"n_samples": 15}, "integrated_gradients": {"tolerance": None, "n_steps": 15},
    "smooth_integrated_gradients": {"n_samples": 5, "n_steps": 5},
    "idgi": {"tolerance": None, "n_steps": 25},
}  # fmt: skip
BY_SIZE = ("smooth_grad", "saliency")  # of a gradient the size counts: its sign says nothing of a removal
CONTROLS = ("edges", "smooth_random")
FIRST, POOL = 20, slice(80, 100)  # the first image, which no setting has seen, and those that stand in for others


def command(
    data: Annotated[Path, Option(help="Folder of shared data.")],
    methods: Annotated[str | None, Option("--method", "--methods", help="Names with commas; their seven.")] = None,
    images: Annotated[int, Option(help="So many ImageNet samples.")] = 8,
    results: Annotated[Path, Option(help="Folder of results: what is there is kept.")] = FILES,
) -> None:
    """Blücher's protocol on ResNet-50: gains by fill and size of superpixels, and Kendall's τ with their order."""
    torch.set_num_threads(1)
    kept = Kept(results / "referee_blucher.json")
    named = names_of(methods, tuple(PUBLISHED), CONTROLS)
    net, files = model_of(data, "resnet50"), sorted(folder(data, "imagenet_samples").glob("*.JPEG"))
    files = [files[i] for i in shuffled(torch.arange(len(files))).tolist()]
    pool = torch.cat([read_image(file, SIZE) for file in files[POOL]])
    for at in range(FIRST, FIRST + images):
        todo = [name for name in named if not kept.has(name, str(at))]
        if not todo:
            continue
        image = read_image(files[at], SIZE)
        with torch.no_grad():
            score = lp.Score(net, net(image).argmax(1), batch_size=BATCH)
        grey = torch.tensor(CAFFE_GREY).view(1, 3, 1, 1).expand_as(image)
        for name in todo:
            began = process_time()
            values = explain_by(name, score, image, grey)
            kept.add(name, str(at), judge(score, image, values, Samples(pool)) | {"seconds": process_time() - began})
            print(f"image {at}: {name} done in {process_time() - began:.0f} s of CPU", flush=True)
    print(f"Kendall's τ with the published order: {order_of(kept):.2f}")


def explain_by(name: str, score: lp.Score, image: Tensor, grey: Tensor) -> Tensor:
    """The values of a method or a control for one image, from the net's grey: (1, 3, height, width)."""
    if name == "edges":
        return edges_of(image[0])[None]
    if name == "smooth_random":
        drawn = draw_fields(1, (16, 16), 2.0, torch.Generator().manual_seed(int(image.sum() * 1e3) % 2**31))
        return torch.nn.functional.interpolate(drawn.view(1, 1, 16, 16), size=image.shape[2:]).expand_as(image)
    method = METHODS[name]
    baselines = grey if method.takes_baselines else None
    if name == "input_x_gradient":  # of the input as the net sees it, where grey is zero
        net, score, image = score.model, replace(score, model=lambda x: net(x + grey)), image - grey
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        values = method(score, image, baselines, support=False, **SETTINGS.get(name, {})).values
    assert isinstance(values, Tensor)
    return values.abs() if name in BY_SIZE else values


def judge(score: lp.Score, image: Tensor, values: Tensor, others: Fill) -> dict[str, float]:
    """By size of superpixels and fill, the gain of an explanation of one image."""
    judged, scale = judged_score(score)
    bound = judged.bind(image)
    found: dict[str, float] = {}
    fills: dict[str, Fill] = {"mean": "mean", "neighbours": "linear", "another picture": others}
    filled = [prepare_fill(fill, bound, image, None, 0) for fill in fills.values()]
    for size in SUPERPIXELS:
        order = Order.of(values, label_groups(size, image), "signed")
        gains = measure_curves(bound, scale, order, filled, SHARES)[0][0, :, 0]
        found |= {f"{name}, {size}": round(float(gain), 5) for name, gain in zip(fills, gains, strict=True)}
    return found


def gains_of(kept: Kept) -> dict[str, list[float]]:
    """By method, the gain of each image that all of their seven have: the mean over fills and sizes."""
    shared = set.intersection(*({*kept.rows(name)} for name in PUBLISHED))
    return {
        name: [float(np.mean([v for k, v in rows[at].items() if k != "seconds"])) for at in sorted(shared & {*rows})]
        for name in kept.methods
        if shared & {*(rows := kept.rows(name))}
    }


def order_of(kept: Kept, names: Sequence[str] = tuple(PUBLISHED)) -> float:
    """Kendall's τ between our gains and the published ones; NaN before all of them are measured."""
    from scipy.stats import kendalltau

    ours = gains_of(kept)
    if not set(names) <= set(ours):
        return float("nan")
    return float(kendalltau([np.mean(ours[n]) for n in names], [np.mean(PUBLISHED[n]) for n in names]).statistic)
