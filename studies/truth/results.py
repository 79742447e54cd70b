"""From the kept units to numbers an example, to tables, and to the JSON that the page is written from."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch

from leastpath._support.store import Store
from leastpath.evaluation.statistics import holm, paired_test
from studies.findings.architectures import TOP, chance_above
from studies.findings.measuring import rank_correlation
from studies.findings.study import Record
from studies.truth.candidates import IDGI, IG, Candidate
from studies.truth.choice import CLEAR, Evidence
from studies.truth.problem import HALVES, Half, Net
from studies.truth.work import pieces

Rows = dict[str, Any]
"""One example under one candidate: net, half, method, row, and a number for each measure."""


def examples(store: Store, nets: Sequence[Net], candidates: Sequence[Candidate]) -> Iterator[Rows]:
    """Every example that is finished."""
    for piece in pieces(nets, candidates, named=True):
        if piece.measured not in store or piece.explained not in store:
            continue
        made, found = store.read(piece.explained).record, store.read(piece.measured)
        strengths, beside = found.arrays["strengths"], _beside(store, piece, candidates, nets)
        for i, row in enumerate(piece.rows):
            gains = {f"gain {fill}": values[i] for fill, values in found.record["gain"].items()}
            yield {
                "net": piece.net.name, "half": piece.half, "method": piece.candidate.name, "row": row, **gains,
                "gain": float(np.mean([gain for gain in gains.values() if gain is not None])),
                **{name: found.record[name][i] for name in found.record if name != "gain"},
                "ratio": _ratio(made["total"][i], made["change"][i]),
                "gradients": made["gradients"][i], "seconds": made["seconds"] / len(piece.rows),
                "length_ratio": made["length_ratio"][i],
                **{name: _agreement(strengths[i], other[i]) for name, other in beside.items()},
            }  # fmt: skip


def _beside(store: Store, piece: Any, candidates: Sequence[Candidate], nets: Sequence[Net]) -> dict[str, torch.Tensor]:
    """What the strengths are compared with: leaving one feature out, and the same candidate on random weights."""
    from dataclasses import replace

    others = {
        "leave-one-out": replace(piece, candidate=candidate) for candidate in candidates if candidate.name == "occlusion"
    }
    if piece.net.name == "digits-cnn":
        others |= {"random weights": replace(piece, net=net) for net in nets if net.gate == "randomised"}
    return {
        name: store.read(other.measured).arrays["strengths"] for name, other in others.items() if other.measured in store
    }


def _agreement(a: torch.Tensor, b: torch.Tensor) -> float | None:
    """Spearman's correlation over the features that are there, of magnitudes."""
    there = ~torch.isnan(a) & ~torch.isnan(b)
    found = rank_correlation(a[there].abs().tolist(), b[there].abs().tolist()) if int(there.sum()) > 2 else math.nan
    return None if math.isnan(found) else found


def _ratio(total: float | None, change: float | None) -> float | None:
    """Σ|A| / |Δf|; None where the score does not change."""
    return total / abs(change) if total is not None and change and abs(change) > 1e-6 else None


def evidence(rows: Sequence[Rows], nets: Mapping[str, Net], half: Half, kind: str) -> dict[str, Evidence]:
    """By method, what the rule looks at: gains by (net, fill), and the gates' numbers.

    A net counts for a method only with the examples that IG has, too.
    """
    chosen = [row for row in rows if row["half"] == half and nets[row["net"]].kind == kind]
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
    known = {name: _median(rows, name) for name in ("ratio", "length_ratio", "leave-one-out", "gradients", "seconds")}
    extra = {name: _mean(rows, name) for name in ("objects", "mark share", "random weights")}
    told = {"n": len(rows), "gain": _mean(rows, "gain"), "worst": min(gains.values()), "gains": gains, **known, **extra}
    return {name: value for name, value in told.items() if value is not None}


def _numbers(rows: Sequence[Rows], name: str) -> list[float]:
    return [row[name] for row in rows if row.get(name) is not None]


def _mean(rows: Sequence[Rows], name: str) -> float | None:
    numbers = _numbers(rows, name)
    return round(float(np.mean(numbers)), 6) if numbers else None


def _median(rows: Sequence[Rows], name: str) -> float | None:
    numbers = _numbers(rows, name)
    return round(float(np.median(numbers)), 6) if numbers else None


def tests(rows: Sequence[Rows], rivals: Sequence[str] = (IG, IDGI)) -> list[Record]:
    """Paired tests of every method against the rivals: each (net, fill), the mean over fills, and objects.

    Holm's correction is over all cells of one method against one rival in one half.
    """
    by_cell: dict[tuple[str, str, str], dict[str, dict[int, float]]] = {}
    for row in rows:
        for measure, value in row.items():
            if value is not None and (measure.startswith("gain") or measure == "objects"):
                by_cell.setdefault((row["half"], row["net"], measure), {}).setdefault(row["method"], {})[row["row"]] = value
    found: list[Record] = []
    for half in HALVES:
        for rival in rivals:
            for method in dict.fromkeys(row["method"] for row in rows if row["half"] == half):
                cells = {key: of for key, of in by_cell.items() if key[0] == half and {method, rival} <= of.keys()}
                if method != rival and cells:
                    found += _tests(method, rival, cells)
    return found


def _tests(method: str, rival: str, cells: Mapping[tuple[str, str, str], Mapping[str, Mapping[int, float]]]) -> list[Record]:
    made = []
    for (half, net, measure), of in cells.items():
        both = sorted(of[method].keys() & of[rival].keys())
        if len(both) > 1:
            test = paired_test([of[method][row] for row in both], [of[rival][row] for row in both], resamples=1999)
            told = {"half": half, "method": method, "rival": rival, "net": net, "measure": measure, "n": len(both)}
            made.append(told | {"difference": round(test.difference, 6), "raw_p": test.p_value})
    corrected = holm([one["raw_p"] for one in made])
    return [one | {"p": round(float(p), 6), "clear": bool(p < CLEAR)} for one, p in zip(made, corrected, strict=True)]
