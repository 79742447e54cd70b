"""From the kept units to numbers per example, to tables, and to the JSON that the page is written from."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch

from leastpath._support.store import Store
from leastpath.evaluation.statistics import holm, paired_test
from studies.findings.measuring import rank_correlation
from studies.findings.shortcut import TOP, chance_above
from studies.findings.study import Record
from studies.truth.candidates import IDGI, IG, Candidate
from studies.truth.choice import CLEAR, Evidence
from studies.truth.leads import sort_of
from studies.truth.problem import HALVES, Half, Net
from studies.truth.work import MEASURES

Rows = dict[str, Any]
"""One example under one candidate: net, half, method, row, and a number for each measure."""


def examples(store: Store, nets: Mapping[str, Net], candidates: Mapping[str, Candidate]) -> list[Rows]:
    """Every example that is finished under the present settings of its candidate, in the order of nets."""
    found: dict[tuple[str, str, str, int], tuple[Rows, torch.Tensor]] = {}
    for key in store.keys():  # noqa: SIM118
        if not key.startswith("measured "):
            continue
        unit = store.read(key)
        net, method, half = (unit.record[name] for name in ("net", "method", "half"))
        current = method in candidates and candidates[method].digest == unit.record["digest"]
        if net in nets and current and unit.record["version"] == MEASURES and unit.record["explained"] in store:
            made = store.read(unit.record["explained"]).record
            for i, row in enumerate(unit.record["rows"]):
                told = {"net": net, "half": half, "method": method, "row": row, "digest": unit.record["digest"],
                        **_numbers_of(unit.record, made, i)}  # fmt: skip
                found[net, half, method, row] = told, unit.arrays["strengths"][i]
    _compare(found, nets)
    order = list(nets)
    return sorted((told for told, _ in found.values()), key=lambda r: (order.index(r["net"]), r["method"], r["row"]))


def _numbers_of(record: Record, made: Record, i: int) -> Rows:
    gains = {f"gain {fill}": values[i] for fill, values in record["gain"].items()}
    extra = ("objects", "mark rank", "mark share", "mark sum", "mark effect")
    return {
        **gains, "gain": float(np.mean([gain for gain in gains.values() if gain is not None])),
        **{name: record[name][i] for name in extra if name in record},
        "ratio": _ratio(record["total"][i], made["change"][i]), "gradients": made["gradients"][i],
        "seconds": made["seconds"] / len(made["gradients"]), "length_ratio": made["length_ratio"][i],
    }  # fmt: skip


def _compare(found: Mapping[tuple[str, str, str, int], tuple[Rows, torch.Tensor]], nets: Mapping[str, Net]) -> None:
    """Add how strengths agree with leaving one feature out, and with those of the same candidate on random weights."""
    random = next((net.name for net in nets.values() if net.gate == "randomised"), None)
    for (net, half, method, row), (told, strengths) in found.items():
        others = {"leave-one-out": (net, half, "occlusion", row)}
        if random is not None and net == nets[random].twin:
            others["random weights"] = (random, half, method, row)
        for name, key in others.items():
            if key in found:
                told[name] = _agreement(strengths, found[key][1])


def _agreement(a: torch.Tensor, b: torch.Tensor) -> float | None:
    """Spearman's correlation over the features that are there, of magnitudes."""
    there = ~torch.isnan(a) & ~torch.isnan(b)
    found = rank_correlation(a[there].abs().tolist(), b[there].abs().tolist()) if int(there.sum()) > 2 else math.nan
    return None if math.isnan(found) else found


def _ratio(total: float | None, change: float | None) -> float | None:
    """Σ|A| / |Δf|; None where the score does not change."""
    return total / abs(change) if total is not None and change and abs(change) > 1e-6 else None


def evidence(rows: Sequence[Rows], nets: Mapping[str, Net], half: Half, sort: str) -> dict[str, Evidence]:
    """By method, what the rule looks at: gains by (net, fill), and the gates' numbers, of one sort of input.

    A net counts for a method only with the examples that IG has, too.
    """
    chosen = [row for row in rows if row["half"] == half and sort_of(row["net"], nets[row["net"]].kind) == sort]
    methods = dict.fromkeys(row["method"] for row in chosen)
    found: dict[str, Evidence] = {}
    for method in methods:
        own = [row for row in chosen if row["method"] == method]
        cells: dict[tuple[str, str], dict[int, float]] = {}
        for row in own:
            if nets[row["net"]].gate not in ("control", "randomised"):
                for key, value in row.items():
                    if key.startswith("gain ") and value is not None:
                        cells.setdefault((row["net"], key.removeprefix("gain ")), {})[row["row"]] = value
        found[method] = Evidence(cells, gates(own, nets))
    return found


