"""The page that `leastpath explain` writes: the verdict, the pictures, the removal curves and the evidence."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from leastpath._support.checks import write_number
from leastpath.attribution import DEFAULTS
from leastpath.commands.answers import EVIDENCE, Answer
from leastpath.commands.case import Case
from leastpath.commands.run_folder import RunFolder
from leastpath.commands.verdict import verdict
from leastpath.explorer.findings import EVIDENCE as MEANINGS
from leastpath.report import Report, bars
from leastpath.report.canvas import LONGEST_NAME, SERIES, new_figure, plain, tick, without_ticks, write_title
from leastpath.report.heat import PANEL, comparable, heat_row, to_display

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

SIDE_BY_SIDE = 4  # methods in one row of pictures
MOST_BARS, MOST_LETTERS = 10, 44
OF_MAP = "Red speaks for it, blue against it; where the picture is grey, the map says nothing."
OF_PICTURES = (
    "Red raises the score, blue lowers it. Top: smoothed, each method on its own scale. Middle: the sums over patches, "
    "which are what the test removes. Bottom: every pixel, channels summed. Methods share a scale where their scales "
    "are within tenfold of each other. Best support first."
)
OF_BARS = (
    "The largest attributions of each method, as column = its cell (the baseline's): right raises the score, left "
    "lowers it. Best support first."
)
OF_EVIDENCE = " ".join(f"{label}: {meaning}" for label, meaning in (MEANINGS[name] for name in EVIDENCE))


def write_report(run: RunFolder, case: Case, found: Sequence[Answer], title: str, baselines: str) -> str:
    """report.html, and the same pictures as PNG in figures/. Returns the verdict."""
    said = verdict({a.title: a.trial for a in found}, is_probability=found[0].is_probability)
    report = Report(title, _lead(case, baselines))
    report.section("Verdict").text(said.replace("\n", "\n\n"))
    if case.features is None:
        first = _first(found)
        run.show(report, _map(case, first), "map", f"{first.title}. {OF_MAP} {first.record['status']}")
    report.section("What the model says").table(_in_percent(case.top))
    report.section("Attributions")
    if case.features is not None:
        run.show(report, _bars(case.labels, found), "attributions", OF_BARS)
    else:
        for i in range(0, len(found), SIDE_BY_SIDE):
            name = "attributions" if i == 0 else f"attributions-{i // SIDE_BY_SIDE + 1}"
            caption = OF_PICTURES if i == 0 else "The same of other methods."
            run.show(report, _heat(case, found[i : i + SIDE_BY_SIDE], baselines), name, caption)
    what = "columns" if case.features is not None else "patches"
    report.section("Removal")
    words = (
        f"Left: the {what} that a method ranks first are replaced by the baseline; lower is better. Right: only these "
        "are left; higher is better. Support is about the mean height of a method's right curve above its left one."
    )
    run.show(report, _removal(found), "removal", words)
    report.section("Evidence").table(_evidence(found), OF_EVIDENCE)
    for answer in found:
        report.text(f"{answer.title}: {answer.record['status']}")
    run.write("report.html", report.html())
    return said


def _in_percent(top: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The model's first classes, with their probabilities as people write them."""
    return [{name: _percent(of[name]) if name == "probability" else of[name] for name in of} for of in top]


def _percent(share: float) -> str:
    """
    Example:
        >>> _percent(0.5712), _percent(1.5e-6), _percent(0.9999985)
        ('57.1 %', '< 0.1 %', '> 99.9 %')
    """
    if share < 0.001:
        return "< 0.1 %"
    return "> 99.9 %" if 0.999 < share < 1 else f"{100 * share:.1f} %"


def _lead(case: Case, baselines: str) -> str:
    several = len(case.each_baseline) > 1
    start = f"{'Baselines' if several else 'Baseline'}: {baselines.replace(',', ', ')}."
    if case.features is not None:
        return f"Explained: {case.explained}. {start}"
    side = case.inputs.shape[-1]
    return f"Explained: {case.explained}, on {side} × {side} pixels (`--size`). {start}"


def _first(found: Sequence[Answer]) -> Answer:
    """Whose map is shown first: the one that `attribute` makes of pictures, or else the best supported."""
    usual = DEFAULTS["image"].title
    return next((answer for answer in found if answer.title == usual), found[0])


