"""The neighbour graph beside time-interpret, Captum's IG and a fast-marching reference.

    python benchmarks/graph.py [speed] [scale] [reuse] [accuracy] [--inputs 1000] [--save FOLDER]

Without names, all four. `--inputs 4000` repeats the comparison with time-interpret at 4,000 inputs (theirs takes
minutes). time-interpret is not a dependency: pip install time-interpret. Seconds are CPU seconds of this process, with
PyTorch on one thread, so that other work on the machine counts as little as possible. Ratios are of one run.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from itertools import cycle
from pathlib import Path
from typing import Any

import numpy as np
import torch
from half_moons import BASELINE, trained
from torch import Tensor

import leastpath as lp

K = 15
STEPS = 5  # gradients per edge, for both libraries
INPUTS = 25  # further ones, each alone


def timed(run: Callable[[], object], repeats: int = 1) -> tuple[float, object]:
    """Median CPU seconds of some repeats, and the last answer."""
    seconds, answer = [], None
    for _ in range(repeats):
        begin = time.process_time()
        answer = run()
        seconds.append(time.process_time() - begin)
    return float(np.median(seconds)), answer


def speed(n: int) -> None:
    """Same net, points, neighbours and steps per edge as time-interpret's GeodesicIntegratedGradients.

    Theirs are values alone, so ours are timed three times: the values alone, with lengths, certificates and the
    comparison with the straight line, and all that `attribute` does by default, with the test by removal.
    """
    try:
        from tint.attr import GeodesicIntegratedGradients
    except ImportError:
        print("speed: time-interpret is not installed: pip install time-interpret")
        return
    net, points, _ = trained()
    inputs = points[:n]
    score = lp.Score(net, 1, "log_softmax")

    def ours(**how: Any) -> lp.Attribution:
        solver = lp.NeighborGraph(inputs, K, n_steps=STEPS)
        return lp.attribute(score, inputs, BASELINE, method=solver, **how)

    def theirs() -> Tensor:
        # A point counts itself among its neighbours there, hence one more.
        explainer = GeodesicIntegratedGradients(lambda x: net(x).log_softmax(1))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return explainer.attribute(inputs, BASELINE.expand_as(inputs), 1, n_neighbors=K + 1, n_steps=STEPS)

    lp.attribute(score, inputs[:50], BASELINE, method=lp.NeighborGraph(inputs[:50], K))  # warm up
    parts: dict[str, dict[str, Any]] = {
        "values alone": {"measure": "values", "support": False},
        "with lengths, certificates and comparison": {"support": False},
        "and with the test by removal": {},
    }
    # Before and after theirs, which takes minutes: so a machine that slows down meanwhile counts for both.
    seconds = {name: [timed(lambda how=how: ours(**how), 5)[0]] for name, how in parts.items()}  # type: ignore[misc]
    their_seconds, their_values = timed(theirs)
    for name, how in parts.items():
        again, result = timed(lambda how=how: ours(**how), 5)  # type: ignore[misc]
        seconds[name].append(again)
    print(f"speed: {n} inputs: time-interpret {their_seconds:.1f} s, leastpath")
    for name, both in seconds.items():
        print(f"speed: {name} {np.mean(both):.3f} s: {their_seconds / np.mean(both):.0f} × as fast")
    assert isinstance(result, lp.Attribution) and isinstance(their_values, Tensor) and isinstance(result.values, Tensor)
    difference = (result.values - their_values.detach()).abs().sum(1)
    scale = result.values.abs().sum(1).clamp_min(1e-3)
    close = float((difference / scale < 0.05).float().mean())
    complete = float(((their_values.sum(1) - result.score_change).abs() < 0.05 * scale).float().mean())
    print(
        f"speed: attributions within 5 % of each other on {close:.1%} of the inputs; "
        f"theirs complete within 5 % on {complete:.1%}"
    )


def scale() -> None:
    """10,000 inputs beside Captum's IG with 100 steps; large graphs and their memory."""
    from captum.attr import IntegratedGradients

    net, points, _ = trained()
    score = lp.Score(net, 1, "log_softmax")
    ig = IntegratedGradients(lambda x: net(x).log_softmax(1))
    base = BASELINE.expand_as(points)
    lp.attribute(score, points[:50], BASELINE, method=lp.NeighborGraph(points[:50], K))
    seconds, _ = timed(lambda: lp.attribute(score, points, BASELINE, method=lp.NeighborGraph(points, K)), 3)
    captum, _ = timed(lambda: ig.attribute(points, base, target=1, n_steps=100), 3)
    print(
        f"scale: 10,000 inputs: leastpath {seconds:.2f} s, Captum IG with 100 steps {captum:.2f} s: "
        f"ratio {seconds / captum:.2f}"
    )
    for n, d in ((100_000, 2), (50_000, 10)):
        code = f"import sys; sys.path.insert(0, {str(Path(__file__).parent)!r}); import graph; graph.large({n}, {d})"
        print(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip())


