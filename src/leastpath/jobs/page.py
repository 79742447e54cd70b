"""report(): a page about a whole job: distributions of the evidence, the rows to look at, and the cost."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.stats import false_discovery_control
from torch import Tensor

from leastpath._support.checks import in_words, write_number
from leastpath.jobs.output import Explanations
from leastpath.jobs.shards import kind_of_failure
from leastpath.jobs.sources import Source, Table, source_of
from leastpath.removal.verdict import ALPHA, count_outcomes
from leastpath.report import Report, bars, heatmap
from leastpath.report.canvas import BLUE, new_figure, plain
from leastpath.result.status import Outcome

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

DISTRIBUTIONS = ["support", "completeness_gap", "cancellation", "certificate", "gradients"]
SHOWN = ["index", "name", "target", "score", "score_change", "support", "p_value", "p_model", "outcome",
         "completeness_gap", "cancellation", "certificate", "gradients", "seconds"]  # fmt: skip
COLUMNS = {
    "score": "what was explained, for this row",
    "score_change": "the score minus that of the baseline, which is what the values add up to",
    "support": "how much more the score loses without the features that come out as most important than without the "
    "least important ones; 0 is chance, higher is better, – is not tested",
    "p_value": "how often chance does as well as this explanation; at most 0.05 is evidence",
    "p_model": "how often orders do as well that know the row and not the model",
    "outcome": "supported: both are at most 0.05",
    "completeness_gap": "the sum of the values minus score_change; 0 is exact",
    "cancellation": "the sum of |values| minus |score_change|; 0 means that nothing cancels",
    "certificate": "length of the path over the shortest length possible; 1 is proven shortest",
    "gradients": "model gradients spent",
    "seconds": "of the row's batch, shared by its rows",
}
NEEDED = [*SHOWN, "forwards", "ok", "failure"]
SHARES = (0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99)


def report(
    found: Explanations | str | Path,
    path: str | Path | None = None,
    *,
    dataset: Any = None,
    worst: int = 5,
    **settings: Any,
) -> str:
    """A page about a job: distributions of support, completeness, cancellation and certificate, worst and slowest rows,
    why rows need a second look, cost.

    Args:
        found: the job's output, or its folder.
        path: where to write the page, if anywhere.
        dataset: the job's data, to draw the inputs below their attributions.
        worst: how many rows to show of each kind.
        settings: of the data, as in `source_of`.

    Only the numeric columns of the table are read, about 100 bytes per row.

    Example:
        >>> import tempfile, torch
        >>> import leastpath.jobs as jobs
        >>> rows = [torch.rand(2) for _ in range(4)]
        >>> found = jobs.explain(rows, lambda: lambda x: x.prod(1), out=tempfile.mkdtemp(), show=False)
        >>> report(found, dataset=rows)[:15]
        '<!DOCTYPE html>'
    """
    found = found if isinstance(found, Explanations) else Explanations(found)
    source = None if dataset is None else source_of(dataset, **settings)
    table = found.table(NEEDED)
    page = _begin_page(found, table)
    _add_cost(page, found, table)
    _add_second_look(page, found)
    page.section("Distributions").text(_support_in_words(table))
    page.table(_quantiles(table), "Quantiles over the rows that were explained.").terms(COLUMNS)
    page.figure(_histograms(table), "Each bar counts rows. Infinite certificates, where Δf vanishes, are left out.")
    done = table[table["failure"].isna()]
    for title, by, why in (
        ("Least support", -done["support"], "Removal confirms these explanations least."),
        ("Worst by completeness", done["completeness_gap"].abs(), "Largest |completeness gap|."),
        ("Worst by cancellation", done["cancellation"], "Most attribution cancels out."),
        ("Worst by certificate", done["certificate"], "Paths farthest from their lower bound."),
        ("Slowest", done["seconds"], "Seconds are a batch's, shared by its rows."),
    ):
        rows = _top(done, by, worst)
        if not len(rows):  # nothing of this kind was measured
            continue
        page.section(title).table(rows[SHOWN], why, index=False)
        figure = _pictures(found, source, rows)
        if figure is not None:
            page.figure(figure, "Attributions of these rows, from the left.", dpi=90)
    failed = table[table["failure"].notna()]
    if len(failed):
        page.section("Failures").table(_count_reasons(failed), "By reason, with the first rows that it happened to.")
    if path is not None:
        page.write(path)
    return page.html()


def _begin_page(found: Explanations, table: pd.DataFrame) -> Report:
    """The page with its title, and in a line what it is about."""
    method = found.config["method"]
    if isinstance(method, list):
        method = method[0]
    name = method.get("type", "a method") if isinstance(method, dict) else method
    state = "" if found.finished else f" {len(found.missing)} of {found.n_shards} shards are missing."
    doubtful = int((table["ok"].eq(False) & table["failure"].isna()).sum())
    look = f" {doubtful:,} of them need a second look." if doubtful else " None of them needs a second look."
    undecided = int(table["outcome"].eq(Outcome.UNDECIDED.value).sum())
    if undecided > len(table) / 2:
        look += f" On {undecided:,} the test decides nothing: does the model get columns as it was trained on them?"
    return Report("Explanations of a data set", f"{found.done:,} rows by {name}.{look}{state}")


def _add_cost(page: Report, found: Explanations, table: pd.DataFrame) -> None:
    seconds = sum(shard.record["seconds"] for shard in found.shards)
    size = sum(file.stat().st_size for shard in found.shards for file in (shard.values, shard.parquet))
    failed = int(table["failure"].notna().sum())
    page.section("Cost").table(
        {
            "rows": [len(table)],
            "failed": [failed],
            "need a second look": [int((table["ok"].eq(False) & table["failure"].isna()).sum())],
            "gradients": [write_number(int(table["gradients"].sum()))],
            "forwards": [write_number(int(table["forwards"].sum()))],
            "time of all workers": [in_words(seconds)],
            "rows per worker second": [len(table) / max(seconds, 1e-9)],
            "MB on disk": [size / 1e6],
        },
        digits=3,
    )


def _add_second_look(page: Report, found: Explanations) -> None:
    doubtful = _second_look(found)
    if len(doubtful):
        page.section("A second look").table(doubtful, "Why rows need one, by the words of their status.", index=False)


def _support_in_words(table: pd.DataFrame) -> str:
    support, tested = table["support"].dropna(), table[table["outcome"].notna()]
    if not len(tested):
        return "No row was tested by removal: the method says so itself, or failed."
    p = np.maximum(tested["p_value"], tested["p_model"]).to_numpy(dtype=float)
    sure = int((false_discovery_control(np.nan_to_num(p, nan=1.0)) <= ALPHA).sum())
    return (
        f"Of {len(table):,} rows {len(tested):,} were tested by removal. {count_outcomes(tested['outcome'])}. Single "
        f"rows that may be pointed at, after correction for so many tests (Benjamini–Hochberg, 5 %): {sure:,}. The "
        f"median support is {write_number(support.median())}."
    )


def _quantiles(table: pd.DataFrame) -> pd.DataFrame:
    return _finite(table).quantile(SHARES).rename(index="{:.0%}".format)


def _histograms(table: pd.DataFrame) -> Figure:
    known = _finite(table).dropna(axis=1, how="all")
    figure = new_figure(11, 2.6)
    # Clipped: a few extremes would put all other rows into one bar.
    clipped = known.clip(known.quantile(0.005), known.quantile(0.995), axis=1)
    axes = figure.subplots(1, max(1, len(known.columns)), squeeze=False)[0]
    for ax, column in zip(axes, known.columns, strict=False):
        ax.hist(clipped[column].dropna(), bins=40, color=BLUE)
        ax.set_title(column.replace("_", " "), fontsize=10)
        ax.set_ylabel("rows" if ax is axes[0] else "")
        ax.locator_params(axis="x", nbins=4)
    return figure


def _finite(table: pd.DataFrame) -> pd.DataFrame:
    """The distributions, with NaN in place of infinite numbers."""
    values = table[DISTRIBUTIONS].astype(float)
    return values.where(np.isfinite(values))


def _top(table: pd.DataFrame, by: pd.Series, n: int) -> pd.DataFrame:
    return table.loc[by[np.isfinite(by)].nlargest(n).index]


def _pictures(found: Explanations, source: Source | None, rows: pd.DataFrame) -> Figure | None:
    """The values of some rows side by side: heat maps of pictures, over them where the data are given, or bars."""
    if found.config["keep"] == "nothing" or not len(rows):
        return None
    each = [found.values(int(index), int(index) + 1) for index in rows["index"]]
    if not all(isinstance(values, Tensor) for values in each):
        return None  # a row of several inputs is not drawn
    are_pictures = each[0].ndim >= 3  # type: ignore[union-attr]
    # Bars stand beside the names of columns, which need room.
    columns = len(rows) if are_pictures else min(3, len(rows))
    lines = -(-len(rows) // columns)
    figure = new_figure(11, 2.8 * lines)
    axes = figure.subplots(lines, columns, squeeze=False).flatten()
    for ax in axes[len(rows) :]:
        ax.axis("off")
    for ax, index, name, values in zip(axes, rows["index"], rows["name"], each, strict=False):
        assert isinstance(values, Tensor)
        read = None if source is None else source.read(int(index), int(index) + 1).inputs
        if are_pictures:
            heatmap(values[0].float(), read[0] if isinstance(read, Tensor) else None, colorbar=False, ax=ax)
        else:
            names = source.columns if isinstance(source, Table) else None
            fits = names is not None and len(names) == values[0].numel()
            bars(values[0].float().flatten(), names if fits else None, top=8, ax=ax)
            ax.set_xlabel("")
            ax.tick_params(labelsize=8)
            ax.locator_params(axis="x", nbins=4)
        ax.set_title(plain(f"row {name}" if str(name).isdecimal() else str(name)[-24:]), fontsize=8)
    return figure


def _second_look(found: Explanations) -> pd.DataFrame:
    """Why rows are not ok, counted. Only the words of such rows are read."""
    import pyarrow.compute as pc

    needed = ~pc.field("ok") & pc.field("failure").is_null()
    return _count_reasons(found.rows.to_table(columns=["index", "reason"], filter=needed).to_pandas(), "reason")


def _count_reasons(failed: pd.DataFrame, column: str = "failure") -> pd.DataFrame:
    groups = failed.assign(reason=failed[column].map(kind_of_failure)).groupby("reason", sort=False)
    counted = groups["index"].agg(rows="count", first=lambda index: ", ".join(map(str, index.head(5))))
    shares = counted.assign(share=counted["rows"].map(lambda n: f"{n / len(failed):.0%} of these"))
    return shares.sort_values("rows", ascending=False).reset_index().rename(columns={"first": "first rows"})
