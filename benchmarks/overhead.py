"""What the straight line costs, beside Captum's IntegratedGradients and beside the bare loop of model gradients.

    python benchmarks/overhead.py [--repeats 15] [--steps 50]

Same model, same inputs, same number of steps, same rows in a model call, one thread, and no test by removal, which asks
for hundreds of forwards that the others do not. The three take turns in every
repeat, so that whatever else the machine does hits all of them alike; ratios are formed within a repeat, and their
median and quartiles are printed. Times are CPU times, which leave out what other processes take. The heap is told not
to give memory back: otherwise page faults, which depend on the luck of its layout, drown differences of a few percent
(up to a tenth of the time, for any of the three). Also prints peak memory at 2,000 steps over that at 50.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor, nn

import leastpath as lp


class Transformer(nn.Module):
    """Two encoder layers over a sequence of vectors, mean-pooled."""

    def __init__(self, width: int, classes: int = 5) -> None:
        super().__init__()
        layer = nn.TransformerEncoderLayer(width, 4, 4 * width, dropout=0.0, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(width, classes)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.encoder(x).mean(1))


def mlp() -> nn.Module:
    return nn.Sequential(nn.Linear(20, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 5))


def cnn() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, 32, 3, 2, 1), nn.ReLU(), nn.Conv2d(32, 64, 3, 2, 1), nn.ReLU(),
        nn.Conv2d(64, 64, 3, 1, 1), nn.ReLU(),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 5),
    )  # fmt: skip


CASES: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "MLP": (mlp, (256, 20)),
    "CNN": (cnn, (16, 3, 64, 64)),
    "transformer": (lambda: Transformer(128), (16, 64, 128)),
    "tiny transformer": (lambda: Transformer(64), (16, 32, 64)),  # 7 ms a step: here the cost of Python shows
}


def bare_loop(model: nn.Module, inputs: Tensor, target: int, steps: int) -> Tensor:
    """The floor: one model gradient of the whole batch a step, and nothing else but their weighted sum."""
    nodes, weights = np.polynomial.legendre.leggauss(steps)
    total = torch.zeros_like(inputs)
    for t, w in zip((nodes + 1) / 2, weights / 2, strict=True):
        point = (float(t) * inputs).requires_grad_()
        (gradient,) = torch.autograd.grad(model(point)[:, target].sum(), point)
        total += float(w) * gradient
    return total * inputs


def compare(name: str, steps: int, repeats: int) -> None:
    from captum.attr import IntegratedGradients

    torch.manual_seed(0)
    make, shape = CASES[name]
    model, inputs = make().eval(), torch.randn(shape)
    batch = shape[0]
    score = lp.Score(model, 1, batch_size=batch)
    ig = IntegratedGradients(model)
    rivals: dict[str, Callable[[], Tensor]] = {
        "bare": lambda: bare_loop(model, inputs, 1, steps),
        "captum": lambda: ig.attribute(inputs, target=1, n_steps=steps, internal_batch_size=batch),
        "leastpath": lambda: (
            lp.attribute(score, inputs, method=lp.StraightLine(), tolerance=None, n_steps=steps, support=False).values
        ),  # type: ignore[dict-item, return-value]
    }
    answers = {key: run() for key, run in rivals.items()}  # warms up, and checks that all compute the same thing
    scale = answers["bare"].abs().max()
    worst = max(float((a - answers["bare"]).abs().max() / scale) for a in answers.values())
    times: dict[str, list[float]] = {key: [] for key in rivals}
    for _ in range(repeats):
        for key, run in rivals.items():
            begin = time.process_time()
            run()
            times[key].append(time.process_time() - begin)
    ours, bare, captum = (np.array(times[k]) for k in ("leastpath", "bare", "captum"))
    for label, ratio in (("bare loop", ours / bare), ("Captum", ours / captum)):
        low, middle, high = np.quantile(ratio, [0.25, 0.5, 0.75])
        print(f"{name:16s} leastpath / {label:10s} {middle:5.3f}  (quartiles {low:5.3f} to {high:5.3f})")
    print(f"{name:16s} bare loop {np.median(bare) * 1e3:.0f} ms, values differ by {worst:.0e} of the largest")


PEAK_MEMORY = """
import resource, torch, leastpath as lp, sys
sys.path.insert(0, {folder!r})
from overhead import CASES
torch.manual_seed(0)
make, shape = CASES["CNN"]
score = lp.Score(make().eval(), 1, batch_size=16)
lp.attribute(score, torch.randn(shape), method=lp.StraightLine(), tolerance=None, n_steps={steps})
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


def peak_memory(steps: int) -> int:
    """Largest resident size, in KiB, of a process of its own that explains the CNN's batch."""
    from pathlib import Path

    code = PEAK_MEMORY.format(folder=str(Path(__file__).parent), steps=steps)
    return int(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout)


STEADY_HEAP = {"MALLOC_TRIM_THRESHOLD_": "2000000000", "MALLOC_MMAP_THRESHOLD_": "2000000000"}


def main() -> None:
    if not STEADY_HEAP.keys() <= os.environ.keys():
        os.execve(sys.executable, [sys.executable, *sys.argv], {**os.environ, **STEADY_HEAP})
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--repeats", type=int, default=15)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    for name in CASES:
        compare(name, arguments.steps, arguments.repeats)
    few, many = peak_memory(50), peak_memory(2000)
    print(f"peak memory at 2,000 steps / at 50 steps: {many / few:.3f}  ({many / 1024:.0f} MiB / {few / 1024:.0f} MiB)")


if __name__ == "__main__":
    main()
