"""Same numbers: record what hundreds of calls return, and compare the records of two versions of leastpath.

    PYTHONPATH=/path/to/old/src python tools/same_numbers.py record before.npz
    python tools/same_numbers.py record after.npz
    python tools/same_numbers.py compare before.npz after.npz

A record holds of each call its values, costs, lengths, paths, what removal says, what the solver told (`stats`) and the
sentences of its status; or, of a call that was refused, the type and the text of the error. Everything random is
seeded and PyTorch works in one thread, so that two records of one version are the same bit for bit.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

CLOSE = 1e-6  # relative: what another order of summation may change
GRADES = ("same", "close", "different")
WIDTHS = (12, 16, 12)  # of their columns
WHOLE = "all fields together"
NUMBERS = (
    "values", "n_gradients", "n_forwards", "support", "length", "certificate", "completeness_gap", "cancellation",
    "length_ratio", "length_error", "score_change", "attribution_error", "baseline_spread", "path_spread",
)  # fmt: skip
TEXTS = ("metric", "geometry")
# Small differences of large numbers: how close they are is measured beside those.
BESIDE = {
    "completeness_gap": "values",
    "cancellation": "values",
    "attribution_error": "values",
    "length_error": "length",
}

Record = dict[str, np.ndarray]  # of one call: field -> numbers or text


# ---- record --------------------------------------------------------------------------------------------------------


def record_of(result: Any) -> Record:
    """What is kept of a result, by field. Parts of a field have a number or a name after a dot."""
    kept: dict[str, Any] = {}
    for name in NUMBERS:
        given = getattr(result, name, None)
        parts = given if isinstance(given, tuple) else (given,)
        kept |= {f"{name}.{i}": part for i, part in enumerate(parts) if part is not None}
    kept |= {f"stats.{name}": given for name, given in getattr(result, "stats", {}).items()}
    if getattr(result, "path", None) is not None:
        kept |= {f"path.{i}": result.path[i] for i in range(len(result.path))}
    for i, status in enumerate(getattr(result, "status", ())):
        kept[f"status.{i}"] = status.value
        kept[f"outcomes.{i}"] = ", ".join(outcome.value for outcome in status.outcomes)
    kept |= {name: getattr(result, name) for name in TEXTS if hasattr(result, name)}
    kept["solver"] = getattr(result, "solver", None) or getattr(result, "method", "")
    return {name: as_array(given) for name, given in kept.items()}


def as_array(given: Any) -> np.ndarray:
    """Numbers as they are, and anything else as text."""
    if isinstance(given, Tensor):
        return given.detach().cpu().numpy()
    return np.array(given if isinstance(given, (bool, int, float, str)) else repr(given))


def record(file: Path, only: str) -> None:
    """Run all calls whose name contains `only` and write what they return."""
    from same_numbers_calls import method_calls, solver_calls
    from same_numbers_settings import settings_calls

    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    kept: dict[str, np.ndarray] = {}
    began, n = time.perf_counter(), 0
    for call in chain(method_calls(), solver_calls(), settings_calls()):
        if only not in call.name:
            continue
        try:
            found = record_of(call.run())
        except Exception as error:
            found = {"error": np.array(f"{type(error).__name__}: {error}")}
        kept |= {f"{call.name}//{field}": array for field, array in found.items()}
        n += 1
    with file.open("wb") as stream:  # given a name, NumPy would add an ending to it
        np.savez_compressed(stream, **kept)  # type: ignore[arg-type]
    refused = sum(name.endswith("//error") for name in kept)
    print(f"{n} calls in {time.perf_counter() - began:.0f} s, {refused} of them refused: {file}")


# ---- compare -------------------------------------------------------------------------------------------------------


def opened(file: Path) -> dict[str, Record]:
    """Call -> its record."""
    calls: dict[str, Record] = defaultdict(dict)
    with np.load(file, allow_pickle=False) as stored:
        for name in stored.files:
            call, field = name.rsplit("//", 1)
            calls[call][field] = stored[name]
    return dict(calls)


def apart(before: np.ndarray, after: np.ndarray, beside: np.ndarray) -> float:
    """The largest difference relative to the largest of the numbers before, or `beside`; infinite for other shapes."""
    if before.shape != after.shape or before.dtype != after.dtype or before.dtype.kind not in "fiub":
        return np.inf
    a, b = before.astype(float), after.astype(float)
    finite = np.isfinite(a)
    if not np.array_equal(a[~finite], b[~finite], equal_nan=True):
        return np.inf
    largest = max(np.abs(x[np.isfinite(x)]).max(initial=0.0) for x in (a, beside.astype(float)))
    return float(np.abs(a[finite] - b[finite]).max(initial=0.0) / (largest or 1.0))


def graded(field: str, before: Record, after: Record) -> tuple[str, str]:
    """How one field of a call has changed: its grade, and words for what differs."""
    if field not in before or field not in after:
        return "different", f"is there only {'before' if field in before else 'after'}"
    a, b = before[field], after[field]
    if a.dtype.kind == b.dtype.kind == "U":
        return ("same", "") if str(a) == str(b) else ("different", f"{str(a)!r} → {str(b)!r}")
    if a.dtype == b.dtype and np.array_equal(a, b, equal_nan=a.dtype.kind == "f"):
        return "same", ""
    far = apart(a, b, before.get(f"{BESIDE.get(kind_of(field))}.0", a))
    if np.isfinite(far) and a.dtype.kind == "f":
        return "close" if far <= CLOSE else "different", f"by {far:.2g} of the largest"
    return "different", f"{brief(a)} → {brief(b)}"


def kind_of(field: str) -> str:
    """The field without its part: "status.0" is of the kind "status"."""
    return field.split(".", maxsplit=1)[0]


def brief(array: np.ndarray) -> str:
    """A few numbers, or the shape of many."""
    return str(array.tolist()) if array.size <= 6 else f"{array.dtype} of shape {array.shape}"


def worst(grades: Iterable[str]) -> str:
    """The last of these grades in the order of GRADES."""
    return max(grades, key=GRADES.index)


def compare(before: Mapping[str, Record], after: Mapping[str, Record]) -> None:
    """Print how many calls are the same in each field, and list what differs."""
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    listed: list[str] = []
    for call in (call for call in before if call in after):
        grades: dict[str, list[str]] = defaultdict(list)
        for field in dict.fromkeys((*before[call], *after[call])):
            grade, words = graded(field, before[call], after[call])
            grades[kind_of(field)].append(grade)
            listed += [f"  {call}: {field} {words}"] * (grade == "different")
        for kind, found in grades.items():
            counts[kind][worst(found)] += 1
        counts[WHOLE][worst(chain(*grades.values()))] += 1
    for words, calls in (("before", before.keys() - after.keys()), ("after", after.keys() - before.keys())):
        if calls:
            listed.append(f"  {len(calls)} calls were made only {words}, such as: {min(calls)}")
    print_table(counts)
    print(f"\n{len(listed)} differences", *listed, sep="\n")


def print_table(counts: Mapping[str, Counter[str]]) -> None:
    """A line for each kind of field, and the last for whole calls."""
    print(f"{'calls with':<20}{'same bits':>12}{f'within {CLOSE:g}':>16}{'different':>12}")
    for kind in sorted(counts, key=lambda kind: kind == WHOLE):
        print(f"{kind:<20}", *(f"{counts[kind][grade]:>{w}}" for grade, w in zip(GRADES, WIDTHS, strict=True)), sep="")


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    recording = commands.add_parser("record", help="run all calls and write what they return")
    recording.add_argument("file", type=Path)
    recording.add_argument("--only", default="", metavar="TEXT", help="calls whose name contains this")
    comparing = commands.add_parser("compare", help="compare two records")
    comparing.add_argument("before", type=Path)
    comparing.add_argument("after", type=Path)
    given = parser.parse_args()
    if given.command == "record":
        record(given.file, given.only)
    else:
        compare(opened(given.before), opened(given.after))


if __name__ == "__main__":
    main()
