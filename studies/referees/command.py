"""`python -m studies.referees`: all methods before referees that nobody here made."""

from __future__ import annotations

import json
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import mean, stdev
from typing import Annotated, Any

import torch
from torch import Tensor
from typer import Option

import leastpath as lp
from leastpath._support.files import write_atomically
from leastpath.methods import METHODS
from studies.markdown import markdown_table
from studies.referees import blucher
from studies.referees.kept import FILES, Kept
from studies.referees.tris import SIGNALS, draw_tetrominoes, precision, train_net
from studies.referees.units import UNITS

KEPT, EXAMPLES = "referee_units.json", 40
OF_UNITS = (
    "random", "input_x_gradient", "saliency", "smooth_grad", "lrp", "integrated_gradients", "idgi", "elastic_band",
    "geodesic_descent", "guided_ig", "occlusion", "staircase", "permutation_shap", "exact_shapley", "owen",
    "kernel_shap", "lime", "gradient_shap", "deep_lift",
)  # fmt: skip
OF_PICTURES = (
    "random", "input_x_gradient", "saliency", "smooth_grad", "smooth_grad_squared", "var_grad", "lrp",
    "integrated_gradients", "idgi", "deep_lift", "gradient_shap", "occlusion", "rise", "owen", "staircase",
    "windows_in_context",
)  # fmt: skip
CONTROLS = ("edges", "|x|")
FLOOR = ("edges", "distance", "smooth_random", "random", "untrained", "other_class")
SETTINGS: Mapping[str, Mapping[str, Any]] = {  # pictures of 8 pixels are looked at pixel by pixel
    "occlusion": {"window": 1}, "staircase": {"patch": 1}, "smooth_grad": {"absolute": True},
}  # fmt: skip


def command(
    methods: Annotated[str | None, Option(help="Names with commas, of `leastpath methods`; all by default.")] = None,
    examples: Annotated[int, Option(help="Inputs of each unit and each scenario.")] = EXAMPLES,
    out: Annotated[Path, Option(help="Folder of results: what is there is kept and not done again.")] = FILES,
    save: Annotated[Path | None, Option(help="Write referees.md into this folder.")] = None,
) -> None:
    """XAI-Units (hand-made nets with known attributions) and XAI-TRIS (tetrominoes in noise), all methods."""
    torch.set_num_threads(1)
    named = None if methods is None else [name.strip() for name in methods.split(",")]
    for name in named or ():
        METHODS[name]
    out.mkdir(parents=True, exist_ok=True)
    kept = out / KEPT
    told: dict[str, Any] = json.loads(kept.read_text(encoding="utf-8")) if kept.is_file() else {}
    if told.get("examples", examples) != examples:
        raise ValueError(f"{out} holds results of {told['examples']} examples, not {examples}: give another --out")
    told |= {"examples": examples}
    judge_units(told.setdefault("units", {}), named or OF_UNITS, examples)
    _keep(kept, told)
    judge_pictures(told.setdefault("tris", {}), told.setdefault("accuracy", {}), named or OF_PICTURES, examples)
    _keep(kept, told)
    page = write_page(told, Kept(out / "referee_blucher.json"), Kept(out / "referee_idsds.json"))
    if save is not None:
        write_atomically(save / "referees.md", page.encode())
    print(page)


def _keep(file: Path, told: Mapping[str, Any]) -> None:
    write_atomically(file, json.dumps(told, indent=1, sort_keys=True).encode())


def judge_units(told: dict[str, dict[str, float]], methods: Sequence[str], examples: int) -> None:
    """Add the mean squared error of methods that are not known yet, by unit: told[method][unit]."""
    for name in methods:
        if name in told or not METHODS[name].is_installed or METHODS[name].fits == ("image",):  # no pictures
            continue
        errors: dict[str, float] = {}
        for unit_name, make in UNITS.items():
            unit = make(examples, 0)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                values = METHODS[name](unit.score, unit.inputs, support=False).values
            assert isinstance(values, Tensor)
            errors[unit_name] = float(unit.error(values).mean())
        told[name] = errors


def judge_pictures(
    told: dict[str, dict[str, float]], accuracy: dict[str, float], methods: Sequence[str], examples: int
) -> None:
    """Add the precision of methods that are not known yet, by scenario: told[method][scenario]."""
    todo = [m for m in (*methods, *CONTROLS) if m not in told and (m in CONTROLS or METHODS[m].is_installed)]
    if not todo:
        return
    for scenario in SIGNALS:
        net, accuracy[scenario] = train_net(scenario)
        drawn = draw_tetrominoes(scenario, 2 * examples, 7)
        right = (net(drawn.images).argmax(1) == drawn.classes).nonzero()[:examples, 0]
        images, score = drawn.images[right], lp.Score(net, drawn.classes[right])
        for name in todo:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                values = _explain(name, score, images)
            told.setdefault(name, {})[scenario] = float(precision(values, drawn.truth[right]).mean())


