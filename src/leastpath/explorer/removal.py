"""Removal: what the model says without some features, one question at a time or as a curve."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from leastpath.explorer.subject import Subject
from leastpath.removal.curves import SHARES, Order, Rank, judged_score, measure_curves
from leastpath.score.calls import leave_untouched
from leastpath.score.score import Score


@dataclass(frozen=True)
class Curve:
    """Levels with the most and with the least important features removed, by share, and the support that they give.

    The level is the probability of the class, or the score where there is none.
    """

    shares: tuple[float, ...]
    most: tuple[float, ...]
    least: tuple[float, ...]
    support: float
    """The symmetric relevance gain, as `evaluation.symmetric_relevance_gain` has it."""


def removal_order(subject: Subject, values: Tensor, rank: Rank) -> list[int]:
    """The units in the order of removal, the most important first; none where a value is not finite.

    Example:
        >>> units = torch.tensor([0, 0, 1, -1])
        >>> subject = Subject("table", "row 0", Score(lambda x: x.sum(1)), torch.ones(1, 4), {}, units)
        >>> removal_order(subject, torch.tensor([[1.0, -5.0, 2.0, 9.0]]), "signed")
        [1, 0]
    """
    if not bool(torch.isfinite(values).all()):
        return []
    order = Order.of(values, subject.units[None], rank)
    ranked: list[int] = order.places[0, 0].argsort()[: int(order.sizes)].tolist()
    return ranked


def removal_curve(subject: Subject, score: Score, values: Tensor, fill: Tensor) -> Curve:
    """Remove 10, 20, …, 90 % of the units in the order of an explanation.

    Args:
        subject: whose units are removed.
        score: what was explained.
        values: (1, *shape) the explanation.
        fill: (m, *shape) what stands in for removed features; the levels are the mean over all m.
    """
    judged, scale = judged_score(score)
    order = Order.of(values, subject.units[None], "signed")
    with leave_untouched(score.model, subject.inputs):
        gain, curves = measure_curves(judged.bind(subject.inputs), scale, order, fill.split(1))
    most, least = (tuple(curve[0, :, :, 0].mean(0).tolist()) for curve in curves)
    return Curve(SHARES, most, least, float(gain.mean()) if int(order.sizes) > 1 else torch.nan)


def remove_features(subject: Subject, score: Score, mask: Tensor, fill: Tensor) -> tuple[Tensor, Tensor]:
    """The input with the features in `mask` (*shape) filled: (m, *shape), and what the model returns for it (m, …)."""
    filled = torch.where(mask.to(subject.inputs.device), fill.to(subject.inputs), subject.inputs)
    return filled, outputs_of(score, subject.inputs, filled)


def outputs_of(score: Score, inputs: Tensor, points: Tensor) -> Tensor:
    """What the model returns for points (m, *shape) in place of one subject's inputs (1, *shape): (m, …)."""
    with leave_untouched(score.model, inputs):
        return score.bind(inputs).outputs(points, torch.zeros(len(points), dtype=torch.long))


def fills_of(
    subject: Subject, score: Score, chosen: Mapping[str, Tensor], *, for_curves: bool = False
) -> dict[str, Tensor]:
    """What removed features may be filled with: the chosen baselines together, and other starts by themselves.

    `chosen` are the baselines in use, (m, *shape) each. For curves, which take some time, only starts that fit best.
    """
    fills = {"baseline": torch.cat(list(chosen.values()))}
    known = chosen if for_curves or len(chosen) == 1 else {}
    for name, start in subject.starts.items():
        if name not in known and (start.has_curves or not for_curves):
            fills[name] = rows_of_start(start.make(score), subject)
    return fills


def rows_of_start(start: Tensor, subject: Subject) -> Tensor:
    """(1, *shape) or (1, m, *shape) as (m, *shape)."""
    return start[0] if start.ndim == subject.inputs.ndim + 1 else start
