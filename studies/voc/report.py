"""Tables and figures of the VOC experiment, made from its stored results and nothing else."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from leastpath.commands.pictures import show
from leastpath.commands.run_folder import RunFolder
from leastpath.evaluation.comparison import Comparison
from leastpath.evaluation.statistics import bootstrap_interval, paired_test
from leastpath.report import Report, heatmaps
from leastpath.report.canvas import SERIES, new_figure
from studies.markdown import markdown_table
from studies.voc.data import CLASSES, VOID, VocData
from studies.voc.experiment import LINE, MEASURES, VocConfig, contenders, known_method, map_key

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

    from studies.voc.backbones import Backbone

PAPER = {  # Table 2: AUC-comprehensiveness, AOC-log-odds, seconds an image on an L4
    "input_x_gradient": (0.21, 1.28, 1.0),
    "gradient_shap": (0.18, 1.15, 2.0),
    "integrated_gradients": (0.21, 1.25, 1.0),
    "random": (0.16, 0.86, None),
    "kernel_shap": (0.16, 0.94, 60.0),
    "occlusion": (0.19, 1.16, 30.0),
    "guided_ig": (0.20, 1.18, 5.0),
    "geodesic_variational": (0.27, 1.44, 840.0),
}
RIVAL, CONTROL = "idgi", "idgi_sampled"
OTHERS = (LINE, RIVAL, CONTROL)  # what methods are tested against
FILLS = ("grey", "black")
TITLES = {"comprehensiveness": "AUC comprehensiveness", "log_prob_ratio": "AOC log-odds"}
KEY = (
    "Areas under the mean curves over 1 to 65 % of the values, ranked by |A|, with 95 % bootstrap intervals. AOC "
    "log-odds is log p(x) − log p(masked), as the authors' code has it. × IG is the ratio to Integrated Gradients on "
    "the same images; the paper's column is the same ratio in its Table 2, from another network. p-values are of "
    "paired sign-flip tests, without correction for the number of rows."
)
DARK = 0.2  # luminance below which a pixel of an object counts as dark
PICTURES = 5  # images shown, of each kind
DRAWN = (  # methods whose heat maps are drawn, if there are more than fit on a page
    LINE, RIVAL, "geodesic_descent", "geodesic_idgi", "geodesic_sampled", "geodesic_variational", "guided_ig",
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
    for measure, title in TITLES.items():
        for fill in FILLS:
            rows = table[(table["fill"] == fill) & (table["measure"] == measure)]
            report.table(_readable(rows, titles), f"{title}, masked values become {fill}.")
    report.table(
        verdicts(table, titles), "Differences on the same images, with the p-value of a paired test; * below 0.05."
    )
    words = "Mean curves over the images, as the share of masked values grows."
    show(report, run, draw_curves(found, done, titles), "curves", words)
    report.section("Heat maps").text(
        "Attributions summed over channels, each map on its own scale (its 99th percentile): red raises the score, "
        "blue lowers it. The baseline is " + config.baseline + "."
    )
    places = [
        place(run, data, config, name, target) for name, target in zip(record["names"], record["targets"], strict=True)
    ]
    shown = [p for p in places if all(map_key(m, p.name) in run.store for m in done)]
    for title, chosen in (("first", shown[:PICTURES]), ("dark objects", darkest(shown))):
        if figure := draw_maps(run, data, config, done, chosen):
            show(report, run, figure, f"heatmaps {title}".replace(" ", "_"), _caption(title), dpi=110)
    located = localisation(run, done, places)
    if len(located):
        report.section("Where attributions fall").table(*_located_table(located, titles))
        run.write("localisation.csv", located.to_csv(index=False))
    report.section("Cost").table(
        costs(found, done, titles), "Means an image. Seconds are this machine's, and include its other work."
    )
    report.section("Settings").table(_settings(config), "What differs from the methods' defaults is stated here.")
    if len(found.failures):
        report.section("Failures").table(found.failures)
    run.write("results.csv", found.per_example.to_csv(index=False))
    run.write("table2.csv", table.to_csv(index=False))
    more = {"Cost of an image": costs(found, done, titles).round(1)}
    if len(located):
        frame, words = _located_table(located, titles)
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


# ---- tables ------------------------------------------------------------------------------------------------------


def table2(found: Comparison, methods: Sequence[str]) -> pd.DataFrame:
    """One row a method, measure and fill: mean, interval, ratio to IG, the paper's ratio, paired tests."""
    import pandas as pd

    values = found.per_example.pivot_table(index="name", columns="method", values=_columns(found), sort=False)
    rows = []
    for fill in FILLS:
        for measure in MEASURES:
            each = values[f"{measure} {fill}"]
            rows += [_row(each, method, measure, fill) for method in methods if method in each]
    return pd.DataFrame(rows)


