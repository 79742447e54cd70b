"""The figures of the half-moons experiment. Each function takes numbers and returns a matplotlib figure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

import leastpath as lp

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Okabe and Ito's palette, which every common kind of colour vision can tell apart; marker and dash repeat the message.
STYLES: Mapping[str, dict[str, Any]] = {
    "geodesic_graph": {"color": "#0072B2", "marker": "o", "lw": 2.6},
    "geodesic_variational": {"color": "#56B4E9", "marker": "s", "lw": 2.0},
    "integrated_gradients": {"color": "#D55E00", "marker": "^", "lw": 2.0},
    "enhanced_ig": {"color": "#E69F00", "marker": "v", "ls": "--"},
    "occlusion": {"color": "#009E73", "marker": "D"},
    "gradient_shap": {"color": "#CC79A7", "marker": "P"},
    "kernel_shap": {"color": "#009E73", "marker": "x", "ls": "--"},
    "guided_ig": {"color": "#CC79A7", "marker": "*", "ls": "--"},
    "input_x_gradient": {"color": "#666666", "marker": "<", "ls": "-."},
    "random": {"color": "#999999", "marker": ".", "ls": ":"},
    "ideal": {"color": "#000000", "marker": "", "ls": (0, (5, 1)), "lw": 1.6},
}
PAIR_COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7")
SIGNED, UNSIGNED = "PuOr_r", "cividis"
GRID = 160  # contours are computed on GRID × GRID points


def attribution_maps(inputs: Tensor, rows: Mapping[str, Tensor], score: lp.Score, baseline: Sequence[float]) -> Figure:
    """One row a method, four columns: A₀, A₁, Σ|A| and ΣA, over contours of the gradient's norm.

    All signed columns share one colour scale, the unsigned one has another with the same largest value: twice the
    largest change of score, so that what cancels stands out and what changes the score stays visible.

    Args:
        inputs: (n, 2).
        rows: attributions (n, 2) by title.
        score: what was explained, for one class (its gradient's norm is drawn).
        baseline: where paths started.

    Example:
        >>> score = lp.Score(lambda x: torch.sigmoid(9 * x[:, 1]))
        >>> figure = attribution_maps(torch.rand(20, 2), {"IG": torch.rand(20, 2)}, score, (0.0, 0.0))
    """
    from matplotlib.figure import Figure

    columns: dict[str, Callable[[Tensor], Tensor]] = {
        "A₀ (horizontal)": lambda v: v[:, 0], "A₁ (vertical)": lambda v: v[:, 1],
        "Σ|A|": lambda v: v.abs().sum(1), "ΣA": lambda v: v.sum(1),
    }  # fmt: skip
    limit = _limit(torch.cat([values.sum(1) for values in rows.values()]))
    figure = Figure(figsize=(13, 2.75 * len(rows) + 0.5), layout="constrained")
    axes = figure.subplots(len(rows), 4, sharex=True, sharey=True, squeeze=False)
    steepness = _Steepness.of(score, inputs)
    for i, (title, values) in enumerate(rows.items()):
        for j, (name, column) in enumerate(columns.items()):
            signed = name != "Σ|A|"
            steepness.draw_lines(axes[i, j])
            drawn = _scatter(axes[i, j], inputs, column(values), limit, signed, baseline)
            if i == 0:
                axes[i, j].set_title(name)
            if i == len(rows) - 1 and j in (2, 3):  # one bar for the unsigned column, one for the signed ones
                figure.colorbar(drawn, ax=axes[:, j], shrink=0.9, extend="both" if signed else "max")
        axes[i, 0].set_ylabel(f"{title}\nfeature 1")
    for axis in axes[-1]:
        axis.set_xlabel("feature 0")
    return figure


def output_difference(inputs: Tensor, change: Tensor, score: lp.Score, baseline: Sequence[float]) -> Figure:
    """f(x) − f(x̄) and its absolute value: what ΣA and, without cancellation, Σ|A| must look like.

    Example:
        >>> score = lp.Score(lambda x: torch.sigmoid(9 * x[:, 1]))
        >>> figure = output_difference(torch.rand(20, 2), torch.rand(20), score, (0.0, 0.0))
    """
    from matplotlib.figure import Figure

    limit = _limit(change)
    figure = Figure(figsize=(8.6, 3.4), layout="constrained")
    axes = figure.subplots(1, 2, sharex=True, sharey=True)
    steepness = _Steepness.of(score, inputs)
    for axis, title, values, signed in (
        (axes[0], "f(x) − f(x̄)", change, True), (axes[1], "|f(x) − f(x̄)|", change.abs(), False),
    ):  # fmt: skip
        steepness.draw_lines(axis)
        drawn = _scatter(axis, inputs, values, limit, signed, baseline)
        figure.colorbar(drawn, ax=axis, shrink=0.9, extend="both" if signed else "max")
        axis.set(title=title, xlabel="feature 0")
    axes[0].set_ylabel("feature 1")
    return figure


def purity_over_noise(noises: Sequence[float], purities: Mapping[str, Tensor], titles: Mapping[str, str]) -> Figure:
    """Purity of each method over the noise, mean over seeds, with bands of one standard error.

    Args:
        noises: (noises,).
        purities: (seeds, noises) by method; drawn in the order of their mean.
        titles: how the legend calls them.

    Example:
        >>> figure = purity_over_noise([0.1, 0.2], {"random": torch.rand(3, 2)}, {"random": "Random"})
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9.6, 5.2), layout="constrained")
    axis = figure.add_subplot()
    for name in sorted(purities, key=lambda n: -float(purities[n].mean())):
        values, style = purities[name].numpy(), {"lw": 1.4, "ms": 5, **STYLES.get(name, {"color": "#444444"})}
        mean = values.mean(0)
        axis.plot(noises, mean, label=titles[name], **style)
        if len(values) > 1:
            error = values.std(0, ddof=1) / np.sqrt(len(values))
            axis.fill_between(noises, mean - error, mean + error, color=style["color"], alpha=0.15, lw=0)
    axis.set(xlabel="noise of the half-moons", ylabel="purity", ylim=(None, 1.02))
    axis.grid(alpha=0.25)
    seeds = len(next(iter(purities.values())))
    title = f"mean of {seeds} seeds\n± standard error" if seeds > 1 else "one seed"
    figure.legend(loc="outside right upper", title=title, frameon=False)
    return figure


