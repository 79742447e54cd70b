"""What the verdicts add up to: shares of each outcome, the power by removals, and what was said of four random maps."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from leastpath._support.store import Store
from leastpath.removal.verdict import ALPHA, bound_share
from studies.verdict.judging import REMOVALS
from studies.verdict.kinds import KINDS
from studies.verdict.tasks import TASKS, Task

OUTCOMES = ("supported", "better than chance", "undecided", "unsupported")


def sum_up(store: Store, tasks: Mapping[str, Task]) -> dict[str, Any]:
    """All that the page needs, as JSON.

    Returns:
        "verdicts": title -> kind -> {"n", each outcome's count, "low" and "high" of the share supported};
        "four random": title -> {"n", "trust"}; "band": title -> {"n", "unsupported though better than chance"};
        "power": title -> number of removals -> kind -> {"n", "supported", "better than chance"}.
    """
    units = [store.read(key).record for key in sorted(store) if key.startswith(("judged ", "followed "))]
    units = [unit for unit in units if unit["task"] in tasks]
    titles = [t for t in dict.fromkeys(task.title for task in tasks.values()) if any(u["title"] == t for u in units)]
    told: dict[str, Any] = {"verdicts": {}, "four random": {}, "band": {}, "power": {}}
    for title in titles:
        judged = [unit for unit in units if unit["title"] == title and "kinds" in unit]
        followed = [unit for unit in units if unit["title"] == title and "by removals" in unit]
        told["verdicts"][title] = {
            kind: count_verdicts([o for unit in judged for o in unit["kinds"][kind]["outcome"]])
            for kind in KINDS if any(kind in unit["kinds"] for unit in judged)
        }  # fmt: skip
        said = [trust for unit in judged for trust in unit["four random"]]
        told["four random"][title] = {"n": len(said), "trust": sum(said)}
        bands = [unit["band"] for unit in judged if "band" in unit]
        if bands:
            told["band"][title] = count_wrongly_refused(bands)
        if followed:
            told["power"][title] = {str(n): _find_power([u["by removals"][str(n)] for u in followed]) for n in REMOVALS}
    return told


def with_earlier(told: Mapping[str, Any], earlier: Mapping[str, Any]) -> dict[str, Any]:
    """What a run found, and of inputs that it did not look at what an earlier one did, both as `sum_up` gives them.

    Example:
        >>> with_earlier({"band": {}}, {"band": {"wine, 13 columns": {"n": 4}}})
        {'band': {'wine, 13 columns': {'n': 4}}}
    """
    titles = dict.fromkeys(task.title for task in TASKS.values())
    both = {part: {**earlier.get(part, {}), **of} for part, of in told.items()}
    return {part: {title: of[title] for title in titles if title in of} for part, of in both.items()}


def count_verdicts(outcomes: list[str]) -> dict[str, Any]:
    """How many of each outcome, and the interval of the share supported.

    Example:
        >>> found = count_verdicts(["supported"] * 9 + ["undecided"])
        >>> found["n"], found["supported"], round(found["low"], 2)
        (10, 9, 0.6)
    """
    counts, n = Counter(outcomes), len(outcomes)
    low, high = bound_share(counts["supported"], n)
    return {"n": n, **{outcome: counts[outcome] for outcome in OUTCOMES}, "low": round(low, 4), "high": round(high, 4)}


def count_wrongly_refused(bands: list[Mapping[str, Any]]) -> dict[str, int]:
    """Of bent paths: how many are unsupported though better than chance, since they are called worse than the line.

    Example:
        >>> count_wrongly_refused([{"outcome": ["unsupported", "supported"], "p_value": [0.01, 0.01]}])
        {'n': 2, 'supported': 1, 'unsupported': 1, 'though better than chance': 1}
    """
    rows = [row for band in bands for row in zip(band["outcome"], band["p_value"], strict=True)]
    refused = [p for outcome, p in rows if outcome == "unsupported"]
    supported = sum(outcome == "supported" for outcome, _ in rows)
    above = sum(p <= ALPHA for p in refused)
    return {"n": len(rows), "supported": supported, "unsupported": len(refused), "though better than chance": above}


def _find_power(maps: list[Mapping[str, list[float]]]) -> dict[str, dict[str, int]]:
    """Of photographs' p-values after so many removals: how many maps of each kind pass both tests, or the first."""
    return {
        kind: {
            "n": len(maps),
            "supported": sum(max(one[kind]) <= ALPHA for one in maps),
            "better than chance": sum(one[kind][0] <= ALPHA for one in maps),
        }
        for kind in KINDS if all(kind in one for one in maps)
    }  # fmt: skip
