"""Support: does the prediction rest on what an explanation ranks first? The arithmetic of the symmetric relevance gain.

Nothing here knows how an explanation was made. `evaluation.support` is the public measure over it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Literal

import torch
from torch import Tensor

from leastpath._support.rows import flat_rows, per_row
from leastpath.features.kinds import Kind as InputKind
from leastpath.score.bound import BoundScore
from leastpath.score.outputs import Output
from leastpath.score.score import Score

SHARES = tuple(k / 10 for k in range(1, 10))
"""10, 20, …, 90 % of the features."""
Probability = Literal["auto", "softmax", "sigmoid", "given", "score"]
Kind = Literal["log_odds", "score"]
Rank = Literal["magnitude", "net", "signed"]
RowFill = Callable[[Tensor, Tensor], Tensor]
"""What fills rows of `examples` (n,) where `masked` (n, *shape) is true: (n, *shape)."""


def symmetric_gain(
    judged: BoundScore,
    kind: Kind,
    values: Tensor,
    fill: RowFill,
    *,
    labels: Tensor | None = None,
    shares: Sequence[float] = SHARES,
    rank: Rank = "magnitude",
) -> Tensor:
    """The mean over shares of [level without the least important − level without the most important features].

    The level is the probability of the class. Where the score is not a probability, it is −|f − f(x)|: any change
    of the score counts. A random order has a gain of 0 in expectation; values that are all zero order nothing, and
    their gain is 0. Two forwards a share, and one more where the score is not a probability.

    Args:
        judged: the score of `judged_score`, bound to the inputs.
        kind: what it returns, as `judged_score` says.
        values: (batch, *shape), the explanation.
        fill: what stands in for features that are removed.
        labels: integers (1 or batch, *shape): features with one number are removed together, those below 0 never.
            None: every feature by itself.
        shares: of the features, each above 0 and at most 1.
        rank: "magnitude" orders by Σ|A| over what is removed together, "net" by |ΣA|, "signed" by ΣA.

    Returns:
        (batch,) in float64, on the CPU.

    Example:
        >>> score = Score(lambda x: torch.stack([x @ torch.tensor([4.0, 0.0]), torch.zeros(len(x))], 1), 0)
        >>> judged, kind = judged_score(score, "auto")
        >>> bound, black = judged.bind(torch.ones(1, 2)), torch.zeros(1, 2)
        >>> symmetric_gain(bound, kind, torch.tensor([[4.0, 0.0]]), lambda rows, masked: black[rows], shares=[0.5])
        tensor([0.4820], dtype=torch.float64)
    """
    points, examples = judged.space.explained(), torch.arange(judged.batch)
    places, sizes = removal_places(values, labels, rank)
    clean = judged.values(points, examples).double().cpu() if kind == "score" else None
    gain, both = torch.zeros(judged.batch, dtype=torch.float64), examples.repeat(2)
    per_call = max(1, judged.batch_size // max(1, 2 * judged.batch))
    for first in range(0, len(shares), per_call):  # as many shares as the model takes at once
        masked = torch.stack([_without(places, sizes, share) for share in shares[first : first + per_call]])
        fills = torch.cat([fill(both, of_share).to(points) for of_share in masked.flatten(1, 2)])
        filled = torch.where(masked, fills.view_as(masked), points)  # (shares, 2, batch, *shape)
        reached = judged.values(filled.flatten(0, 2), both.repeat(len(masked))).double().cpu()
        reached = reached.view(len(masked), 2, judged.batch)
        level = reached.sigmoid() if clean is None else -(reached - clean).abs()
        for without_least, without_most in level:
            gain += without_least - without_most
    return torch.where(flat_rows(values).abs().amax(1).cpu() > 0, gain / len(shares), 0.0)


def _without(places: Tensor, sizes: Tensor, share: float) -> Tensor:
    """What is removed (2, batch, *shape): a share of the least important features, and of the most important ones."""
    # 1e-9: 0.35 × 10 is 3.5 and rounds up, though its product is a little less in binary.
    counts = torch.floor(share * sizes + 0.5 + 1e-9).clamp_min(1)
    most = (places >= 0) & (places < per_row(counts, places))
    return torch.stack([places >= per_row(sizes - counts, places).clamp_min(0), most])


def removal_places(values: Tensor, labels: Tensor | None, rank: Rank) -> tuple[Tensor, Tensor]:
    """Each feature's place in the order of removal (batch, *shape), 0 for the most important and −1 for what stays,
    and how many places there are (batch,). Ties go to the feature with the lowest number.

    Example:
        >>> removal_places(torch.tensor([[1.0, -3.0, 2.0]]), None, "magnitude")[0]
        tensor([[2, 0, 1]])
    """
    strengths, index = grouped(values, labels, rank)
    order = strengths.sort(dim=1, descending=True, stable=True).indices
    places = torch.empty_like(order).scatter_(1, order, torch.arange(order.shape[1]).to(order).expand_as(order))
    sizes = (strengths > -torch.inf).sum(1)
    of_features = torch.where(index >= 0, places.gather(1, index.clamp_min(0)), -1)
    return of_features.reshape(values.shape), sizes


def default_rank(inputs: InputKind, judged: Kind) -> Rank:
    """How features are ordered unless the user says otherwise.

    A probability falls without what speaks for the class and rises without what speaks against it, so signs are part
    of what is tested. A score that is no probability may move either way: there only sizes count.

    Example:
        >>> default_rank("tokens", "log_odds"), default_rank("tokens", "score")
        ('signed', 'net')
    """
    if judged == "log_odds":
        return "signed"
    return "net" if inputs == "tokens" else "magnitude"


def grouped(values: Tensor, labels: Tensor | None, rank: Rank) -> tuple[Tensor, Tensor]:
    """How important each group of features is (batch, groups), and which group each feature is of (batch, features).

    −inf for the numbers of groups that an example lacks.

    Example:
        >>> grouped(torch.tensor([[1.0, -3.0, 2.0]]), torch.tensor([[0, 0, 1]]), "net")[0]
        tensor([[2., 2.]])
    """
    flat = flat_rows(values.detach())
    if labels is None:
        index = torch.arange(flat.shape[1], device=flat.device).expand_as(flat)
    else:
        index = flat_rows(labels.to(flat.device).expand(values.shape))
    n, kept = max(1, int(index.max()) + 1), index >= 0
    # What is never removed is counted in one more group, which is then dropped.
    home = torch.where(kept, index, n)
    each = flat.abs() if rank == "magnitude" else flat
    sums = flat.new_zeros(len(flat), n + 1).scatter_add_(1, home, each)[:, :n]
    present = flat.new_zeros(len(flat), n + 1).scatter_(1, home, 1.0)[:, :n] > 0
    strengths = sums.abs() if rank == "net" else sums
    return torch.where(present, strengths, -torch.inf), index


def patches(height: int, width: int, cells: int = 16) -> Tensor:
    """Integer labels (1, height, width) of the square cells of a grid with at most `cells` cells a side.

    Example:
        >>> patches(4, 4, cells=2)[0]
        tensor([[0, 0, 1, 1],
                [0, 0, 1, 1],
                [2, 2, 3, 3],
                [2, 2, 3, 3]])
    """
    side = math.ceil(max(height, width) / cells)
    rows, columns = torch.arange(height) // side, torch.arange(width) // side
    return (rows[:, None] * (int(columns[-1]) + 1) + columns)[None]


# ---- what is measured --------------------------------------------------------------------------------------------


def judged_score(score: Score, probability: Probability) -> tuple[Score, Kind]:
    """The score that masking evaluates. Log-odds wherever there is a probability: all else follows from them, stably.

    Example:
        >>> judged_score(Score(torch.nn.Linear(3, 2), 1, output="log_softmax"), "auto")[1]
        'log_odds'
    """
    indexed = score.target is not None and not callable(score.target)
    if probability == "auto":
        one_output = score.target is None and score.output == "sigmoid"
        probability = "softmax" if indexed else "sigmoid" if one_output else "score"
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
