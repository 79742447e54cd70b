"""Masking curves: what happens to the prediction as the features that an explanation ranks highest are taken away.

`Masking` runs the model, once for all areas and fills of a ranking. The measures below only read its curves.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

import torch
from torch import Tensor
from torch.nn import functional

from leastpath._support.checks import check_settings_of
from leastpath._support.fingerprint import describe
from leastpath.evaluation.measure import Measured, NamedMeasure, read_attributions
from leastpath.evaluation.statistics import trapezoid
from leastpath.evaluation.support import prepare_fill
from leastpath.features.groups import Groups, check_groups, label_groups, read_maps
from leastpath.removal.curves import (
    Fill,
    Filler,
    Order,
    Probability,
    Scale,
    find_filler,
    group_strengths,
    judged_score,
    level_of,
    removal_scores,
    round_counts,
)
from leastpath.result.attribution import Attribution
from leastpath.score.calls import Baselines, Inputs, leave_untouched, warn_of_training_mode
from leastpath.score.score import Score

PAPER_AREAS = (0.01, 0.02, *(k / 100 for k in range(5, 66, 5)))
"""1, 2, 5, 10, 15, …, 65 %: 15 areas."""
FULL_AREAS = tuple(k / 20 for k in range(21))
"""0, 5, …, 100 %: from the input to the fill, or back."""


@dataclass(frozen=True, eq=False)
class Masking:
    """What is masked, in which order, and what replaces it.

    Measures that are given the same `Masking` object share its forward passes (`measure_all`).

    Args:
        areas: shares of the features, increasing, in [0, 1]. A share k of n features is round(k · n) of them, halves
            up, and at least one for k > 0.
        groups: what is masked together, as in `symmetric_relevance_gain`, or a function from inputs to labels
            (`ground_truth.KnownAnswers(inputs, labels)`, which also serves inputs that come in batches). None: every
            number by itself.
        fill: "baseline", "mean", "blur", "noise", "linear" (ROAD), a number, a callable inputs -> fills, `Samples` of
            other inputs or another object of `removal.curves`, or a tuple of several: one curve each, and their mean
            as the value.
        rank: "magnitude" ranks features by Σ|A| over what is masked together, "signed" by Σ A. Equals are
            masked together: an area that ends among them has its share of what is lost with all.

    Rarely needed:
        probability: what is measured after masking, whatever was explained. "softmax": of the model's outputs, at the
            target. "sigmoid": of the target's own output. "given": the model returns probabilities. "score": the
            explained score itself, for regressions; log-odds are then an error. "auto": sigmoid where the score is
            explained through one; softmax where the target is a class index (sigmoid if the model has a single
            output); else the score.
        normalize: divide areas under curves by the span of `areas`. The paper prints plain areas.

    An attribution that is zero everywhere ranks nothing: its curves and values are NaN, and it costs no evaluation.

    Example:
        >>> Masking(areas=(0.1, 0.2), groups="pixels", fill=("baseline", "blur"))
        Masking(areas=(0.1, 0.2), groups='pixels', fill=('baseline', 'blur'), rank='magnitude', probability='auto', \
normalize=False)
    """

    areas: Sequence[float] = PAPER_AREAS
    groups: Groups | Callable[[Inputs], Tensor] = None
    fill: Fill | tuple[Fill, ...] = "baseline"
    rank: Literal["magnitude", "signed"] = "magnitude"
    probability: Probability = "auto"
    normalize: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.areas, Iterable):
            raise ValueError(f"areas={self.areas!r} must be several shares, as in areas=(0.01, 0.1, 0.5)")
        areas = tuple(float(k) for k in self.areas)
        if not areas or any(not 0 <= k <= 1 for k in areas) or any(a >= b for a, b in pairwise(areas)):
            raise ValueError(f"areas={areas} must increase within [0, 1], as in areas=(0.01, 0.1, 0.5)")
        object.__setattr__(self, "areas", areas)
        if not callable(self.groups):
            check_groups(self.groups)
        check_settings_of(self)
        _ = self.fillers  # refuses unknown names before anything is computed

    @property
    def fillers(self) -> dict[str, Filler]:
        """The fills by name."""
        fills = self.fill if isinstance(self.fill, tuple) else (self.fill,)
        named = [find_filler(fill) for fill in fills]
        if not named or len(dict(named)) < len(named) or "x" in dict(named):
            raise ValueError(f"fill={self.fill!r}: name one or more fills, each once (and none called x)")
        return dict(named)

    def curves(
        self, score: Score, inputs: Inputs, baselines: Baselines, result: Attribution, seed: int = 0, keep: bool = False
    ) -> MaskedScores:
        """The score with the highest-ranked features masked; with `keep`, with all others masked.

        Costs at most areas × fills + 1 forward passes per example, in chunks of the score's batch size. Noise is drawn
        per example (see `measure.generators`).
        """
        warn_of_training_mode(score.model)
        judged, scale = judged_score(score, self.probability)
        with leave_untouched(score.model, inputs):
            bound = judged.bind(inputs)
            attributions = read_attributions(bound, result)
            groups = self.groups
            if callable(groups):
                groups = read_maps(groups(inputs), bound.batch, bound.shape, "groups have", each=True)
            order = Order.of(attributions, label_groups(groups, attributions), self.rank)
            spans = torch.cat([order.first(), (order.all_but_first if keep else order.first)(self.areas)])
            spans[:, ~order.ranks] = 0  # nothing is removed
            fills = {name: prepare_fill(f, bound, inputs, baselines, seed) for name, f in self.fillers.items()}
            clean, masked = removal_scores(bound, order, spans, list(fills.values()))[0].split([1, len(self.areas)], 1)
        masked = torch.where(order.ranks, masked, torch.nan).permute(2, 0, 1)  # (batch, fills, areas)
        spent, mass = torch.as_tensor(bound.forwards_spent).long(), _mass_of_first(attributions, order, self.areas)
        return MaskedScores(scale, tuple(self.areas), tuple(fills), clean[0, 0], masked, spent, self.normalize, mass)

    def __repr__(self) -> str:
        settings = {name: getattr(self, name) for name in self.__dataclass_fields__}
        # Tensors by their checksum, so that maskings that differ do not look alike.
        parts = [f"{k}=<{describe(v)}>" if isinstance(v, Tensor) else f"{k}={v!r}" for k, v in settings.items()]
        return f"Masking({', '.join(parts)})"


@dataclass(frozen=True)
class MaskedScores:
    """The scores that a masking found: log-odds of the target class, or raw scores where there is no probability.

    Example:
        >>> found = MaskedScores("log_odds", (0.1,), ("baseline",), torch.zeros(2), torch.zeros(2, 1, 1), torch.ones(2))
        >>> found.probability()[0].flatten()
        tensor([0.5000, 0.5000])
    """

    scale: Scale
    areas: tuple[float, ...]
    fills: tuple[str, ...]
    clean: Tensor  #: (batch,): of the inputs as they are
    masked: Tensor  #: (batch, fills, areas); NaN for examples whose attributions are all zero
    n_forwards: Tensor  #: (batch,)
    normalize: bool = False
    mass: Tensor | None = None  #: (batch, areas): the share of Σ|A| that the highest-ranked features hold

    def probability(self) -> tuple[Tensor, Tensor]:
        """Probability, or raw score: clean (batch, 1, 1) and masked (batch, fills, areas)."""
        clean = self.clean[:, None, None]
        return level_of(clean, self.scale), level_of(self.masked, self.scale)

    def log_odds(self) -> tuple[Tensor, Tensor]:
        """log p/(1 − p): clean (batch, 1, 1) and masked (batch, fills, areas)."""
        if self.scale != "log_odds":
            remedy = 'give the Score a class index as target, or use Masking(probability="sigmoid")'
            raise ValueError(f"this score has no probability, and so no logarithm of one: {remedy}")
        return self.clean[:, None, None], self.masked

    def summary(self, curves: Tensor, sign: float = 1.0) -> Measured:
        """Curves (batch, fills, areas) as a measurement: sign × area under each, their mean over fills."""
        areas = torch.tensor(self.areas, dtype=curves.dtype)
        under = trapezoid(curves, areas, self.normalize) if len(areas) > 1 else curves[..., 0]
        named = {name: curves[:, i] for i, name in enumerate(self.fills)}
        return Measured.of(sign * under.mean(1), {"x": areas, **named}, self.n_forwards)


def _mass_of_first(attributions: Tensor, order: Order, areas: Sequence[float]) -> Tensor:
    """(batch, areas) the share of Σ|A| in the first places of an order; NaN where all of it is zero."""
    strengths = group_strengths(attributions.cpu().double(), order.groups, "magnitude").clamp_min(0)
    place = order.places[0].long().cpu()
    shared = torch.zeros_like(strengths).scatter_reduce_(1, place, strengths, "mean", include_self=False)
    by_place = shared.gather(1, place.sort(1).values)  # equals share what they hold
    so_far = torch.cat([torch.zeros(len(strengths), 1, dtype=torch.float64), by_place.cumsum(1)], 1)
    total = torch.where(so_far[:, -1:] > 0, so_far[:, -1:], torch.nan)
    return so_far.gather(1, round_counts(areas, order.sizes).T) / total


PAPER_MASKING = Masking()
"""The paper's: 15 areas of 1 % to 65 %, over values, filled with the baseline."""
FULL_MASKING = Masking(FULL_AREAS)
"""From the input to the baseline in 20 equal steps."""


