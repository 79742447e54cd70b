"""Measures of several methods as a figure and as an HTML table."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from leastpath.report.canvas import LONGEST_NAME, SERIES, new_figure, plain

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def comparison_figure(
    table: pd.DataFrame,
    curves: pd.DataFrame,
    methods: Sequence[str],
    higher_is_better: Mapping[str, bool],
    axes: Mapping[str, str] | None = None,
) -> Figure:
    """Every measure with its interval and, where it has one, its mean curve; below, the cost of each method.

    Args:
        table: one row per method; columns (measure, mean | low | high) and ("cost", gradients | forwards | seconds).
        curves: one row per point: method, measure, x, value.
        methods: all of them, in the order of their colours.
        higher_is_better: by the name of each measure.
        axes: what the horizontal axis of a measure's curve is, by the name of the measure.
    """
    n_rows = len(higher_is_better) + 1
    figure = new_figure(11, (1.1 + 0.28 * len(table)) * n_rows)
    panels = figure.subplots(n_rows, 2, squeeze=False)
    dashes = ("-", "--", ":", "-.")
    styles = {
        method: (SERIES[i % len(SERIES)], dashes[i // len(SERIES) % len(dashes)]) for i, method in enumerate(methods)
    }
    for row, (measure, higher) in zip(panels, higher_is_better.items(), strict=False):
        _draw_intervals(row[0], table, measure, styles)
        row[0].set_title(f"{plain(measure)} ({'higher' if higher else 'lower'} is better)", fontsize=10)
        if (curves["measure"] == measure).any():
            _draw_curves(row[1], curves, measure, styles, (axes or {}).get(measure, "place on the curve"))
        else:
            row[1].set_axis_off()
    _draw_costs(panels[-1, 0], panels[-1, 1], table, styles)
    return figure


def comparison_table(words: pd.DataFrame) -> str:
    """The table in words, one row per method, as HTML: intervals below means, the best mean (marked *) in bold."""
    # Spaces, so that a long name takes several lines and the table fits the page.
    head = "".join(f"<th>{html.escape(column.replace('_', ' '))}</th>" for column in words.columns)
    rows = "".join(
        f"<tr><th>{html.escape(str(method))}</th>{''.join(_cell(text) for text in row)}</tr>"
        for method, row in zip(words.index, words.to_numpy(), strict=True)
    )
    head = f"<thead><tr><th>method</th>{head}</tr></thead>"
    return f'<div class="table"><table>{head}<tbody>{rows}</tbody></table></div>'


def _cell(text: str) -> str:
    mean, bracket, interval = html.escape(text.rstrip(" *=")).partition(" [")
    mean = f"<strong>{mean}</strong>" if text.endswith("*") else mean
    mark = " =" if text.endswith("=") else ""
    below = f"<br><small>{bracket.strip()}{interval}</small>" if bracket else ""
    return f'<td style="white-space:nowrap">{mean}{mark}{below}</td>'


def _draw_intervals(ax: Axes, table: pd.DataFrame, measure: str, styles: Mapping[str, tuple[str, str]]) -> None:
    for y, method in enumerate(table.index):
        mean, low, high = (table.loc[method, (measure, part)] for part in ("mean", "low", "high"))
        ax.plot([low, high], [y, y], color=styles[method][0], linewidth=2)
        ax.plot([mean], [y], "o", color=styles[method][0])
    _name_rows(ax, list(table.index))
    ax.margins(x=0.08)
    ax.locator_params(axis="x", nbins=5)
    ax.set_xlabel(f"mean {plain(measure)} and its interval", fontsize=8)


def _draw_curves(
    ax: Axes, curves: pd.DataFrame, measure: str, styles: Mapping[str, tuple[str, str]], axis: str
) -> None:
    for method, group in curves[curves["measure"] == measure].groupby("method", sort=False):
        mean = group.groupby("x")["value"].mean()
        color, line = styles[str(method)]
        ax.plot(mean.index, mean.to_numpy(), line, color=color, label=plain(method, LONGEST_NAME), linewidth=1.4)
    ax.set_title(f"{plain(measure)}: mean curve", fontsize=10)
    ax.set_xlabel(plain(axis), fontsize=8)
    ax.set_ylabel("mean over inputs", fontsize=8)
    ax.legend(fontsize=7, frameon=False, ncols=2)


def _draw_costs(left: Axes, right: Axes, table: pd.DataFrame, styles: Mapping[str, tuple[str, str]]) -> None:
    """What each method costs. Limits leave room for whole markers; counts may be zero, so their axis shows it."""
    rows = range(len(table))
    colors = [styles[method][0] for method in table.index]
    gradients, forwards = (table["cost", cost].to_numpy() for cost in ("gradients", "forwards"))
    seconds = table["cost", "seconds"].clip(lower=1e-6).to_numpy()
    left.scatter(gradients, rows, c=colors, s=36)
    left.scatter(forwards, rows, facecolors="none", edgecolors=colors, s=36)
    left.set_xscale("symlog", linthresh=1)
    left.set_xlim(-0.3, 2 * np.nanmax([1.0, *gradients, *forwards]))
    right.scatter(seconds, rows, c=colors, s=36)
    right.set_xscale("log")
    known = seconds[np.isfinite(seconds)]
    if len(known):
        right.set_xlim(known.min() / 2, 2 * known.max())
    for ax, words in ((left, "gradients (filled) and forwards (open)"), (right, "seconds")):
        _name_rows(ax, list(table.index))
        ax.set_title(f"cost: {words} for an input", fontsize=10)
        ax.set_xlabel(f"{words}, logarithmic", fontsize=8)


def _name_rows(ax: Axes, names: list[str]) -> None:
    ax.set_yticks(range(len(names)), [plain(name, LONGEST_NAME) for name in names], fontsize=8)
    ax.set_ylim(len(names) - 0.5, -0.5)
    ax.grid(axis="x", alpha=0.3)
