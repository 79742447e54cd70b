"""Two questions about the model: does its architecture matter, and does an explanation show a shortcut it learnt?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from importlib.util import find_spec
from typing import Any, Literal, get_args

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import avg_pool2d, pad

from leastpath.attribution import Attribution
from leastpath.evaluation.ground_truth import Localization
from leastpath.evaluation.masking import Comprehensiveness, Masking
from leastpath.methods import METHODS
from leastpath.outputs import Output
from leastpath.score import Score
from studies.findings.measuring import (
    correlation_gain,
    difference,
    direction,
    evidence,
    known,
    listed,
    mean,
    middle,
    rank_correlation,
    written,
)
from studies.findings.nets import (
    N_TRAINED,
    Architecture,
    accuracy,
    digit_images,
    digit_net,
    load_or_train,
    new_net,
    train,
)
from studies.findings.study import Record, Setting, Study, Unit
from studies.markdown import markdown_table

Numbers = Sequence[float | None]
"""One an example."""

IG, GEODESIC, RANDOM = "integrated_gradients", "geodesic_descent", "random"


def _settings(setting: Setting, name: str) -> dict[str, Any]:
    """A method's own, but for quick looks, which need no exact integral."""
    few = {"max_gradients": 300 if name == GEODESIC else 60} | ({"n_steps": 10} if name == "guided_ig" else {})
    return {key: value for key, value in few.items() if setting.quick and key in METHODS[name].defaults}


def _values(result: Attribution) -> Tensor:
    assert isinstance(result.values, Tensor)
    return result.values


def _evidence(result: Attribution) -> Record:
    """What every result carries, but for what the sections do not use."""
    told = evidence(result)
    kept = ("cancellation", "length_ratio", "gradients", "ok")
    return {key: told[key] for key in kept}


def _percent(numbers: Numbers) -> str:
    return f"{100 * mean(numbers):.0f} %"


def _span(numbers: Sequence[float]) -> str:
    """The least and the largest, or the only one as it is written."""
    low, high = written(min(numbers)), written(max(numbers))
    return low if low == high else f"{low} to {high}"


# ---- architectures -----------------------------------------------------------------------------------------------

TITLES: dict[Architecture, str] = {
    "mlp": "MLP", "cnn relu": "ReLU CNN", "cnn gelu": "GELU CNN", "vit": "vision transformer",
}  # fmt: skip
OUTPUTS: tuple[Output, ...] = ("log_softmax", "softmax")
FILLS = {"black": "baseline", "mean": "mean"}  # their names in the library
COMPARED = (IG, "idgi", GEODESIC)


def _architecture_units(setting: Setting) -> Iterator[Unit]:
    for architecture in TITLES:
        for output in OUTPUTS:
            yield Unit(f"{architecture}, {output}", partial(of_architecture, setting, architecture, output))


def of_architecture(setting: Setting, architecture: Architecture, output: Output) -> Record:
    """Explanations of the predicted class of unseen digits, from black: their evidence and masking curves.

    Example:
        >>> of_architecture(setting, "mlp", "softmax")["methods"][IG]["length_ratio"]  # doctest: +SKIP
        [1.0, 1.0]
    """
    net = digit_net(setting, architecture)
    images = digit_images()[0][N_TRAINED:][: setting.of(100, quick=2)]
    start, score = torch.zeros_like(images), _score(net, images, output)
    found: Record = {}
    for name in (*COMPARED, RANDOM):
        result = METHODS[name](score, images, start, **_settings(setting, name))
        found[name] = _evidence(result)
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
    return [*cells, written(middle(ours["gradients"]), 3), _percent(ours["ok"])]


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


# ---- a shortcut --------------------------------------------------------------------------------------------------

Marks = Literal["planted", "control"]
SHORTCUT_OUTPUTS: tuple[Output, ...] = ("log_softmax", "logit_margin")
EXPLAINERS = (RANDOM, "input_x_gradient", IG, "idgi", "guided_ig", GEODESIC)
BORDER, MARK = 2, 2  # pixels around the digit, and the side of the mark, which lies in a corner of the border
SIDE = 8 + 2 * BORDER
AGREEING = 0.98  # of the images that a planted model is trained on
TOP = 3  # patches


def marked(digits: Tensor, right: Tensor) -> tuple[Tensor, Tensor]:
    """Digits with a bright mark in the upper left or upper right corner of a black border, and where the mark is.

    Args:
        digits: (n, 1, 8, 8).
        right: (n,) bool, the corner.

    Returns:
        Images (n, 1, 12, 12), and bool masks of the same shape.

    Example:
        >>> images, masks = marked(torch.zeros(1, 1, 8, 8), torch.tensor([True]))
        >>> images[0, 0, :3, 8:], bool((masks == (images == 1)).all())
        (tensor([[0., 0., 1., 1.],
                [0., 0., 1., 1.],
                [0., 0., 0., 0.]]), True)
    """
    masks = torch.zeros(len(digits), 1, SIDE, SIDE, dtype=torch.bool)
    masks[~right, :, :MARK, :MARK] = True
    masks[right, :, :MARK, -MARK:] = True
    return torch.where(masks, 1.0, bordered(digits)), masks


