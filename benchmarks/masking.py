"""What masking curves cost beside the forward passes that they need.

    python benchmarks/masking.py [--images folder] [--size 128] [--count 4] [--repeats 9]

15 areas × 3 fills (baseline, mean, blur) an image, in both directions, beside a bare loop of as many forward passes in
batches of the same size. Both take turns in every repeat, and ratios are formed within a repeat; their median and
quartiles are printed. Times are CPU times on one thread. The model is EfficientNet-lite0 where it is installed, on
pictures of a folder or else on scikit-image's; without it a small CNN on noise. ROAD's imputation, which solves a
sparse system a mask, is timed by itself.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from photographs import picture_files
from torch import Tensor, nn

import leastpath as lp
from leastpath.commands.classifier import EfficientNetLite0
from leastpath.evaluation.masking import Comprehensiveness, Masking, Sufficiency
from leastpath.evaluation.measure import given_attribution
from leastpath.features.images import read_image

FILLS = ("baseline", "mean", "blur")


def small_cnn() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(3, 32, 3, 2, 1), nn.ReLU(), nn.Conv2d(32, 64, 3, 2, 1), nn.ReLU(), nn.Conv2d(64, 128, 3, 2, 1),
        nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(128, 10),
    ).eval()  # fmt: skip


def sample_images(size: int, count: int) -> Tensor:
    """Photos that come with scikit-image, centre crops: (count, 3, size, size) in [0, 1]."""
    from skimage import data, transform

    pictures = [data.astronaut(), data.chelsea(), data.coffee(), data.rocket()]
    crops = []
    for picture in pictures[:count]:
        side = min(picture.shape[:2])
        top, left = ((length - side) // 2 for length in picture.shape[:2])
        crop = transform.resize(picture[top : top + side, left : left + side], (size, size), anti_aliasing=True)
        crops.append(torch.tensor(crop, dtype=torch.float32).permute(2, 0, 1))
    return torch.stack(crops)


def problem(folder: Path | None, size: int, count: int) -> tuple[str, nn.Module, Tensor]:
    try:
        net: nn.Module = EfficientNetLite0()
    except ImportError:
        return "small CNN on noise", small_cnn(), torch.rand(count, 3, size, size)
    if folder is None:
        return "EfficientNet-lite0 on scikit-image's photos", net, sample_images(size, count)
    files = picture_files(folder)[:count]
    return f"EfficientNet-lite0 on {len(files)} pictures", net, torch.cat([read_image(f, size) for f in files])


def forwards(model: nn.Module, rows: Tensor, batch_size: int) -> None:
    with torch.no_grad():
        for chunk in rows.split(batch_size):
            model(chunk)


def timed(run: Callable[[], object]) -> float:
    begin = time.process_time()
    run()
    return time.process_time() - begin


def main() -> None:
    steady = {"MALLOC_TRIM_THRESHOLD_": "2000000000", "MALLOC_MMAP_THRESHOLD_": "2000000000"}
    if not steady.keys() <= os.environ.keys():  # page faults would drown differences of a few percent
        os.execve(sys.executable, [sys.executable, *sys.argv], {**os.environ, **steady})
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", type=Path)
    parser.add_argument("--size", type=int, default=128)
    parser.add_argument("--count", type=int, default=4)
    parser.add_argument("--repeats", type=int, default=9)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    name, model, images = problem(arguments.images, arguments.size, arguments.count)
    with torch.no_grad():
        target = model(images).argmax(1)
    score = lp.Score(model, target)
    result = given_attribution(torch.randn(images.shape, generator=torch.Generator().manual_seed(0)))
    masking = Masking(fill=FILLS)
    n = len(masking.areas) * len(FILLS) + 1
    rows, batch_size = images.repeat(n, 1, 1, 1), score.bind(images).batch_size
    print(f"{name}, {tuple(images.shape)}: {len(masking.areas)} areas × {len(FILLS)} fills + 1 = {n} forwards each")
    for measure in (Comprehensiveness(masking), Sufficiency(masking)):
        spent = measure(score, images, None, result).n_forwards  # warms up, too
        forwards(model, rows, batch_size)
        pairs = np.array(
            [
                (timed(lambda: measure(score, images, None, result)), timed(lambda: forwards(model, rows, batch_size)))  # noqa: B023
                for _ in range(arguments.repeats)
            ]
        )
        low, middle, high = np.quantile(pairs[:, 0] / pairs[:, 1], [0.25, 0.5, 0.75])
        print(
            f"{measure.name:18s} {spent.max()} forwards per image; time / bare forwards {middle:.3f} "
            f"(quartiles {low:.3f} to {high:.3f}; bare {np.median(pairs[:, 1]) * 1e3:.0f} ms)"
        )
    for groups in ("pixels", "values"):
        linear = Comprehensiveness(Masking(groups=groups, fill="linear"))
        ours = timed(lambda: linear(score, images, None, result))  # noqa: B023
        bare = timed(lambda: forwards(model, rows[: 16 * len(images)], batch_size))
        print(f"ROAD's imputation of {groups}: time / bare forwards {ours / bare:.2f}")


if __name__ == "__main__":
    main()