def gates(rows: Sequence[Rows], nets: Mapping[str, Net]) -> dict[str, float]:
    """The gates' numbers of one method, higher is better: the mark, and what random weights change."""
    marks = [row for row in rows if nets[row["net"]].gate == "marks"]
    control = [row for row in rows if nets[row["net"]].gate == "control"]
    random = [row["random weights"] for row in rows if row.get("random weights") is not None]
    found: dict[str, float] = {}
    if marks:
        found["mark among the first"] = float(np.mean([row["mark rank"] <= TOP for row in marks]))
        found["mark follows removal"] = rank_correlation(
            [row["mark sum"] for row in marks], [row["mark effect"] for row in marks]
        )
    if marks and control:
        found["told from control"] = chance_above(
            [row["mark share"] for row in marks], [row["mark share"] for row in control]
        )
    if random:
        found["changed by random weights"] = 1 - float(np.mean(random))
    return {name: value for name, value in found.items() if not math.isnan(value)}


def summary(rows: Sequence[Rows]) -> Record:
    """Of one net, half and method: means, with the worst fill, medians of costs."""
    fills = [key for key in rows[0] if key.startswith("gain ")]
    gains = {fill.removeprefix("gain "): _mean(rows, fill) for fill in fills}
    known_gains = [gain for gain in gains.values() if gain is not None]
    known = {name: _median(rows, name) for name in ("ratio", "length_ratio", "leave-one-out", "gradients", "seconds")}
    extra = {name: _mean(rows, name) for name in ("objects", "mark share", "random weights")}
    told = {"n": len(rows), "gain": _mean(rows, "gain"), "worst": min(known_gains), "gains": gains, **known, **extra}
    return {name: value for name, value in told.items() if value is not None}


def gains_by_example(rows: Sequence[Rows], half: Half = "reporting") -> dict[str, dict[str, dict[str, float]]]:
    """By net, method and example, the mean gain over the fills: what leads are tested with."""
    found: dict[str, dict[str, dict[str, float]]] = {}
    for row in rows:
        if row["half"] == half:
            found.setdefault(row["net"], {}).setdefault(row["method"], {})[str(row["row"])] = round(row["gain"], 4)
    return found


def _numbers(rows: Sequence[Rows], name: str) -> list[float]:
    return [row[name] for row in rows if row.get(name) is not None]


def _mean(rows: Sequence[Rows], name: str) -> float | None:
    numbers = _numbers(rows, name)
    return round(float(np.mean(numbers)), 6) if numbers else None


def _median(rows: Sequence[Rows], name: str) -> float | None:
    numbers = _numbers(rows, name)
    return round(float(np.median(numbers)), 6) if numbers else None


def tests(rows: Sequence[Rows], rivals: Sequence[str] = (IG, IDGI)) -> list[Record]:
    """Paired tests of every method against the rivals: each (net, fill), the mean over fills, and objects."""
    by_cell: dict[tuple[str, str, str], dict[str, dict[int, float]]] = {}
    for row in rows:
        for measure, value in row.items():
            if value is not None and (measure.startswith("gain") or measure == "objects"):
                by_cell.setdefault((row["half"], row["net"], measure), {}).setdefault(row["method"], {})[row["row"]] = (
                    value
                )
    found: list[Record] = []
    for half in HALVES:
        for rival in rivals:
            for method in dict.fromkeys(row["method"] for row in rows if row["half"] == half):
                cells = {key: of for key, of in by_cell.items() if key[0] == half and {method, rival} <= of.keys()}
                if method != rival and cells:
                    found += _tests(method, rival, cells)
    return corrected(found)


def corrected(tests: Sequence[Record]) -> list[Record]:
    """With Holm's p-values, over all cells of one method against one rival in one half.

    Example:
        >>> one = {"half": "reporting", "method": "band", "rival": "ig", "raw_p": 0.03}
        >>> [test["p"] for test in corrected([one, one | {"raw_p": 0.01}, one | {"method": "line"}])]
        [0.03, 0.02, 0.03]
    """
    families: dict[tuple[str, str, str], list[int]] = {}
    for i, test in enumerate(tests):
        families.setdefault((test["half"], test["method"], test["rival"]), []).append(i)
    p_values = np.empty(len(tests))
    for members in families.values():
        p_values[members] = holm([tests[i]["raw_p"] for i in members])
    return [test | {"p": round(float(p), 6), "clear": bool(p < CLEAR)} for test, p in zip(tests, p_values, strict=True)]


def _tests(
    method: str, rival: str, cells: Mapping[tuple[str, str, str], Mapping[str, Mapping[int, float]]]
) -> list[Record]:
    made: list[Record] = []
    for (half, net, measure), of in cells.items():
        both = sorted(of[method].keys() & of[rival].keys())
        if len(both) > 1:
            test = paired_test([of[method][row] for row in both], [of[rival][row] for row in both], resamples=1999)
            told = {"half": half, "method": method, "rival": rival, "net": net, "measure": measure, "n": len(both)}
            made.append(told | {"difference": round(test.difference, 6), "raw_p": test.p_value})
    return made
