"""Warm starts and amortised paths beside Descent from scratch, on inputs that they have not seen.

    python benchmarks/warm.py [--solved 400] [--held-out 100]
    python benchmarks/warm.py --images FOLDER [--solved 12] [--held-out 6] [--size 128] [--output softmax]

Digits: a small ReLU net on scikit-learn's 8 × 8 digits. Images: EfficientNet-lite0 on photographs of a folder, once
other photographs and once the solved ones moved by two pixels, as in a film. Softmax of the predicted class unless
told otherwise, black baseline. Some inputs are solved; others start from the nearest solved one (`Descent().warm`),
from a network's guess (`Amortized`), or from nothing. Prints the solver's gradients and the length ratios that they
buy, and how often the straight line had to be used.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import torch
from digits import N_TRAINED, digits, trained
from photographs import picture_files
from torch import Tensor, nn

import leastpath as lp


def small_images(arguments: argparse.Namespace) -> None:
    images, _ = digits()
    solved, held_out = images[: arguments.solved or 400], images[N_TRAINED : N_TRAINED + (arguments.held_out or 100)]
    beside(trained(), solved, {"held out": held_out}, arguments.output, (100, 200, 500))


def photographs(arguments: argparse.Namespace) -> None:
    from leastpath.commands.classifier import EfficientNetLite0
    from leastpath.features.images import read_image

    n, m = arguments.solved or 12, arguments.held_out or 6
    files = picture_files(arguments.images)
    images = torch.cat([read_image(f, arguments.size) for f in files[: n + m]])
    unseen = {"other photographs": images[n:], "moved by two pixels": images[:m].roll((2, 2), (2, 3))}
    beside(EfficientNetLite0(), images[:n], unseen, arguments.output, (500,))


def beside(net: nn.Module, solved: Tensor, unseen: dict[str, Tensor], output: str, budgets: tuple[int, ...]) -> None:
    """Solve some inputs, then others from scratch and from what is known: one line of medians for each."""
    first = lp.attribute(scored(net, solved, output), solved, method=lp.Descent(), progress=True)
    print(f"{'':48}{'gradients':>10}{'ratio':>10}{'90 %':>8}{'certificate':>13}{'line used':>11}   (medians)")
    for what, inputs in unseen.items():
        for budget in budgets:
            descent = lp.Descent(max_gradients=budget)
            solvers: dict[str, lp.Solver] = {
                "from scratch": descent,
                "warm": descent.warm(first, solved),
                "amortized": lp.Amortized.fit(first, descent),
            }
            for name, solver in solvers.items():
                result = lp.attribute(scored(net, inputs, output), inputs, method=solver)
                spent = np.median(np.asarray(result.stats["solver_gradients"]))
                fell = np.mean([lp.Outcome.FELL_BACK in s for s in result.status])
                ratio = result.length_ratio.double()
                print(
                    f"{f'{what}, at most {budget}: {name}':48}{spent:10.0f}{float(ratio.median()):10.4f}"
                    f"{float(ratio.quantile(0.9)):8.3f}{float(result.certificate.median()):13.2f}{fell:11.0%}",
                    flush=True,
                )


def scored(net: nn.Module, inputs: Tensor, output: str) -> lp.Score:
    return lp.Score(net, net(inputs).argmax(1), output, batch_size=16 if inputs.ndim == 4 else None)  # type: ignore[arg-type]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", type=Path)
    parser.add_argument("--size", type=int, default=128)
    parser.add_argument("--output", default="softmax")
    parser.add_argument("--solved", type=int)
    parser.add_argument("--held-out", type=int)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    (photographs if arguments.images else small_images)(arguments)


if __name__ == "__main__":
    main()
