"""The graph, the route and the straight line, for two-dimensional data."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from leastpath.report.canvas import BLACK, BLUE, GREEN, GREY, ORANGE, VERMILION, axes_for
from leastpath.result.attribution import Attribution

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

EDGE, BRIDGE, ROUTE, LINE, BASELINE, INPUT = GREY, VERMILION, BLUE, BLACK, ORANGE, GREEN
MOST_EDGES = 20_000  # more edges only make a grey area


@dataclass(frozen=True)
class Plane:
    """A score over the plane of two features, for the background of `plot_graph`."""

    x: np.ndarray  #: (n,)
    y: np.ndarray  #: (m,)
    values: np.ndarray  #: (m, n)


def plot_graph(
    graph: Any,
    result: Attribution,
    examples: Iterable[int] = (0,),
    *,
    background: Plane | None = None,
    ax: Axes | None = None,
) -> Figure:
    """Draw a built graph with the routes of some examples, beside the straight lines that plain IG would take.

    Args:
        graph: made by `NeighborGraph.build`, over points of two features.
        result: of `attribute(…, method=graph)`.
        examples: whose routes to draw.
        background: the score as shaded contours, `evaluation.score_plane(score, points)`, if given.
        ax: where to draw; a new figure by default.

    Example:
        >>> import torch, leastpath as lp
        >>> from leastpath.evaluation import score_plane
        >>> score = lp.Score(lambda x: torch.sigmoid(20 * x[:, 0] - 10))
        >>> points = torch.rand(100, 2, generator=torch.Generator().manual_seed(0))
        >>> graph = lp.NeighborGraph(points, n_neighbors=6).build(score, lp.Conformal())
        >>> result = lp.attribute(score, torch.ones(1, 2), method=graph)
        >>> figure = plot_graph(graph, result, background=score_plane(score, points))
    """
    if not hasattr(graph, "topology") or not hasattr(result, "path"):
        what = f"a {type(graph).__name__} and a {type(result).__name__}"
        raise ValueError(
            f"got {what}, expected a built graph and a result: plot_graph(graph, attribute(…, method=graph))"
        )
    points = graph.topology.points.detach().cpu().double().numpy()
    if points.ndim != 2 or points.shape[1] != 2:
        raise ValueError(f"the graph has points of shape {points.shape}, expected two features: (n, 2)")
    if result.path is None:
        raise ValueError("the result has no path: pass the result of attribute(…, method=graph)")
    figure, axes = axes_for(ax, 6.4, 4.8)
    from matplotlib.collections import LineCollection

    routes = [result.path[b].detach().cpu().double().numpy() for b in examples]
    if background is not None:
        _shade(axes, background)
    pairs, bridge = points[graph.topology.edges], graph.topology.is_bridge
    shown = pairs[~bridge][:MOST_EDGES]
    faint = min(0.6, 1500 / max(1, len(shown)))  # many edges must not hide the route
    lines: dict[str, Any] = {"colors": EDGE, "linewidths": 0.4, "alpha": faint, "label": "neighbours", "zorder": 1}
    axes.add_collection(LineCollection(list(shown), **lines))
    if bridge.any():
        lines = {"colors": BRIDGE, "linewidths": 1.4, "linestyles": "--", "label": "bridges", "zorder": 2}
        axes.add_collection(LineCollection(list(pairs[bridge]), **lines))
    axes.scatter(points[:, 0], points[:, 1], s=4, c=EDGE, linewidths=0, zorder=2)
    names: list[str | None] = ["shortest route", "straight line", "baseline", "input"]
    for route in routes:
        axes.plot(*route.T, color=ROUTE, lw=2, marker=".", ms=4, zorder=4, label=names[0])
        axes.plot(*route[[0, -1]].T, color=LINE, lw=1.2, ls=":", zorder=3, label=names[1])
        axes.scatter(route[0, 0], route[0, 1], s=60, c=BASELINE, edgecolors="k", zorder=5, label=names[2])
        axes.scatter(route[-1, 0], route[-1, 1], s=60, c=INPUT, edgecolors="k", zorder=5, label=names[3])
        names = [None] * 4  # the legend names the first route only
    axes.set(xlabel="feature 0", ylabel="feature 1")
    axes.autoscale_view()
    axes.legend(loc="best", fontsize="small", framealpha=0.9)
    return figure


def _shade(axes: Axes, plane: Plane) -> None:
    """The score over the plane, as pale filled contours."""
    drawn = axes.contourf(plane.x, plane.y, plane.values, levels=12, cmap="cividis", alpha=0.35, zorder=0)
    axes.figure.colorbar(drawn, ax=axes, label="score")
