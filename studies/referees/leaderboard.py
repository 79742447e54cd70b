"""The leaderboard: every method before every referee, from kept results alone."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any

import numpy as np
from typer import Option

from leastpath._support.files import write_atomically
from leastpath.methods import METHODS
from studies.markdown import markdown_table
from studies.referees import blucher, idsds
from studies.referees.command import EXAMPLES, KEPT, command as units_command
from studies.referees.kept import FILES, Kept
from studies.truth.leads import SORTS, sort_of

CONTROLS: Mapping[str, str] = MappingProxyType(
    {
        "edges": "edges of the picture, no model", "distance": "|x − baseline|, no model",
        "smooth_random": "smooth random map", "random": "random values", "untrained": "IG of an untrained net",
        "other_class": "IG of another class",
    }
)  # fmt: skip
"""At the bottom: what knows no model, an untrained one, or another class."""
EXACT = 0.01  # a mean squared error below which a unit counts as explained exactly
IN_TRUTH: Mapping[str, Sequence[str]] = MappingProxyType(
    {
        "integrated_gradients": ("ig-two", "ig"), "idgi": ("idgi-two", "idgi"),
        "elastic_band": ("monotone-two", "monotone-group", "monotone"),
        "geodesic_descent": ("descent",), "geodesic_variational": ("variational",),
        "staircase": ("staircase-logit-two", "staircase-two", "staircase"), "occlusion": ("windows-two", "occlusion"),
        "windows_in_context": ("context",), "rise": ("rise-two",), "owen": ("owen-two",), "lrp": ("lrp",),
        "smooth_grad": ("smooth-grad",), "smooth_grad_squared": ("smooth-grad-squared",), "var_grad": ("var-grad",),
        "smooth_integrated_gradients": ("smooth-ig",), "input_x_gradient": ("input-gradient",),
        "saliency": ("gradient", "saliency"), "kernel_shap": ("kernel-shap",), "lime": ("lime-two", "lime"),
        "permutation_shap": ("shapley",), "grad_cam": ("grad-cam",), "grad_cam_plus_plus": ("grad-cam++",),
        "expected_gradients": ("expected",), "samp": ("samp",), "samp_plus_plus": ("samp++",),
        "spectral_ig": ("spectral",), "sequential_ig": ("sequential",), "discretized_ig": ("discretized",),
        "lpi": ("lpi",), "ig2": ("ig2",), "agi": ("agi",), "mfaba": ("mfaba",), "boundary_ig": ("boundary",),
        "fisher_rao": ("fisher-rao",), "edges": ("edges",), "distance": ("distance",),
        "smooth_random": ("smooth-random",), "random": ("random",), "untrained": ("untrained",),
        "other_class": ("other-class",),
    }
)  # fmt: skip
"""The rows of the study of truth that stand for a method: of each net the first one that was measured there."""


@dataclass(frozen=True)
class Cell:
    """A mean, half the width of its 95 % interval (NaN: not known), and how many of a referee's nets it covers."""

    mean: float
    half: float = float("nan")
    covers: str = ""
    digits: int = 2

    def __str__(self) -> str:
        interval = "" if np.isnan(self.half) else f" ± {self.half:.2f}"
        return f"{self.mean:.{self.digits}f}".replace("-", "−") + interval + self.covers


def command(
    method: Annotated[
        str | None, Option("--method", "--methods", help="Names with commas: measure these first.")
    ] = None,
    data: Annotated[Path | None, Option(help="Folder of shared data, for referees that need pictures.")] = None,
    results: Annotated[Path, Option(help="Folder of kept results.")] = FILES,
    save: Annotated[Path, Option(help="Folder that leaderboard.md and referees.md are written to.")] = FILES.parent,
) -> None:
    """Write the leaderboard from what is kept; a method that is named is measured by each referee first."""
    if method is not None:
        if data is not None:
            blucher.command(data, method, len(Kept(results / "referee_blucher.json").rows("lrp")) or 8, results)
            idsds.command(data, method, len(Kept(results / "referee_idsds.json").rows("lrp")) or 12, results)
        units_command(method, EXAMPLES, results, save)
    rows = board(results)
    page = page_of(rows)
    write_atomically(save / "leaderboard.md", page.encode())
    text = io.StringIO()
    csv.writer(text).writerows([[str(cell) for cell in row] for row in rows])
    write_atomically(results / "leaderboard.csv", text.getvalue().encode())
    print(page)