@dataclass(frozen=True)
class MaskingMeasure(NamedMeasure):
    """What the measures share: they differ in direction, in the curve that they read, and in its sign."""

    masking: Masking = PAPER_MASKING
    keep = False
    sign = 1.0

    @property
    def axis(self) -> str:
        """What the horizontal axis of its curves is."""
        return f"share of the features that are {'kept' if self.keep else 'masked'}"

    @property
    def stage_key(self) -> tuple[Masking, bool]:
        """Measures over one `Masking` object and in one direction share their evaluations."""
        return self.masking, self.keep

    def stage(self, score: Score, inputs: Inputs, baselines: Baselines, result: Attribution, seed: int) -> MaskedScores:
        """Everything that runs the model."""
        return self.masking.curves(score, inputs, baselines, result, keep=self.keep, seed=seed)

    def _curves(self, found: MaskedScores) -> Tensor:
        raise NotImplementedError

    def read(self, staged: MaskedScores) -> Measured:
        """This measure's curves and values."""
        return staged.summary(self._curves(staged), self.sign)

    def __call__(
        self, score: Score, inputs: Inputs, baselines: Baselines, result: Attribution, *, seed: int = 0
    ) -> Measured:
        """Values (batch,) are areas under the curves; curves are (batch, areas), named after their fills."""
        return self.read(self.stage(score, inputs, baselines, result, seed))


