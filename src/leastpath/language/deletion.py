"""Deletion: removal as it is done to texts. Natural words or an end-of-text token stand in, or the text is shorter."""

from __future__ import annotations

from typing import Literal, get_args

import torch
from torch import Tensor

from leastpath.language.answers import AnswerScores
from leastpath.removal.curves import Order, measure_curves
from leastpath.removal.referee import ORDER_SHARES
from leastpath.score.calls import leave_untouched
from leastpath.score.score import Score

Removal = Literal["natural", "end", "deleted"]


def measure_removal(
    score: Score, inputs: Tensor, token_values: Tensor, starts: Tensor, labels: Tensor, removal: Removal
) -> float:
    """The symmetric relevance gain of an explanation under one kind of removal, in units of the score.

    Args:
        score: over an `AnswerScores`.
        inputs: (1, length) ids.
        token_values: (tokens,) of the prompt.
        starts: (1, m, length, width) natural texts.
        labels: (1, length, width) the feature of each token, −1 for what is fixed.
        removal: what stands in for removed tokens.
    """
    if removal not in get_args(Removal):
        raise ValueError(f"removal={removal!r} is unknown: use one of {list(get_args(Removal))}")
    model = score.model
    assert isinstance(model, AnswerScores)
    with leave_untouched(model, inputs):
        bound = score.bind(inputs)
        point = bound.space.points()  # (1, length, width)
        values = torch.zeros_like(point)
        values[0, : len(token_values), 0] = token_values.to(values)
        order = Order.of(values, labels.to(point.device), "signed")
        if removal == "natural":
            fills = [one.to(point) for one in starts.unbind(1)]
        elif removal == "end":
            end = model.embedding(torch.full_like(inputs, model.absent)).to(point)
            fills = [torch.where(labels.to(point.device) >= 0, end, point)]
        else:
            fills = [torch.full_like(point, torch.nan)]  # what `AnswerScores` takes for deleted
        return float(measure_curves(bound, "score", order, fills, ORDER_SHARES)[0].mean())
