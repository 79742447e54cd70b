"""The one picture of the page: bars of the first table's numbers, drawn when the page is written."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from leastpath.report.canvas import new_figure
from studies.findings.asides import TABLE, cells_of

NUMBER = re.compile(r"[−-]?\d[\d,]*\.?\d*(?:e[−-]?\d+)?")
COLUMNS = {"gain": "the best method", "IDGI": "IDGI", "IG": "Integrated Gradients"}  # of the table -> in the legend
COLORS = ("#2a6f97", "#e0a33f", "#9aa5ac")


def draw_first_table(page: str, file: Path) -> None:
    """Draw the columns of `COLUMNS` of the page's first table, or nothing where it has none.

    Example:
        >>> draw_first_table("# Findings", Path("unused.png"))
    """
    table = TABLE.search(page)
    if table is None:
        return
    names, bars = bars_of(table[0])
    figure = new_figure(8, 0.9 + 0.36 * len(names))
    axis = figure.subplots()
    thick = 0.8 / len(bars)
    for i, (column, values) in enumerate(bars.items()):
        places = [row + (i - (len(bars) - 1) / 2) * thick for row in range(len(names))]
        axis.barh(places, values, thick, color=COLORS[i], label=COLUMNS[column])
    axis.set_yticks(range(len(names)), [name.replace(": ", ":\n", 1) for name in names], fontsize=7)
    axis.invert_yaxis()
    axis.set_xlabel("gain of removal (0 is chance)", fontsize=8)
    axis.legend(fontsize=8, loc="lower center", bbox_to_anchor=(0.5, 1), ncols=len(bars), frameon=False)
    axis.spines[["top", "right"]].set_visible(False)
    figure.savefig(file, dpi=90)


def bars_of(table: str) -> tuple[list[str], Mapping[str, Sequence[float]]]:
    """Names of the rows, with the best method, and by column the first number of each cell, NaN where there is none.

    Example:
        >>> bars_of("| net | best | gain | IDGI | IG |\\n| :--- | ---: |\\n| VOC | AGI | 0.4 ± 0.1 | – | −0.1 |\\n")
        (['VOC: AGI'], {'gain': [0.4], 'IDGI': [nan], 'IG': [-0.1]})
    """
    heads, *rows = cells_of(table)
    return [f"{row[0]}: {row[1]}" for row in rows], {
        name: [_number(row[heads.index(name)]) for row in rows] for name in COLUMNS
    }


def _number(cell: str) -> float:
    found = NUMBER.search(cell)
    return float(found[0].replace("−", "-").replace(",", "")) if found else float("nan")
