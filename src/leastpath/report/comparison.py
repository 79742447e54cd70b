"""A comparison of methods as a figure and as an HTML table."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from leastpath.report.canvas import SERIES, new_figure, plain

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def comparison_figure(
    table: pd.DataFrame, curves: pd.DataFrame, methods: Sequence[str], higher_is_better: Mapping[str, bool]
) -> Figure:
    """Every measure with its interval and, where it has one, its mean curve; below, the cost of each method.

    Args:
        table: a row a method; columns (measure, mean | low | high) and ("cost", gradients | forwards | seconds).
        curves: one row a point: method, measure, x, value.
        methods: all of them, in the order of their colours.
        higher_is_better: by the name of each measure.
    """
    n_rows = len(higher_is_better) + 1
    figure = new_figure(11, (1.1 + 0.28 * len(table)) * n_rows)
    axes = figure.subplots(n_rows, 2, squeeze=False)
    dashes = ("-", "--", ":", "-.")
    styles = {
        method: (SERIES[i % len(SERIES)], dashes[i // len(SERIES) % len(dashes)]) for i, method in enumerate(methods)
    }
    for row, (measure, higher) in zip(axes, higher_is_better.items(), strict=False):
        _draw_intervals(row[0], table, measure, styles)
        row[0].set_title(f"{plain(measure)} ({'higher' if higher else 'lower'} is better)", fontsize=10)
        if (curves["measure"] == measure).any():
            _draw_curves(row[1], curves, measure, styles)
        else:
            row[1].set_axis_off()
    _draw_costs(axes[-1, 0], axes[-1, 1], table, styles)
    return figure


def comparison_table(words: pd.DataFrame) -> str:
    """The table in words, a row a method, as HTML: intervals below their means, the best mean (marked *) in bold."""
    head = "".join(f"<th>{html.escape(column)}</th>" for column in words.columns)
    rows = "".join(
        f"<tr><th>{html.escape(str(method))}</th>{''.join(_cell(text) for text in row)}</tr>"
        for method, row in zip(words.index, words.to_numpy(), strict=True)
    )
    head = f"<thead><tr><th>method</th>{head}</tr></thead>"
    return f'<div class="table"><table>{head}<tbody>{rows}</tbody></table></div>'


def _cell(text: str) -> str:
    mean, bracket, interval = html.escape(text.rstrip(" *=")).partition(" [")
    mark = text[-1:].strip() if text[-1:] in "*=" else ""
    mean = f"<strong>{mean}</strong>" if mark == "*" else mean
    below = f"<br><small>{bracket.strip()}{interval}</small>" if bracket else ""
    return f'<td style="white-space:nowrap">{mean}{mark}{below}</td>'


def _draw_intervals(ax: Axes, table: pd.DataFrame, measure: str, styles: Mapping[str, tuple[str, str]]) -> None:
    for y, method in enumerate(table.index):
        mean, low, high = (table.loc[method, (measure, part)] for part in ("mean", "low", "high"))
        ax.plot([low, high], [y, y], color=styles[method][0], linewidth=2)
        ax.plot([mean], [y], "o", color=styles[method][0])
    _name_rows(ax, list(table.index))
    ax.locator_params(axis="x", nbins=5)


def _draw_curves(ax: Axes, curves: pd.DataFrame, measure: str, styles: Mapping[str, tuple[str, str]]) -> None:
    for method, group in curves[curves["measure"] == measure].groupby("method", sort=False):
        mean = group.groupby("x")["value"].mean()
        color, line = styles[str(method)]
        ax.plot(mean.index, mean.to_numpy(), line, color=color, label=plain(method), linewidth=1.4)
    ax.set_title(f"{plain(measure)}: mean curve", fontsize=10)
    ax.set_xlabel("x")
    ax.legend(fontsize=7, frameon=False, ncols=2)


def _draw_costs(left: Axes, right: Axes, table: pd.DataFrame, styles: Mapping[str, tuple[str, str]]) -> None:
    for ax, cost in ((left, "gradients"), (right, "seconds")):
        for y, method in enumerate(table.index):
            color = styles[method][0]
            ax.plot([max(table.loc[method, ("cost", cost)], 1e-9)], [y], "o", color=color)
            if cost == "gradients":
                ax.plot([max(table.loc[method, ("cost", "forwards")], 1e-9)], [y], "o", color=color, fillstyle="none")
        _name_rows(ax, list(table.index))
        ax.set_xscale("symlog" if cost == "gradients" else "log")
    left.set_xlim(left=-0.2)
    left.set_title("gradients (filled) and forwards (open) an input", fontsize=10)
    right.set_title("seconds an input", fontsize=10)


def _name_rows(ax: Axes, names: list[str]) -> None:
    ax.set_yticks(range(len(names)), [plain(name) for name in names], fontsize=8)
    ax.set_ylim(len(names) - 0.5, -0.5)
    ax.grid(axis="x", alpha=0.3)
