"""The measured part of the page on verdicts, and its picture. All words around it are written by hand."""

from __future__ import annotations

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
    parts = [f"{part}\n" for part in (_verdicts(told), _sentences(told), _power(told)) if part]
    return f"{before}{BEGIN}\n\n{''.join(parts)}{END}{after}"


def _verdicts(told: Mapping[str, Any]) -> str:
    titles = list(told["verdicts"])
    if not titles:
        return ""
    rows = []
    for name, kind in KINDS.items():
        cells = [told["verdicts"][title].get(name) for title in titles]
        if any(cells):
            title = f"**{kind.title}**" if kind.good else kind.title
            rows.append([title, *("" if cell is None else _write_share(cell) for cell in cells)])
    counts = [str(max(cell["n"] for cell in told["verdicts"][title].values())) for title in titles]
    return markdown_table(["share supported", *titles], [["*inputs*", *counts], *rows])


def _write_share(cell: Mapping[str, Any]) -> str:
    """The share supported; in brackets the share with at least the first p-value below .05.

    Example:
        >>> _write_share({"n": 200, "supported": 190, "better than chance": 6})
        '.950 (.980)'
    """
    above = cell["supported"] + cell["better than chance"]
    return f"{_decimal(cell['supported'], cell['n'])} ({_decimal(above, cell['n'])})"


def _decimal(hits: int, n: int) -> str:
    text = f"{hits / n:.3f}" if n >= 100 else f"{hits / n:.2f}"
    return text.removeprefix("0") if hits < n else text


def _sentences(told: Mapping[str, Any]) -> str:
    trusted = [f"{title} {of['trust']} of {of['n']}" for title, of in told["four random"].items()]
    lines = [f"Four random maps judged together, as `explain` does, and one of them trusted: {', '.join(trusted)}."]
    for title, of in told["band"].items():
        lines.append(
            f"Elastic band on {title}: {of['supported']} of {of['n']} supported, {of['unsupported']} unsupported, "
            f"{of['though better than chance']} of them though better than chance."
        )
    undecided = [
        f"{title} {sum(of['undecided'] for name, of in kinds.items() if KINDS[name].good)} of "
        f"{sum(of['n'] for name, of in kinds.items() if KINDS[name].good)} good maps"
        for title, kinds in told["verdicts"].items()
        if any(of["undecided"] for of in kinds.values())
    ]
    lines += [f"Undecided: {', '.join(undecided)}."] if undecided else []
    return "\n\n".join(lines) + "\n" if trusted else ""


def _power(told: Mapping[str, Any]) -> str:
    tables = []
    for title, levels in told["power"].items():
        kinds = [name for name in KINDS if all(name in of for of in levels.values()) and KINDS[name].good]
        rows = [
            [KINDS[name].title, *(_write_share(of[name] | _above(of[name])) for of in levels.values())]
            for name in kinds
        ]
        n = next(iter(next(iter(levels.values())).values()))["n"]
        head = [f"{title}, {n} inputs: removals", *levels]
        tables.append(markdown_table(head, rows))
    return "\n".join(tables)


def _above(of: Mapping[str, int]) -> dict[str, int]:
    return {"better than chance": max(0, of["better than chance"] - of["supported"])}


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
