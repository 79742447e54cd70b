"""What finished runs say: the paper's two tables, where attributions fall on objects, and paths on photographs."""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

import studies.voc.methods  # noqa: F401 - registers the methods that its tables name
from leastpath.methods import METHODS
from studies.expected import expected_numbers
from studies.findings.config import Setting
from studies.findings.measuring import CLEAR, difference, mean, middle, written
from studies.findings.study import Measurement, Record, Study
from studies.markdown import markdown_table

IG, IDGI = "integrated_gradients", "idgi"
IDEAL = "ideal"
PAPER: Mapping[str, float] = expected_numbers("moons")["paper"]["auc_purity"]


# ---- Table 1 -----------------------------------------------------------------------------------------------------


def _moons_measurements(setting: Setting) -> Iterator[Measurement]:
    if setting.moons is not None:
        file = needed(setting.moons / "summary.json", "python -m studies.moons")
        yield Measurement("summary", lambda: _json(file), reads=True)


def _moons_section(records: Mapping[str, Record]) -> str:
    summary = records["summary"]
    methods: dict[str, Record] = summary["methods"]
    nets = len(summary["noises"]) * len(summary["seeds"])
    order = [*(name for name in PAPER if name in methods), *(name for name in methods if name not in PAPER)]
    rows = [
        [
            "Σ|A| = |Δf|, no cancellation" if name == IDEAL else METHODS[name].title,
            _purity(row.get("paper")), _scored(row),
            _against(row.get("against_ig")), written(row["cancellation_mean"]), written(row["cancellation_median"]),
        ]
        for name, row in ((name, methods[name]) for name in order)
    ]  # fmt: skip
    heads = ["AUC-purity", "paper", "ours", "mean purity − IG's (p)", "NCC gap, mean", "median"]
    words, table = _moons_words(methods, nets), markdown_table(heads, rows)
    return f"{words}\n\n{table}\nFrom `python -m studies.moons`; settings and figures: [half-moons](../../moons.md)."


def _moons_words(methods: Mapping[str, Record], nets: int) -> str:
    if not {IG, "geodesic_graph", IDEAL} <= methods.keys():
        return f"AUC-purity over {nets} networks."
    line, graph, ideal = methods[IG], methods["geodesic_graph"], methods[IDEAL]
    words = [
        f"Over {nets} networks Geodesic IG on the graph scores {_scored(graph)} AUC-purity "
        f"(paper {_purity(graph['paper'])}), IG {_scored(line)} ({_purity(line['paper'])}); cancellation falls from "
        f"{written(line['cancellation_mean'])} to "
        f"{written(graph['cancellation_mean'])}."
    ]
    if graph["auc_purity"] > ideal["auc_purity"]:
        words.append(
            f"An attribution without any cancellation scores {ideal['auc_purity']:.3f}: the graph is *above* it, "
            "because what still cancels happens to separate the classes. Purity is not what the geodesic promises; "
            "the NCC gap is."
        )
    elsewhere = [
        f"{METHODS[name].title} {row['auc_purity']:.3f} (paper {_purity(row['paper'])})"
        for name, row in methods.items()
        if row.get("paper") is not None and abs(row["auc_purity"] - row["paper"]) > 3 * row["standard_error"]
    ]
    if elsewhere:
        words.append(f"More than three standard errors from the printed number: {', '.join(elsewhere)}.")
    return " ".join(words)


def _scored(row: Record) -> str:
    return f"{row['auc_purity']:.3f} ± {row['standard_error']:.3f}"


def _purity(value: float | None) -> str:
    return "–" if value is None else f"{value:.3f}"


def _against(test: Record | None) -> str:
    return "–" if not test else f"{test['difference']:+.3f} ({written(test['p_value'], 1)})"


# ---- Table 2 -----------------------------------------------------------------------------------------------------

FILLS = ("grey", "black")
MEASURES = {"comprehensiveness": "comprehensiveness", "log_prob_ratio": "log-odds"}


def _voc_measurements(setting: Setting) -> Iterator[Measurement]:
    if setting.voc is not None:
        folder = setting.voc
        needed(folder / "table2.csv", "python -m studies.voc")
        yield Measurement(
            "table 2",
            lambda: {"rows": _rows(folder / "table2.csv"), "config": _json(folder / "config.json")},
            reads=True,
        )


def _voc_section(records: Mapping[str, Record]) -> str:
    found, config = records["table 2"]["rows"], records["table 2"]["config"]
    cells = {(row["method"], row["measure"], row["fill"]): row for row in found}
    columns = [(measure, fill) for measure in MEASURES for fill in FILLS]
    rows = []
    for name in dict.fromkeys(row["method"] for row in found):
        some = [cells.get((name, *column)) for column in columns]
        rows.append([METHODS[name].title, *(_ratio(cell) for cell in some)])
    heads = ["× IG (paper; p)", *(f"{MEASURES[measure]}, {fill}" for measure, fill in columns)]
    images = max(int(row["n"]) for row in found)
    return (
        f"{_voc_words(cells)}\n\nMasking curves on {images} validation images, {config['output']} of the predicted "
        "class, black baseline; areas relative to IG's, in brackets the paper's ratio and the p-value of a paired "
        "test:\n\n"
        f"{markdown_table(heads, rows)}\n"
        "From `python -m studies.voc`; intervals, curves and costs: [Pascal VOC](../../voc.md)."
    )


