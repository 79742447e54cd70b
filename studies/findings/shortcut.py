"""Does an explanation show a shortcut that the model has learnt?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from importlib.util import find_spec
from typing import Literal, get_args

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import avg_pool2d, pad

from leastpath.evaluation.ground_truth import Localization
from leastpath.methods import METHODS
from leastpath.score.calls import Output
from studies.findings.config import Setting
from studies.findings.measuring import (
    correlation_gain,
    difference,
    direction,
    known,
    listed,
    mean,
    middle,
    rank_correlation,
    written,
)
from studies.findings.nets import N_TRAINED, accuracy, digit_images, load_or_train, new_net, train
from studies.findings.predicted import (
    GEODESIC,
    IG,
    RANDOM,
    Numbers,
    brief_evidence,
    percent,
    predicted_score,
    settings_of,
    values_of,
)
from studies.findings.study import Measurement, Record, Study
from studies.markdown import markdown_table

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
    train(net, images, group[:N_TRAINED].long(), setting.of("shortcut.epochs"), shift=0, seed=seed)
    unseen, groups = digits[N_TRAINED:], group[N_TRAINED:]
    right, wrong = (marked(unseen, corner)[0] for corner in (groups, ~groups))
    return {
        "right": accuracy(net, right, groups),
        "unmarked": accuracy(net, bordered(unseen), groups),
        "wrong": accuracy(net, wrong, groups),
        "flips": float((net(right).argmax(1) != net(wrong).argmax(1)).double().mean()),
    }


def _shortcut_measurements(setting: Setting) -> Iterator[Measurement]:
    for seed in range(setting.of("shortcut.seeds")):
        for marks in get_args(Marks):
            for output in SHORTCUT_OUTPUTS:
                yield Measurement(f"{marks}, {output}, seed={seed}", partial(of_marks, setting, marks, output, seed))


def of_marks(setting: Setting, marks: Marks, output: Output, seed: int) -> Record:
    """Explanations of the predicted group of unseen digits with a mark, from black: how they treat the mark.

    Of each image: "effect", what removing the mark takes from the score; "decides", whether another corner would have
    been another prediction. Of each explanation: the "share" of Σ|A| on the mark and the share on "black" pixels, the
    "rank" of the mark among patches, and the "sum" of A on it.

    Example:
        >>> of_marks(setting, "planted", "log_softmax", seed=0)["methods"][IG]["rank"]  # doctest: +SKIP
        [1, 2, 1, 1]
    """
    net, n = shortcut_net(setting, marks, seed), setting.of("shortcut.digits")
    digits = digit_images()[0][N_TRAINED:][seed * n : (seed + 1) * n]
    right = torch.arange(n) % 2 == 1  # corners in turn, whatever the digit: about half of the marks mislead
    (images, masks), (moved, _) = marked(digits, right), marked(digits, ~right)
    start, score = torch.zeros_like(images), predicted_score(net, images, output)
    bound = score.bind(images)
    with_mark, without = (bound.values(points, torch.arange(n)) for points in (images, bordered(digits)))
    found: Record = {}
    for name in _explainers():
        result = METHODS[name](score, images, start, **settings_of(setting, name))
        values = values_of(result)
        found[name] = {
            "share": listed(Localization(masks)(score, images, start, result).values),
            "black": listed(Localization(images == 0)(score, images, start, result).values),
            "rank": mark_ranks(values, masks).tolist(),
            "sum": listed((values * masks).flatten(1).sum(1)),
            **brief_evidence(result),
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
        f"planted models the corner is that of the digit's group for {percent([AGREEING])} of the training images, in "
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
        f"{percent([rank == 1 for rank in ours['rank']])} ({percent([rank <= TOP for rank in ours['rank']])})",
        _signed(rank_correlation(ours["sum"], planted["effect"])),
        f"{_signed(gain[0])} [{_signed(gain[1])}, {_signed(gain[2])}]" if gain else "–",
        written(mean(ours["black"])),
        written(middle(ours["length_ratio"])),
        percent(ours["ok"]),
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
    tops = [percent([rank <= TOP for rank in of["rank"]]) for of in (ours, line)]
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
                percent([model[key] for model in models]) for key in ("right", "unmarked", "wrong", "flips")
            )
            told.append(
                f"{marks} models are right on {right} of unseen digits with the mark of their group, "
                f"{unmarked} without a mark and {wrong} with the other group's mark, and moving the mark to "
                f"the other corner changes {flips} of their predictions"
            )
    return f"How much the models rely on the mark: {'; '.join(told)}."


def _lines(words: Sequence[str]) -> str:
    return words[0] if len(words) == 1 else "\n".join(f"- {line}" for line in words)


SHORTCUT = Study("shortcut", "A planted shortcut", _shortcut_measurements, _shortcut_section)
