"""The default of photographs beside every rival: on each net, and in each fill."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from leastpath.evaluation.statistics import holm, paired_test
from studies.truth.choice import harms
from studies.truth.leads import WINDOWS, shared
from studies.truth.problem import Net
from studies.truth.results import Rows, evidence, gains_by_example

OURS = WINDOWS[0]


def beside_rivals(rows: Sequence[Rows], nets: Mapping[str, Net]) -> dict[str, Any]:
    """Leads of the default on the reporting half, mean over fills, and the single fills in which it is clearly behind.

    Holm's correction is over all rivals and nets for the leads, and over all nets and fills of a rival for the fills.
    Only rivals and nets with at least two examples of both.

    Args:
        rows: examples under candidates.
        nets: by name.

    Returns:
        `leads` by rival and net (difference, p, n), and `behind` by rival: nets and fills in words. {} of none.
    """
    found = evidence(rows, nets, "reporting", "photographs")
    if OURS not in found:
        return {}
    ours, gains, tests = found[OURS], gains_by_example(rows), {}
    for rival in found:
        for net in dict.fromkeys(net for net, _ in ours.gains):
            own, theirs = shared(gains[net][OURS], gains[net].get(rival, {}))
            if rival not in WINDOWS and len(own) > 1:
                tests[rival, net] = paired_test(own, theirs)
    p_values = holm([test.p_value for test in tests.values()])
    leads: dict[str, dict[str, Any]] = {}
    for ((rival, net), test), p in zip(tests.items(), p_values, strict=True):
        leads.setdefault(rival, {})[net] = {
            "difference": round(test.difference, 4), "p": round(float(p), 5), "n": test.n
        }  # fmt: skip
    return {"leads": leads, "behind": {rival: harms(ours, found[rival]) for rival in leads}}
