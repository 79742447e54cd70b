"""The symmetric relevance gain: what removing the most important features does beyond removing the least important."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from leastpath._support.checks import check_kind
from leastpath.evaluation.measure import (
    Measured,
    NamedMeasure,
    generators,
    given_attribution,
    one_start,
    read_attributions,
)
from leastpath.features.groups import Groups, check_groups, label_groups
from leastpath.removal.curves import (
    FILLS,
    SHARES,
    Fill,
    Filler,
    Filling,
    Order,
    Probability,
    Rank,
    find_filler,
    judged_score,
    measure_curves,
)
from leastpath.result.attribution import Attribution
from leastpath.score.calls import leave_untouched, warn_of_training_mode
from leastpath.score.score import Baselines, BoundScore, Inputs, Score


def symmetric_relevance_gain(
    score: Score,
    inputs: Inputs,
    values: Inputs,
    baselines: Baselines = None,
    *,
    fill: Fill | Tensor = "baseline",
    groups: Groups = None,
    shares: Sequence[float] = SHARES,
    rank: Rank = "signed",
    probability: Probability = "auto",
    seed: int = 0,
) -> Tensor:
    """The mean over shares of [score without the least important − score without the most important features].

    A random order has a gain of 0 in expectation, so it needs no control, and blurring an explanation does not raise
    it. Higher is better; at most 1 for a probability. Costs at most two forwards per share.

    Args:
        score: what was explained. The gain is in probability where the score is of a class; else the sizes of the
            score's changes are compared.
        inputs: (batch, *features), or a tuple of such.
        values: the explanation, shaped like what was explained.
        baselines: for fill="baseline", one per example.
        fill: what replaces removed features: "baseline", "mean", "blur", "noise", "linear" (ROAD), a number, a
            callable inputs -> fills, an object of `removal.curves`, or a tensor (batch, *features).
        groups: what is removed together. None: every number by itself. "pixels": all channels of a position.
            "patches": the cells of a grid of 16 × 16. "tokens": all of the last dimension. "steps": all channels of a
            time. Integers shaped like an input, or like one without its channels, for all inputs or one each; what is
            below 0 is never removed.
        shares: of the features, each above 0 and at most 1.

    Rarely needed:
        rank: "magnitude" orders by Σ|A| over what is removed together, "net" by |ΣA|, "signed" by ΣA: first
            what raises the score, last what lowers it. Without a class, the first two count any change of the score.
        probability: see `Masking`.
        seed: of fills that are drawn at random.

    Returns:
        (batch,) in float64, on the CPU.

    Example:
        >>> import leastpath as lp
        >>> weights = torch.tensor([[4.0, 0.0], [0.0, 0.0]])
        >>> score, inputs = lp.Score(lambda x: x @ weights, 0), torch.ones(1, 2)
        >>> symmetric_relevance_gain(score, inputs, torch.tensor([[4.0, 0.0]]), shares=[0.5])
        tensor([0.4820], dtype=torch.float64)
    """
    check_kind("shares", shares, Sequence, "shares of the features, as in (0.1, 0.5, 0.9)")
    measure = SymmetricRelevanceGain(groups, fill, tuple(shares), rank, probability)
    return measure(score, inputs, baselines, given_attribution(values), seed=seed).values


@dataclass(frozen=True, eq=False)
class SymmetricRelevanceGain(NamedMeasure):
    """How much more is lost without the most important features than without the least important; 0 is chance.

    `symmetric_relevance_gain` as a measure, for `compare` and `measure_all`. Higher is better.

    Example:
        >>> SymmetricRelevanceGain(groups="pixels", fill="blur", shares=(0.1, 0.5)).higher_is_better
        True
    """

    groups: Groups = None
    fill: Fill | Tensor = "baseline"
    shares: tuple[float, ...] = SHARES
    rank: Rank = "signed"
    probability: Probability = "auto"
    higher_is_better: bool = True

    def __post_init__(self) -> None:
        check_groups(self.groups)
        super().__post_init__()
        if not self.shares or any(not 0 < share <= 1 for share in self.shares):
            raise ValueError(f"shares={self.shares} must lie above 0 and be at most 1, as in shares=(0.1, 0.5, 0.9)")
        if not isinstance(self.fill, Tensor):
            find_filler(self.fill)

    def __call__(
        self, score: Score, inputs: Inputs, baselines: Baselines, result: Attribution, *, seed: int = 0
    ) -> Measured:
        """Values (batch,)."""
        warn_of_training_mode(score.model)
        judged, scale = judged_score(score, self.probability)
        with leave_untouched(score.model, inputs):
            bound = judged.bind(inputs)
            values = read_attributions(bound, result)
            order = Order.of(values, label_groups(self.groups, values), self.rank)
            fills = [prepare_fill(self.fill, bound, inputs, baselines, seed)]
            gain = measure_curves(bound, scale, order, fills, self.shares)[0]
        return Measured.of(gain[0, 0], n_forwards=torch.as_tensor(bound.forwards_spent).long())


def prepare_fill(
    fill: Fill | Filler | Tensor, bound: BoundScore, inputs: Inputs, baselines: Baselines, seed: int
) -> Filling:
    """What stands in for removed features of a bound score's inputs.

    Its generators are fresh: noise does not depend on which other fills are asked for.
    """
    points = bound.space.points()
    if isinstance(fill, Tensor):
        return fill.to(points).expand_as(points)
    _, made = find_filler(fill)
    start = one_start(bound, inputs, baselines, 'fill="baseline"') if made is FILLS["baseline"] else points
    return made.prepare(points, start, generators(inputs, seed))
