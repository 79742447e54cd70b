"""The output: which of the model's numbers is explained."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from torch import Tensor

from leastpath.evaluation.masking import Comprehensiveness, Masking
from leastpath.result.attribution import Attribution
from leastpath.score.baselines import baseline
from leastpath.score.calls import Output
from studies.findings.choices.records import averaged, by_data, described, pairs_of
from studies.findings.choices.task import GEODESIC, IG, ImageTask, Numbers, likeness, task_measurements
from studies.findings.measuring import difference, direction, enumerated, evidence, listed, mean, middle, written
from studies.findings.study import Record, Study
from studies.markdown import markdown_table

OUTPUTS: dict[str, Output] = {
    "logit": "raw", "logit margin": "logit_margin", "log-softmax": "log_softmax", "softmax": "softmax",
}  # fmt: skip
FILLS = {"black": "baseline", "the mean": "mean"}  # their names in the library


def of_outputs(task: ImageTask, methods: Sequence[str]) -> Record:
    """Explanations of different outputs from black: their evidence, masking curves, and likeness to each other.

    Example:
        >>> import torch
        >>> from torch import nn
        >>> net = nn.Sequential(nn.Flatten(), nn.Linear(16, 2)).eval()
        >>> task = ImageTask("images", net, torch.rand(2, 1, 4, 4))
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
        ranks = {name: likeness(values[a], values[b])["rank"] for name, (a, b) in pairs_of(OUTPUTS).items()}
        found[method] = {"outputs": outputs, "ranks": ranks}
    return {"data": task.name, "side": min(task.inputs.shape[-2:]), "methods": found}


def _masked(task: ImageTask, start: Tensor, result: Attribution, fill: str) -> Numbers:
    """The mean drop in probability over the paper's areas, whatever output was explained."""
    measure = Comprehensiveness(Masking(fill=fill, normalize=True))
    return listed(measure(task.score("log_softmax"), task.inputs, start, result).values)


def _output_section(records: Mapping[str, Record]) -> str:
    words, rows, pairs, counts = [], [], [], {}
    for data, methods in by_data(records).items():
        if not {IG, GEODESIC} <= methods.keys():
            continue
        line, ours = methods[IG], methods[GEODESIC]
        words.append(_output_words(data, line, ours))
        rows += [[f"{data}, {name}", *_output_row(line["outputs"][name], ours["outputs"][name])] for name in OUTPUTS]
        for pair in pairs_of(OUTPUTS):
            a, b = ours["ranks"][pair], line["ranks"][pair]
            pairs.append([f"{data}, {pair}", written(mean(b)), written(mean(a)), difference(a, b)])
            counts[data] = len(a)
    if not rows:
        return "Nothing can be compared yet."
    lead = "\n".join(words)
    drops = [head for fill in FILLS for head in (f"filled with {fill}: IG", "Geodesic IG − IG (p)")]
    heads = ["", "length ratio", "IG's cancellation / |Δf|", "Geodesic IG's / IG's", *drops]
    return (
        f"{lead}\n\n{described(records, counts)} The baseline is black. Length ratio and cancellation are medians. "
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
    a, b = (averaged(list(method["ranks"].values())) for method in (ours, line))
    same = ("not clearly different from", "above", "below")[direction(a, b)]
    return (
        f"- On {data} the geodesic's median length ratio is {ratios}. Against IG, by masking, Geodesic IG is: filled "
        f"with {'; filled with '.join(told)}. Between two outputs its attributions have a mean rank correlation of "
        f"{written(mean(a))}, {same} IG's {written(mean(b))}."
    )


def _listing(outputs: Sequence[str], verdict: str) -> str:
    """The outputs that a verdict is about, in words."""
    if len(outputs) == len(OUTPUTS):
        return "any output" if verdict.startswith("not") else "every output"
    return enumerated(outputs)


OUTPUT = Study(
    "output",
    "The explained output",
    lambda setting: task_measurements(setting, "output", [IG, GEODESIC], of_outputs),
    _output_section,
)
