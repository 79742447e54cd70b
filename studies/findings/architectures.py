"""Does the model's architecture matter?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial

import torch

from leastpath.evaluation.masking import Comprehensiveness, Masking
from leastpath.methods import METHODS
from leastpath.score.calls import Output
from studies.findings.config import Setting
from studies.findings.measuring import difference, direction, listed, mean, middle, written
from studies.findings.nets import N_TRAINED, Architecture, digit_images, digit_net
from studies.findings.predicted import GEODESIC, IG, RANDOM, brief_evidence, percent, predicted_score, settings_of
from studies.findings.study import Measurement, Record, Study
from studies.markdown import markdown_table


def _span(numbers: Sequence[float]) -> str:
    """The least and the largest, or the only one as it is written."""
    low, high = written(min(numbers)), written(max(numbers))
    return low if low == high else f"{low} to {high}"


TITLES: dict[Architecture, str] = {
    "mlp": "MLP", "cnn relu": "ReLU CNN", "cnn gelu": "GELU CNN", "vit": "vision transformer",
}  # fmt: skip
OUTPUTS: tuple[Output, ...] = ("log_softmax", "softmax")
FILLS = {"black": "baseline", "mean": "mean"}  # their names in the library
COMPARED = (IG, "idgi", GEODESIC)


def _architecture_measurements(setting: Setting) -> Iterator[Measurement]:
    for architecture in TITLES:
        for output in OUTPUTS:
            yield Measurement(f"{architecture}, {output}", partial(of_architecture, setting, architecture, output))


def of_architecture(setting: Setting, architecture: Architecture, output: Output) -> Record:
    """Explanations of the predicted class of unseen digits, from black: their evidence and masking curves.

    Example:
        >>> of_architecture(setting, "mlp", "softmax")["methods"][IG]["length_ratio"]  # doctest: +SKIP
        [1.0, 1.0]
    """
    net = digit_net(setting, architecture)
    images = digit_images()[0][N_TRAINED:][: setting.of("architectures.digits")]
    start, score = torch.zeros_like(images), predicted_score(net, images, output)
    found: Record = {}
    for name in (*COMPARED, RANDOM):
        result = METHODS[name](score, images, start, **settings_of(setting, name))
        found[name] = brief_evidence(result)
        for fill, own in FILLS.items():
            measure = Comprehensiveness(Masking(fill=own, normalize=True))
            found[name][fill] = listed(measure(score, images, start, result).values)
    kept = setting.store.read(f"net digits {architecture}").record
    return {"accuracy": kept["test_accuracy"], "methods": found}


def _architecture_section(records: Mapping[str, Record]) -> str:
    found = {
        (architecture, output): records[key]
        for architecture in TITLES
        for output in OUTPUTS
        if (key := f"{architecture}, {output}") in records
    }
    if not found:
        return "Nothing is finished yet."
    drops = [head for fill in FILLS for head in (f"{fill} fill", f"− IG (p), {fill}")]
    heads = ["", "length ratio", "cancellation / IG's", *drops, "gradients", "ok"]
    rows = [
        [f"{TITLES[architecture]}, {output}, {METHODS[name].title}", *_architecture_row(record["methods"], name)]
        for (architecture, output), record in found.items()
        for name in COMPARED
    ]
    n = len(next(iter(found.values()))["methods"][IG]["ok"])
    nets = ", ".join(
        f"{TITLES[architecture]} {written(record['accuracy'], 3)}"
        for architecture, record in {architecture: record for (architecture, _), record in found.items()}.items()
    )
    floor = {fill: _span([mean(record["methods"][RANDOM][fill]) for record in found.values()]) for fill in FILLS}
    return (
        f"{_architecture_words(found)}\n\nNets trained on {N_TRAINED:,} of scikit-learn's 8 × 8 digits, with their "
        f"accuracy on unseen ones: {nets}. The CNNs have two convolutions and differ in their activation only; the "
        "transformer has patches of 2 × 2, two pre-norm blocks with four heads and GELU. Explained is the predicted "
        f"class of {n} unseen digits, from black. Length ratio, cancellation and gradients (the integral's included) "
        "are medians; the fills' columns have comprehensiveness, the mean drop in probability when 1 % to 65 % of the "
        "pixels, those with the largest |A|, are replaced by black or by the image's mean (random attributions: "
        f"{floor['black']} and {floor['mean']}); ok is the share of results without a warning.\n\n"
        f"{markdown_table(heads, rows)}"
    )


def _architecture_row(methods: Mapping[str, Record], name: str) -> list[str]:
    ours, line = methods[name], methods[IG]
    cells = [written(middle(ours["length_ratio"])), "1" if name == IG else written(_cancellation_kept(ours, line))]
    for fill in FILLS:
        cells += [written(mean(ours[fill])), "–" if name == IG else difference(ours[fill], line[fill])]
    return [*cells, written(middle(ours["gradients"]), 3), percent(ours["ok"])]


def _cancellation_kept(ours: Record, line: Record) -> float:
    """Our median cancellation over IG's. It is never below zero but for the integral's error."""
    return max(0.0, middle(ours["cancellation"])) / middle(line["cancellation"])


def _architecture_words(found: Mapping[tuple[Architecture, Output], Record]) -> str:
    pairs = [(record["methods"][GEODESIC], record["methods"][IG]) for record in found.values()]
    ratios = [middle(ours["length_ratio"]) for ours, _ in pairs]
    kept = [_cancellation_kept(ours, line) for ours, line in pairs]
    nets = len({architecture for architecture, _ in found})
    words = [
        f"On {'each of ' if nets > 1 else ''}{nets} architecture{'s' * (nets > 1)} Geodesic IG's paths have a median "
        f"length of {_span(ratios)} of the straight line's, and {_span(kept)} of IG's cancellation is left."
    ]
    for name, rival in ((GEODESIC, IG), ("idgi", IG), (GEODESIC, RANDOM)):
        title, other = METHODS[name].title, "IG" if rival == IG else "random attributions"
        black, average = (_verdicts(found, name, rival, fill) for fill in FILLS)
        words.append(
            f"Masked with black, {title} is clearly better than {other} in {black.count(1)} of {len(found)} cases and "
            f"clearly worse in {black.count(-1)}; with the image's mean, better in {average.count(1)} and worse in "
            f"{average.count(-1)}."
        )
    return " ".join(words)


def _verdicts(found: Mapping[tuple[Architecture, Output], Record], name: str, rival: str, fill: str) -> list[int]:
    return [direction(record["methods"][name][fill], record["methods"][rival][fill]) for record in found.values()]


ARCHITECTURES = Study("architectures", "Other architectures", _architecture_measurements, _architecture_section)
