"""How cost grows: gradients and seconds against pixels, features, inputs and classes, with the exponents fitted.

    python benchmarks/growth.py [pixels] [features] [inputs] [classes] [--seconds 20] [--save docs/_generated]

Sizes double or grow tenfold up to the ends below, or to those that are given: `--pixels 64 128 384 --classes 2 100`. A
series ends before a size that would probably take longer than `--seconds`. The nets have random weights and are scaled
so that their scores have about the same size whatever the number of features. Seconds are CPU times with one thread,
the better of two runs. An exponent is the slope of a line through the upper half of a series, in logarithms: at small
sizes the fixed cost of a call counts most.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

import leastpath as lp

SIZES = {
    "pixels": (64, 96, 128, 192, 256, 384),
    "features": (10, 100, 1_000, 10_000, 100_000, 1_000_000),
    "inputs": (1, 10, 100, 1_000, 10_000, 100_000),
    "classes": (2, 10, 100, 1_000, 10_000),
}
LABELS = {"pixels": "side of a picture, pixels", "features": "features", "inputs": "inputs", "classes": "classes"}
SOLVERS: dict[str, Callable[[], lp.Solver]] = {
    "straight line": lp.StraightLine,
    "elastic band": lp.ElasticBand,
    "descent": lp.Descent,
}
COLORS = {"straight line": "#0072B2", "elastic band": "#D55E00", "descent": "#009E73"}
MARKERS = {"straight line": "o", "elastic band": "s", "descent": "^"}


@dataclass(frozen=True)
class Cost:
    """Of one explanation of some inputs."""

    size: int
    seconds: float
    """Of the whole call."""
    gradients: float
    """An input, in the mean."""


class Projected(nn.Module):
    """A small net behind a linear layer whose size is that of the inputs: (batch, features) -> (batch, classes)."""

    def __init__(self, features: int, classes: int) -> None:
        super().__init__()
        self.first = nn.Linear(features, 16)
        nn.init.normal_(self.first.weight, std=2 / features**0.5)
        self.rest = nn.Sequential(nn.Tanh(), nn.Linear(16, 32), nn.Tanh(), nn.Linear(32, classes))

    def forward(self, x: Tensor) -> Tensor:
        return self.rest(self.first(x))


def convolutional() -> nn.Module:
    """A net for pictures of any size."""
    return nn.Sequential(
        nn.Conv2d(3, 16, 3, 2, 1), nn.ReLU(), nn.Conv2d(16, 32, 3, 2, 1), nn.ReLU(), nn.Conv2d(32, 32, 3, 2, 1),
        nn.ReLU(), nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(128, 10),
    )  # fmt: skip


def problem(axis: str, size: int) -> tuple[lp.Score, Tensor]:
    """A score and inputs of one size; all else is fixed."""
    torch.manual_seed(0)
    if axis == "pixels":
        return lp.Score(convolutional().eval(), 1, "log_softmax"), torch.rand(1, 3, size, size)
    features = size if axis == "features" else 20
    classes, rows = (size if axis == "classes" else 5), (size if axis == "inputs" else 1)
    return lp.Score(Projected(features, classes).eval(), 1, "log_softmax"), torch.randn(rows, features)


def cost(axis: str, size: int, solver: lp.Solver) -> Cost:
    score, inputs = problem(axis, size)
    taken = []
    for _ in range(2):
        begin = time.process_time()
        result = lp.attribute(score, inputs, method=solver, support=False)
        taken.append(time.process_time() - begin)
        if taken[-1] > 5:  # long runs need no second one
            break
    return Cost(size, min(taken), float(result.n_gradients.double().mean()))


def series(axis: str, name: str, sizes: Sequence[int], seconds: float) -> list[Cost]:
    """Costs at growing sizes, up to the one that would take too long."""
    found: list[Cost] = []
    for size in sizes:
        power = 2 if axis == "pixels" else 1
        if found and found[-1].seconds * (size / found[-1].size) ** power > seconds and found[-1].seconds > 0.5:
            print(f"{axis:8s} {name:14s} stops before {size:,}: it would take longer than {seconds:g} s")
            break
        found.append(cost(axis, size, SOLVERS[name]()))
        print(f"{axis:8s} {name:14s} {size:9,}: {found[-1].seconds:8.3f} s, {found[-1].gradients:8.1f} gradients each")
    return found


def exponent(costs: Sequence[Cost], what: str) -> float:
    """The slope in logarithms of the upper half of a series, at least its last three sizes; NaN with fewer."""
    some = costs[-max(3, (len(costs) + 1) // 2) :]
    if len(some) < 3:
        return float("nan")
    sizes, values = (np.log([getattr(c, key) for c in some]) for key in ("size", what))
    return float(np.polyfit(sizes, values, 1)[0])


def _rounded(slope: float) -> float | None:
    return None if np.isnan(slope) else round(slope, 3)  # JSON knows no NaN


def save(folder: Path, found: dict[str, dict[str, list[Cost]]]) -> None:
    """growth.json and growth.png."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(3.4 * len(found), 6.2), layout="constrained")
    axes = figure.subplots(2, len(found), squeeze=False, sharex="col")
    for column, (axis, lines) in enumerate(found.items()):
        for row, (what, label) in enumerate((("seconds", "CPU seconds"), ("gradients", "gradients per input"))):
            ax = axes[row, column]
            for name, costs in lines.items():
                x, y = [c.size for c in costs], [getattr(c, what) for c in costs]
                slope = f"{name}: {exponent(costs, what):.2f}".replace("nan", "too few sizes")
                ax.loglog(x, y, color=COLORS[name], marker=MARKERS[name], ms=4, lw=1.2, label=slope)
            low, high = ax.get_ylim()
            ax.set_ylim(low / 1.5, high * 6)  # room for the legend
            ax.legend(frameon=False, fontsize="small", title="exponent", title_fontsize="small", loc="upper left")
            ax.grid(alpha=0.3)
            if column == 0:
                ax.set_ylabel(label)
        axes[1, column].set_xlabel(LABELS[axis])
        if axis == "pixels":
            sizes = [c.size for c in next(iter(lines.values()))]
            axes[1, column].set_xticks(sizes, map(str, sizes), minor=False)
            axes[1, column].minorticks_off()
    folder.mkdir(parents=True, exist_ok=True)
    figure.savefig(folder / "growth.png", dpi=110)
    table = {
        axis: {
            name: {
                "costs": [asdict(c) for c in costs],
                "exponents": {what: _rounded(exponent(costs, what)) for what in ("seconds", "gradients")},
            }
            for name, costs in lines.items()
        }
        for axis, lines in found.items()
    }
    (folder / "growth.json").write_text(json.dumps(table, indent=1) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("axes", nargs="*", default=list(SIZES))
    parser.add_argument("--solvers", nargs="+", default=list(SOLVERS), choices=list(SOLVERS))
    parser.add_argument("--seconds", type=float, default=20.0, help="for one explanation")
    parser.add_argument("--save", type=Path, help="write growth.json and growth.png to this folder")
    for axis, sizes in SIZES.items():
        parser.add_argument(
            f"--{axis}", type=int, nargs="+", default=sizes, help=f"by default {sizes[0]} to {sizes[-1]:,}"
        )
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    lp.attribute(*problem("inputs", 2), method=lp.StraightLine())  # warm up
    found: dict[str, dict[str, list[Cost]]] = {}
    for axis in arguments.axes:
        sizes = sorted(getattr(arguments, axis))
        found[axis] = {name: series(axis, name, sizes, arguments.seconds) for name in arguments.solvers}
        for name, costs in found[axis].items():
            slopes = f"seconds {exponent(costs, 'seconds'):.2f}, gradients {exponent(costs, 'gradients'):.2f}"
            print(f"{axis:8s} {name:14s} exponents: {slopes}")
        if arguments.save:
            save(arguments.save, found)


if __name__ == "__main__":
    main()
