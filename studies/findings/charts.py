"""One chart a finding: bars of a column or two of the section's table, drawn when the page is written."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from leastpath.report.canvas import new_figure

NUMBER = re.compile(r"[−-]?\d[\d,]*\.?\d*(?:e[−-]?\d+)?")
CELLS = re.compile(r"(?<!\\)\|")  # a bar in a cell is written \|
COLORS = ("#2a6f97", "#e07a3f")


@dataclass(frozen=True)
class Chart:
    """Which columns of the first table of a section are drawn."""

    columns: tuple[str, ...]
    labels: int = 1  #: columns at the left that name a row
    logarithmic: bool = False


CHARTS: Mapping[str, Chart] = {
    "Who wins where": Chart(("gain", "IG")),
    "Half-moons: the paper's Table 1": Chart(("ours", "paper")),
    "Pascal VOC: the paper's Table 2": Chart(("comprehensiveness, grey", "comprehensiveness, black")),
    "Objects, and their dark pixels": Chart(("on the object", "on its dark pixels")),
    "Short paths on photographs": Chart(("ratio",), logarithmic=True),
    "The sign of the energy": Chart(("cancellation, mean",), labels=2),
    "β and the learning rate": Chart(("mean / IG's",)),
    "The metric": Chart(("cancellation, mean",)),
    "The baseline": Chart(("rank correlation",)),
    "The explained output": Chart(("length ratio", "Geodesic IG's / IG's")),
    "A flat region": Chart(("spread of A₀",)),
    "A planted shortcut": Chart(("on the mark",)),
    "Other domains": Chart(("length ratio, median",)),
    "Other architectures": Chart(("black fill", "mean fill")),
}
"""By title of a section."""


def with_charts(page: str, folder: Path) -> str:
    """The page with a picture after the first paragraph of each section in `CHARTS`; pictures go to folder/_generated.

    Example:
        >>> with_charts("# Nothing to draw\\n", Path("docs"))
        '# Nothing to draw\\n'
    """
    head, *sections = re.split(r"^## ", page, flags=re.M)
    (folder / "_generated").mkdir(exist_ok=True)
    return "## ".join([head, *(_with_chart(section, folder) for section in sections)])


def _with_chart(section: str, folder: Path) -> str:
    title, _, body = section.partition("\n\n")
    if title not in CHARTS:
        return section
    names, bars = bars_of(body, CHARTS[title])
    file = f"_generated/finding_{'_'.join(re.findall('[a-z]+', title.lower()))}.png"
    _draw(names, bars, CHARTS[title].logarithmic, folder / file)
    lead, _, rest = body.partition("\n\n")
    return f"{title}\n\n{lead}\n\n![{title}: {' and '.join(bars)}]({file})\n\n{rest}"


def bars_of(body: str, chart: Chart) -> tuple[list[str], dict[str, list[float]]]:
    """Names of the rows of the first table, and by column the first number of each cell, NaN where there is none.

    Example:
        >>> bars_of("| who | ours |\\n| :--- | ---: |\\n| IG | −0.5 ± 0.1 |\\n| none | – |", Chart(("ours",)))
        (['IG', 'none'], {'ours': [-0.5, nan]})
    """
    lines = [[cell.strip() for cell in CELLS.split(line)[1:-1]] for line in _first_table(body)]
    heads, rows = lines[0], lines[2:]
    names = [", ".join(row[: chart.labels]).replace("\\|", "|") for row in rows]
    return names, {name: [_number(row[heads.index(name)]) for row in rows] for name in chart.columns}


def _first_table(body: str) -> list[str]:
    lines = body.splitlines()
    first = next(i for i, line in enumerate(lines) if line.startswith("|"))
    after = (i for i, line in enumerate(lines) if i > first and not line.startswith("|"))
    return lines[first : next(after, len(lines))]


def _number(cell: str) -> float:
    found = NUMBER.search(cell)
    return float(found[0].replace("−", "-").replace(",", "")) if found else float("nan")


def _draw(names: Sequence[str], bars: Mapping[str, Sequence[float]], logarithmic: bool, file: Path) -> None:
    figure = new_figure(8, 0.9 + 0.22 * len(names) * (1 + 0.3 * (len(bars) - 1)))
    axis = figure.subplots()
    thick = 0.8 / len(bars)
    for i, (column, values) in enumerate(bars.items()):
        places = [row + (i - (len(bars) - 1) / 2) * thick for row in range(len(names))]
        axis.barh(places, values, thick, color=COLORS[i], label=column)
    axis.set_yticks(range(len(names)), names, fontsize=8)
    axis.invert_yaxis()
    if logarithmic:
        axis.set_xscale("log")
    if len(bars) == 1:
        axis.set_xlabel(next(iter(bars)))
    else:
        axis.legend(fontsize=8)
    axis.spines[["top", "right"]].set_visible(False)
    figure.savefig(file, dpi=90)
