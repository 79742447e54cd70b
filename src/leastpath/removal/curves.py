"""Curves: the scores of inputs that lack features. Everything that removes features in an order asks here."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from leastpath._support.rows import per_row
from leastpath.removal.fills import Filling
from leastpath.removal.order import Order
from leastpath.score.bound import BoundScore

LARGE = 4_096  # values of an input above which it is broadcast rather than gathered


def removal_scores(judged: BoundScore, order: Order, spans: Tensor, fills: Sequence[Filling]) -> Tensor:
    """The scores without some places of each order, by each fill: (draws, fills, spans, batch), float64 on the CPU.

    Removals that coincide (few features, many shares) are run once. What removes nothing is the input itself, which
    runs once whatever the order and the fill. Everything else is one stream of full batches.

    Args:
        judged: a score bound to the inputs, as a rule of `judged_score`.
        order: of what is removed: one of each example, or several draws.
        spans: (spans, batch, 2) the first place that is removed and the first that is not any more, as of
            `Order.first`; an empty span removes nothing.
        fills: what stands in for removed features.

    Example:
        >>> import leastpath as lp
        >>> from leastpath.removal.fills import Fixed
        >>> inputs, weights = torch.ones(1, 3), torch.tensor([1.0, 2.0, 4.0])
        >>> order = Order.of(weights[None], None, "magnitude")
        >>> bound = lp.Score(lambda x: x @ weights).bind(inputs)
        >>> removal_scores(bound, order, order.first((0.0, 0.33, 0.67)), [Fixed(torch.zeros(1, 3))]).flatten()
        tensor([7., 3., 1.], dtype=torch.float64)
    """
    draws, batch, n = order.places.shape
    shape = (draws, len(fills), len(spans), batch)
    low, high = (np.broadcast_to(side, shape) for side in spans.numpy().transpose(2, 0, 1))
    draw, fill, _, example = np.indices(shape)
    fill, draw, low, high = (np.where(low < high, part, 0) for part in (fill, draw, low, high))
    sides = (len(fills), draws, batch, n + 1, n + 1)
    keys = np.ravel_multi_index((fill, draw, example, low, high), sides)
    distinct, where = np.unique(keys, return_inverse=True)
    rows = torch.as_tensor(np.stack(np.unravel_index(distinct, sides)))  # fill, draw, example, low, high
    points, found, at = judged.space.explained(), [], 0
    while at < rows.shape[1]:  # the batch size may fall on the way
        some = rows[:, at : at + judged.batch_size]
        found.append(judged.values(_remove(points, order, fills, some), some[2]).double().cpu())
        at += some.shape[1]
    return torch.cat(found)[torch.as_tensor(where.reshape(shape))]


def _remove(points: Tensor, order: Order, fills: Sequence[Filling], rows: Tensor) -> Tensor:
    """Inputs without features, one for each of `rows` (5, n): fill, draw, example, low, high.

    Large inputs are not gathered row by row: rows of one example are broadcast from it, which saves most of the time.
    """
    large = points[0].numel() >= LARGE
    parts, at = [], 0
    for n in rows[: 3 if large else 1].unique_consecutive(return_counts=True, dim=1)[1].tolist():
        fill, draw, example, low, high = rows[:, at : at + n]
        if large:
            draw, example = draw[:1], example[:1]
        places = order.of_features(draw, example).to(points.device)
        masked = (places >= per_row(low.to(places), points)) & (places < per_row(high.to(places), points))
        filled = fills[int(fill[0])].rows(example, masked).to(points)
        parts.append(torch.where(masked, filled, points[example.to(points.device)]))
        at += n
    return torch.cat(parts)