@dataclass(frozen=True)
class Comprehensiveness(MaskingMeasure):
    """What the probability loses without the top features. Higher is better.

    The curve is p(x) − p(x without its top features); the value is the area under it over the areas.

    Example:
        >>> import leastpath as lp
        >>> score, inputs = lp.Score(torch.nn.Linear(8, 2).eval(), 1), torch.rand(3, 8)
        >>> result = lp.attribute(score, inputs, method=lp.StraightLine())
        >>> Comprehensiveness()(score, inputs, None, result).curves["baseline"].shape
        torch.Size([3, 15])
    """

    higher_is_better: bool = True

    def _curves(self, found: MaskedScores) -> Tensor:
        clean, masked = found.probability()
        return clean - masked


@dataclass(frozen=True)
class AbsoluteChange(Comprehensiveness):
    """How far the score moves without the top features, for regressions. Higher is better.

    The curve is |f(x) − f(x without its top features)|; the value is the area under it. What matters to a regression
    may move the score up or down, and a fall alone would count half of it. It is in units of the score; of a class
    score, in probability.

    Example:
        >>> import leastpath as lp
        >>> score, inputs = lp.Score(lambda x: x @ torch.tensor([-3.0, 1.0])), torch.ones(1, 2)
        >>> result = lp.attribute(score, inputs, method=lp.StraightLine())
        >>> AbsoluteChange(Masking(areas=(0.5,)))(score, inputs, None, result).values  # without the first feature
        tensor([3.], dtype=torch.float64)
    """

    def _curves(self, found: MaskedScores) -> Tensor:
        return super()._curves(found).abs()


@dataclass(frozen=True)
class Sufficiency(Comprehensiveness):
    """What the probability loses with the top features alone. Lower is better.

    The curve is p(x) − p(x with its top features only); the value is the area under it.

    Example:
        >>> Sufficiency(Masking(fill="mean")).higher_is_better
        False
    """

    higher_is_better: bool = False
    keep = True


@dataclass(frozen=True)
class LogOdds(MaskingMeasure):
    """Log-odds without the top features, negated. Higher is better.

    The curve is log p/(1 − p) of the target; the value is minus the area under it, the paper's "area over the curve".

    Example:
        >>> LogOdds(Masking(groups="pixels", fill="blur")).higher_is_better
        True
    """

    higher_is_better: bool = True
    sign = -1.0

    def _curves(self, found: MaskedScores) -> Tensor:
        return found.log_odds()[1]


@dataclass(frozen=True)
class LogProbRatio(MaskingMeasure):
    """Log-probability that is lost without the top features. Higher is better.

    The curve is log p(x without its top features) − log p(x), which the paper's code calls log-odds; the value is
    minus the area under it.

    Example:
        >>> LogProbRatio(Masking(groups="tokens")).higher_is_better
        True
    """

    higher_is_better: bool = True
    sign = -1.0

    def _curves(self, found: MaskedScores) -> Tensor:
        clean, masked = (functional.logsigmoid(odds) for odds in found.log_odds())  # stable for p near 0 and 1
        return masked - clean


@dataclass(frozen=True)
class Deletion(MaskingMeasure):
    """Area under the deletion curve: p(x without its top features), from all of the input to none. Lower is better.

    Example:
        >>> Deletion().masking is Insertion().masking  # every twentieth of the features
        True
    """

    masking: Masking = FULL_MASKING
    higher_is_better: bool = False

    def _curves(self, found: MaskedScores) -> Tensor:
        return found.probability()[1]


@dataclass(frozen=True)
class Insertion(Deletion):
    """Area under the insertion curve: p(x with its top features only), from none to all of it. Higher is better.

    Example:
        >>> Insertion(Masking(FULL_AREAS, fill="blur")).higher_is_better
        True
    """

    higher_is_better: bool = True
    keep = True
