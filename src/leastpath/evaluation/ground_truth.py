"""Models whose right answer is known, and how close an explanation comes to it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from torch import Tensor, nn

from leastpath._support.checks import check_integer, seed_of
from leastpath._support.fingerprint import digest
from leastpath.evaluation.measure import Measured, NamedMeasure, column_of, read_attributions
from leastpath.features.groups import read_maps
from leastpath.removal.curves import share_of_top
from leastpath.result.attribution import Attribution
from leastpath.score.score import Baselines, Inputs, Score

Answer = Tensor | Callable[[Inputs], Tensor]
LocalizationKind = Literal["mass", "pointing", "iou", "roc_auc"]


@dataclass(frozen=True)
class Planted:
    """A problem with its answer.

    Example:
        >>> planted_patch(n=2).mask.shape
        torch.Size([3, 16, 16])
    """

    score: Score
    inputs: Tensor  #: (batch, *features)
    baselines: Tensor  #: (batch, *features)
    attributions: Tensor  #: (batch, *features): the right answer
    mask: Tensor  #: bool (*features): the features that matter at all


class PatchModel(nn.Module):
    """Images (batch, channels, size, size) -> logits (batch, 2) that see one patch only: z and −z.

    z = gain · (weighted mean of the patch − threshold), with weights above zero.
    """

    def __init__(self, weights: Tensor, threshold: float = 0.3, gain: float = 10.0) -> None:
        super().__init__()
        self.weights: Tensor
        self.register_buffer("weights", weights / weights.sum())
        self.threshold, self.gain = threshold, gain

    def forward(self, images: Tensor) -> Tensor:
        """Logits of "patch is bright" and "patch is dark"."""
        z = self.gain * ((images * self.weights.to(images)).flatten(1).sum(1) - self.threshold)
        return torch.stack([z, -z], 1)


def planted_patch(n: int = 32, size: int = 16, patch: int = 5, channels: int = 3, seed: int = 0) -> Planted:
    """Noise images with a bright patch, and a model that sees nothing else. Baselines are black.

    The explained score is linear in the patch, so every path gives the same attributions. They are positive, inside the
    patch, and removing features in their order is the best possible for the baseline fill.

    Example:
        >>> planted_patch(n=4).mask.sum().item()  # 5 × 5 pixels, three channels
        75
    """
    if not 0 < patch < size:
        raise ValueError(f"patch={patch} must be smaller than the image, size={size}, and at least 1")
    for name, count in (("n", n), ("size", size), ("patch", patch), ("channels", channels)):
        check_integer(name, count, 1)
    generator = torch.Generator("cpu").manual_seed(seed_of(seed))
    images = torch.rand(n, channels, size, size, generator=generator)
    top, left = torch.randint(size - patch + 1, (2,), generator=generator).tolist()
    mask = torch.zeros(channels, size, size, dtype=torch.bool)
    mask[:, top : top + patch, left : left + patch] = True
    images = torch.where(mask, 0.5 + images / 2, images)
    weights = torch.where(mask, 0.2 + torch.rand(mask.shape, generator=generator), 0.0)
    model = PatchModel(weights).eval()
    truth = model.gain * model.weights * images
    return Planted(Score(model, 0), images, torch.zeros_like(images), truth, mask)


def planted_cancellation(n: int = 64, pairs: int = 4, idle: int = 4, seed: int = 0) -> Planted:
    """Features that others cancel, after the conflicting features of XAI-Units.

    f(x) = Σᵢ wᵢ xᵢ (1 − cᵢ) over pairs (xᵢ, cᵢ), xᵢ in [0.5, 1.5], cᵢ 0 or 1, and some idle features. The answer: xᵢ
    gives wᵢ xᵢ, and a cᵢ of 1 takes it away again, −wᵢ xᵢ. A method that shows neither hides the conflict. Path methods
    share it out (half each on the straight line): they cannot give these values, but they can give their order.
    Features are x₀, x₁, …, c₀, c₁, …, idle ones; baselines are zero.

    Example:
        >>> problem = planted_cancellation(n=2)
        >>> torch.allclose(problem.attributions.sum(1), problem.score(problem.inputs), atol=1e-5)
        True
    """
    for name, count, least in (("n", n, 1), ("pairs", pairs, 1), ("idle", idle, 0)):
        check_integer(name, count, least)
    generator = torch.Generator("cpu").manual_seed(seed_of(seed))
    weights = (1 + torch.rand(pairs, generator=generator)) * (1 - 2.0 * (torch.arange(pairs) % 2))
    x = 0.5 + torch.rand(n, pairs, generator=generator)
    c = (torch.rand(n, pairs, generator=generator) < 0.5).float()
    inputs = torch.cat([x, c, torch.randn(n, idle, generator=generator)], 1)

    def conflicting(points: Tensor) -> Tensor:
        return (weights.to(points) * points[:, :pairs] * (1 - points[:, pairs : 2 * pairs])).sum(1)

    truth = torch.cat([weights * x, -weights * x * c, torch.zeros(n, idle)], 1)
    mask = torch.arange(inputs.shape[1]) < 2 * pairs
    return Planted(Score(conflicting), inputs, torch.zeros_like(inputs), truth, mask)


def planted_piecewise(n: int = 64, features: int = 8, idle: int = 4, seed: int = 0) -> Planted:
    """A piecewise linear score with a closed form: f(x) = Σᵢ wᵢ max(xᵢ − τᵢ, 0), and some idle features.

    It is additive, so every path has the same attributions, wᵢ (max(xᵢ − τᵢ, 0) − max(x̄ᵢ − τᵢ, 0)). The gradient at the
    input shows only the last piece.

    Example:
        >>> planted_piecewise(n=2).attributions.shape
        torch.Size([2, 12])
    """
    for name, count, least in (("n", n, 1), ("features", features, 1), ("idle", idle, 0)):
        check_integer(name, count, least)
    generator = torch.Generator("cpu").manual_seed(seed_of(seed))
    weights = torch.cat([torch.randn(features, generator=generator) * 2, torch.zeros(idle)])
    thresholds = torch.rand(features + idle, generator=generator) - 0.5
    inputs = torch.randn(n, features + idle, generator=generator)

    def pieces(points: Tensor) -> Tensor:
        return weights.to(points) * (points - thresholds.to(points)).clamp_min(0)

    truth = pieces(inputs) - pieces(torch.zeros_like(inputs))
    score = Score(lambda points: pieces(points).sum(1))
    return Planted(score, inputs, torch.zeros_like(inputs), truth, weights != 0)


class KnownAnswers:
    """Answers (n, …), looked up by the input that they belong to. Inputs may come in any batches.

    Example:
        >>> inputs, masks = torch.rand(3, 1, 4, 4), torch.rand(3, 4, 4) > 0.5
        >>> torch.equal(KnownAnswers(inputs, masks)(inputs[1:]), masks[1:])
        True
    """

    def __init__(self, inputs: Tensor, answers: Tensor) -> None:
        if len(inputs) != len(answers):
            raise ValueError(f"got {len(answers)} answers for {len(inputs)} inputs: pass one per input")
        self._answers = answers
        self._rows = {digest(x): row for row, x in enumerate(inputs)}

    def __call__(self, inputs: Inputs) -> Tensor:
        """The answers of these inputs: (batch, …)."""
        try:
            return self._answers[[self._rows[digest(x)] for x in (inputs if isinstance(inputs, Tensor) else inputs[0])]]
        except KeyError:
            raise ValueError("an input has no known answer: pass all inputs to KnownAnswers(inputs, answers)") from None


@dataclass(frozen=True)
class Localization(NamedMeasure):
    """How much of the explanation lies where the answer is. Higher is better; NaN where all attributions are zero.

    Args:
        answer: bool mask shaped like an input, or like one without channels (|A| is then summed over them); one for
            all examples, one each, or a function of the inputs (`KnownAnswers`).
        kind: "mass": share of Σ|A| inside. "pointing": whether the largest |A| is inside. "iou": intersection over
            union of the mask and as many features with the largest |A|. "roc_auc": chance that a feature inside has the
            larger |A| than one outside, ties counting half. Equals share the place of "pointing" and "iou".

    Example:
        >>> from leastpath.evaluation import given_attribution
        >>> patch = planted_patch(n=1)
        >>> Localization(patch.mask)(patch.score, patch.inputs, None, given_attribution(patch.attributions)).values
        tensor([1.], dtype=torch.float64)
    """

    answer: Answer
    kind: LocalizationKind = "mass"
    higher_is_better: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.name == column_of(type(self)):  # one column for each kind
            object.__setattr__(self, "name", f"{self.name}_{self.kind}")

    def __call__(
        self, score: Score, inputs: Inputs, baselines: Baselines, result: Attribution, *, seed: int = 0
    ) -> Measured:
        """Values (batch,); runs no model."""
        attributions = read_attributions(score.bind(inputs), result).abs()
        masks, strengths = _pair_rows(self.answer, inputs, attributions)
        if masks.dtype != torch.bool:
            raise ValueError(f"the answer has dtype {masks.dtype}, expected a bool mask: answer > 0")
        inside = masks.sum(1)
        if bool(((inside == 0) | (inside == masks.shape[1])).any()):
            raise ValueError("a mask marks nothing or everything: mark the features of the answer only")
        values = _localize(self.kind, strengths.cpu().double().numpy(), masks.cpu().numpy())
        zero = (strengths == 0).all(1).cpu()
        return Measured.of(torch.where(zero, torch.nan, torch.as_tensor(values, dtype=torch.float64)))


@dataclass(frozen=True)
class RankCorrelation(NamedMeasure):
    """Spearman's correlation between the attributions and the right ones, over features. Higher is better.

    NaN where either ranks nothing because all of it is equal.

    Args:
        answer: attributions shaped like an input; one for all examples, one each, or a function of the inputs.
        signed: rank by the values themselves, not by their magnitudes.

    Example:
        >>> from leastpath.evaluation import given_attribution
        >>> patch = planted_patch(n=1)
        >>> found = given_attribution(patch.attributions * 3)
        >>> RankCorrelation(patch.attributions)(patch.score, patch.inputs, None, found).values
        tensor([1.], dtype=torch.float64)
    """

    answer: Answer
    signed: bool = False
    higher_is_better: bool = True

    def __call__(
        self, score: Score, inputs: Inputs, baselines: Baselines, result: Attribution, *, seed: int = 0
    ) -> Measured:
        """Values (batch,); runs no model."""
        truth, found = _pair_rows(self.answer, inputs, read_attributions(score.bind(inputs), result))
        pair = (side if self.signed else side.abs() for side in (truth, found))
        return Measured.of(rank_correlation(*pair))


def rank_correlation(a: Tensor, b: Tensor) -> Tensor:
    """Spearman's correlation of rows (n, features): (n,) in float64. NaN where all numbers of a row are equal.

    Example:
        >>> rank_correlation(torch.tensor([[1.0, 2.0, 3.0]]), torch.tensor([[1.0, 4.0, 9.0]]))
        tensor([1.], dtype=torch.float64)
    """
    a, b = (torch.as_tensor(_ranks(side.cpu().double().numpy())) for side in (a, b))
    a, b = a - a.mean(1, keepdim=True), b - b.mean(1, keepdim=True)
    scale = (a.square().sum(1) * b.square().sum(1)).sqrt()
    return torch.where(scale > 0, (a * b).sum(1) / scale, torch.nan)


def _pair_rows(answer: Answer, inputs: Inputs, attributions: Tensor) -> tuple[Tensor, Tensor]:
    """Answers and attributions, row by row: both (batch, features)."""
    given = answer(inputs) if callable(answer) else answer
    batch, shape = len(attributions), attributions.shape[1:]
    maps = read_maps(given, batch, shape, "the answer has", each=callable(answer))
    for d in range(1, attributions.ndim):
        if maps.shape[d] == 1:  # what the answer leaves out is summed over
            attributions = attributions.sum(d, keepdim=True)
    rows = maps.expand(batch, *maps.shape[1:]).reshape(batch, -1)
    return rows.to(attributions.device), attributions.reshape(batch, -1)


def _localize(kind: LocalizationKind, strengths: np.ndarray, masks: np.ndarray) -> np.ndarray:
    """How well strengths |A| lie inside masks: (n, features) twice -> (n,). See `Localization`."""
    inside = masks.sum(1)
    if kind == "mass":
        total = strengths.sum(1)
        return (strengths * masks).sum(1) / np.where(total > 0, total, 1)
    if kind == "pointing":
        top = share_of_top(torch.as_tensor(strengths), 1).numpy()
        return np.asarray((top * masks).sum(1))
    if kind == "iou":
        chosen = share_of_top(torch.as_tensor(strengths), torch.as_tensor(inside)[:, None]).numpy()
        both = (chosen * masks).sum(1)
        return np.asarray(both / (2 * inside - both))
    ranks = (_ranks(strengths) * masks).sum(1)
    return (ranks - inside * (inside + 1) / 2) / (inside * (masks.shape[1] - inside))


def _ranks(rows: np.ndarray) -> np.ndarray:
    """The rank of each number in its row, ties sharing theirs: (n, features) twice."""
    from scipy.stats import rankdata  # half a second to import, which most who import this module do not need

    return np.asarray(rankdata(rows, axis=1))