def bordered(digits: Tensor) -> Tensor:
    """Digits (n, 1, 8, 8) with a black border and no mark: (n, 1, 12, 12).

    Example:
        >>> bordered(torch.ones(1, 1, 8, 8)).sum()
        tensor(64.)
    """
    return pad(digits, (BORDER,) * 4)


def mark_ranks(attributions: Tensor, masks: Tensor) -> Tensor:
    """The mark's place among all patches of its size by Σ|A|, 1 for the first: two (n, 1, side, side) -> (n,).

    Ties go to the mark.

    Example:
        >>> images, masks = marked(torch.ones(1, 1, 8, 8), torch.tensor([False]))
        >>> mark_ranks(images, masks), mark_ranks(bordered(torch.ones(1, 1, 8, 8)), masks)
        (tensor([1]), tensor([17]))
    """
    patches = avg_pool2d(attributions.abs().double(), MARK).flatten(1)  # (n, patches)
    of_mark = avg_pool2d(masks.double(), MARK).flatten(1) == 1
    return 1 + (patches > patches[of_mark].unsqueeze(1)).sum(1)


def shortcut_net(setting: Setting, marks: Marks, seed: int) -> nn.Module:
    """A CNN that tells digits below 5 from the others, (batch, 1, 12, 12) -> (batch, 2) logits.

    In training the corner of the mark is that of the digit's group on most images ("planted"), or random ("control").
    It is trained once and kept in the setting's store as "net shortcut <marks> seed=<seed>", with the accuracy on
    unseen digits whose mark is that of their group, absent, or that of the other group, and the share of unseen digits
    whose prediction is another when the mark moves to the other corner.

    Example:
        >>> import tempfile
        >>> from leastpath._support.store import Store
        >>> setting = Setting(Store(tempfile.mkdtemp(), {}), quick=True)
        >>> shortcut_net(setting, "planted", seed=0)(torch.zeros(3, 1, 12, 12)).shape
        torch.Size([3, 2])
        >>> list(setting.store.read("net shortcut planted seed=0").record)
        ['flips', 'right', 'unmarked', 'wrong']
    """
    key = f"net shortcut {marks} seed={seed}"
    net = new_net("cnn relu", SIDE, n_classes=2, seed=seed)
    load_or_train(setting, key, net, partial(_shortcut_trained, setting, net, marks, seed))
    return net


def _shortcut_trained(setting: Setting, net: nn.Module, marks: Marks, seed: int) -> Record:
    """Train it, and say how much it relies on the mark."""
    digits, labels = digit_images()
    group = labels >= 5
    draws = torch.rand(N_TRAINED, generator=torch.Generator().manual_seed(seed))
    corner = group[:N_TRAINED] ^ (draws > AGREEING) if marks == "planted" else draws < 0.5
    # Not shifted: the mark stays in its corner.
    images = marked(digits[:N_TRAINED], corner)[0]
    train(net, images, group[:N_TRAINED].long(), setting.of(15, quick=3), shift=0, seed=seed)
    unseen, groups = digits[N_TRAINED:], group[N_TRAINED:]
    right, wrong = (marked(unseen, corner)[0] for corner in (groups, ~groups))
    return {
        "right": accuracy(net, right, groups),
        "unmarked": accuracy(net, bordered(unseen), groups),
        "wrong": accuracy(net, wrong, groups),
        "flips": float((net(right).argmax(1) != net(wrong).argmax(1)).double().mean()),
    }


def _shortcut_units(setting: Setting) -> Iterator[Unit]:
    for seed in range(setting.of(3, quick=1)):
        for marks in get_args(Marks):
            for output in SHORTCUT_OUTPUTS:
                yield Unit(f"{marks}, {output}, seed={seed}", partial(of_marks, setting, marks, output, seed))