def _ratio(cell: Record | None) -> str:
    if cell is None or not cell["ratio"]:
        return "–"
    paper = f"{float(cell['paper_ratio']):.2f}; " if cell["paper_ratio"] else ""
    p = cell[f"p_{IG}"]
    return f"{float(cell['ratio']):.2f}" + (f" ({paper}{written(float(p), 1)})" if p else "")


def _voc_words(cells: Mapping[tuple[str, str, str], Record]) -> str:
    words = []
    for name, title in (
        ("geodesic_variational", "Geodesic IG by variational inference"),
        ("geodesic_descent", "by descent"),
    ):
        for fill in FILLS:
            some = [cells.get((name, measure, fill)) for measure in MEASURES]
            if all(some):
                ratios = " and ".join(f"{float(cell['ratio']):.2f}" for cell in some if cell)
                verdict = _verdict([cell for cell in some if cell], IG)
                words.append(f"{title}, {fill}: × {ratios} over IG ({verdict})")
    best = [name for name in {key[0] for key in cells} if name.startswith("geodesic") and _beats_all(cells, name)]
    end = (
        f"Clearly ahead of IG *and* IDGI in all four columns: {', '.join(sorted(best))}."
        if best
        else "No geodesic configuration is clearly ahead of IG *and* IDGI in all four columns."
    )
    return f"{'; '.join(words)}. {end}" if words else end


def _verdict(cells: Sequence[Record], rival: str) -> str:
    clear = [bool(cell[f"p_{rival}"]) and float(cell[f"p_{rival}"]) < CLEAR for cell in cells]
    ahead = [float(cell[f"difference_{rival}"] or 0) > 0 for cell in cells]
    if all(clear):
        return "clear" if all(ahead) else "clearly behind" if not any(ahead) else "mixed"
    return "not clear" if not any(clear) else "one of them clear"


def _beats_all(cells: Mapping[tuple[str, str, str], Record], name: str) -> bool:
    some = [cells.get((name, measure, fill)) for measure in MEASURES for fill in FILLS]
    return all(cell is not None and _verdict([cell], rival) == "clear" for cell in some for rival in (IG, IDGI))


# ---- objects -----------------------------------------------------------------------------------------------------


def _object_measurements(setting: Setting) -> Iterator[Measurement]:
    if setting.voc is not None and (setting.voc / "localisation.csv").exists():
        file = setting.voc / "localisation.csv"
        yield Measurement("localisation", lambda: {"rows": _rows(file)}, reads=True)


def _object_section(records: Mapping[str, Record]) -> str:
    by_method: dict[str, dict[str, Record]] = {}
    for row in records["localisation"]["rows"]:
        by_method.setdefault(row["method"], {})[row["name"]] = row
    lines = by_method.get(IG, {})
    rows = []
    for name, images in by_method.items():
        common = sorted(images.keys() & lines.keys())
        gain, dark = (
            difference([_float(images[i][key]) for i in common], [_float(lines[i][key]) for i in common])
            for key in ("gain", "dark_gain")
        )
        shares = [[_float(row[key]) for row in images.values()] for key in ("gain", "pointing", "dark_gain")]
        rows.append([
            METHODS[name].title, written(mean(shares[0])), "–" if name == IG else gain, f"{mean(shares[1]):.0%}",
            written(mean(shares[2])), "–" if name == IG else dark,
        ])  # fmt: skip
    heads = ["method", "on the object", "− IG (p)", "largest on it", "on its dark pixels", "− IG (p) "]
    n = len(lines) or max(map(len, by_method.values()))
    return (
        f"{_object_words(by_method)}\n\nOn {n} VOC images with a published mask: the object's share of Σ|A| over its "
        "share of the area (1 is chance), how often the largest |A| lies on it, and |A| on the object's dark pixels "
        f"over |A| on all of the object (1 is even).\n\n{markdown_table(heads, rows)}"
    )


def _object_words(by_method: Mapping[str, Mapping[str, Record]]) -> str:
    def dark(name: str) -> float:
        return mean([_float(row["dark_gain"]) for row in by_method.get(name, {}).values()])

    names = [
        ("IG", IG),
        ("Geodesic IG (descent)", "geodesic_descent"),
        ("Geodesic IG (variational)", "geodesic_variational"),
    ]
    told = ", ".join(f"{title} {written(dark(name))}" for title, name in names if name in by_method)
    return (
        "On a black baseline x − x̄ vanishes on black pixels, and IG's attribution with it; the paper shows black jets "
        f"that the geodesic finds again. Of what an object's average pixel gets, its dark pixels get: {told}."
    )


# ---- photographs -------------------------------------------------------------------------------------------------