def large(n: int, d: int) -> None:
    """Explain every one of n points in d dimensions over their own graph; prints seconds and peak memory."""
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(d, 64), torch.nn.ReLU(), torch.nn.Linear(64, 2)).eval()
    points = torch.randn(n, d)
    score = lp.Score(net, 1, "log_softmax")
    seconds, result = timed(lambda: lp.attribute(score, points, 0.0, method=lp.NeighborGraph(points, K)))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    assert isinstance(result, lp.Attribution)
    reached = np.mean([lp.Outcome.REACHED in s for s in result.status])
    print(f"scale: {n:,} points in {d}-D: {seconds:.0f} s, peak {peak:.2f} GiB, tolerance reached by {reached:.2%}")


def reuse() -> None:
    """One more input, and one more target, on a built graph, over building it."""
    net, points, _ = trained()
    score, solver = lp.Score(net, 1, "log_softmax"), lp.NeighborGraph(points, K)
    seconds, graph = timed(lambda: solver.build(score, lp.Conformal(), BASELINE), 3)
    assert isinstance(graph, lp.Graph)
    edges = len(graph.topology.edges)
    further = [point[None] + 0.01 for point in points[:INPUTS]]
    one, result = timed(_each(further, lambda new: lp.attribute(score, new, BASELINE, method=graph)), INPUTS)
    for name, how in {
        "its values": {"measure": "values", "support": False},
        "with length, certificate and comparison": {"support": False},
    }.items():
        run = _each(further, lambda new, how=how: lp.attribute(score, new, BASELINE, method=graph, **how))  # type: ignore[misc]
        print(f"reuse: one more input, {name}: {timed(run, INPUTS)[0] * 1e3:.1f} ms")
    many_new = points[:201] + 0.01
    many, _ = timed(lambda: lp.attribute(score, many_new, BASELINE, method=graph), 5)
    assert isinstance(result, lp.Attribution)
    gradients = int(result.n_gradients[0])
    print(
        f"reuse: building at 10,000 points {seconds:.2f} s and {edges * solver.n_steps:,} gradients ({edges:,} edges)"
    )
    print(f"reuse: one more input {gradients} gradients: {gradients / edges / solver.n_steps:.3%} of building")
    print(
        f"reuse: one more input alone {one * 1e3:.0f} ms: {one / seconds:.2%}; in a batch of 201, "
        f"{(many - one) / 200 * 1e3:.2f} ms each: {(many - one) / 200 / seconds:.3%}"
    )
    for n in (1_000, 4_000, 10_000):
        smaller = lp.NeighborGraph(points[:n], K).build(score, lp.Conformal(), BASELINE)
        route, _ = timed(_each(further, lambda new, graph=smaller: _route(score, graph, new)), INPUTS)  # type: ignore[misc]
        print(f"reuse: its route alone, without integral and test, at {n:,} points: {route * 1e3:.1f} ms")
    other = lp.Score(net, 0, "log_softmax")
    afresh, _ = timed(lambda: solver.build(other, lp.Conformal(), BASELINE), 3)
    added, _ = timed(lambda: graph.with_targets(other, lp.Conformal()), 3)
    print(f"reuse: a second target {added:.2f} s, a graph of its own {afresh:.2f} s: ratio {added / afresh:.2f}")


def _each(inputs: list[Tensor], run: Callable[[Tensor], object]) -> Callable[[], object]:
    """A call that takes the next input each time; one is taken at once, to warm up."""
    following = cycle(inputs)
    run(next(following))
    return lambda: run(next(following))


def _route(score: lp.Score, graph: lp.Graph, new: Tensor) -> lp.Solution:
    """What the graph does for one more input, before anything is measured along its route."""
    with torch.no_grad():
        return graph.solve(score.bind(new), lp.Conformal(), BASELINE, new, lp.Run())