def sampled_paths(
    points: Tensor, means: Sequence[Tensor], samples: Sequence[Sequence[Tensor]], score: lp.Score
) -> Figure:
    """Paths of `Variational` between pairs of points, a colour a pair: means, samples around them and straight lines.

    Args:
        points: (n, 2) shown as dots.
        means: (knots, 2) for each pair.
        samples: for each pair, paths (knots, 2) drawn from the fitted distribution.
        score: its gradient's norm is drawn.

    Example:
        >>> score = lp.Score(lambda x: torch.sigmoid(9 * x[:, 1]))
        >>> path = torch.tensor([[0.0, 0.0], [0.4, 0.6], [1.0, 1.0]])
        >>> figure = sampled_paths(torch.rand(20, 2), [path], [[path + 0.01]], score)
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 5.4), layout="constrained")
    axis = figure.add_subplot()
    drawn = _Steepness.of(score, points).draw_filled(axis)
    figure.colorbar(drawn, ax=axis, label="‖∇f‖", shrink=0.9, format="%.2g")
    shown = axis.get_xlim(), axis.get_ylim()  # samples may stray beyond the data
    axis.scatter(points[:, 0], points[:, 1], s=2, c="#aaaaaa", lw=0, zorder=1)
    for i, (mean, drawn_paths) in enumerate(zip(means, samples, strict=True)):
        names = ("straight line", "mean path", "sampled paths", "start", "end")
        named = {key: key if i == 0 else None for key in names}
        color = PAIR_COLORS[i % len(PAIR_COLORS)]
        for k, path in enumerate(drawn_paths):
            label = named["sampled paths"] if k == 0 else None
            axis.plot(*path.T, color=color, lw=0.5, alpha=0.35, zorder=2, label=label)
        axis.plot(*mean[[0, -1]].T, color=color, lw=1.2, ls=":", zorder=3, label=named["straight line"])
        axis.plot(*mean.T, color=color, lw=2.2, zorder=4, label=named["mean path"])
        for place, marker, label in ((0, "o", "start"), (-1, "s", "end")):
            axis.plot(
                *mean[place], marker, color=color, markeredgecolor="k", ms=9, zorder=5, ls="", label=named[label]
            )  # fmt: skip
    axis.set(xlabel="feature 0", ylabel="feature 1", xlim=shown[0], ylim=shown[1])
    axis.legend(loc="upper left", fontsize="small", framealpha=0.9)
    return figure


def _limit(change: Tensor) -> float:
    """Where colours end: twice the largest change of score, but for a few outliers."""
    return 2 * float(torch.quantile(change.abs().double(), 0.99)) or 1.0


def _scatter(axis: Axes, inputs: Tensor, values: Tensor, limit: float, signed: bool, baseline: Sequence[float]) -> Any:
    drawn = axis.scatter(
        inputs[:, 0], inputs[:, 1], c=values, s=3, lw=0, rasterized=True, cmap=SIGNED if signed else UNSIGNED,
        vmin=-limit if signed else 0, vmax=limit,
    )  # fmt: skip
    axis.scatter(baseline[0], baseline[1], c="#E69F00", edgecolors="k", marker="X", s=60, zorder=5)
    return drawn


@dataclass(frozen=True)
class _Steepness:
    """The norm of the gradient over the plane around some points."""

    x: Tensor  # (GRID,)
    y: Tensor  # (GRID,)
    norm: np.ndarray  # (GRID, GRID), y first

    @classmethod
    def of(cls, score: lp.Score, shown: Tensor) -> _Steepness:
        low, high = shown.amin(0), shown.amax(0)
        margin = 0.08 * (high - low)
        x, y = (torch.linspace(float(a), float(b), GRID) for a, b in zip(low - margin, high + margin, strict=True))
        grid = torch.cartesian_prod(x, y)
        _, gradient = score.bind(grid).gradients(grid, torch.arange(len(grid)))
        return cls(x, y, gradient.norm(dim=1).reshape(GRID, GRID).T.numpy())

    def draw_lines(self, axis: Axes) -> None:
        levels = self.norm.max() * np.array([0.05, 0.25, 0.6])
        axis.contour(self.x, self.y, self.norm, levels=levels, colors="#888888", linewidths=0.6, zorder=0)

    def draw_filled(self, axis: Axes) -> Any:
        """On a scale of powers of ten."""
        from matplotlib.colors import LogNorm

        top = max(float(self.norm.max()), 1e-12)
        levels = np.geomspace(top * 1e-3, top, 10)
        norm = np.maximum(self.norm, levels[0])
        return axis.contourf(self.x, self.y, norm, levels=levels, cmap="Greys", alpha=0.35, norm=LogNorm(), zorder=0)
