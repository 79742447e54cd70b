"""The measured part of the page on verdicts, its CSV and its picture. All words around it are written by hand."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from studies.markdown import markdown_table
from studies.verdict.kinds import KINDS

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BEGIN, END = "<!-- measured: written by studies.verdict -->", "<!-- end of what is measured -->"


def write_page(told: Mapping[str, Any], kept: str) -> str:
    """The page as it is, with its measured part written anew.

    Example:
        >>> write_page({"verdicts": {}, "four random": {}, "band": {}, "power": {}}, f"before {BEGIN} old {END} after")
        'before <!-- measured: written by studies.verdict -->\\n\\n<!-- end of what is measured --> after'
    """
    before, begin, rest = kept.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end):
        raise ValueError(f"the page has no place for what is measured: it needs {BEGIN} and {END}")
    table = _verdicts(told)
    return f"{before}{BEGIN}\n\n" + (f"{table}\n" if table else "") + f"{END}{after}"


def _verdicts(told: Mapping[str, Any]) -> str:
    """A row a kind of maps, its share supported; then what is counted over several maps of an input."""
    verdicts = told["verdicts"]
    if not verdicts:
        return ""
    good = [[of for name, of in kinds.items() if KINDS[name].good] for kinds in verdicts.values()]
    sums = [{key: sum(cell[key] for cell in cells) for key in ("n", "undecided")} for cells in good]
    rows = [
        ["*inputs*", *(max(cell["n"] for cell in of.values()) for of in verdicts.values())],
        *_rows_of(verdicts, good=True),
        ["*of these undecided*", *(_share(cell, "undecided") for cell in sums)],
        ["**elastic band**", *(_share(told["band"].get(title)) for title in verdicts)],
        *_rows_of(verdicts, good=False),
        ["four random maps, one trusted", *(_share(told["four random"].get(title), "trust") for title in verdicts)],
    ]
    return markdown_table(["share supported", *verdicts], rows)


def _rows_of(verdicts: Mapping[str, Any], *, good: bool) -> list[list[str]]:
    rows = []
    for name, kind in KINDS.items():
        cells = [of.get(name) for of in verdicts.values()]
        if kind.good == good and any(cells):
            rows.append([f"**{kind.title}**" if good else kind.title, *map(_share, cells)])
    return rows


def _share(cell: Mapping[str, Any] | None, what: str = "supported") -> str:
    """Hits over inputs, without the zero before the point; nothing where nothing was judged.

    Example:
        >>> _share({"n": 200, "supported": 190}), _share({"n": 60, "trust": 2}, "trust"), _share(None)
        ('.950', '.03', '')
    """
    if not cell or not cell["n"]:
        return ""
    hits, n = cell[what], cell["n"]
    text = f"{hits / n:.3f}" if n >= 100 else f"{hits / n:.2f}"
    return text.removeprefix("0") if hits < n else text


COLUMNS = (
    "inputs", "map", "removals", "n", "supported", "p_value <= .05", "undecided", "unsupported",
    "unsupported though p_value <= .05", "low", "high",
)  # fmt: skip


def write_csv(told: Mapping[str, Any]) -> str:
    """All counts, also those of other numbers of removals, as CSV."""
    text = io.StringIO()
    writer = csv.DictWriter(text, COLUMNS, lineterminator="\n", extrasaction="ignore")
    writer.writeheader()
    for title, kinds in told["verdicts"].items():
        for name, of in kinds.items():
            above = {"p_value <= .05": of["supported"] + of["better than chance"]}
            writer.writerow({"inputs": title, "map": KINDS[name].title, "removals": "default", **of, **above})
    for title, of in told["four random"].items():
        row = {"inputs": title, "map": "four random maps, one trusted", "n": of["n"], "supported": of["trust"]}
        writer.writerow({"removals": "default", **row})
    for title, of in told["band"].items():
        worse = {"unsupported though p_value <= .05": of["though better than chance"]}
        writer.writerow({"inputs": title, "map": "elastic band", "removals": "default", **of, **worse})
    for title, levels in told["power"].items():
        for removals, kinds in levels.items():
            for name, of in kinds.items():
                above = {"p_value <= .05": max(of["supported"], of["better than chance"])}
                writer.writerow({"inputs": title, "map": KINDS[name].title, "removals": removals, **of, **above})
    return text.getvalue()


def draw_rates(told: Mapping[str, Any]) -> Figure | None:
    """The share supported of every kind of maps, with its interval: good ones above, controls below."""
    from matplotlib.figure import Figure

    titles = list(told["verdicts"])
    kinds = [name for name in KINDS if any(name in told["verdicts"][title] for title in titles)]
    if not kinds:
        return None
    figure = Figure(figsize=(8.5, 1.6 + 0.34 * len(kinds)), layout="constrained")
    ax = figure.add_subplot()
    colors = ["#4477aa", "#66ccee", "#228833", "#ccbb44", "#ee6677", "#aa3377", "#882255", "#bbbbbb", "#000000"]
    for i, title in enumerate(titles):
        for y, name in enumerate(kinds):
            of = told["verdicts"][title].get(name)
            if of is not None:
                at, color = y + 0.09 * (i - (len(titles) - 1) / 2), colors[i % len(colors)]
                ax.plot([of["low"], of["high"]], [at, at], color=color, linewidth=1.2)
                ax.plot([of["supported"] / of["n"]], [at], "o", color=color, markersize=3.5)
        ax.plot([], [], "o-", color=colors[i % len(colors)], markersize=3.5, label=title)
    ax.axvline(0.05, color="0.4", linestyle=":", linewidth=1)
    ax.axhline(sum(KINDS[name].good for name in kinds) - 0.5, color="0.4", linewidth=0.8)
    ax.set_yticks(range(len(kinds)), [KINDS[name].title for name in kinds], fontsize=8)
    ax.invert_yaxis()
    ax.set_xlim(-0.02, 1.02)
    ax.set_xlabel("share of inputs on which the map is called supported (95 % interval); dotted: 5 %", fontsize=8)
    ax.legend(fontsize=7, loc="lower right")
    return figure