def accuracy(save: str | None) -> None:
    """Lengths on half-moons over those of a fast-marching solution on a fine grid."""
    net, points, _ = trained()
    score = lp.Score(net, 1, "log_softmax")
    inputs = points[-200:]
    rows = []
    optimal = fast_marching(score, inputs)
    for refine in (False, True):
        for n in (250, 500, 1000, 2500, 5000, 9800):
            result = lp.attribute(score, inputs, BASELINE, method=lp.NeighborGraph(points[:n], K, refine=refine))
            excess = (result.length.double() / optimal - 1).numpy()
            low, middle, high = np.quantile(excess, [0.1, 0.5, 0.9])
            rows.append({"refine": refine, "points": n, "p10": low, "median": middle, "p90": high})
            print(
                f"accuracy: refine={refine!s:5} {n:6,} points: length above optimal: median {middle:.2%}, "
                f"10 % {low:.2%}, 90 % {high:.2%}"
            )
    if save:
        _save_accuracy(Path(save), rows)


def _save_accuracy(folder: Path, rows: list[dict[str, float]]) -> None:
    """The picture, for the documentation."""
    from matplotlib.figure import Figure

    folder.mkdir(parents=True, exist_ok=True)
    figure = Figure(figsize=(5.6, 3.8), layout="constrained")
    axes = figure.add_subplot()
    for refine, color, marker in ((False, "#D55E00", "o"), (True, "#0072B2", "s")):
        some = [row for row in rows if row["refine"] == refine]
        n, median = [row["points"] for row in some], [100 * row["median"] for row in some]
        axes.semilogx(n, median, color=color, marker=marker, label="refined" if refine else "as found")
    axes.axhline(5, color="k", lw=0.8, ls=":")
    axes.set(xlabel="points in the graph", ylabel="median length above optimal, %", ylim=(0, None))
    axes.set_xticks(n, [f"{count:,}" for count in n], minor=False)
    axes.minorticks_off()
    axes.legend()
    figure.savefig(folder / "graph_accuracy.png", dpi=120)


def fast_marching(score: lp.Score, inputs: Tensor, cells: int = 2000) -> Tensor:
    """(inputs,) conformal distance from the baseline by a second-order factored fast-marching method.

    On nearly flat ground, where slowness varies over many decades within a few cells, fast marching falls short of
    |Δf|, which no path can: there the bound is the reference, so that errors are overstated rather than hidden.
    """
    import eikonalfm
    from scipy.interpolate import RegularGridInterpolator

    low, high = np.array([-2.2, -1.7]), np.array([3.2, 2.2])
    axes = [np.linspace(a, b, cells + 1) for a, b in zip(low, high, strict=True)]
    source = [round((float(p) - a[0]) / (a[1] - a[0])) for p, a in zip(BASELINE[0], axes, strict=True)]
    for i, p in enumerate(BASELINE[0].tolist()):  # the baseline becomes a node of the grid
        axes[i] += p - axes[i][source[i]]
    grid = torch.tensor(np.stack(np.meshgrid(*axes, indexing="ij"), -1).reshape(-1, 2), dtype=torch.float32)
    steepness = []
    bound = score.bind(grid[:1])
    for rows in grid.split(200_000):
        _, gradient = bound.gradients(rows, torch.zeros(len(rows), dtype=torch.long))
        steepness.append(gradient.double().norm(dim=1))
    slowness = torch.cat(steepness).reshape(cells + 1, cells + 1).numpy()
    slowness = np.maximum(slowness, 1e-7 * slowness.max())
    spacing = [a[1] - a[0] for a in axes]
    factor = eikonalfm.factored_fast_marching(1 / slowness, source, spacing, 2)
    distance = factor * eikonalfm.distance(factor.shape, spacing, source, indexing="ij")
    bound_below = (score(inputs) - score(BASELINE)).abs().double()
    return torch.tensor(RegularGridInterpolator(axes, distance)(inputs.double().numpy())).maximum(bound_below)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", default=["speed", "scale", "reuse", "accuracy"])
    parser.add_argument("--inputs", type=int, default=1000, help="for the comparison with time-interpret")
    parser.add_argument("--save", help="write the picture of the accuracy to this folder")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    parts: dict[str, Callable[[], None]] = {
        "speed": lambda: speed(arguments.inputs), "scale": scale,
        "reuse": reuse, "accuracy": lambda: accuracy(arguments.save),
    }  # fmt: skip
    for part in arguments.parts:
        parts[part]()


if __name__ == "__main__":
    main()