def page_of(found: Sequence[Sequence[object]]) -> str:
    """The board as Markdown. Methods that no referee has seen on all of its nets are named, and stand in the CSV."""
    heads, *rows = found
    partial = [row for row in rows if all(not isinstance(x, Cell) or x.covers for x in row)]
    page = (Path(__file__).parent / "leaderboard.md").read_text(encoding="utf-8")
    table = markdown_table([str(head) for head in heads], [row for row in rows if row not in partial])
    return page.replace("{table}", table).replace("{partial}", ", ".join(str(row[0]) for row in partial) or "none")


def board(results: Path) -> list[list[object]]:
    """Heads, then a row a method: what does best on photographs first, what was not measured on all, controls last."""
    columns, truth = columns_of(results), _read(results / "truth.json")
    names = dict.fromkeys(name for found in columns.values() for name in found)
    first = columns[SORTS["photographs"]]

    def place(name: str) -> tuple[Any, ...]:
        cell = first.get(name)
        if cell is None:
            return name in CONTROLS, 2, 0.0, name
        return name in CONTROLS, int(bool(cell.covers)), -cell.mean, name

    titles = {name: METHODS[name].title for name in METHODS} | dict(CONTROLS)
    rows: list[list[object]] = [
        [titles.get(name, name), *(columns[c].get(name, "–") for c in columns), _cost_of(name, truth)]
        for name in sorted(names, key=place)
    ]
    return [["method", *columns, "cost"], *rows]


def columns_of(results: Path) -> dict[str, dict[str, Cell]]:
    """By referee and method, what is known."""
    found: dict[str, dict[str, Cell]] = {}
    truth = _read(results / "truth.json")
    for sort, title in SORTS.items():
        found[title] = {} if truth is None else gains_of_sort(truth, sort)
    kept = _read(results / KEPT) or {"units": {}, "tris": {}}
    found["XAI-Units"] = {m: Cell(sum(x < EXACT for x in of.values()), digits=0) for m, of in kept["units"].items()}
    same = {"|x|": "distance"}
    found["XAI-TRIS"] = {same.get(m, m): Cell(float(np.mean(list(of.values())))) for m, of in kept["tris"].items()}
    flipped = Kept(results / "referee_blucher.json")
    found["Blücher"] = {m: _cell(x) for m, x in (blucher.gains_of(flipped) if flipped.methods else {}).items()}
    deleted = Kept(results / "referee_idsds.json")
    found["IDSDS"] = {m: _cell([row["agreement"] for row in deleted.rows(m).values()]) for m in deleted.methods}
    return found


def gains_of_sort(truth: Mapping[str, Any], sort: str) -> dict[str, Cell]:
    """By method, the mean over the nets of a sort of its gain in the study of truth, on the reporting half."""
    about = truth["nets"]
    nets = {
        net: of for net, of in truth["summaries"]["reporting"].items()
        if sort_of(net, about[net]["kind"]) == sort and about[net]["gate"] in ("", "marks")
    }  # fmt: skip
    found = {}
    for name, candidates in IN_TRUTH.items():
        chosen = {net: next((c for c in candidates if c in of), None) for net, of in nets.items()}
        there = {net: c for net, c in chosen.items() if c is not None and "gain" in nets[net][c]}
        if there:
            examples = [list(truth.get("examples", {}).get(net, {}).get(c, {}).values()) for net, c in there.items()]
            known = all(len(of) > 1 for of in examples)
            variance = sum(np.var(of, ddof=1) / len(of) for of in examples) if known else float("nan")
            mean = float(np.mean([nets[net][c]["gain"] for net, c in there.items()]))
            covers = "" if len(there) == len(nets) else f" ({len(there)}/{len(nets)})"
            found[name] = Cell(mean, 1.96 * float(np.sqrt(variance)) / len(there), covers)
    return found


def _cell(values: Sequence[float]) -> Cell:
    half = 1.96 * float(np.std(values, ddof=1)) / len(values) ** 0.5 if len(values) > 1 else float("nan")
    return Cell(float(np.mean(values)), half)


def _cost_of(name: str, truth: Mapping[str, Any] | None) -> str:
    """Gradients' worth of an explanation of a photograph, as the study of truth counted it, or as the method says."""
    nets = {} if truth is None else truth["summaries"]["reporting"]
    photographs = [of for net, of in nets.items() if net.startswith(("imagenet", "voc"))]
    counted = [
        of[c]["gradients"] for of in photographs for c in IN_TRUTH.get(name, ())[:1] if "gradients" in of.get(c, {})
    ]
    if counted:
        return f"{np.median(counted):.0f}"
    cost = METHODS[name].cost((3, 128, 128)) if name in METHODS else (0, 0)
    return "–" if cost is None else f"{cost[0] + cost[1] / 3:.0f}"


def _read(file: Path) -> Any:
    return json.loads(file.read_text(encoding="utf-8")) if file.is_file() else None