def _columns(found: Comparison) -> list[str]:
    return list(found.higher_is_better)


def _row(each: pd.DataFrame, method: str, measure: str, fill: str) -> dict[str, Any]:
    numbers = each[method].dropna()
    interval = bootstrap_interval(numbers.to_numpy())
    row: dict[str, Any] = {
        "fill": fill, "measure": measure, "method": method, "n": len(numbers), "mean": interval.mean,
        "low": interval.low, "high": interval.high, "ratio": np.nan, "paper_ratio": np.nan,
    }  # fmt: skip
    if LINE in each:
        both = each[[method, LINE]].dropna() if method != LINE else each[[LINE]].dropna()
        row["ratio"] = float(both[method].mean() / both[LINE].mean()) if len(both) else np.nan
    if method in PAPER and measure in TITLES:
        place = list(TITLES).index(measure)
        row["paper_ratio"] = float(PAPER[method][place] or np.nan) / float(PAPER[LINE][place] or np.nan)
    for other in OTHERS:
        row |= {f"difference_{other}": np.nan, f"p_{other}": np.nan}
        if other in each and other != method:
            both = each[[method, other]].dropna()
            if len(both) > 1:
                test = paired_test(both[method].to_numpy(), both[other].to_numpy())
                row |= {f"difference_{other}": test.difference, f"p_{other}": test.p_value}
    return row


def _readable(rows: pd.DataFrame, titles: Mapping[str, str]) -> pd.DataFrame:
    """One row a method, in words."""
    import pandas as pd

    table = {
        titles[row["method"]]: {
            "images": row["n"],
            "area": f"{row['mean']:.3f} [{row['low']:.3f}, {row['high']:.3f}]",
            "× IG": _short(row["ratio"], ".2f"),
            "paper's × IG": _short(row["paper_ratio"], ".2f"),
            "p against IG": _short(row[f"p_{LINE}"], ".2g"),
            "p against IDGI": _short(row[f"p_{RIVAL}"], ".2g"),
        }
        for row in rows.to_dict("records")
    }
    return pd.DataFrame.from_dict(table, orient="index")


def _short(value: float, spec: str) -> str:
    return "–" if np.isnan(value) else format(value, spec)


def verdicts(table: pd.DataFrame, titles: Mapping[str, str]) -> pd.DataFrame:
    """Our methods minus IG, IDGI and the control without geodesics: a row each, a column a measure and fill."""
    import pandas as pd

    found: dict[str, dict[str, str]] = {}
    for row in table.to_dict("records"):
        ours = row["method"].startswith("geodesic") or row["method"] == CONTROL
        if not ours or row["measure"] not in TITLES:
            continue
        for other in OTHERS:
            if not np.isnan(row[f"p_{other}"]):
                cells = found.setdefault(f"{titles[row['method']]} − {titles[other]}", {})
                star = " *" if row[f"p_{other}"] < 0.05 else ""
                text = f"{row[f'difference_{other}']:+.3f} (p = {row[f'p_{other}']:.2g}){star}"
                cells[f"{TITLES[row['measure']]}, {row['fill']}"] = text
    return pd.DataFrame.from_dict(found, orient="index")


