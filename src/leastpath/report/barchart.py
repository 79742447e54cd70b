"""Signed bars: the attributions of a table's row, or of anything with names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from leastpath._support.checks import check_integer, write_number
from leastpath.report.canvas import BLUE, LONGEST_NAME, VERMILION, Values, array, axes_for, plain

OF_NUMBER = 0.45  # of the span of the bars: room for a number on half a page

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
        names: one per feature; by default those of the result, or "feature 0", ….
        spread: (features,) drawn as error bars: `baseline_spread` or `path_spread`, for instance.
        top: bars to draw; the rest is summed in one.
        title: above the bars.
        ax: where to draw; a new figure by default.

    Example:
        >>> from leastpath.report import bars
        >>> figure = bars([0.4, -0.1, 0.0], ["age", "hours", "weight"])
    """
    numbers = _one_row(values, "values")
    names = getattr(values, "names", None) if names is None else names
    labels = [f"feature {i}" for i in range(len(numbers))] if names is None else [str(name) for name in names]
    if len(labels) != len(numbers):
        raise ValueError(f"got {len(labels)} names for {len(numbers)} values: pass one per feature")
    check_integer("top", top, 1, advice="the number of bars")
    around = None if spread is None else _one_row(spread, "spread")
    if around is not None and around.shape != numbers.shape:
        raise ValueError(f"spread has {len(around)} numbers for {len(numbers)} values: pass one per feature")
    order = np.argsort(-np.abs(numbers), kind="stable")
    shown, rest = order[:top], order[top:]
    ticks = [plain(labels[i], LONGEST_NAME) for i in shown]
    figure, axes = axes_for(ax, 6.4, 0.9 + 0.32 * (len(shown) + bool(len(rest))))
    _draw(axes, np.arange(len(shown)), numbers[shown], None if around is None else around[shown])
    if len(rest):
        _draw(axes, np.array([len(shown)]), numbers[rest].sum(keepdims=True), None)
        ticks.append(f"{len(rest)} others")
    axes.set_yticks(range(len(ticks)), ticks)
    axes.invert_yaxis()
    _leave_room(axes, np.append(numbers[shown], numbers[rest].sum()))
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


def _leave_room(axes: Axes, widths: np.ndarray) -> None:
    """For the numbers beside the bars, on the sides that have some: they must not run into the names at the left."""
    low, high = min(0.0, float(widths.min())), max(0.0, float(widths.max()))
    span = high - low or 1.0
    left, right = (OF_NUMBER if side else 0.05 for side in (low < 0, high > 0 or low == 0))
    axes.set_xlim(low - left * span, high + right * span)
    axes.locator_params(axis="x", nbins=4)


def _one_row(values: Values, name: str) -> np.ndarray:
    numbers = array(values, name)
    if numbers.ndim == 2 and len(numbers) == 1:
        numbers = numbers[0]
    if numbers.ndim != 1 or not len(numbers):
        raise ValueError(f"{name} have shape {numbers.shape}, expected one example, (features,): pass {name}[0]")
    return numbers
