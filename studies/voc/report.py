"""The report of the VOC study, made from its stored results and nothing else."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import torch

from leastpath.commands.run_folder import RunFolder
from leastpath.evaluation.comparison import Comparison
from leastpath.report import Report, heatmaps
from leastpath.report.canvas import SERIES, new_figure
from studies.voc.backbones import Backbone
from studies.voc.config import LINE, VocConfig, contenders
from studies.voc.data import CLASSES, VocData
from studies.voc.explaining import map_key
from studies.voc.localisation import Place, darkest, localisation, located_table, place
from studies.voc.methods import GEODESIC_SAMPLED
from studies.voc.table2 import (
    FILLS,
    GLANCE,
    RIVAL,
    TITLES,
    at_a_glance,
    costs,
    markdown,
    readable,
    settings_table,
    table2,
    verdicts,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

KEY = (
    "Areas under the mean curves over 1 to 65 % of the values, ranked by |A|, with 95 % bootstrap intervals. AOC "
    "log-odds is log p(x) − log p(masked), as the authors' code has it. × IG is the ratio to Integrated Gradients on "
    "the same images; the paper's column is the same ratio in its Table 2, from another network. p-values are of "
    "paired sign-flip tests; in brackets corrected by Holm over all rows of the four tables."
)
PICTURES = 5  # images shown, of each kind
DRAWN = (  # methods whose heat maps are drawn, if there are more than fit on a page
    LINE, RIVAL, "geodesic_descent", "geodesic_idgi", GEODESIC_SAMPLED, "geodesic_variational", "guided_ig",
)  # fmt: skip


def write_report(run: RunFolder, data: VocData, config: VocConfig, found: Comparison, backbone: Backbone) -> None:
    """Everything to be read: report.html, table2.csv, results.csv, localisation.csv and figures."""
    record = run.store.read("explained").record
    done = [name for name in config.methods if (found.per_example["method"] == name).any()]
    titles = {name: method.title for name, method in contenders(config).items()}
    report = Report("Pascal VOC", _lead(config, found, backbone))
    report.section("The classifier").text(_classifier_sentence(run))
    if not done:
        run.write("report.html", report.text("No explanation is finished yet.").html())
        return
    table = table2(found, done)
    report.section("Masking: Table 2 of the paper, and ours").text(KEY)
    report.table(at_a_glance(table, titles), GLANCE.replace("*", "") + ".")
    for measure, title in TITLES.items():
        for fill in FILLS:
            rows = table[(table["fill"] == fill) & (table["measure"] == measure)]
            report.table(readable(rows, titles), f"{title}, masked values become {fill}.")
    report.table(
        verdicts(table, titles), "Differences on the same images, with the p-value of a paired test; * below 0.05."
    )
    words = "Mean curves over the images, as the share of masked values grows."
    run.show(report, draw_curves(found, done, titles), "curves", words)
    report.section("Heat maps").text(
        "Attributions summed over channels, each map on its own scale (its 99th percentile): red raises the score, "
        "blue lowers it. The baseline is " + config.baseline + "."
    )
    places = [
        place(data, config.size, name, target) for name, target in zip(record["names"], record["targets"], strict=True)
    ]
    shown = [p for p in places if all(map_key(m, p.name) in run.store for m in done)]
    for title, chosen in (("first", shown[:PICTURES]), ("dark objects", darkest(shown)[:PICTURES])):
        if figure := draw_maps(run, data, config, done, chosen):
            run.show(report, figure, f"heatmaps {title}".replace(" ", "_"), _caption(title), dpi=110)
    located = localisation(run, done, places)
    if len(located):
        report.section("Where attributions fall").table(*located_table(located, titles))
        run.write("localisation.csv", located.to_csv(index=False))
    report.section("Cost").table(
        costs(found, done, titles), "Means an image. Seconds are this machine's, and include its other work."
    )
    report.section("Settings").table(settings_table(config), "What differs from the methods' defaults is stated here.")
    if len(found.failures):
        report.section("Failures").table(found.failures)
    run.write("results.csv", found.per_example.to_csv(index=False))
    run.write("table2.csv", table.to_csv(index=False))
    more = {"Cost of an image": costs(found, done, titles).round(1)}
    if len(located):
        frame, words = located_table(located, titles)
        more = {f"Where attributions fall. {words}": frame, **more}
    run.write("table.md", markdown(table, titles, _lead(config, found, backbone), more))
    run.write("report.html", report.html())


def _lead(config: VocConfig, found: Comparison, backbone: Backbone) -> str:
    counts = found.per_example.groupby("method")["name"].nunique()
    n = f"{counts.min()} to {counts.max()}" if len(counts) and counts.min() < counts.max() else f"{counts.max()}"
    after = f", after {config.skip} that were left out" if config.skip else ""
    short = "" if found.finished else f" Unfinished, of {config.images}: go on with --resume."
    return (
        f"{n} validation images{after}, {config.size} × {config.size}, {backbone.name} with a trained head; explained: "
        f"the {config.output} of the predicted class, from a {config.baseline} baseline.{short}"
    )


def _classifier_sentence(run: RunFolder) -> str:
    head = run.store.read("head").record
    return (
        f"A linear head on frozen features of {head['train_images']} training images (binary cross-entropy, AdamW, "
        f"stopped by a held-out tenth after {head['epochs']} epochs): mean average precision "
        f"{head['mean_average_precision']:.3f} on {head['val_images']} validation images; the class it ranks first is "
        f"in the image for {head['top_class_is_present']:.0%}."
    )


def draw_curves(found: Comparison, methods: Sequence[str], titles: Mapping[str, str]) -> Figure:
    """Comprehensiveness and log-probability ratio over the masked share, for both fills."""
    figure = new_figure(11, 7.5)
    axes = figure.subplots(2, 2, sharex=True, sharey="row")
    for i, measure in enumerate(TITLES):
        for j, fill in enumerate(FILLS):
            ax, chosen = axes[i, j], found.curves[found.curves["measure"] == f"{measure} {fill}"]
            for k, method in enumerate(methods):
                mean = chosen[chosen["method"] == method].groupby("x")["value"].mean()
                style = ("-", "--", ":")[k // len(SERIES) % 3]
                ax.plot(mean.index, mean.to_numpy(), style, color=SERIES[k % len(SERIES)], label=titles[method])
            ax.set_title(
                f"{'p(x) − p(masked)' if i == 0 else 'log p(masked) − log p(x)'}, filled {fill}", fontsize="medium"
            )
            ax.grid(alpha=0.3)
            if i == 1:
                ax.set_xlabel("share of values masked, highest |A| first")
    axes[0, 0].set_ylabel("comprehensiveness: higher is better")
    axes[1, 0].set_ylabel("log-odds: lower is better")
    figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside right center", fontsize="small", frameon=False)
    return figure


def _caption(title: str) -> str:
    if title == "first":
        return "The first images of the sample."
    return "The images whose explained object is darkest: x − x̄ vanishes on black pixels, and with it IG's attribution."


def draw_maps(
    run: RunFolder, data: VocData, config: VocConfig, methods: Sequence[str], places: Sequence[Place]
) -> Figure | None:
    """One row an image, one column a method; None where there is no image."""
    if len(methods) > len(DRAWN):
        methods = [name for name in DRAWN if name in methods] or list(methods[: len(DRAWN)])
    if not places:
        return None
    images = data.images([p.name for p in places], config.size)
    columns, titles = {}, {name: method.title for name, method in contenders(config).items()}
    for method in methods:
        planes = torch.stack([run.store.read(map_key(method, p.name)).arrays["sum"] for p in places])
        ends = planes.abs().flatten(1).quantile(0.99, dim=1).clamp_min(torch.finfo(planes.dtype).tiny)
        columns[titles[method]] = (planes / ends.view(-1, 1, 1))[:, None]
    return heatmaps(columns, images, scale=1.0, rows=[CLASSES[p.target] for p in places])