def markdown(table: pd.DataFrame, titles: Mapping[str, str], lead: str, more: Mapping[str, pd.DataFrame]) -> str:
    """The four tables, the verdicts and more tables as a page that documentation can include."""
    parts = [lead]
    for measure, title in TITLES.items():
        for fill in FILLS:
            rows = table[(table["fill"] == fill) & (table["measure"] == measure)]
            parts += [f"**{title}, masked values become {fill}**", _piped(_readable(rows, titles))]
    parts += [
        "**Differences on the same images, with the p-value of a paired test; \\* below 0.05**",
        _piped(verdicts(table, titles)),
    ]
    for title, frame in more.items():
        parts += [title.replace("|", "\\|"), _piped(frame)]
    return "\n\n".join(parts) + "\n"


def _piped(frame: pd.DataFrame) -> str:
    known = frame.astype(object).where(frame.notna(), "–")
    rows = ([index, *row] for index, row in zip(known.index, known.to_numpy(), strict=True))
    return markdown_table(["", *map(str, frame.columns)], rows).rstrip()


def costs(found: Comparison, methods: Sequence[str], titles: Mapping[str, str]) -> pd.DataFrame:
    """Gradients, forwards and seconds an image, on average, beside the paper's seconds."""
    import pandas as pd

    means = found.per_example.groupby("method", sort=False)[["gradients", "forwards", "seconds"]].mean()
    rows = {
        titles[name]: {
            **means.loc[name].to_dict(), "paper's seconds (L4)": PAPER.get(name, (None, None, None))[2],
        }
        for name in methods
    }  # fmt: skip
    return pd.DataFrame.from_dict(rows, orient="index")


def _settings(config: VocConfig) -> list[dict[str, str]]:
    rows = []
    for name, method in contenders(config).items():
        usual = known_method(name).defaults
        changed = {k: v for k, v in method.defaults.items() if repr(v) != repr(usual[k])}
        rows.append(
            {"method": method.title, "settings": ", ".join(f"{k}={v}" for k, v in changed.items()) or "defaults"}
        )
    return rows


# ---- pictures ----------------------------------------------------------------------------------------------------


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


@dataclass(frozen=True)
class Place:
    """Where the explained object is in an image, if a mask says so."""

    name: str
    target: int
    object: Tensor | None
    """(height, width) the target class's pixels; None without mask, or where the class is not in it."""
    known: Tensor | None
    """(height, width) pixels that are no seam."""
    luminance: Tensor
    """(height, width) in [0, 1]."""

    @property
    def object_luminance(self) -> float:
        """Mean over the object; infinite without one."""
        return float("inf") if self.object is None else float(self.luminance[self.object].mean())


def place(run: RunFolder, data: VocData, config: VocConfig, name: str, target: int) -> Place:
    """Read an image's mask and brightness."""
    luminance = torch.einsum("chw,c->hw", data.images([name], config.size)[0], torch.tensor([0.299, 0.587, 0.114]))
    mask = data.mask(name, config.size)
    if mask is None:
        return Place(name, target, None, None, luminance)
    inside = mask == target + 1
    return Place(name, target, inside if inside.any() else None, mask != VOID, luminance)


def darkest(places: Sequence[Place]) -> list[Place]:
    """The images whose explained object is darkest: on a black baseline IG cannot see black pixels."""
    shown = [p for p in places if p.object is not None and int(p.object.sum()) > 0.03 * p.object.numel()]
    return sorted(shown, key=lambda p: p.object_luminance)[:PICTURES]


def _caption(title: str) -> str:
    if title == "first":
        return "The first images of the sample."
    return "The images whose explained object is darkest: x − x̄ vanishes on black pixels, and with it IG's attribution."


