"""`make demo`: train a small net on two half-moons, explain it, print the evidence and draw the picture.

    python examples/demo.py [FOLDER]

Compares the straight line of Integrated Gradients with the shortest route over a neighbour graph.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import torch
from matplotlib.figure import Figure
from sklearn.datasets import make_moons
from torch import Tensor, nn

import leastpath as lp
from leastpath.report import plot_graph

BASELINE = torch.tensor([[-0.5, -0.5]])


def trained(points: Tensor, labels: Tensor) -> nn.Module:
    """A 2-10-10-2 ReLU net, as in the paper's first experiment."""
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(2, 10), nn.ReLU(), nn.Linear(10, 10), nn.ReLU(), nn.Linear(10, 2))
    optimizer = torch.optim.Adam(net.parameters(), 1e-2)
    for _ in range(15):
        for batch in torch.randperm(len(points)).split(64):
            optimizer.zero_grad()
            nn.functional.cross_entropy(net(points[batch]), labels[batch]).backward()
            optimizer.step()
    return net.eval()


def maps(inputs: Tensor, results: dict[str, lp.Attribution]) -> Figure:
    """Attributions of both features, and how much they cancel, one row a method on one scale a column."""
    figure = Figure(figsize=(11, 6), layout="constrained")
    axes = figure.subplots(len(results), 3, sharex=True, sharey=True)
    columns = {
        "attribution of feature 0": lambda r: r.values[:, 0],
        "attribution of feature 1": lambda r: r.values[:, 1],
        "cancellation  Σ|A| − |Δf|": lambda r: r.cancellation,
    }
    for j, (title, column) in enumerate(columns.items()):
        shown = [column(result).numpy() for result in results.values()]
        limit = float(np.quantile(np.abs(np.concatenate(shown)), 0.98)) or 1.0
        for i, (name, values) in enumerate(zip(results, shown, strict=True)):
            drawn = axes[i, j].scatter(*inputs.T, c=values, s=5, cmap="PuOr", vmin=-limit, vmax=limit)
            axes[i, j].scatter(*BASELINE.T, c="k", marker="x")
            axes[i, j].set_title(f"{name}: {title}", fontsize=9)
        figure.colorbar(drawn, ax=axes[:, j], shrink=0.8)
    return figure


def main(folder: Path) -> None:
    x, y = make_moons(3000, noise=0.15, random_state=0)
    points, labels = torch.tensor(x, dtype=torch.float32), torch.tensor(y)
    net = trained(points[:2400], labels[:2400])
    inputs = points[2400:]
    accuracy = float((net(inputs).argmax(1) == labels[2400:]).float().mean())
    print(f"a net with {accuracy:.1%} accuracy on 600 held-out points")
    score = lp.Score(net, target=1, output="log_softmax")
    graph = lp.NeighborGraph(points[:2400], n_neighbors=15).build(score, lp.Conformal(), BASELINE, progress=True)
    results = {
        "straight line": lp.attribute(score, inputs, BASELINE, solver=lp.StraightLine(), progress=True),
        "shortest route": lp.attribute(score, inputs, BASELINE, solver=graph, progress=True),
    }
    print(f"{'':16}{'gap to completeness':>22}{'cancellation':>16}{'certificate':>14}{'gradients':>12}   (medians)")
    for name, r in results.items():
        medians = [float(v.abs().double().median()) for v in (r.completeness_gap, r.cancellation, r.certificate)]
        print(
            f"{name:16}{medians[0]:22.1e}{medians[1]:16.4f}{medians[2]:14.3f}{int(r.n_gradients.double().median()):12}"
        )
    folder.mkdir(parents=True, exist_ok=True)
    maps(inputs, results).savefig(folder / "maps.png", dpi=120)
    crossing = (net(inputs).argmax(1) == 0).nonzero()[:3, 0].tolist()
    print(f"example {crossing[0]}:", results["shortest route"].status[crossing[0]].value)
    plot_graph(graph, results["shortest route"], crossing, score=score).savefig(folder / "graph.png", dpi=120)
    print(f"pictures: {folder / 'maps.png'}, {folder / 'graph.png'}")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path("out/demo"))
