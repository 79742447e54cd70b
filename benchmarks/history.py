"""Ratios of speed and memory of this commit, kept beside those of the commits before: a slowdown is seen.

    python benchmarks/history.py [--commit NAME] [--record history.json] [--draw history.png] [--repeats 5]

`make bench` runs it with both. Every figure is a ratio to something that is timed in turns with it in the same process
(a bare loop of gradients or forwards, Captum), so that commits measured on different machines can be compared; CPU
time, one thread, medians. It takes about two minutes, and prints more than it judges: nothing fails. To measure another
version: PYTHONPATH=OTHER/src python benchmarks/history.py --commit OTHER.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from overhead import CASES, bare_loop
from torch import nn

import leastpath as lp

STEPS = 25


def ratio(ours: Callable[[], Any], theirs: Callable[[], Any], repeats: int) -> float:
    """The median of CPU times that are taken in turns, one over the other, after one of each to warm up."""
    taken = []
    for _ in range(repeats + 1):
        both = []
        for call in (ours, theirs):
            begin = time.process_time()
            call()
            both.append(time.process_time() - begin)
        taken.append(both[0] / max(both[1], 1e-9))
    return float(np.median(taken[1:]))


def line_ratios(repeats: int) -> dict[str, float]:
    """The straight line at fixed steps beside a bare loop of gradients, and beside Captum."""
    from captum.attr import IntegratedGradients

    found = {}
    for name in ("MLP", "CNN", "transformer"):
        torch.manual_seed(0)
        make, shape = CASES[name]
        model, inputs = make().eval(), torch.randn(shape)
        score, captum = lp.Score(model, 1, batch_size=shape[0]), IntegratedGradients(model)

        def ours(score: lp.Score = score, inputs: torch.Tensor = inputs) -> Any:
            return lp.attribute(score, inputs, method=lp.StraightLine(), tolerance=None, n_steps=STEPS, support=False)

        def theirs(captum: Any = captum, inputs: torch.Tensor = inputs) -> Any:
            return captum.attribute(inputs, target=1, n_steps=STEPS, internal_batch_size=len(inputs))

        def bare(model: nn.Module = model, inputs: torch.Tensor = inputs) -> Any:
            return bare_loop(model, inputs, 1, STEPS)

        found[f"line / bare gradients, {name}"] = ratio(ours, bare, repeats)
        found[f"line / Captum, {name}"] = ratio(ours, theirs, repeats)
    return found


def forward_ratios(repeats: int) -> dict[str, float]:
    """Methods without gradients beside as many bare forwards, on a picture of 96 pixels."""
    torch.manual_seed(0)
    net = nn.Sequential(
        nn.Conv2d(3, 32, 3, 2, 1), nn.BatchNorm2d(32), nn.ReLU(), nn.Conv2d(32, 64, 3, 2, 1), nn.BatchNorm2d(64),
        nn.ReLU(), nn.Conv2d(64, 64, 3, 1, 1), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 100),
    ).eval()  # fmt: skip
    image, found = torch.rand(1, 3, 96, 96), {}
    score = lp.Score(net, 1, "log_softmax", batch_size=16)
    for name, settings in {"staircase": {"n_orders": 1}, "occlusion": {}, "rise": {"n_masks": 150}}.items():

        def ours(name: str = name, settings: dict[str, int] = settings) -> lp.Attribution:
            return lp.attribute(score, image, 0.0, method=name, support=False, **settings)

        n, batch = int(ours().n_forwards), torch.rand(16, 3, 96, 96)

        def bare(n: int = n, batch: torch.Tensor = batch) -> None:
            with torch.inference_mode():
                for first in range(0, n, 16):
                    net(batch[: n - first])

        found[f"{name} / bare forwards"] = ratio(ours, bare, repeats)
    return found


def graph_ratio(repeats: int) -> dict[str, float]:
    """One further input of a graph of 1,000 points with all that is measured, beside 100 gradients of one row."""
    torch.manual_seed(0)
    net, points = CASES["MLP"][0]().eval(), torch.randn(1000, 20)
    score, baseline = lp.Score(net, 1, "log_softmax"), torch.zeros(1, 20)
    graph = lp.NeighborGraph(points, n_neighbors=15).build(score, lp.Conformal(), baseline)
    rows = iter(torch.randn(1000, 1, 20))

    def ours() -> Any:
        return lp.attribute(score, next(rows), baseline, method=graph, support=False)

    return {
        "one more input of a graph / 100 gradients": ratio(ours, lambda: bare_loop(net, points[:1], 1, 100), repeats)
    }


def import_ratio() -> dict[str, float]:
    """`import leastpath` and its verb beside `import torch`, each in a process of its own."""

    def seconds(code: str) -> float:
        runs = []
        for _ in range(3):
            begin = time.perf_counter()
            subprocess.run([sys.executable, "-c", code], check=True)
            runs.append(time.perf_counter() - begin)
        return min(runs)

    return {
        "import leastpath / import torch": seconds("import leastpath; leastpath.attribute") / seconds("import torch")
    }


def draw(history: dict[str, Any], file: Path) -> None:
    """Every ratio over the commits, in the order in which they were measured."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    names = list(dict.fromkeys(name for entry in history.values() for name in entry["ratios"]))
    figure, every = plt.subplots(-(-len(names) // 3), 3, figsize=(11, 2.0 * -(-len(names) // 3)), squeeze=False)
    for axis, name in zip(every.flat, names, strict=False):
        values = [entry["ratios"].get(name, np.nan) for entry in history.values()]
        axis.plot(range(len(values)), values, marker="o")
        axis.set_title(name, fontsize=8)
        axis.set_ylim(0, 1.15 * np.nanmax(values))
        axis.set_xticks(range(len(values)), list(history), rotation=30, fontsize=7)
    for axis in list(every.flat)[len(names) :]:
        axis.axis("off")
    figure.tight_layout()
    figure.savefig(file, dpi=110)


def commit_of(package: Path) -> str:
    """The commit of the sources that are measured, with a mark where they were changed since."""
    said = subprocess.run(
        ["git", "describe", "--always", "--dirty", "--exclude", "*"],  # noqa: S607
        cwd=package.parent, capture_output=True, text=True, check=False,
    )  # fmt: skip
    return said.stdout.strip() or "unknown"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--commit", help="its name; that of the sources by default")
    parser.add_argument("--record", type=Path, help="a JSON file to add the ratios to")
    parser.add_argument("--draw", type=Path, help="a picture of all that is in --record")
    parser.add_argument("--repeats", type=int, default=5)
    given = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    ratios: dict[str, float] = {}
    for part in (line_ratios, forward_ratios, graph_ratio):
        for name, value in part(given.repeats).items():
            ratios[name] = round(value, 3)
            print(f"{name:45} {value:6.2f}", flush=True)
    for name, value in import_ratio().items():
        ratios[name] = round(value, 3)
        print(f"{name:45} {value:6.2f}")
    if given.record is None:
        return
    history = json.loads(given.record.read_text()) if given.record.is_file() else {}
    commit = given.commit or commit_of(Path(lp.__file__))
    history.pop(commit, None)
    history[commit] = {"torch": torch.__version__, "ratios": ratios}
    given.record.write_text(json.dumps(history, indent=1) + "\n")
    if given.draw is not None:
        draw(history, given.draw)


if __name__ == "__main__":
    main()
