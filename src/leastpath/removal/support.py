"""Support: does the prediction rest on what an explanation ranks first? The symmetric relevance gain, from curves.

Nothing here knows how an explanation was made. `evaluation.support` is the public measure over it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

import torch
from torch import Tensor

from leastpath.removal.curves import Order, Scale, removal_scores
from leastpath.removal.fills import Filling
from leastpath.score.calls import Output
from leastpath.score.score import BoundScore, Score

SHARES = tuple(k / 10 for k in range(1, 10))
"""10, 20, …, 90 % of the features."""
Probability = Literal["auto", "softmax", "sigmoid", "given", "score"]


def measure_curves(
    judged: BoundScore,
    scale: Scale,
    order: Order,
    fills: Sequence[Filling],
    shares: Sequence[float] = SHARES,
    also: Sequence[Tensor] = (),
) -> tuple[Tensor, list[Tensor]]:
    """The symmetric relevance gain of orders, and the curves that show it. All in float64, on the CPU.

    The gain is the mean over shares of [level without the least important − level without the most important features].
    The level is the probability of the class. Where the score is no probability, it is −|f − f(x)|: any change of the
    score counts. A random order has a gain of 0 in expectation, an explanation that is zero everywhere has exactly 0.
    At most two forwards per share and fill, and one more where the score is no probability.

    Args:
        judged: the score of `judged_score`, bound to the inputs.
        scale: what it returns, as `judged_score` says.
        order: one of each example, or several draws.
        fills: what stands in for features that are removed.
        shares: of the features, each above 0 and at most 1.
        also: further spans to run along, as of `Order.first`.

    Returns:
        The gain (draws, fills, batch), and curves of `level_of` (draws, fills, spans, batch): without the most
        important shares, without the least important ones, and for each of the further spans.

    Example:
        >>> score = Score(lambda x: torch.stack([x @ torch.tensor([4.0, 0.0]), torch.zeros(len(x))], 1), 0)
        >>> judged, scale = judged_score(score)
        >>> order = Order.of(torch.tensor([[4.0, 0.0]]), None, "signed")
        >>> measure_curves(judged.bind(torch.ones(1, 2)), scale, order, [torch.zeros(1, 2)], shares=[0.5])[0]
        tensor([[[0.4820]]], dtype=torch.float64)
    """
    spans = [order.first(shares), order.last(shares), *also] + [order.first()] * (scale == "score")
    scores = removal_scores(judged, order, torch.cat(spans), fills).split([len(span) for span in spans], 2)
    most, least = (s.sigmoid() if scale == "log_odds" else -(s - scores[-1]).abs() for s in scores[:2])
    gain = torch.where(order.ranks, (least - most).mean(2), 0.0)
    return gain, [level_of(some, scale) for some in scores[: 2 + len(also)]]


def level_of(scores: Tensor, scale: Scale) -> Tensor:
    """What people read: the probability, or the score where there is none."""
    return scores.sigmoid() if scale == "log_odds" else scores


# ---- which score is judged ---------------------------------------------------------------------------------------


def judged_score(score: Score, probability: Probability = "auto") -> tuple[Score, Scale]:
    """The score that removal evaluates. Log-odds wherever there is a probability: all else follows from them, stably.

    "auto" is the sigmoid where the score is explained through one, the softmax where the target is a class index
    (of a single output, the sigmoid), and else the score itself.

    Example:
        >>> judged_score(Score(torch.nn.Linear(3, 2), 1, output="log_softmax"))[1]
        'log_odds'
    """
    indexed = score.target is not None and not callable(score.target)
    if probability == "auto":
        # A function as target makes of probabilities what it likes.
        through_sigmoid = score.output == "sigmoid" and not callable(score.target)
        probability = "sigmoid" if through_sigmoid else "softmax" if indexed else "score"
    if probability == "score":
        return score, "score"
    if probability == "softmax" and not indexed:
        raise ValueError('probability="softmax" needs a class: give the Score an index, or (batch,) indices, as target')
    outputs: dict[str, Output] = {"softmax": class_log_odds, "sigmoid": "raw", "given": _log_odds_of}
    return replace(score, output=outputs[probability]), "log_odds"


def class_log_odds(logits: Tensor) -> Tensor:
    """log p/(1 − p) of every class, p the softmax, or the sigmoid of a single output: (rows, classes) -> the same.

    Example:
        >>> class_log_odds(torch.tensor([[200.0, 0.0]]))  # where 1 − p has long been rounded to zero
        tensor([[ 200., -200.]])
    """
    if logits.ndim < 2 or logits.shape[1] == 1:
        return logits
    top = logits.argmax(1, keepdim=True)
    rest = logits.scatter(1, top, -torch.inf).logsumexp(1, keepdim=True)
    log_p = logits.log_softmax(1)
    # 1 − p of a class below the top is at least a half, so its logarithm is safe; the top's is taken over the rest.
    margins = log_p - torch.log1p(-log_p.exp().clamp_max(0.5))
    return margins.scatter(1, top, logits.gather(1, top) - rest)


def _log_odds_of(probabilities: Tensor) -> Tensor:
    if bool(((probabilities < 0) | (probabilities > 1)).any()):
        raise ValueError(
            f'probability="given" but the model returns values from {float(probabilities.min()):.3g} to '
            f'{float(probabilities.max()):.3g}: use "softmax" or "sigmoid"'
        )
    # A saturated softmax is rounded to 0 or 1, whose log-odds are infinite: the nearest number that is neither.
    limits = torch.finfo(probabilities.dtype)
    return probabilities.clamp(limits.tiny, 1 - limits.eps / 2).logit()
