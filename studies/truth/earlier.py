"""What earlier runs measured stays on the page: a run of hours need not be repeated to add a method or a net."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from studies.truth.candidates import Candidate
from studies.truth.leads import sort_of
from studies.truth.problem import HALVES
from studies.truth.results import Rows, corrected

Told = Mapping[str, Any]
"""All that the page needs, as `command.told_by` makes it."""
WORDS = ("net", "half", "method", "digest")
Key = tuple[str, str, str, int]
"""Net, half, method and row of an example."""


def key_of(row: Rows) -> Key:
    """Which example under which method a row is of."""
    return row["net"], row["half"], row["method"], row["row"]


def read_rows(file: Path, candidates: Mapping[str, Candidate]) -> list[Rows]:
    """The examples that earlier runs measured, of candidates whose settings are still the same."""
    if not file.is_file():
        return []
    with file.open(encoding="utf-8", newline="") as opened:
        rows: list[Rows] = [
            {name: text if name in WORDS else _number(text) for name, text in row.items()}
            for row in csv.DictReader(opened)
        ]
    known = {name: candidate.digest for name, candidate in candidates.items()}
    return [row | {"row": int(row["row"])} for row in rows if known.get(row["method"]) == row["digest"]]


def _number(text: str) -> float | None:
    return float(text) if text else None


def write_rows(rows: Sequence[Rows]) -> str:
    """Rows as CSV, numbers in five digits.

    Example:
        >>> write_rows([{"net": "voc", "row": 3, "gain": 1 / 3}])
        'net,row,gain\\r\\nvoc,3,0.33333\\r\\n'
    """
    text = io.StringIO()
    writer = csv.DictWriter(text, list(dict.fromkeys(name for row in rows for name in row)))
    writer.writeheader()
    for row in rows:
        writer.writerow({name: f"{x:.5g}" if isinstance(x, float) else x for name, x in row.items()})
    return text.getvalue()


def with_rows(rows: Iterable[Rows], earlier: Iterable[Rows], nets: Sequence[str]) -> list[Rows]:
    """The rows of a run, and those of earlier ones that it did not measure again, in the order of nets."""
    found = {key_of(row): row for row in (*earlier, *rows) if row["net"] in nets}
    return sorted(found.values(), key=lambda row: (nets.index(row["net"]), row["method"], row["row"]))


def with_earlier(told: Told, earlier: Told) -> dict[str, Any]:
    """The results of a run, and those of an earlier one that it did not measure again.

    Each pair of a net and a method is taken whole from the one that has more examples, the later one if both have as
    many. Holm's correction is made anew, over the cells of both. What the rule chose for a sort of input is taken from
    the later run only if it has all nets of that sort that the earlier one had: the rule looks at single examples.

    Args:
        told: what this run found.
        earlier: what is on the page.
    """
    known = earlier["nets"]
    of_run = {
        name: of | {"quality": of["quality"] or known.get(name, of)["quality"]} for name, of in told["nets"].items()
    }
    nets = {**known, **of_run}  # a net that was not opened this time is as good as it was
    return {
        "nets": nets,
        "candidates": earlier["candidates"] | told["candidates"],
        "summaries": {half: _summaries(told, earlier, half, list(nets)) for half in HALVES},
        "gates": {half: _gates(told, earlier, half) for half in HALVES},
        "tests": corrected(_tests(told, earlier)),
        "choices": earlier["choices"] | {k: v for k, v in told["choices"].items() if _covers(told, earlier, k)},
        "examples": {
            net: _longer(earlier.get("examples", {}).get(net, {}), told.get("examples", {}).get(net, {}))
            for net in nets
            if net in earlier.get("examples", {}) or net in told.get("examples", {})
        },
        "rivals": told.get("rivals") or earlier.get("rivals", {}),
    }


def _summaries(told: Told, earlier: Told, half: str, nets: Sequence[str]) -> dict[str, Any]:
    old, new = earlier["summaries"][half], told["summaries"][half]
    return {
        net: _in_order(_larger(old.get(net, {}), new.get(net, {})), told["candidates"])
        for net in nets
        if net in old or net in new
    }


def _larger(old: Mapping[Any, Told], new: Mapping[Any, Told]) -> dict[Any, Told]:
    """Of both, what has more examples; the new where they are as many."""
    return {**old, **{key: one for key, one in new.items() if key not in old or one["n"] >= old[key]["n"]}}


def _longer(old: Mapping[str, Told], new: Mapping[str, Told]) -> dict[str, Told]:
    """By method, the examples of the run that has more of them; the new one's where they are as many."""
    return {**old, **{name: rows for name, rows in new.items() if len(rows) >= len(old.get(name, ()))}}


def _gates(told: Told, earlier: Told, half: str) -> dict[str, Any]:
    """Each gate by itself: a run without the control net says nothing about being told from it."""
    old, new = earlier["gates"][half], told["gates"][half]
    both = {name: {**old.get(name, {}), **new.get(name, {})} for name in {**old, **new}}
    return _in_order(both, told["candidates"])


def _in_order(methods: Told, order: Mapping[str, str]) -> dict[str, Any]:
    return {name: methods[name] for name in order if name in methods}


def _tests(told: Told, earlier: Told) -> list[dict[str, Any]]:
    def key(test: Told) -> tuple[str, ...]:
        return tuple(test[name] for name in ("half", "method", "rival", "net", "measure"))

    old, new = ({key(test): test for test in of["tests"]} for of in (earlier, told))
    return [dict(test) for test in _larger(old, new).values()]


def _covers(told: Told, earlier: Told, sort: str) -> bool:
    def nets(of: Told) -> set[tuple[str, str]]:
        found = ((half, net) for half in HALVES for net in of["summaries"][half])
        return {(half, net) for half, net in found if sort_of(net, of["nets"][net]["kind"]) == sort}

    return nets(told) >= nets(earlier)
