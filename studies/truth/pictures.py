"""Two pictures: gains of every method relative to IG's, and how methods treat a planted mark."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from studies.truth.candidates import IG

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def heat_map(told: Mapping[str, Any]) -> Figure | None:
    """Method × (net, fill): the gain minus IG's on the same examples, of the reporting half where there is one.

    None of no results.
    """
    from matplotlib.figure import Figure

    half = "reporting" if told["summaries"]["reporting"] else "development"
    found = {
        net: of for net, of in told["summaries"][half].items()
        if IG in of and told["nets"][net]["gate"] in ("", "marks")
    }  # fmt: skip
    if not found:
        return None
    methods = [method for method in told["candidates"] if any(method in of for of in found.values())]
    columns = [(net, fill) for net, of in found.items() for fill in of[IG]["gains"]]
    paired = {
        (test["method"], test["net"], test["measure"]): test["difference"]
        for test in told["tests"]
        if (test["half"], test["rival"]) == (half, IG)
    }
    table = np.array(
        [[paired.get((method, net, f"gain {fill}"), np.nan) for net, fill in columns] for method in methods]
    )
    table[methods.index(IG)] = 0
    figure = Figure(figsize=(3.5 + 0.32 * len(columns), 1.8 + 0.27 * len(methods)), layout="constrained")
    ax = figure.add_subplot()
    limit = max(0.05, float(np.nanquantile(np.abs(table), 0.95)))
    ax.set_facecolor("0.85")  # not measured: neither better nor worse
    shown = ax.imshow(table, cmap="RdBu", vmin=-limit, vmax=limit, aspect="auto")
    ax.set_yticks(range(len(methods)), [told["candidates"][method] for method in methods], fontsize=8)
    labels = [f"{told['nets'][net]['title']}: {fill}" for net, fill in columns]
    ax.set_xticks(range(len(columns)), labels, rotation=90, fontsize=7)
    for edge in range(1, len(columns)):
        if columns[edge][0] != columns[edge - 1][0]:
            ax.axvline(edge - 0.5, color="black", linewidth=0.8)
    figure.colorbar(
        shown, ax=ax, label=f"gain − IG's on the same examples ({half} half); grey: not measured", shrink=0.8
    )
    return figure


def marks_picture(told: Mapping[str, Any]) -> Figure | None:
    """How often the mark is among the first three patches, and how ΣA on it follows what removing it does."""
    from matplotlib.figure import Figure

    half = "reporting" if told["gates"]["reporting"] else "development"
    found = {m: of for m, of in told["gates"][half].items() if "mark among the first" in of}
    if not found:
        return None
    figure = Figure(figsize=(8, 1 + 0.3 * len(found)), layout="constrained")
    axes = figure.subplots(1, 2, sharey=True)
    for ax, name in zip(axes, ("mark among the first", "mark follows removal"), strict=True):
        ax.barh(range(len(found)), [of.get(name, np.nan) for of in found.values()], color="#4477aa")
        if IG in found:
            ax.axvline(found[IG].get(name, np.nan) - 0.05, color="black", linestyle=":", linewidth=1)
        ax.set_title(name, fontsize=9)
    figure.suptitle("The planted mark; dotted: IG less 5 points", fontsize=9)
    axes[0].set_yticks(range(len(found)), [told["candidates"][method] for method in found], fontsize=8)
    axes[0].invert_yaxis()
    return figure
