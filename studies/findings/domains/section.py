"""Where the paper did not look: two tables, handwritten digits, and short sentences."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from leastpath.methods import METHODS
from studies.findings.config import Setting
from studies.findings.domains.case import BENT, DOMAIN, GRAPH, LINE
from studies.findings.domains.judging import share_of
from studies.findings.domains.numbers import numbers_case
from studies.findings.domains.text import has_text, text_case
from studies.findings.measuring import difference, direction, enumerated, evidence, listed, mean, middle, written
from studies.findings.study import Measurement, Record, Study
from studies.markdown import markdown_table


def _measurements(setting: Setting) -> Iterator[Measurement]:
    for name, domain in DOMAIN.items():
        if name != "text" or has_text(setting):
            for method in domain.methods:
                yield Measurement(f"{name}, {method}", partial(_record, setting, name, method))


def _record(setting: Setting, name: str, method: str) -> Record:
    """All numbers of one domain and method, the examples of its networks one after the other."""
    if name == "text":
        cases = [text_case(setting)]
    else:
        cases = [numbers_case(setting, name, seed) for seed in range(setting.of("domains.seeds"))]
    lists: dict[str, list[Any]] = {}
    removals: dict[str, list[float | None]] = {}
    for case in cases:
        result = case.explain(method)
        found = evidence(result) | {"agreement": case.agreement(result), "quality": [case.quality]}
        if case.at_rest is not None:
            found["at_rest"] = listed(share_of(result.values, case.at_rest))
        for key, numbers in found.items():
            lists.setdefault(key, []).extend(numbers)
        for fill, values in case.removal(result).items():
            removals.setdefault(fill, []).extend(listed(values))
    return {"domain": name, "method": method, **lists, "removal": removals}


Found = Mapping[str, Mapping[str, Record]]
"""Domain -> method -> record, without what is missing."""


def _section(records: Mapping[str, Record]) -> str:
    found = {name: {r["method"]: r for r in records.values() if r["domain"] == name} for name in DOMAIN}
    found = {name: methods for name, methods in found.items() if methods}
    words = [
        _answer(found),
        _verdict(found, BENT, "By domain, descent"),
        _verdict(found, GRAPH, "A graph"),
        _verdict(found, "idgi", "IDGI, on the straight line,"),
        _at_rest(found),
    ]
    return (
        f"{' '.join(word for word in words if word)}\n\n{_done(found)}\n\n{_path_table(found)}\n{_measures(found)}\n\n"
        f"{_removal_table(found)}"
    )


def _answer(found: Found) -> str:
    """What descent does to length, cancellation and removal, over all domains and fills."""
    both = {name: methods for name, methods in found.items() if BENT in methods and LINE in methods}
    if not both:
        return ""
    ratios = sorted(middle(methods[BENT]["length_ratio"]) for methods in both.values())
    cancelled = sorted(_cancelled(methods[BENT], methods[LINE]) for methods in both.values())
    signs = [sign for methods in both.values() for sign in _signs(methods, BENT).values()]
    return (
        f"On {enumerated(list(both))} paths found by descent have {_range(ratios)} of the straight line's length "
        f"(medians) and leave {_range(cancelled)} of IG's cancellation. Judged by what the network loses when the "
        f"features ranked first are removed, they are clearly better than IG in {signs.count(1)} and clearly worse in "
        f"{signs.count(-1)} of {len(signs)} comparisons."
    )


def _range(numbers: Sequence[float]) -> str:
    ends = [written(number) for number in (numbers[0], numbers[-1])]
    return ends[0] if ends[0] == ends[1] else f"{ends[0]} to {ends[1]}"


def _verdict(found: Found, method: str, subject: str) -> str:
    """In which domains, and with which fills, the method is clearly better or worse than IG by removal."""
    verdicts: dict[str, list[str]] = {}
    for name, methods in found.items():
        if method in methods and LINE in methods:
            verdicts.setdefault(_grouped(_signs(methods, method)), []).append(name)
    told = [f"{verdict} on {enumerated(names)}" for verdict, names in verdicts.items()]
    return f"{subject} is {'; '.join(told)}." if told else ""


def _signs(methods: Mapping[str, Record], method: str) -> dict[str, int]:
    """Fill -> how the method compares with IG."""
    line = methods[LINE]["removal"]
    return {fill: direction(values, line[fill]) for fill, values in methods[method]["removal"].items()}


def _grouped(signs: Mapping[str, int]) -> str:
    kinds = {1: "clearly better", -1: "clearly worse", 0: "not clearly different"}
    if len(set(signs.values())) == 1:
        return kinds[next(iter(signs.values()))]
    fills = {
        kind: [f.removesuffix(" (baseline)") for f, s in signs.items() if s == sign] for sign, kind in kinds.items()
    }
    return ", ".join(f"{kind} (filled with {enumerated(some)})" for kind, some in fills.items() if some)


def _at_rest(found: Found) -> str:
    """How much goes to features that are at the baseline, to which the straight line gives nothing."""
    told = []
    for name, methods in found.items():
        shares = {m: mean(methods[m].get("at_rest", [])) for m in (LINE, BENT, "idgi") if m in methods}
        if max(shares.values()) > 0:
            each = ", ".join(f"{METHODS[m].title} {share:.0%}" for m, share in shares.items())
            told.append(f"On {name}, features that are at the baseline anyway get this share of Σ|A|: {each}.")
    return " ".join(told)


def _done(found: Found) -> str:
    """What was trained and explained, with how well the networks do."""
    each = []
    for name, methods in found.items():
        one = next(iter(methods.values()))
        nets = len(one["quality"])
        each.append(
            f"{name} ({DOMAIN[name].data}; {nets} network{'s' * (nets > 1)}, {DOMAIN[name].quality} "
            f"{written(mean(one['quality']))} on unseen data; {len(one['ok'])} unseen examples)"
        )
    told = f"{'; '.join(each)}. "
    if found.keys() - {"text"}:
        told += "ReLU networks with two hidden layers; paths start at the training mean, for digits at black. "
    if "text" in found:
        told += (
            "For text, all-MiniLM-L6-v2 under a logistic head on the mean of its frozen tokens; paths of embeddings "
            "start at padding, and each coordinate of these counts. "
        )
    explained = "Explained is the log-probability of the predicted class, for diabetes the number predicted."
    return told[0].upper() + told[1:] + explained


def _path_table(found: Found) -> str:
    heads = [
        "domain, method", "length ratio, median", "cancellation / IG's", "rank agreement", "gradients, mean", "ok",
    ]  # fmt: skip
    rows = [
        [
            f"{name}, {METHODS[method].title}", written(middle(record["length_ratio"])),
            written(_cancelled(record, methods.get(LINE))), written(mean(record["agreement"])),
            written(mean(record["gradients"]), 3), f"{mean(record['ok']):.0%}",
        ]
        for name, methods in found.items()
        for method, record in _in_order(name, methods)
    ]  # fmt: skip
    return markdown_table(heads, rows)


def _measures(found: Found) -> str:
    effect = ", for text of a token's |A| with the effect of masking it alone" if "text" in found else ""
    return (
        "Cancellation is compared by medians. *Rank agreement* is Spearman's correlation of a feature's mean |A| with "
        f"its permutation importance{effect}. Below, what is lost: the probability when the features ranked first by "
        "|A| are filled with something else, averaged over areas of 1 to 65 %; for diabetes the absolute change, in "
        "standard deviations of the target; then the difference to IG, with the p-value of a paired test."
    )


def _removal_table(found: Found) -> str:
    shown = [m for m in (LINE, "idgi", BENT, GRAPH) if any(m in methods for methods in found.values())]
    rows = [
        [f"{name}, {fill}", *(_removed(methods, method, fill) for method in shown)]
        for name, methods in found.items()
        for fill in next(iter(methods.values()))["removal"]
    ]
    return markdown_table(["domain, fill", *(METHODS[method].title for method in shown)], rows)


def _removed(methods: Mapping[str, Record], method: str, fill: str) -> str:
    if method not in methods:
        return "–"
    values = methods[method]["removal"][fill]
    if method == LINE or LINE not in methods:
        return written(mean(values))
    return f"{written(mean(values))}: {difference(values, methods[LINE]['removal'][fill])}"


def _cancelled(record: Record, line: Record | None) -> float:
    """The median cancellation over IG's; what the integral's error puts below zero is none."""
    below = middle(line["cancellation"]) if line else math.nan
    return max(0.0, middle(record["cancellation"])) / below if below > 0 else math.nan


def _in_order(name: str, methods: Mapping[str, Record]) -> list[tuple[str, Record]]:
    return [(method, methods[method]) for method in DOMAIN[name].methods if method in methods]


DOMAINS = Study("domains", "Other domains", _measurements, _section)
