"""By how much a method leads: over the controls of its net, and, for a kind of input, the best over the second."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from leastpath.evaluation.statistics import holm, paired_test
from studies.truth.candidates import CANDIDATES, CONTROLS

Examples = Mapping[str, Mapping[str, float]]
"""Of one net: by method and example, the mean gain over the fills."""
SORTS = {
    "photographs": "Photographs",
    "digits": "Small pictures",
    "text": "Tokens",
    "table": "Tables",
    "few": "Few features",
}
RESAMPLES = 1999
WINDOWS = ("context", "context-fast", "context-best")  # no rivals of each other: amounts of the same


@dataclass(frozen=True)
class Lead:
    """How far one is ahead of another on the examples that both have; p is Holm's."""

    over: str
    difference: float
    p: float
    n: int


@dataclass(frozen=True)
class Best:
    """The best method of a sort of input, its mean over nets, and its leads over the others, the nearest first."""

    name: str
    gain: float
    nets: Sequence[str]
    leads: Sequence[Lead]


def sort_of(net: str, kind: str) -> str:
    """Photographs, small pictures, or the kind itself: what has a default of its own.

    Example:
        >>> sort_of("voc", "image"), sort_of("planted", "image"), sort_of("adult", "table")
        ('photographs', 'digits', 'table')
    """
    if kind != "image":
        return kind
    return "photographs" if net.startswith(("voc", "imagenet", "cifar")) else "digits"


def lead_over_controls(found: Examples) -> dict[str, Lead]:
    """By method of one net, its lead over the control with the largest gain; Holm's correction over the methods."""
    controls = {name: float(np.mean(list(found[name].values()))) for name in CONTROLS if name in found}
    if not controls:
        return {}
    best = max(controls, key=lambda name: controls[name])
    return _leads({name: shared(found[name], found[best]) for name in found if name not in CONTROLS}, best)


def best_of(told: Mapping[str, Any], sort: str) -> Best | None:
    """The best of a sort of inputs, by its mean over nets, of the methods that were measured on all of its nets.

    That is, on at least half as many examples as any other: few examples of one would shrink what all share. Means are
    over the examples that all of these methods have; a lead is over those that both have, all nets together.
    """
    nets = {
        name: found for name, found in told.get("examples", {}).items()
        if sort_of(name, told["nets"][name]["kind"]) == sort and told["nets"][name]["gate"] in ("", "marks")
    }  # fmt: skip
    enough = {name: max(2, max(map(len, found.values()), default=0) / 2) for name, found in nets.items()}
    methods = [
        m for m, of in CANDIDATES.items()
        if nets and not of.few and m not in CONTROLS
        and all(len(found.get(m, ())) >= enough[name] for name, found in nets.items())
    ]  # fmt: skip
    if len(methods) < 2:
        return None
    common = {name: set.intersection(*({*found[m]} for m in methods)) for name, found in nets.items()}
    if not all(common.values()):
        return None
    means = {
        m: float(np.mean([np.mean([found[m][row] for row in common[name]]) for name, found in nets.items()]))
        for m in methods
    }
    best = max(means, key=lambda m: means[m])
    pooled = {m: {f"{net} {row}": x for net, of in nets.items() for row, x in of[m].items()} for m in methods}
    others = [m for m in methods if m != best and not {m, best} <= {*WINDOWS}]
    pairs = {other: shared(pooled[best], pooled[other]) for other in others}
    leads = _leads(pairs, None)
    order = sorted(leads, key=lambda m: -means[m])
    return Best(best, means[best], list(nets), [leads[m] for m in order])


def shared(ours: Mapping[str, float], theirs: Mapping[str, float]) -> tuple[list[float], list[float]]:
    """The numbers of the examples that both have, in the same order."""
    both = sorted(ours.keys() & theirs.keys())
    return [ours[row] for row in both], [theirs[row] for row in both]


def _leads(pairs: Mapping[str, Sequence[Sequence[float]]], over: str | None) -> dict[str, Lead]:
    """A paired test of each pair, corrected over all of them."""
    tests = {name: paired_test(a, b, resamples=RESAMPLES) for name, (a, b) in pairs.items() if len(a) > 1}
    p_values = holm([test.p_value for test in tests.values()])
    return {
        name: Lead(over or name, test.difference, float(p), test.n)
        for (name, test), p in zip(tests.items(), p_values, strict=True)
    }