def of_marks(setting: Setting, marks: Marks, output: Output, seed: int) -> Record:
    """Explanations of the predicted group of unseen digits with a mark, from black: how they treat the mark.

    Of each image: "effect", what removing the mark takes from the score; "decides", whether another corner would have
    been another prediction. Of each explanation: the "share" of Σ|A| on the mark and the share on "black" pixels, the
    "rank" of the mark among patches, and the "sum" of A on it.

    Example:
        >>> of_marks(setting, "planted", "log_softmax", seed=0)["methods"][IG]["rank"]  # doctest: +SKIP
        [1, 2, 1, 1]
    """
    net, n = shortcut_net(setting, marks, seed), setting.of(30, quick=4)
    digits = digit_images()[0][N_TRAINED:][seed * n : (seed + 1) * n]
    right = torch.arange(n) % 2 == 1  # corners in turn, whatever the digit: about half of the marks mislead
    (images, masks), (moved, _) = marked(digits, right), marked(digits, ~right)
    start, score = torch.zeros_like(images), _score(net, images, output)
    bound = score.bind(images)
    with_mark, without = (bound.values(points, torch.arange(n)) for points in (images, bordered(digits)))
    found: Record = {}
    for name in _explainers():
        result = METHODS[name](score, images, start, **_settings(setting, name))
        values = _values(result)
        found[name] = {
            "share": listed(Localization(masks)(score, images, start, result).values),
            "black": listed(Localization(images == 0)(score, images, start, result).values),
            "rank": mark_ranks(values, masks).tolist(),
            "sum": listed((values * masks).flatten(1).sum(1)),
            **_evidence(result),
        }
    return {
        "model": setting.store.read(f"net shortcut {marks} seed={seed}").record,
        "effect": listed(with_mark - without),
        "decides": (net(images).argmax(1) != net(moved).argmax(1)).tolist(),
        "methods": found,
    }


def _explainers() -> list[str]:
    """Those whose package is installed."""
    return [name for name in EXPLAINERS if METHODS[name].extra is None or find_spec(str(METHODS[name].extra))]


def _score(net: nn.Module, images: Tensor, output: Output) -> Score:
    with torch.no_grad():
        return Score(net, net(images).argmax(1), output)


def chance_above(a: Numbers, b: Numbers) -> float:
    """The chance that a number of a is above one of b, equal ones counting half; NaN where one has no numbers.

    Example:
        >>> chance_above([3.0, 4.0], [1.0, 3.0])
        0.875
    """
    x, y = np.array(known(a))[:, None], np.array(known(b))
    return float(((x > y) + 0.5 * (x == y)).mean()) if x.size and y.size else float("nan")


def _shortcut_section(records: Mapping[str, Record]) -> str:
    found = {
        (marks, output): of
        for marks in get_args(Marks)
        for output in SHORTCUT_OUTPUTS
        if (of := _pooled([record for key, record in records.items() if key.startswith(f"{marks}, {output}, ")]))
    }
    outputs = [output for output in SHORTCUT_OUTPUTS if ("planted", output) in found]
    if not outputs:
        return "No planted model is finished yet."
    heads = [
        "", "on the mark", "− IG (p)", "where it decides", "control", "told apart", f"first (top {TOP})",
        "correlation with removal", "− IG's [95 %]", "on black pixels", "length ratio", "ok",
    ]  # fmt: skip
    rows = [
        [
            f"{output}, {METHODS[name].title}",
            *_shortcut_row(found["planted", output], found.get(("control", output)), name),
        ]
        for output in outputs
        for name in EXPLAINERS
        if name in found["planted", output]["methods"]
    ]
    words = [_shortcut_words(output, found["planted", output], found.get(("control", output))) for output in outputs]
    planted = found["planted", outputs[0]]
    return (
        f"{_lines(words)}\n\n{_reliance(found)}\n\nCNNs with ReLU tell scikit-learn's digits 0–4 from 5–9, on a black "
        f"border of {BORDER} pixels with a bright {MARK} × {MARK} mark in its upper left or upper right corner. In "
        f"planted models the corner is that of the digit's group for {_percent([AGREEING])} of the training images, in "
        f"control models it is random. Explained is the predicted group of {len(planted['effect'])} unseen digits "
        f"(models of each kind: {len(planted['models'])}), the mark in either corner whatever the digit, from black. "
        "*On the mark* is its mean share of Σ|A|; *where it decides*, the same for images whose prediction is another "
        "when the mark moves to the other corner; *told apart*, the chance that the share is larger in a planted model "
        f"than in a control; *first*, how often the mark is the first (or among the first {TOP}) of all patches of its "
        "size by Σ|A|; *correlation with removal*, Spearman's, over images, of ΣA on the mark and of what removing the "
        f"mark takes from the score.\n\n{markdown_table(heads, rows)}"
    )


def _pooled(records: Sequence[Record]) -> Record:
    """The lists of all models one after the other; nothing of no records."""
    if not records:
        return {}
    names = [name for name in EXPLAINERS if all(name in record["methods"] for record in records)]
    return {
        "models": [record["model"] for record in records],
        "effect": [x for record in records for x in record["effect"]],
        "decides": [x for record in records for x in record["decides"]],
        "methods": {
            name: {
                key: [x for record in records for x in record["methods"][name][key]]
                for key in records[0]["methods"][name]
            }
            for name in names
        },
    }


