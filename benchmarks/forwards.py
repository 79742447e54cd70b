"""Methods without gradients beside the bare forwards that they ask for, and all 1,000 classes beside one.

    python benchmarks/forwards.py PHOTOGRAPH [--size 128] [--repeats 3] [--methods staircase occlusion rise]
    python benchmarks/forwards.py PHOTOGRAPH --explain [--methods …]

EfficientNet-lite0, one thread, CPU time. The bare forwards are as many pictures of random numbers in ready batches of
the size that is fastest here, without anything else. Rivals take turns in every repeat; medians of the ratios within a
repeat are printed. `--explain` runs all that `leastpath explain` computes (explanations, curves, verdicts) beside the
same numbers of forwards and gradients, in batches as the package makes them, and counts pictures that the model was
shown twice without gradient.
"""

from __future__ import annotations

import argparse
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

import leastpath as lp
from leastpath.commands.answers import answers
from leastpath.commands.case import image_case
from leastpath.commands.classifier import EfficientNetLite0
from leastpath.commands.explain import choose_methods
from leastpath.commands.run_folder import RunFolder
from leastpath.features.images import read_image

SETTINGS: dict[str, dict[str, Any]] = {"staircase": {"n_orders": 2}, "occlusion": {}, "rise": {"n_masks": 300}}
BATCHES = (4, 8, 16, 32)


def seconds(call: Callable[[], Any]) -> float:
    """CPU seconds of a call."""
    begin = time.process_time()
    call()
    return time.process_time() - begin


def bare(net: nn.Module, batch: Tensor, n: int) -> None:
    """n forwards in full batches."""
    with torch.inference_mode():
        for first in range(0, n, len(batch)):
            net(batch[: n - first])


def find_batch(net: nn.Module, shape: torch.Size) -> Tensor:
    """A batch of the size with the least time per picture."""
    best = {}
    for n in BATCHES:
        batch = torch.rand(n, *shape)
        bare(net, batch, n)
        best[n] = min(seconds(lambda batch=batch: bare(net, batch, 32)) for _ in range(3))
    return torch.rand(min(best, key=lambda n: best[n]), *shape)


def methods_beside_forwards(net: nn.Module, image: Tensor, methods: list[str], repeats: int) -> None:
    """Each method, for one class and for all, beside the forwards that it asks for."""
    batch, target = find_batch(net, image.shape[1:]), int(net(image).argmax())
    score = lp.Score(net, target, "log_softmax", batch_size=len(batch))
    print(f"{'method':12} {'forwards':>8} {'batch':>5} {'/ bare':>7} {'1,000 classes / one':>20}")
    for name in methods:

        def one(name: str = name) -> lp.Attribution:
            return lp.attribute(score, image, 0.0, method=name, support=False, **SETTINGS[name])

        n = int(one().n_forwards)
        ratios = []
        for _ in range(repeats):
            taken = seconds(one)
            every = seconds(lambda name=name: lp.every_class(score, image, 0.0, method=name, **SETTINGS[name]))
            ratios.append((taken / seconds(lambda n=n: bare(net, batch, n)), every / taken))
        over, classes = np.median(np.array(ratios), 0)
        print(f"{name:12} {n:8} {len(batch):5} {over:7.2f} {classes:20.2f}", flush=True)


class Counting(nn.Module):
    """A net that notes what it was shown: rows in each call with gradient, and each picture without."""

    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.net = net
        self.gradients: list[int] = []
        self.forwards: list[int] = []
        self.shown: Counter[int] = Counter()
        self.seconds = 0.0

    def forward(self, x: Tensor) -> Tensor:
        begin = time.process_time()
        if torch.is_grad_enabled():
            self.gradients.append(len(x))
        else:
            self.forwards.append(len(x))
            self.shown.update(hash(row.numpy().tobytes()) for row in x.detach())
        self.seconds += time.process_time() - begin  # of the count itself, which is taken off
        return self.net(x)


def explain_beside_calls(net: nn.Module, photograph: Path, size: int, methods: list[str] | None) -> None:
    """The whole of `leastpath explain` but its page, beside the model calls that it makes."""
    counting = Counting(net).eval()
    case = image_case(photograph, counting, size=size, baseline="black,mean", target=None, output=None, labels=None)
    chosen = choose_methods(None if methods is None else ",".join(methods), None, None, "image")
    counting.__init__(net)  # type: ignore[misc]  # from here on
    counting.eval()
    with tempfile.TemporaryDirectory() as folder:
        run = RunFolder.open(Path(folder) / "out", "explain", {})
        taken = seconds(lambda: answers(case, run, chosen, {}, 0)) - counting.seconds
    forwards, gradients = list(counting.forwards), list(counting.gradients)

    def replay() -> None:
        for n in gradients:
            x = torch.rand(n, *case.inputs.shape[1:], requires_grad=True)
            torch.autograd.grad(net(x)[:, 0].sum(), x)
        with torch.no_grad():
            for n in forwards:
                net(torch.rand(n, *case.inputs.shape[1:]))

    calls = seconds(replay)
    twice = sum(counting.shown.values()) - len(counting.shown)
    print(
        f"{', '.join(method.name for method in chosen)}: {sum(forwards)} forwards and {sum(gradients)} gradients in "
        f"{len(forwards) + len(gradients)} calls; {taken:.1f} s, {taken / calls:.2f} × its model calls; {twice} "
        "pictures shown twice (rows of the check that rows are independent)"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("photograph", type=Path)
    parser.add_argument("--size", type=int, default=128)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--methods", nargs="+")
    parser.add_argument("--explain", action="store_true")
    given = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    net = EfficientNetLite0()
    if given.explain:
        explain_beside_calls(net, given.photograph, given.size, given.methods)
    else:
        image = read_image(given.photograph, given.size)
        methods_beside_forwards(net, image, given.methods or list(SETTINGS), given.repeats)


if __name__ == "__main__":
    main()
