"""The baseline: how much an explanation depends on it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial

import torch
from torch import Tensor

from leastpath.score.baselines import baseline
from leastpath.solvers import Descent
from studies.findings.choices.records import averaged, by_data, described, pairs_of
from studies.findings.choices.task import GEODESIC, IG, TITLES, ImageTask, Numbers, likeness, task_measurements
from studies.findings.measuring import difference, direction, listed, mean, middle, written
from studies.findings.study import Record, Study
from studies.markdown import markdown_table

STARTS: dict[str, Callable[[Tensor], Tensor]] = {
    "black": partial(baseline, "black"),
    "white": partial(baseline, "white"),
    # A digit of eight pixels is still there after the default, one pixel.
    "blurred": lambda images: baseline("blur", images, sigma=min(images.shape[-2:]) / 4),
    "noise": partial(baseline, "uniform"),
}
MEASURES = {"rank": "rank correlation", "cosine": "cosine", "top": "top tenth in common"}


def from_baselines(task: ImageTask, methods: Sequence[str]) -> Record:
    """How alike explanations of the same inputs from different baselines are, for each pair of baselines.

    For the geodesic also between its solver and one of half its gradients, both from black: what no baseline changed.

    Example:
        >>> from torch import nn
        >>> net = nn.Sequential(nn.Flatten(), nn.Linear(16, 2)).eval()
        >>> task = ImageTask("images", net, torch.rand(2, 1, 4, 4))
        >>> list(from_baselines(task, [IG])["methods"][IG]["pairs"])[:2]
        ['black – white', 'black – blurred']
    """
    n, side = len(task.inputs), min(task.inputs.shape[-2:])
    starts = {name: make(task.inputs) for name, make in STARTS.items()}
    found: Record = {}
    for method in methods:
        result = task.explained(method, "log_softmax", torch.cat(list(starts.values())))
        assert isinstance(result.values, Tensor)
        values = dict(zip(STARTS, result.values.split(n), strict=True))
        error = result.completeness_gap.abs() / result.score_change.abs()
        found[method] = {
            "pairs": {name: likeness(values[a], values[b]) for name, (a, b) in pairs_of(STARTS).items()},
            "change": {name: listed(part) for name, part in zip(STARTS, result.score_change.split(n), strict=True)},
            "error": listed(error),
            "gradients": listed(result.n_gradients),
        }
        if method == GEODESIC:
            solver = task.settings.get(method, {}).get("solver", Descent())
            half = replace(solver, max_gradients=solver.max_gradients // 2)
            again = task.explained(method, "log_softmax", starts["black"], solver=half).values
            assert isinstance(again, Tensor)
            found[method]["again"] = likeness(values["black"], again)
    return {"data": task.name, "side": side, "methods": found}


def _baseline_section(records: Mapping[str, Record]) -> str:
    found = by_data(records)
    words, rows, pairs, chance, counts = [], [], [], [], {}
    for data, methods in found.items():
        alike = {method: _over_pairs(of["pairs"]) for method, of in methods.items()}
        counts[data] = len(next(iter(alike.values()))["rank"])
        words.append(_baseline_words(data, methods, alike))
        chance += [mean(of["shuffled"]) for of in alike.values()]
        for method, of in methods.items():
            name = f"{data}, {TITLES[method]}"
            cells = [(written(mean(alike[method][m])), _against_ig(alike, method, m)) for m in MEASURES]
            rows.append([name, *(cell for both in cells for cell in both), written(middle(of["error"]), 1)])
            again = mean(of["again"]["rank"]) if "again" in of else math.nan
            pairs.append(
                [name, *(written(mean(of["pairs"][pair]["rank"])) for pair in pairs_of(STARTS)), written(again)]
            )
    lead = "\n".join(words)
    heads = ["", *(head for name in MEASURES.values() for head in (name, "− IG's (p)")), "completeness error"]
    return (
        f"{lead}\n\nA method that ignores the baseline would score 1: likeness is independence of it, not "
        f"truth. {described(records, counts)} Explained is the log-softmax of the predicted class, "
        "from black, white, the blurred input (σ a quarter of its side) and uniform noise. Compared are a method's "
        "attributions of one input from two baselines: Spearman's correlation of |A|, the cosine of A, and how much "
        "the tenths of the features with the largest |A| have in common; means over the six pairs of baselines. "
        f"Shuffled features would have 0, a cosine of at most {written(max(chance))}, and a tenth in common. The "
        f"completeness error is the median of |ΣA − Δf| / |Δf|.\n\n{markdown_table(heads, rows)}\nThe rank "
        "correlation pair by pair, and from black twice, the second time with half of the solver's gradients:\n\n"
        f"{markdown_table(['', *pairs_of(STARTS), 'half the gradients'], pairs)}"
    )


def _baseline_words(data: str, methods: Mapping[str, Record], alike: Mapping[str, Mapping[str, Numbers]]) -> str:
    ranks = {method: mean(of["rank"]) for method, of in alike.items()}
    best = max(ranks, key=lambda method: ranks[method])
    words: list[str] = []
    for rival, measures in ((IG, list(MEASURES)), ("idgi", ["rank"])):
        if GEODESIC in alike and rival in alike:
            subject = "it depends on it" if words else f"On {data} Geodesic IG depends on the baseline"
            words.append(f"{subject} {_dependence(alike[GEODESIC], alike[rival], TITLES[rival], measures)}")
    told = [f"- {'; '.join(words)}." if words else f"- On {data}:"]
    told.append(f"{TITLES[best]} depends on the baseline least, by rank correlation ({written(ranks[best])}).")
    if len(words) == 2:
        opposite, again = (methods[GEODESIC][name] for name in ("pairs", "again"))
        line, ours = (written(mean(pairs["black – white"]["rank"])) for pairs in (methods[IG]["pairs"], opposite))
        told.append(
            f"Between black and white (IG gives nothing to what equals its baseline) IG's rank correlation is {line}, "
            f"Geodesic IG's {ours}. From black with half of the solver's gradients, Geodesic IG's with itself is "
            f"{written(mean(again['rank']))}."
        )
    return " ".join(told)


def _dependence(ours: Mapping[str, Numbers], others: Mapping[str, Numbers], title: str, measures: Sequence[str]) -> str:
    """In words, whether our attributions change with the baseline less or more than others, measure by measure."""
    verdicts: dict[str, list[str]] = {}
    for name in measures:
        verdict = ("not clearly less or more", "less", "more")[direction(ours[name], others[name])]
        numbers = f"{written(mean(ours[name]))} against {written(mean(others[name]))}"
        verdicts.setdefault(verdict, []).append(f"{MEASURES[name]} {numbers}")
    return ", ".join(f"{verdict} than {title} ({', '.join(of)})" for verdict, of in verdicts.items())


def _over_pairs(pairs: Mapping[str, Mapping[str, Numbers]]) -> dict[str, Numbers]:
    """Each measure's mean over pairs, example by example."""
    return {name: averaged([pair[name] for pair in pairs.values()]) for name in next(iter(pairs.values()))}


def _against_ig(alike: Mapping[str, Mapping[str, Numbers]], method: str, name: str) -> str:
    return "–" if method == IG or IG not in alike else difference(alike[method][name], alike[IG][name])


BASELINE = Study(
    "baseline",
    "The baseline",
    lambda setting: task_measurements(setting, "baseline", list(TITLES), from_baselines),
    _baseline_section,
)