def draw_maps(
    run: RunFolder, data: VocData, config: VocConfig, methods: Sequence[str], places: Sequence[Place]
) -> Figure | None:
    """One row an image, one column a method; None where there is no image."""
    if len(methods) > len(DRAWN):
        methods = [name for name in DRAWN if name in methods]
    if not places:
        return None
    images = data.images([p.name for p in places], config.size)
    columns, titles = {}, {name: method.title for name, method in contenders(config).items()}
    for method in methods:
        planes = torch.stack([run.store.read(map_key(method, p.name)).arrays["sum"] for p in places])
        ends = planes.abs().flatten(1).quantile(0.99, dim=1).clamp_min(torch.finfo(planes.dtype).tiny)
        columns[titles[method]] = (planes / ends.view(-1, 1, 1))[:, None]
    return heatmaps(columns, images, scale=1.0, rows=[CLASSES[p.target] for p in places])


# ---- localisation ------------------------------------------------------------------------------------------------


def localisation(run: RunFolder, methods: Sequence[str], places: Sequence[Place]) -> pd.DataFrame:
    """How much of Σ|A| falls on the explained object, and on its dark pixels, for images with a mask.

    `inside` is the object's share of Σ|A|, over its share of the area in `gain`; `pointing` whether the largest pixel
    is on it; `dark_gain` the mean |A| of the object's dark pixels over that of the whole object.
    """
    import pandas as pd

    rows = []
    for p in places:
        if p.object is None or p.known is None:
            continue
        for method in methods:
            if map_key(method, p.name) in run.store:
                rows.append(
                    {
                        "method": method,
                        "name": p.name,
                        **located(run.store.read(map_key(method, p.name)).arrays["magnitude"], p),
                    }
                )
    return pd.DataFrame(rows)


def located(magnitude: Tensor, p: Place) -> dict[str, float]:
    """One heat map (height, width) of magnitudes against one object.

    Example:
        >>> half = torch.tensor([[True, False], [True, False]])
        >>> found = located(torch.tensor([[3.0, 1.0], [0.0, 0.0]]), Place("", 0, half, half | ~half, torch.ones(2, 2)))
        >>> found["inside"], found["gain"], found["pointing"]
        (0.75, 1.5, 1.0)
    """
    assert p.object is not None and p.known is not None
    weight = torch.where(p.known, magnitude.double(), 0.0)
    inside = float(weight[p.object].sum() / weight.sum().clamp_min(1e-300))
    area = float(p.object.sum() / p.known.sum())
    dark = p.object & (p.luminance < DARK)
    mean = float(weight[p.object].mean())
    enough = int(dark.sum()) >= 20 and mean > 0  # a handful of pixels says nothing
    return {
        "inside": inside,
        "gain": inside / area,
        "pointing": float(p.object.flatten()[int(weight.argmax())]),
        "dark_gain": float(weight[dark].mean()) / mean if enough else float("nan"),
    }


def _located_table(located: pd.DataFrame, titles: Mapping[str, str]) -> tuple[pd.DataFrame, str]:
    import pandas as pd

    rows = {}
    for method, group in located.groupby("method", sort=False):
        row: dict[str, Any] = {"n": len(group)}
        for name in ("inside", "gain", "pointing", "dark_gain"):
            known = group[name].dropna()
            if len(known):
                interval = bootstrap_interval(known.to_numpy())
                row[name.replace("_", " ")] = f"{interval.mean:.3f} [{interval.low:.3f}, {interval.high:.3f}]"
        rows[titles[str(method)]] = row
    caption = (
        "Images whose mask holds the explained class. inside: the object's share of Σ|A|; gain: that over its share of "
        "the area; pointing: the largest |A| is on it; dark gain: mean |A| of its dark pixels (luminance below "
        f"{DARK}) over the object's mean."
    )
    return pd.DataFrame.from_dict(rows, orient="index"), caption