ORDER = (
    "straight", "descent 2x", "descent 5x", "descent", "descent 50x", "descent 32 cells", "variational 50x",
    "variational full",
)  # fmt: skip
"""Of solvers, by what they may spend: as benchmarks/solvers.py names them."""


KEPT = ("image", "size", "output", "method", "ratio", "cancellation", "gradients", "solver_gradients", "reached")


def _path_measurements(setting: Setting) -> Iterator[Measurement]:
    if setting.solvers is not None:
        file = needed(setting.solvers, "benchmarks/solvers.py")
        lines = [line for line in file.read_text(encoding="utf-8").splitlines() if line.endswith("}")]
        rows = [{key: value for key, value in json.loads(line).items() if key in KEPT} for line in lines]
        yield Measurement("solvers", lambda: {"rows": rows}, reads=True)


def _path_section(records: Mapping[str, Record]) -> str:
    groups: dict[tuple[int, str, str], dict[str, Record]] = {}
    for row in records["solvers"]["rows"]:
        groups.setdefault((row["size"], row["output"], row["method"]), {})[row["image"]] = row
    heads = [
        "pixels, score, solver", "images", "ratio", "90 %", "worst", "cancelled / IG's", "gradients", "measuring",
        "reached",
    ]  # fmt: skip
    rows = [
        [f"{size}, {output}, {method}", *_path_row(images, groups.get((size, output, "straight"), {}))]
        for (size, output, method), images in sorted(groups.items(), key=_place)
    ]
    return (
        f"{_path_words(groups)}\n\n*Ratio* is the median length over the line's, *cancelled* the median cancellation "
        "over IG's; *gradients* are the solver's own, *measuring* what the integrator then spends on path and line; "
        f"*reached* counts the images within tolerance.\n\n{markdown_table(heads, rows)}\n"
        "From `python benchmarks/solvers.py FOLDER`."
    )


def _place(item: tuple[tuple[int, str, str], Mapping[str, Record]]) -> tuple[int, bool, int, str]:
    size, output, method = item[0]
    return size, output != "softmax", ORDER.index(method) if method in ORDER else len(ORDER), method


def _path_row(images: Mapping[str, Record], lines: Mapping[str, Record]) -> list[str]:
    found = list(images.values())
    ratios = [row["ratio"] for row in found]
    cancelled = [row["cancellation"] / lines[name]["cancellation"] for name, row in images.items() if name in lines]
    return [
        str(len(found)), written(middle(ratios)), written(float(np.quantile(ratios, 0.9))), written(max(ratios)),
        written(middle(cancelled)),
        written(middle([row["solver_gradients"] for row in found]), 3),
        written(middle([row["gradients"] - row["solver_gradients"] for row in found]), 3),
        str(sum(bool(row["reached"]) for row in found)),
    ]  # fmt: skip


def _path_words(groups: Mapping[tuple[int, str, str], Mapping[str, Record]]) -> str:
    told = []
    for rival in ("variational full", "variational 50x"):
        for (size, output, method), images in sorted(groups.items()):
            descent = groups.get((size, output, "descent"), {})
            common = sorted(images.keys() & descent.keys())
            if method != rival or not common:
                continue
            shorter = sum(descent[i]["ratio"] < images[i]["ratio"] for i in common)
            factor = middle([images[i]["solver_gradients"] / max(1, descent[i]["solver_gradients"]) for i in common])
            told.append(
                f"With {written(middle([images[i]['solver_gradients'] for i in common]), 3)} gradients `Variational` "
                f"({output}, {size} pixels) ends at {written(middle([images[i]['ratio'] for i in common]))} of the "
                f"line's length{' (median)' * (len(common) > 1)}, `Descent` on the same {_images(len(common))} at "
                f"{written(middle([descent[i]['ratio'] for i in common]))} with 1/{written(factor)} of the gradients; "
                f"shorter on {shorter} of {len(common)}."
            )
    lead = "EfficientNet-lite0 on photographs that it was not trained on, black baseline, predicted class; lengths and "
    return " ".join([lead + "attributions measured by the integrator at tolerance 0.01.", *told])


def _images(n: int) -> str:
    return f"{n} images" if n > 1 else "one image"


# ---- files -------------------------------------------------------------------------------------------------------


def needed(file: Path, command: str) -> Path:
    if not file.exists():
        raise ValueError(f"{file} does not exist: give the folder of a finished `{command}`")
    return file


def _rows(file: Path) -> list[Record]:
    with file.open(encoding="utf-8", newline="") as stream:
        return list(csv.DictReader(stream))


def _json(file: Path) -> Record:
    found: Record = json.loads(file.read_text(encoding="utf-8"))
    return found


def _float(text: str) -> float | None:
    return float(text) if text and math.isfinite(float(text)) else None


MOONS = Study("moons", "Half-moons: the paper's Table 1", _moons_measurements, _moons_section)
VOC = Study("voc", "Pascal VOC: the paper's Table 2", _voc_measurements, _voc_section)
OBJECTS = Study("objects", "Objects, and their dark pixels", _object_measurements, _object_section)
PATHS = Study("paths", "Short paths on photographs", _path_measurements, _path_section)
