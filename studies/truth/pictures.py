"""Two pictures: gains of methods, net by net, and how methods treat a planted mark."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from studies.truth.candidates import CANDIDATES, IG, SHOWN

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DARK = 0.6  # from here on the colours are too dark for black numbers


def heat_map(told: Mapping[str, Any]) -> Figure | None:
    """Method × net: the gain, of the reporting half where there is one; those that are asked for most, in numbers.

    None of no results.
    """
    from matplotlib.figure import Figure

    half = "reporting" if told["summaries"]["reporting"] else "development"
    found = {net: of for net, of in told["summaries"][half].items() if told["nets"][net]["gate"] in ("", "marks")}
    methods = [name for name in SHOWN if any(name in of for of in found.values())]
    if not methods:
        return None
    table = np.array([[of.get(name, {}).get("gain", np.nan) for of in found.values()] for name in methods])
    figure = Figure(figsize=(4 + 0.6 * len(found), 2.4 + 0.32 * len(methods)), layout="constrained")
    ax = figure.add_subplot()
    ax.set_facecolor("0.85")  # not measured: neither good nor bad
    shown = ax.imshow(table, cmap="RdBu", vmin=-1, vmax=1, aspect="auto")
    for (row, column), gain in np.ndenumerate(table):
        if np.isfinite(gain):
            ink = "white" if abs(gain) > DARK else "black"
            ax.text(column, row, f"{gain:.2f}", ha="center", va="center", fontsize=8, color=ink)
    ax.set_yticks(range(len(methods)), [told["candidates"][method] for method in methods], fontsize=8)
    labels = [told["nets"][net]["title"].split(", which")[0] for net in found]
    ax.set_xticks(range(len(found)), labels, rotation=35, ha="right", fontsize=8)
    figure.colorbar(shown, ax=ax, label=f"gain, {half} half; grey: not measured", shrink=0.8)
    return figure


def marks_picture(told: Mapping[str, Any]) -> Figure | None:
    """How often the mark is among the first three patches, and how ΣA on it follows what removing it does."""
    from matplotlib.figure import Figure

    half = "reporting" if told["gates"]["reporting"] else "development"
    found = {
        m: of for m, of in told["gates"][half].items()
        if "mark among the first" in of and m in CANDIDATES and CANDIDATES[m].main
    }  # fmt: skip
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