def _shortcut_row(planted: Record, control: Record | None, name: str) -> list[str]:
    ours, line = planted["methods"][name], planted["methods"].get(IG)
    deciding = [share for share, decides in zip(ours["share"], planted["decides"], strict=True) if decides]
    compared = line is not None and name != IG
    gain = correlation_gain(ours["sum"], line["sum"], planted["effect"]) if compared else None
    return [
        written(mean(ours["share"])),
        difference(ours["share"], line["share"]) if compared else "–",
        written(mean(deciding)),
        written(mean(control["methods"][name]["share"])) if control else "–",
        _signed(_told_apart(planted, control, name)),
        f"{_percent([rank == 1 for rank in ours['rank']])} ({_percent([rank <= TOP for rank in ours['rank']])})",
        _signed(rank_correlation(ours["sum"], planted["effect"])),
        f"{_signed(gain[0])} [{_signed(gain[1])}, {_signed(gain[2])}]" if gain else "–",
        written(mean(ours["black"])),
        written(middle(ours["length_ratio"])),
        _percent(ours["ok"]),
    ]


def _told_apart(planted: Record, control: Record | None, name: str) -> float:
    if control is None or name not in control["methods"]:
        return float("nan")
    return chance_above(planted["methods"][name]["share"], control["methods"][name]["share"])


def _signed(number: float) -> str:
    """Two decimals and a proper sign, a dash for no number."""
    return "–" if np.isnan(number) else f"{round(number, 2) + 0:.2f}".replace("-", "−")


def _shortcut_words(output: Output, planted: Record, control: Record | None) -> str:
    methods = planted["methods"]
    if not {IG, GEODESIC} <= methods.keys():
        return f"Explaining {output}: Geodesic IG and IG are not both finished."
    ours, line = methods[GEODESIC], methods[IG]
    verdicts = ("not clearly more or less than", "clearly more than", "clearly less than")
    verdict = verdicts[direction(ours["share"], line["share"])]
    low, high = correlation_gain(ours["sum"], line["sum"], planted["effect"])[1:]
    follows = "clearly better" if low > 0 else "clearly worse" if high < 0 else "not clearly better or worse"
    ranks = [_signed(rank_correlation(of["sum"], planted["effect"])) for of in (ours, line)]
    tops = [_percent([rank <= TOP for rank in of["rank"]]) for of in (ours, line)]
    words = [
        f"Explaining {output}, Geodesic IG puts {written(mean(ours['share']))} of Σ|A| on the mark, {verdict} IG "
        f"({written(mean(line['share']))}); spread evenly it would be {written(MARK**2 / SIDE**2)}. The mark is among "
        f"its first {TOP} patches in {tops[0]} of the images, among IG's in {tops[1]}. Its ΣA on the mark follows what "
        f"removing the mark does {follows} than IG's (rank correlation {ranks[0]} against {ranks[1]}). Its paths have "
        f"a median length of {written(middle(ours['length_ratio']))} of the straight line's, and "
        f"{written(mean(ours['black']))} of its Σ|A| is on black pixels."
    ]
    if control is not None:
        chances = {name: _signed(_told_apart(planted, control, name)) for name in methods}
        best = [METHODS[name].title for name in methods if chances[name] == max(chances.values())]
        words.append(
            f"By the mark's share a planted model is told from a control with a chance of {chances[GEODESIC]} by "
            f"Geodesic IG and {chances[IG]} by IG (0.50 is guessing); highest: {', '.join(best)} "
            f"({max(chances.values())})."
        )
    return " ".join(words)


def _reliance(found: Mapping[tuple[Marks, Output], Record]) -> str:
    """What the models do with the mark, as measured on unseen digits."""
    told = []
    for marks in get_args(Marks):
        models = next((of["models"] for (kind, _), of in found.items() if kind == marks), None)
        if models:
            right, unmarked, wrong, flips = (
                _percent([model[key] for model in models]) for key in ("right", "unmarked", "wrong", "flips")
            )
            told.append(
                f"{marks} models are right on {right} of unseen digits with the mark of their group, "
                f"{unmarked} without a mark and {wrong} with the other group's mark, and moving the mark to "
                f"the other corner changes {flips} of their predictions"
            )
    return f"How much the models rely on the mark: {'; '.join(told)}."


def _lines(words: Sequence[str]) -> str:
    return words[0] if len(words) == 1 else "\n".join(f"- {line}" for line in words)


ARCHITECTURES = Study("architectures", "Other architectures", _architecture_units, _architecture_section)
SHORTCUT = Study("shortcut", "A planted shortcut", _shortcut_units, _shortcut_section)
