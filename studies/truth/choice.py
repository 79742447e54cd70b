"""The rule for defaults: of what does no harm on the development half, the best; and it must do none on the other.

Clearly means: a paired test, corrected by Holm over all cells of a configuration, has p < 0.05.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from leastpath.evaluation.statistics import holm, paired_test

CLEAR = 0.05
POINTS = 0.05  # by which a gate may be below the reference's
Cell = tuple[str, str]
"""A net and a fill."""


@dataclass(frozen=True)
class Evidence:
    """What the rule looks at, for one configuration on one half.

    Args:
        gains: by cell, the gain of each example.
        gates: numbers that must not be more than 5 points below the reference's.

    Example:
        >>> Evidence({("digits", "black"): {0: 0.5, 1: 0.7}}).mean
        0.6
    """

    gains: Mapping[Cell, Mapping[int, float]]
    gates: Mapping[str, float] = field(default_factory=dict)

    @property
    def mean(self) -> float:
        """Over fills, then over nets: every net counts the same."""
        nets: dict[str, list[float]] = {}
        for (net, _), gains in self.gains.items():
            nets.setdefault(net, []).append(float(np.mean(list(gains.values()))))
        return float(np.mean([np.mean(means) for means in nets.values()])) if nets else math.nan


@dataclass(frozen=True)
class Choice:
    """What the rule chose, and why.

    Example:
        >>> Choice("monotone", "monotone", {}, {}, "does no harm").name
        'monotone'
    """

    name: str
    best: str | None
    """The one that the development half chose."""
    harms: Mapping[str, Sequence[str]]
    """On the development half: what is clearly worse than the reference, by configuration."""
    confirmation: Mapping[str, Sequence[str]]
    """On the reporting half: the same, for the best."""
    reason: str


def harms(ours: Evidence, reference: Evidence) -> list[str]:
    """Where a configuration is clearly worse than the reference: cells and gates, in words.

    Example:
        >>> line = Evidence({("net", "black"): {i: 0.5 + i / 100 for i in range(8)}}, {"mark": 0.8})
        >>> harms(Evidence({("net", "black"): {i: 0.1 for i in range(8)}}, {"mark": 0.7}), line)
        ['net, black', 'mark']
    """
    cells, p_values, worse = [], [], []
    for cell, gains in ours.gains.items():
        other = reference.gains.get(cell, {})
        both = sorted(gains.keys() & other.keys())
        if len(both) > 1:
            test = paired_test([gains[row] for row in both], [other[row] for row in both])
            cells.append(cell)
            p_values.append(test.p_value)
            worse.append(test.difference < 0)
    clear = holm(p_values) < CLEAR
    found = [
        ", ".join(cell) for cell, is_worse, is_clear in zip(cells, worse, clear, strict=True) if is_worse & is_clear
    ]
    below = [
        name for name, value in ours.gates.items() if value < reference.gates.get(name, -math.inf) - POINTS - 1e-12
    ]
    return found + below


def choose(
    development: Mapping[str, Evidence],
    reporting: Mapping[str, Evidence],
    eligible: Sequence[str],
    *,
    reference: str = "ig",
    fallback: str = "line",
) -> Choice:
    """The default of one kind of input.

    Args:
        development: by name, the evidence of the development half.
        reporting: of the other half.
        eligible: names that may be chosen.
        reference: what nothing may be clearly worse than.
        fallback: the straight line.

    Only configurations that were measured in every cell of the reference can be chosen.

    Example:
        >>> line = Evidence({("net", "black"): {i: 0.5 + i / 100 for i in range(8)}})
        >>> ours = Evidence({("net", "black"): {i: 0.7 + i / 100 for i in range(8)}})
        >>> choose({"ig": line, "ours": ours}, {"ig": line, "ours": ours}, ["ours"]).name
        'ours'
    """
    if reference not in development:
        return Choice(fallback, None, {}, {}, f"{reference} is not measured")
    line = development[reference]
    known = {name: development[name] for name in eligible if name in development and _complete(development[name], line)}
    found = {name: harms(of, line) for name, of in known.items()}
    harmless = [name for name, where in found.items() if not where and known[name].mean > line.mean]
    if not harmless:
        return Choice(fallback, None, found, {}, "nothing that does no harm has a better mean on the development half")
    best = max(harmless, key=lambda name: known[name].mean)
    if best not in reporting or reference not in reporting or not _complete(reporting[best], reporting[reference]):
        return Choice(fallback, best, found, {}, f"{best} is not measured on the reporting half yet")
    against = harms(reporting[best], reporting[reference])
    if against:
        return Choice(fallback, best, found, {best: against}, "the reporting half does not confirm the best")
    return Choice(best, best, found, {best: []}, "it does no harm on either half")


def _complete(ours: Evidence, reference: Evidence) -> bool:
    """Whether all of the reference's examples are there, cell by cell."""
    return all(reference.gains[cell].keys() <= ours.gains.get(cell, {}).keys() for cell in reference.gains)