def _map(case: Case, answer: Answer) -> Figure:
    """The picture, and one map over it."""
    figure = new_figure(4 * PANEL, 2 * PANEL)
    picture, over = figure.subplots(1, 2)
    without_ticks([picture])
    picture.imshow(to_display(case.inputs[0].numpy(), (0.0, 1.0)), cmap="gray", vmin=0, vmax=1)
    write_title(picture, "the picture")
    heat_row([over], [answer.values], case.inputs, view="smooth", colorbar=False)
    write_title(over, _title_of(answer))
    return figure


def _heat(case: Case, found: Sequence[Answer], baselines: str) -> Figure:
    """One column per method, one row per view; left of them the picture and its baselines."""
    figure = new_figure(PANEL * (len(found) + 1), 3 * PANEL + 1.3)
    axes = figure.subplots(3, len(found) + 1, squeeze=False)
    starts, names = case.each_baseline, [name.strip() for name in baselines.split(",")]
    known = names if len(names) == len(starts) else ["one of several"] * len(starts)
    shown = [("the picture", case.inputs)]
    shown += [(f"baseline: {name}", start) for name, start in zip(known, starts, strict=True)][:2]
    without_ticks(axes[:, 0])
    for ax in axes[len(shown) :, 0]:
        ax.axis("off")
    for ax, (name, picture) in zip(axes[:, 0], shown, strict=False):
        ax.imshow(to_display(picture[0].numpy(), (0.0, 1.0)), cmap="gray", vmin=0, vmax=1)
        write_title(ax, name)
    values = [answer.values for answer in found]
    heat_row(list(axes[0, 1:]), values, case.inputs, view="smooth", share=False, colorbar=False)
    heat_row(list(axes[1, 1:]), values, case.inputs, view="patches", bars_below=True)
    heat_row(list(axes[2, 1:]), values, bars_below=True)
    for ax, answer in zip(axes[0, 1:], found, strict=True):
        write_title(ax, _title_of(answer))
    for ax, view in zip(axes[:, 1], ("smoothed", "patches", "pixels"), strict=True):
        ax.set_ylabel(view)
    return figure


def _bars(names: Sequence[str], found: Sequence[Answer]) -> Figure:
    """Two methods beside each other, on one scale where their scales are within tenfold."""
    columns = min(2, len(found))
    names = [name if len(name) <= MOST_LETTERS else f"{name[: MOST_LETTERS - 1]}…" for name in names]
    rows, wide = -(-len(found) // columns), 5.5 + 0.06 * max(0, max(map(len, names)) - 20)  # bars keep their room
    figure = new_figure(wide * columns, rows * (1.2 + 0.3 * (min(MOST_BARS, len(names)) + 1)))
    grid = figure.subplots(rows, columns, squeeze=False)
    largest = [float(a.values.abs().max()) for a in found if a.values.any()]
    for ax in grid.flatten()[len(found) :]:
        ax.axis("off")
    for ax, answer in zip(grid.flatten(), found, strict=False):
        bars(answer.values[0], names, top=MOST_BARS, ax=ax)
        write_title(ax, _title_of(answer))
        ax.set_xlabel("")  # the caption says it
    if comparable(largest):
        ends = [ax.get_xlim() for ax in grid.flatten()[: len(found)]]  # with the sum of the others
        for ax in grid.flatten()[: len(found)]:
            ax.set_xlim(min(low for low, _ in ends), max(high for _, high in ends))
    return figure


def _title_of(answer: Answer) -> str:
    return f"{answer.title}\nsupport {write_number(answer.support, 2)}"


def _removal(found: Sequence[Answer]) -> Figure:
    figure = new_figure(10, 3.8)
    axes = figure.subplots(1, 2, sharey=True)
    for ax, name, words in ((axes[0], "deletion", "removed"), (axes[1], "insertion", "kept")):
        for color, answer in zip(SERIES, found, strict=False):
            ax.plot(answer.x, getattr(answer, name), color=color, label=plain(answer.title, LONGEST_NAME))
        ax.set_xlabel(f"share {words}, ranked first goes first")
        ax.grid(alpha=0.3)
        ax.yaxis.set_major_formatter(tick)
    axes[0].set_ylabel("probability" if found[0].is_probability else "score")
    axes[1].legend(frameon=False, fontsize="small")
    return figure


def _evidence(found: Sequence[Answer]) -> pd.DataFrame:
    import pandas as pd

    def row(answer: Answer) -> dict[str, Any]:
        named = {name.replace("n_", "").replace("_", " "): answer.record[name] for name in EVIDENCE}
        return {**named, "seconds": answer.record["seconds"]}

    return pd.DataFrame.from_dict({a.title: row(a) for a in found}, orient="index")