def _explain(name: str, score: lp.Score, images: Tensor) -> Tensor:
    if name == "|x|":
        return images.abs()
    if name == "edges":
        down, right = torch.gradient(images, dim=(2, 3))
        return torch.hypot(down, right)
    settings = {key: value for key, value in SETTINGS.get(name, {}).items() if key in METHODS[name].defaults}
    values = METHODS[name](score, images, support=False, **settings).values
    assert isinstance(values, Tensor)
    return values


BEST = 4  # methods of which each scenario of the tetrominoes is told
ENOUGH = 20  # images from which an order of gains is told
NOTHING = "Not measured yet.\n"


def _table_of_flips(kept: Kept, titles: Mapping[str, str]) -> str:
    """Gains beside the published ones, and Kendall's τ."""
    gains = blucher.gains_of(kept) if set(blucher.PUBLISHED) <= set(kept.methods) else {}
    if not gains:
        return NOTHING
    rows = [
        [titles.get(m, m), len(of), f"{mean(of):.2f}", *_published(m)]
        for m, of in sorted(gains.items(), key=lambda item: (item[0] in FLOOR, -mean(item[1])))
    ]
    heads = ["method", "n", "gain here", "published", "published, second net"]
    n = len(gains["lrp"])
    said = f"Kendall's τ of the seven with their order: **{blucher.order_of(kept):.2f}**, from {n} images."
    if n < ENOUGH:
        said += (
            f" That is too few to say whether the order is theirs: one image's gain deviates by some .2, and neighbours"
            f" in the order lie .03 to .1 apart. `--images {ENOUGH}` goes on from what is kept."
        )
    return f"{said}\n\n{markdown_table(heads, rows)}"


def _published(method: str) -> list[str]:
    return [f"{gain:.2f}" for gain in blucher.PUBLISHED.get(method, ())] or ["–", "–"]


def _table_of_deletions(kept: Kept, titles: Mapping[str, str]) -> str:
    if not kept.methods:
        return NOTHING
    found = {m: [row["agreement"] for row in kept.rows(m).values()] for m in kept.methods}
    rows = [
        [titles.get(m, m), len(of), f"{mean(of):.2f}", f"± {1.96 * stdev(of) / len(of) ** 0.5:.2f}"]
        for m, of in sorted(found.items(), key=lambda item: (item[0] in FLOOR, -mean(item[1])))
    ]
    about = kept.about
    tuned = (
        f"Tuned on {about['tuned']} of CIFAR's test images, which are not judged, for {about['epochs']} epochs in "
        f"{about['seconds']:.0f} s of CPU. Accuracy on 300 unseen ones, whole and with 6 of 16 cells deleted: "
        f"{about['before whole']:.2f} and {about['before lacking']:.2f} before, {about['after whole']:.2f} and "
        f"{about['after lacking']:.2f} after.\n\n"
    )
    return tuned + markdown_table(["method", "n", "rank correlation", "95 %"], rows)


def _show(error: float) -> str:
    """Zero where three digits are.

    Example:
        >>> _show(0.0004), _show(0.0951), _show(2.6e5)
        ('0', '.095', '2.6e+05')
    """
    if error < 0.0005:
        return "0"
    return f"{error:.3f}".removeprefix("0") if error < 100 else f"{error:.1e}"


def write_page(told: Mapping[str, Any], flipped: Kept, deleted: Kept) -> str:
    """The page as Markdown: the best first, controls at the bottom.

    Args:
        told: of units and tetrominoes.
        flipped: of Blücher's protocol.
        deleted: of IDSDS.
    """
    units, tris = told["units"], told["tris"]
    titles = {name: METHODS[name].title for name in METHODS} | {
        "edges": "edges, no model", "|x|": "|x|, no model", "distance": "|x − baseline|, no model",
        "smooth_random": "smooth random",
    }  # fmt: skip
    floor = ("random", *CONTROLS)
    by_error = sorted(units, key=lambda m: (m in floor, sum(units[m].values())))
    by_precision = sorted(tris, key=lambda m: (m in floor, -sum(tris[m].values())))
    accuracies = ", ".join(f"{name} {share:.2f}" for name, share in told["accuracy"].items()) or "not measured yet"
    means = {m: f"{sum(tris[m].values()) / len(SIGNALS):.2f}" for m in by_precision}
    others = [m for m in by_precision if m not in floor][BEST:]
    pictures = markdown_table(
        ["method", *SIGNALS, "mean"],
        [[titles[m], *(f"{tris[m][s]:.2f}" for s in SIGNALS), means[m]] for m in by_precision if m not in others],
    )
    if others:
        said = ", ".join(f"{titles[m]} {means[m]}" for m in others)
        pictures += f"\nMeans of the others ([each scenario](_generated/{KEPT})): {said}.\n"
    return (
        (Path(__file__).parent / "page.md").read_text(encoding="utf-8")
        .replace("{examples}", str(told["examples"])).replace("{accuracies}", accuracies)
        .replace("{units}", markdown_table(
            ["method", *UNITS], [[titles[m], *(_show(units[m][u]) for u in UNITS)] for m in by_error]))
        .replace("{tris}", pictures if tris else NOTHING).replace("{blucher}", _table_of_flips(flipped, titles))
        .replace("{idsds}", _table_of_deletions(deleted, titles))
    )  # fmt: skip
