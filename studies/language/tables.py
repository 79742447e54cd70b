"""Tables: what came of all prompts, on one half of them."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from leastpath.evaluation.statistics import holm, paired_test
from studies.language.prompts import Half
from studies.markdown import markdown_table

Found = Mapping[str, Any]
REMOVALS = ("natural", "end of text", "deleted")
DEFAULT = "left out, natural × 4, joined"


def of_half(found: Sequence[Found], half: Half) -> list[Found]:
    """The prompts of one half whose answer the model prefers to its foil: of the others no cause is known."""
    return [one for one in found if one["half"] == half and one["margin"] > 0]


def rank_of_cause(one: Found, name: str) -> int:
    """0 where a known cause has the largest value of all words."""
    values, words = one["values"][name], one["words"]
    order = sorted(range(len(words)), key=lambda k: -values[k])
    return next(rank for rank, k in enumerate(order) if words[k] in one["causes"])


def chance_of_first(one: Found) -> float:
    """How often a random word is a cause."""
    return sum(word in one["causes"] for word in one["words"]) / len(one["words"])


def names_of(found: Sequence[Found]) -> list[str]:
    """The explanations that all prompts have, in a fixed order."""
    order = ("gradient", "IG", "left out", "stair", "elastic")
    every = set.intersection(*(set(one["values"]) for one in found))
    return sorted(every, key=lambda name: (next(k for k, head in enumerate(order) if name.startswith(head)), name))


def with_gradients(found: Sequence[Found]) -> list[Found]:
    """The prompts that Integrated Gradients explain too."""
    return [one for one in found if one["gaps"]]


def summarize(found: Sequence[Found]) -> dict[str, dict[str, float]]:
    """For each explanation: how often the cause comes first or among the first two, and the mean gains."""
    table = {}
    for name in names_of(found):
        ranks = [rank_of_cause(one, name) for one in found]
        # Removal is a part of its own, which may not be done yet.
        nothing = float("nan")
        gains = {kind: [one["gains"].get(kind, {}).get(name, nothing) for one in found] for kind in REMOVALS}
        means = {kind: statistics.fmean(own) for kind, own in gains.items()}
        each = [statistics.fmean(gains[kind][k] for kind in REMOVALS) for k in range(len(found))]
        known = len(each) > 1 and all(map(math.isfinite, each))  # removal is a part of its own
        error = statistics.stdev(each) / len(each) ** 0.5 if known else float("nan")
        table[name] = {
            "first": sum(r == 0 for r in ranks) / len(ranks), "first two": sum(r < 2 for r in ranks) / len(ranks),
            **means,
            "mean": statistics.fmean(each), "error": error,
        }  # fmt: skip
    return table


def choose(found: Sequence[Found]) -> str:
    """The explanation whose cause comes first most often; then among the first two; then with the larger gain."""
    table = summarize(found)
    return max(table, key=lambda name: (table[name]["first"], table[name]["first two"], table[name]["mean"]))


def write_summary(found: Sequence[Found]) -> str:
    """The table of explanations, in Markdown."""
    heads = ["explanation", "cause first", "first two", *REMOVALS, "mean gain"]
    rows: list[list[object]] = [
        ["*random order*", f"{statistics.fmean(map(chance_of_first, found)):.2f}", "", "0", "0", "0", "0"]
    ]
    for name, own in summarize(found).items():
        gains = [f"{own[kind]:+.2f}" for kind in REMOVALS]
        rows.append(
            [name, f"{own['first']:.2f}", f"{own['first two']:.2f}", *gains, f"{own['mean']:+.2f} ± {own['error']:.2f}"]
        )
    return markdown_table(heads, rows)


def write_gaps(found: Sequence[Found]) -> str:
    """How far Integrated Gradients misses the change of score, from each start."""
    rows = []
    for name in found[0]["gaps"]:
        gaps = sorted(abs(one["gaps"][name]) for one in found)
        rows.append(
            [name, f"{statistics.median(gaps):.3f}", f"{gaps[int(0.9 * (len(gaps) - 1))]:.2f}", f"{gaps[-1]:.2f}"]
        )
    return markdown_table(["start", "median", "90 %", "largest"], rows)


def write_sorts(found: Sequence[Found], names: Sequence[str]) -> str:
    """How often the cause comes first, by sort of prompt."""
    sorts = list(dict.fromkeys(one["sort"] for one in found))
    rows: list[list[object]] = []
    for sort in sorts:
        own = [one for one in found if one["sort"] == sort]
        rows.append([f"{sort} ({len(own)})", *(f"{sum(rank_of_cause(o, n) == 0 for o in own)}" for n in names)])
    return markdown_table(["sort (prompts)", *names], rows)


def write_fewer(found: Sequence[Found]) -> str:
    """The median gap of Integrated Gradients over the change of score, against the number of gradients."""
    some = [one for one in found if one.get("fewer")]
    if not some:
        return ""
    starts = list(some[0]["fewer"])
    steps = list(some[0]["fewer"][starts[0]])
    rows = [
        [start, *(f"{statistics.median(abs(one['fewer'][start][n]) for one in some):.3f}" for n in steps)]
        for start in starts
    ]
    return markdown_table([f"start ({len(some)} prompts)", *(f"{n} gradients" for n in steps)], rows)


def write_paired(found: Sequence[Found], default: str = DEFAULT) -> str:
    """The default's gain minus that of explanations by gradients, under each removal; p by sign flips, after Holm."""
    others = [name for name in names_of(found) if name.startswith(("IG", "gradient"))]
    if not all(default in one["gains"].get(kind, {}) for one in found for kind in REMOVALS):
        return ""
    tests = {
        (name, kind): paired_test(
            [one["gains"][kind][default] for one in found], [one["gains"][kind][name] for one in found]
        )
        for name in others
        for kind in REMOVALS
    }
    adjusted = dict(zip(tests, holm([test.p_value for test in tests.values()]), strict=True))
    rows = [
        [name, *(f"{tests[name, kind].difference:+.2f} (p {adjusted[name, kind]:.3f})" for kind in REMOVALS)]
        for name in others
    ]
    return markdown_table([f"{default}, ahead of", *REMOVALS], rows)
