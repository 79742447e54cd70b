"""Records of digits and photographs put together, and words that both studies need."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations
from typing import Any

from studies.findings.choices.task import DIGITS, PHOTOGRAPHS, TITLES, Numbers
from studies.findings.measuring import mean
from studies.findings.study import Record


def by_data(records: Mapping[str, Record]) -> dict[str, dict[str, Record]]:
    """Data -> method -> what was found, lists of all units one after the other; in the order of this file."""
    found: dict[str, dict[str, Record]] = {DIGITS: {}, PHOTOGRAPHS: {}}
    for key in sorted(records):
        found[records[key]["data"]] = _joined(found[records[key]["data"]], records[key]["methods"])
    return {data: {name: of[name] for name in TITLES if name in of} for data, of in found.items() if of}


def _joined(a: Any, b: Any) -> Any:
    """Lists one after the other, dictionaries key by key."""
    if isinstance(a, list):
        return a + b
    return a | {key: _joined(a[key], value) if key in a else value for key, value in b.items()}


def described(records: Mapping[str, Record], counts: Mapping[str, int]) -> str:
    """The data in words; counts: how many examples of each."""
    told = []
    if DIGITS in counts:
        told.append(f"Digits: {counts[DIGITS]} unseen ones, a convolutional ReLU net, integrals to a tolerance of 1 %.")
    if PHOTOGRAPHS in counts:
        side = next(record["side"] for record in records.values() if record["data"] == PHOTOGRAPHS)
        told.append(
            f"Photographs: {counts[PHOTOGRAPHS]} of {side} × {side} pixels, EfficientNet-lite0, at most a few hundred "
            "gradients for each attribution."
        )
    return " ".join(told)


def pairs_of(names: Iterable[str]) -> dict[str, tuple[str, str]]:
    """All pairs of names, by a name of their own."""
    return {f"{a} – {b}": (a, b) for a, b in combinations(names, 2)}


def averaged(lists: Sequence[Numbers]) -> Numbers:
    """The mean over lists, example by example."""
    means = [mean(numbers) for numbers in zip(*lists, strict=True)]
    return [x if math.isfinite(x) else None for x in means]
