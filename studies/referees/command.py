"""`python -m studies.referees`: all methods before referees that nobody here made."""

from __future__ import annotations

import json
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import torch
from torch import Tensor
from typer import Option

import leastpath as lp
from leastpath._support.files import write_atomically
from leastpath.methods import METHODS
from studies.markdown import markdown_table
from studies.referees.tris import SIGNALS, draw_tetrominoes, precision, train_net
from studies.referees.units import UNITS

OF_UNITS = (
    "random", "input_x_gradient", "saliency", "smooth_grad", "lrp", "integrated_gradients", "idgi", "elastic_band",
    "geodesic_descent", "guided_ig", "occlusion", "staircase", "permutation_shap", "exact_shapley", "owen",
    "kernel_shap", "lime", "gradient_shap",
)  # fmt: skip
OF_PICTURES = (
    "random", "input_x_gradient", "saliency", "smooth_grad", "smooth_grad_squared", "var_grad", "lrp",
    "integrated_gradients", "idgi", "deep_lift", "gradient_shap", "occlusion", "rise", "owen", "staircase",
    "windows_in_context",
)  # fmt: skip
CONTROLS = ("edges", "|x|")
SETTINGS: Mapping[str, Mapping[str, Any]] = {  # pictures of 8 pixels are looked at pixel by pixel
    "occlusion": {"window": 1}, "staircase": {"patch": 1}, "smooth_grad": {"absolute": True},
}  # fmt: skip


def command(
    methods: Annotated[str | None, Option(help="Names with commas, of `leastpath methods`; all by default.")] = None,
    examples: Annotated[int, Option(help="Inputs of each unit and each scenario.")] = 40,
    out: Annotated[Path, Option(help="Folder of results: what is there is kept and not done again.")] = Path(
        "out/referees"
    ),
    save: Annotated[Path | None, Option(help="Write referees.md into this folder.")] = None,
) -> None:
    """XAI-Units (hand-made nets with known attributions) and XAI-TRIS (tetrominoes in noise), all methods."""
    torch.set_num_threads(1)
    named = None if methods is None else [name.strip() for name in methods.split(",")]
    for name in named or ():
        METHODS[name]
    out.mkdir(parents=True, exist_ok=True)
    kept = out / "referees.json"
    told: dict[str, Any] = json.loads(kept.read_text(encoding="utf-8")) if kept.is_file() else {}
    if told.get("examples", examples) != examples:
        raise ValueError(f"{out} holds results of {told['examples']} examples, not {examples}: give another --out")
    told |= {"examples": examples}
    judge_units(told.setdefault("units", {}), named or OF_UNITS, examples)
    _keep(kept, told)
    judge_pictures(told.setdefault("tris", {}), told.setdefault("accuracy", {}), named or OF_PICTURES, examples)
    _keep(kept, told)
    page = write_page(told)
    write_atomically(out / "referees.md", page.encode())
    if save is not None:
        write_atomically(save / "referees.md", page.encode())
    print(page)


def _keep(file: Path, told: Mapping[str, Any]) -> None:
    write_atomically(file, json.dumps(told, indent=1, sort_keys=True).encode())


def judge_units(told: dict[str, dict[str, float]], methods: Sequence[str], examples: int) -> None:
    """Add the mean squared error of methods that are not known yet, by unit: told[method][unit]."""
    for name in methods:
        if name in told or not METHODS[name].is_installed:
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


def _show(error: float) -> str:
    return f"{error:.3f}" if error < 100 else f"{error:.1e}"


def write_page(told: Mapping[str, Any]) -> str:
    """The page as Markdown: the best first, controls at the bottom."""
    units, tris = told["units"], told["tris"]
    titles = {name: METHODS[name].title for name in METHODS} | {"edges": "edges, no model", "|x|": "|x|, no model"}
    floor = ("random", *CONTROLS)
    by_error = sorted(units, key=lambda m: (m in floor, sum(units[m].values())))
    by_precision = sorted(tris, key=lambda m: (m in floor, -sum(tris[m].values())))
    accuracies = ", ".join(f"{name} {share:.2f}" for name, share in told["accuracy"].items()) or "not measured yet"
    pictures = markdown_table(
        ["method", *SIGNALS, "mean"],
        [[titles[m], *(f"{tris[m][s]:.2f}" for s in SIGNALS), f"{sum(tris[m].values()) / len(SIGNALS):.2f}"]
         for m in by_precision],
    )  # fmt: skip
    return (
        (Path(__file__).parent / "page.md").read_text(encoding="utf-8")
        .replace("{examples}", str(told["examples"])).replace("{accuracies}", accuracies)
        .replace("{units}", markdown_table(
            ["method", *UNITS], [[titles[m], *(_show(units[m][u]) for u in UNITS)] for m in by_error]))
        .replace("{tris}", pictures if tris else "Not measured yet.\n")
    )  # fmt: skip
