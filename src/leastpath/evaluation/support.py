"""The symmetric relevance gain: what removing the most important features does beyond removing the least important."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from leastpath.evaluation.imputation import BaselineFill, Fill, Fixed, filler
from leastpath.evaluation.measure import (
    Measured,
    NamedMeasure,
    checked_attributions,
    generators,
    given_attribution,
    one_start,
)
from leastpath.features.kinds import kind_of
from leastpath.features.maps import maps_over
from leastpath.removal.gain import (
    SHARES,
    Probability,
    Rank,
    RowFill,
    default_rank,
    judged_score,
    patches,
    symmetric_gain,
)
from leastpath.result.attribution import Attribution
from leastpath.score.bound import BoundScore
from leastpath.score.score import Baselines, Inputs, Score
from leastpath.score.untouched import leave_untouched, warn_of_training_mode

NAMES = ("values", "pixels", "patches", "tokens")


def symmetric_relevance_gain(
    score: Score,
    inputs: Inputs,
    values: Inputs,
    baselines: Baselines = None,
    *,
    fill: Fill | Tensor = "baseline",
    features: str | Tensor = "values",
    shares: Sequence[float] = SHARES,
    rank: Rank | None = None,
    probability: Probability = "auto",
    seed: int = 0,
) -> Tensor:
    """The mean over shares of [score without the least important − score without the most important features].

    A random order has a gain of 0 in expectation, so it needs no control, and blurring an explanation does not raise
    it. Higher is better; at most 1 for a probability. Costs two forwards a share.

    Args:
        score: what was explained. The gain is in probability where the score is of a class; else the sizes of the
            score's changes are compared.
        inputs: (batch, *features), or a tuple of such.
        values: the explanation, shaped like what was explained.
        baselines: for fill="baseline", one an example.
        fill: what replaces removed features: "baseline", "mean", "blur", "noise", "linear" (ROAD), a number, a
            callable inputs -> fills, an object of `evaluation.imputation`, or a tensor (batch, *features).
        features: what is removed together: "values" (every number by itself), "pixels" (all channels of a position),
            "patches" (cells of a grid of 16 × 16), "tokens" (all of the last dimension), or integers shaped like an
            input, or like one without its channels, for all inputs or one each; what is below 0 is never removed.
        shares: of the features, each above 0 and at most 1.

    Rarely needed:
        rank: "magnitude" orders by Σ|A| over what is removed together, "net" by |ΣA|, "signed" by ΣA. None:
            "signed" where a probability is judged; else "net" for tokens and "magnitude" for the rest.
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
    settings = SymmetricRelevanceGain(features, fill, tuple(shares), rank, probability)
    return settings(score, inputs, baselines, given_attribution(values), seed=seed).values


@dataclass(frozen=True, eq=False)
class SymmetricRelevanceGain(NamedMeasure):
    """How much more is lost without the most important features than without the least important; 0 is chance.

    `symmetric_relevance_gain` as a measure, for `compare` and `measure_all`. Higher is better.

    Example:
        >>> SymmetricRelevanceGain(features="pixels", fill="blur", shares=(0.1, 0.5)).higher_is_better
        True
    """

    features: str | Tensor = "values"
    fill: Fill | Tensor = "baseline"
    shares: tuple[float, ...] = SHARES
    rank: Rank | None = None
    probability: Probability = "auto"
    higher_is_better: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.shares or any(not 0 < share <= 1 for share in self.shares):
            raise ValueError(f"shares={self.shares} must lie above 0 and be at most 1, as in shares=(0.1, 0.5, 0.9)")
        if isinstance(self.features, str) and self.features not in NAMES:
            raise ValueError(f"features={self.features!r} is unknown: use one of {list(NAMES)} or integer labels")
        if not isinstance(self.fill, Tensor):
            filler(self.fill)

    def __call__(
        self, score: Score, inputs: Inputs, baselines: Baselines, result: Attribution, *, seed: int = 0
    ) -> Measured:
        """Values (batch,)."""
        warn_of_training_mode(score.model)
        judged, kind = judged_score(score, self.probability)
        with leave_untouched(score.model, inputs):
            bound = judged.bind(inputs)
            values = checked_attributions(bound, result)
            labels = feature_labels(self.features, bound)
            fill = row_fill(self.fill, bound, inputs, baselines, seed)
            rank = self.rank or default_rank("tokens" if _named(self.features, "tokens") else kind_of(bound), kind)
            gain = symmetric_gain(bound, kind, values, fill, labels=labels, shares=self.shares, rank=rank)
        return Measured.of(gain, n_forwards=torch.as_tensor(bound.forwards_spent).long())


def _named(features: str | Tensor, name: str) -> bool:
    return isinstance(features, str) and features == name


def feature_labels(features: str | Tensor, bound: BoundScore) -> Tensor | None:
    """What is removed together, as integers (1 or batch, *shape); None for single values."""
    shape = bound.shape
    if isinstance(features, Tensor):
        if features.is_floating_point() or features.dtype == torch.bool:
            raise ValueError(f"labels of features have dtype {features.dtype}, expected integers: labels.long()")
        given = maps_over(features.detach().long(), bound.batch, shape, "labels of features have")
        return given.expand(-1, *shape)
    if features == "values":
        return None
    if len(shape) < (3 if features == "patches" else 2):
        needed = {"pixels": "channels, …", "patches": "channels, height, width", "tokens": "length, width"}[features]
        got = (bound.batch, *shape)
        raise ValueError(f'features="{features}" needs (batch, {needed}), got {got}: use features="values"')
    if features == "patches":
        return patches(*shape[-2:]).expand(1, *shape)
    together = (*shape[:-1], 1) if features == "tokens" else (1, *shape[1:])
    return torch.arange(math.prod(together)).reshape(together).expand(1, *shape)


def row_fill(fill: Fill | Tensor, bound: BoundScore, inputs: Inputs, baselines: Baselines, seed: int) -> RowFill:
    """What stands in for removed features of a bound score's inputs."""
    points = bound.space.explained()
    if isinstance(fill, Tensor):
        return Fixed(fill.to(points).expand_as(points)).rows
    _, made = filler(fill)
    start = one_start(bound, inputs, baselines, 'fill="baseline"') if isinstance(made, BaselineFill) else points
    return made.prepare(points, start, generators(inputs, seed)).rows
