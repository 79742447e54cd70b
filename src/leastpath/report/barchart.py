"""Signed bars: the attributions of a table's row, or of anything with names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from leastpath._support.checks import check_integer, write_number
from leastpath.report.canvas import BLUE, VERMILION, Values, array, axes_for, plain

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def bars(
    values: Values,
    names: Sequence[str] | None = None,
    *,
    spread: Values | None = None,
    top: int = 15,
    title: str = "",
    ax: Axes | None = None,
) -> Figure:
    """Draw one example's attributions as bars, the largest magnitude on top.

    Args:
        values: (features,), or the `Attribution` of one example.
        names: one per feature; "feature 0", … by default.
        spread: (features,) drawn as error bars: `baseline_spread` or `path_spread`, for instance.
        top: bars to draw; the rest is summed in one.
        title: above the bars.
        ax: where to draw; a new figure by default.

    Example:
        >>> from leastpath.report import bars
        >>> figure = bars([0.4, -0.1, 0.0], ["age", "hours", "weight"])
    """
    numbers = _one_row(values, "values")
    labels = [f"feature {i}" for i in range(len(numbers))] if names is None else [str(name) for name in names]
    if len(labels) != len(numbers):
        raise ValueError(f"got {len(labels)} names for {len(numbers)} values: pass one per feature")
    check_integer("top", top, 1, advice="the number of bars")
    around = None if spread is None else _one_row(spread, "spread")
    if around is not None and around.shape != numbers.shape:
        raise ValueError(f"spread has {len(around)} numbers for {len(numbers)} values: pass one per feature")
    order = np.argsort(-np.abs(numbers), kind="stable")
    shown, rest = order[:top], order[top:]
    ticks = [plain(labels[i]) for i in shown]
    figure, axes = axes_for(ax, 6.4, 0.9 + 0.32 * (len(shown) + bool(len(rest))))
    _draw(axes, np.arange(len(shown)), numbers[shown], None if around is None else around[shown])
    if len(rest):
        _draw(axes, np.array([len(shown)]), numbers[rest].sum(keepdims=True), None)
        ticks.append(f"{len(rest)} others")
    axes.set_yticks(range(len(ticks)), ticks)
    axes.invert_yaxis()
    axes.margins(x=0.16)  # for the numbers beside the bars
    axes.axvline(0, color="k", lw=0.8)
    axes.set_xlabel("attribution: right raises the score, left lowers it", fontsize="small")
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.set_title(plain(title), fontsize="medium")
    return figure


def _draw(axes: Axes, places: np.ndarray, widths: np.ndarray, spread: np.ndarray | None) -> None:
    colours = [VERMILION if width > 0 else BLUE for width in widths]
    drawn = axes.barh(places, widths, xerr=spread, color=colours, height=0.72, error_kw={"capsize": 2, "lw": 1})
    texts = [write_number(width, sign=True) for width in widths]
    axes.bar_label(drawn, texts, padding=4, fontsize="small")


def _one_row(values: Values, name: str) -> np.ndarray:
    numbers = array(values, name)
    if numbers.ndim == 2 and len(numbers) == 1:
        numbers = numbers[0]
    if numbers.ndim != 1 or not len(numbers):
        raise ValueError(f"{name} have shape {numbers.shape}, expected one example, (features,): pass {name}[0]")
    return numbers
