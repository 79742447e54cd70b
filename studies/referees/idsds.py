"""In-domain single deletion score, after Hesse et al. (NeurIPS 2024): deletions that the net has learnt to see.

Own code, from the paper's description: an image is cut into 4 × 4 cells, and the net is tuned on images that lack some,
so that a deletion is no longer foreign to it. An explanation's sums over cells are then ranked as what deleting each
cell alone takes from the logit.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from pathlib import Path
from time import process_time
from typing import Annotated, Any

import numpy as np
import torch
from torch import Tensor, nn
from typer import Option

import leastpath as lp
from leastpath.evaluation.fine_tuning import fine_tune
from leastpath.features.groups import patches
from leastpath.features.images import edges_of
from leastpath.methods import METHODS
from leastpath.removal.curves import group_strengths
from studies.findings.measuring import rank_correlation
from studies.referees.kept import FILES, Kept, names_of
from studies.truth.nets import folder, model_of, shuffled

CELLS = 4
TUNED = slice(300, 1000)  # of CIFAR's test images: no others are at hand
EPOCHS, MOST, RATE = 2, 0.5, 1e-4
CONTROLS = ("edges", "distance")
DEFAULT = (
    "lrp", "smooth_grad", "smooth_grad_squared", "var_grad", "saliency", "input_x_gradient", "integrated_gradients",
    "smooth_integrated_gradients", "idgi", "deep_lift", "grad_cam", "elastic_band", "occlusion", "windows_in_context",
    "rise", "owen", "kernel_shap", "lime", "staircase", *CONTROLS, "random", "untrained", "other_class",
)  # fmt: skip
SETTINGS: Mapping[str, Mapping[str, Any]] = {
    "smooth_grad": {"absolute": True}, "integrated_gradients": {"tolerance": None, "n_steps": 50},
    "smooth_integrated_gradients": {"n_samples": 10, "n_steps": 5}, "idgi": {"tolerance": None, "n_steps": 50},
    "elastic_band": {"tolerance": None, "n_steps": 50},
}  # fmt: skip


def command(
    data: Annotated[Path, Option(help="Folder of shared data.")],
    methods: Annotated[str | None, Option("--method", "--methods", help="Names with commas.")] = None,
    images: Annotated[int, Option(help="So many of CIFAR's test images.")] = 20,
    results: Annotated[Path, Option(help="Folder of results: what is there is kept.")] = FILES,
    net: Annotated[Path, Option(help="Where the tuned net is kept.")] = Path("out/referees/idsds.pt"),
) -> None:
    """IDSDS on CIFAR's ResNet-56: rank correlation with what deleting each of 4 × 4 cells takes from the logit."""
    torch.set_num_threads(1)
    kept = Kept(results / "referee_idsds.json")
    named = names_of(methods, DEFAULT, CONTROLS)
    held = np.load(folder(data, "cifar10/cifar10_test_first1000.npz"))
    labels = shuffled(torch.as_tensor(held["labels"]).long())
    pictures = shuffled(torch.as_tensor(held["images"]).permute(0, 3, 1, 2).contiguous().float() / 255)
    grey = pictures[TUNED].mean((0, 2, 3), keepdim=True)
    judge = tune(model_of(data, "resnet56_cifar10"), pictures, labels, grey, net, kept)
    cells = patches(32, 32, CELLS).expand(1, 3, 32, 32)
    for name in named:
        todo = [at for at in range(images) if not kept.has(name, str(at))]
        if not todo or (name not in CONTROLS and not METHODS[name].is_installed):
            continue
        began, some = process_time(), pictures[todo]
        score = lp.Score(judge, judge(some).argmax(1))
        sums = group_strengths(explain_by(name, score, some, grey.expand_as(some)), cells, "signed")
        drops = single_deletions(score, some, grey, cells)
        seconds = (process_time() - began) / len(todo)
        for at, ours, theirs in zip(todo, sums.tolist(), drops.tolist(), strict=True):
            agreement = rank_correlation(ours, theirs)
            kept.add(name, str(at), {"agreement": 0.0 if np.isnan(agreement) else agreement, "seconds": seconds})
        print(f"{name}: {np.mean([row['agreement'] for row in kept.rows(name).values()]):.3f}", flush=True)


def tune(net: nn.Module, images: Tensor, labels: Tensor, grey: Tensor, file: Path, kept: Kept) -> nn.Module:
    """The net after it has learnt to do without cells, tuned once and then kept."""
    if file.is_file():
        net.load_state_dict(torch.load(file, weights_only=True))
        return net
    began = process_time()
    cells, unseen = patches(32, 32, CELLS).expand(1, 3, 32, 32), slice(0, TUNED.start)
    judge = fine_tune(
        net, (images[TUNED], labels[TUNED]), most=MOST, groups=cells, fill=grey.expand_as,
        epochs=EPOCHS, learning_rate=RATE,
    )  # fmt: skip
    seconds = process_time() - began
    lacking = torch.where(cells % 3 == 0, grey, images[unseen])  # 6 of 16 cells deleted
    kept.about.update(
        {f"{which} {what}": round(_accuracy(one, some, labels[unseen]), 3)
         for which, one in (("before", net), ("after", judge))
         for what, some in (("whole", images[unseen]), ("lacking", lacking))},
        seconds=round(seconds, 1), tuned=TUNED.stop - TUNED.start, epochs=EPOCHS,
    )  # fmt: skip
    kept.write()
    file.parent.mkdir(parents=True, exist_ok=True)
    torch.save(judge.state_dict(), file)
    return judge


@torch.no_grad()
def _accuracy(net: nn.Module, images: Tensor, labels: Tensor) -> float:
    return float((torch.cat([net(some).argmax(1) for some in images.split(50)]) == labels).float().mean())


def explain_by(name: str, score: lp.Score, images: Tensor, grey: Tensor) -> Tensor:
    """The values of a method or a control, from what stands in for deleted cells: (n, 3, 32, 32)."""
    if name == "edges":
        return torch.stack([edges_of(image) for image in images])
    if name == "distance":
        return (images - grey).abs()
    method = METHODS[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        values = method(
            score, images, grey if method.takes_baselines else None, support=False, **SETTINGS.get(name, {})
        ).values
    assert isinstance(values, Tensor)
    return values


def single_deletions(score: lp.Score, images: Tensor, grey: Tensor, cells: Tensor) -> Tensor:
    """What deleting each cell alone takes from the score: (n, cells).

    Example:
        >>> score, images = lp.Score(lambda x: x.sum((1, 2, 3))), torch.ones(1, 1, 2, 2)
        >>> single_deletions(score, images, torch.zeros(1, 1, 1, 1), patches(2, 2, 2)[None])
        tensor([[1., 1., 1., 1.]])
    """
    bound, rows = score.bind(images), torch.arange(len(images))
    whole = bound.values(images, rows)
    drops = [
        whole - bound.values(torch.where(cells == cell, grey, images), rows) for cell in range(int(cells.max()) + 1)
    ]
    return torch.stack(drops, 1)
