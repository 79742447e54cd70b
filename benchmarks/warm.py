"""Warm starts and amortised paths beside Descent from scratch, on digits that they have not seen.

    python benchmarks/warm.py [--solved 400] [--held-out 100]

A small ReLU net on scikit-learn's 8 × 8 digits, softmax of the predicted class, black baseline. Some digits are solved;
others start from the nearest solved one (`Descent().warm`), from a network's guess (`Amortized`), or from nothing.
Prints the solver's gradients and the length ratios that they buy, and how often the straight line had to be used.
"""

from __future__ import annotations

import argparse

import numpy as np
import torch
from sklearn.datasets import load_digits
from torch import Tensor, nn

import leastpath as lp


def trained(images: Tensor, labels: Tensor) -> nn.Module:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
    optimizer = torch.optim.Adam(net.parameters(), 2e-3)
    for _ in range(60):
        for rows in torch.randperm(len(images)).split(64):
            optimizer.zero_grad()
            nn.functional.cross_entropy(net(images[rows]), labels[rows]).backward()
            optimizer.step()
    return net.eval()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--solved", type=int, default=400)
    parser.add_argument("--held-out", type=int, default=100)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    digits = load_digits()
    images, labels = torch.tensor(digits.data / 16, dtype=torch.float32), torch.tensor(digits.target)
    net = trained(images[:1200], labels[:1200])
    solved, held_out = images[: arguments.solved], images[1200 : 1200 + arguments.held_out]
    scores = [lp.Score(net, net(x).argmax(1), "softmax") for x in (solved, held_out)]
    first = lp.attribute(scores[0], solved, solver=lp.Descent())
    print(f"{'':34}{'gradients':>10}{'ratio':>10}{'90 %':>8}{'certificate':>13}{'line used':>11}   (medians)")
    for budget in (100, 200, 500):
        descent = lp.Descent(max_gradients=budget)
        solvers: dict[str, lp.Solver] = {
            "from scratch": descent,
            "warm, nearest solved": descent.warm(first, solved),
            "amortized": lp.Amortized.fit(first, descent),
        }
        for name, solver in solvers.items():
            result = lp.attribute(scores[1], held_out, solver=solver)
            spent = np.median(np.asarray(result.stats["solver_gradients"]))
            fell = np.mean([lp.Outcome.FELL_BACK in s for s in result.status])
            ratio = result.length_ratio.double()
            print(
                f"{f'at most {budget}: {name}':34}{spent:10.0f}{float(ratio.median()):10.4f}"
                f"{float(ratio.quantile(0.9)):8.3f}{float(result.certificate.median()):13.2f}{fell:11.0%}"
            )


if __name__ == "__main__":
    main()
