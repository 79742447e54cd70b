"""Weightings: what each gradient along a path adds to the attributions, for `attribute(…, weighting=…)`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol, runtime_checkable

import torch
from torch import Tensor

from leastpath._support.checks import check_settings_of
from leastpath._support.rows import norms, per_row

By = Literal["segment", "length"]


@runtime_checkable
class Weighting(Protocol):
    """What each gradient adds to the attribution: `finish(Σ weight · weigh(gradient, step), step)`.

    Example:
        >>> import leastpath as lp
        >>> lp.PathIntegral().complete, lp.AsPrinted().complete
        (True, False)
    """

    @property
    def complete(self) -> bool:
        """Whether attributions add up to Δf in the limit, which error control needs."""
        ...

    def weigh(self, gradient: Tensor, step: Tensor) -> Tensor:
        """What is summed: gradient (rows, nodes, *features), step (rows, 1, *features) -> (rows, nodes, *features)."""
        ...

    def finish(self, total: Tensor, step: Tensor) -> Tensor:
        """From the sum to attributions: total (rows, *features), step (rows, *features) -> (rows, *features)."""
        ...


@runtime_checkable
class WholePathWeighting(Weighting, Protocol):
    """A weighting that needs the whole path, after all its segments are summed. At fixed steps only.

    A segment must add the same in both directions, because a segment that examples share is integrated once.
    """

    @property
    def follows_score(self) -> bool:
        """Whether fixed steps are spread by change of score rather than by length."""
        ...

    def conclude(self, total: Tensor, length: Tensor, difference: Tensor) -> Tensor:
        """From the segments' sums `total` (batch, *features) over a path to its attributions (batch, *features).

        `length` (batch,) is the path's Euclidean length, `difference` (batch, *features) its last knot minus its first.
        """
        ...


@dataclass(frozen=True)
class PathIntegral:
    """∂ᵢf · γ̇ᵢ: the line integral, complete on every path.

    Example:
        >>> PathIntegral().finish(torch.full((1, 2), 2.0), torch.tensor([[1.0, 3.0]]))
        tensor([[2., 6.]])
    """

    complete: bool = True

    def weigh(self, gradient: Tensor, step: Tensor) -> Tensor:
        """The gradient itself, since on a straight segment the step is the same everywhere."""
        return gradient

    def finish(self, total: Tensor, step: Tensor) -> Tensor:
        """The mean gradient times the step: (rows, *features)."""
        return total * step


@dataclass(frozen=True)
class IDGI:
    """Important Direction Gradient Integration (Yang et al. 2023): ∫ (∇f·γ̇) (∂ᵢf)² / ‖∇f‖² dt. Complete.

    Each step's change of score is divided by squared gradients, as if the step had gone along the gradient; movement
    across the gradient counts as noise. Where f is monotone along the path, all values have one sign.

    Example:
        >>> import torch, leastpath as lp
        >>> score = lp.Score(lambda x: 2 * x[:, 0] - x[:, 1])
        >>> lp.attribute(score, torch.ones(1, 2), method=lp.StraightLine(), weighting=lp.IDGI()).values
        tensor([[0.8000, 0.2000]])
    """

    complete: bool = True

    def weigh(self, gradient: Tensor, step: Tensor) -> Tensor:
        size = _inner(gradient, gradient)
        # Where the gradient is zero, so is the change of score.
        return gradient**2 * (_inner(gradient, step) / torch.where(size > 0, size, 1))

    def finish(self, total: Tensor, step: Tensor) -> Tensor:
        return total


@dataclass(frozen=True)
class IDG:
    """Integrated Decision Gradients (Walker et al. 2024): ∫ ∂ᵢf γ̇ᵢ · df/dα dα, with α the share of the path walked.

    Gradients count where the score changes, not where it is saturated; fixed steps are placed there too. Not complete:
    values scale with the square of the score.

    Example:
        >>> import torch, leastpath as lp
        >>> score = lp.Score(lambda x: 2 * x[:, 0] - x[:, 1])
        >>> lp.attribute(
        ...     score, torch.ones(1, 2), method=lp.StraightLine(), weighting=lp.IDG(), tolerance=None, n_steps=8
        ... ).values.round(decimals=3)
        tensor([[ 2., -1.]])
    """

    complete: bool = False
    follows_score: bool = True

    def weigh(self, gradient: Tensor, step: Tensor) -> Tensor:
        """The gradient times df/ds, s the Euclidean length: (rows, nodes, *features)."""
        size = _inner(step, step).sqrt()
        return gradient * (_inner(gradient, step) / torch.where(size > 0, size, 1))

    def finish(self, total: Tensor, step: Tensor) -> Tensor:
        return total * step

    def conclude(self, total: Tensor, length: Tensor, difference: Tensor) -> Tensor:
        """Times the length, since df/dα = length · df/ds: (batch, *features)."""
        return total * per_row(length, total)


@dataclass(frozen=True)
class AsPrinted:
    """The paper's equation as printed, (xᵢ − x̄ᵢ) Σₖ ∫₀¹ ∂ᵢf dt over the segments k of the path. Not complete.

    The straight difference multiplies gradients of a curved path, and every segment counts the same, however short: a
    segment cut in two counts twice. For comparison only; on a path of one segment it is the line integral.

    Args:
        by: "segment", the equation to the letter; "length", the authors' code for variational paths, which multiplies
            each segment by its Euclidean length.

    Example:
        >>> import torch, leastpath as lp
        >>> score = lp.Score(lambda x: 2 * x[:, 0] - x[:, 1])
        >>> lp.attribute(
        ...     score, torch.ones(1, 2), method=lp.StraightLine(), weighting=lp.AsPrinted(), tolerance=None, n_steps=8
        ... ).values
        tensor([[ 2., -1.]])
    """

    by: By = "segment"
    complete: bool = False
    follows_score: bool = False

    def __post_init__(self) -> None:
        check_settings_of(self)

    def weigh(self, gradient: Tensor, step: Tensor) -> Tensor:
        return gradient

    def finish(self, total: Tensor, step: Tensor) -> Tensor:
        """The mean gradient of a segment, times its length if asked: (rows, *features)."""
        if self.by == "segment":
            return total
        return total * per_row(norms(step, 1), total)

    def conclude(self, total: Tensor, length: Tensor, difference: Tensor) -> Tensor:
        return total * difference


def _inner(a: Tensor, b: Tensor) -> Tensor:
    """Inner products over the features of (rows, nodes, *features): (rows, nodes, 1, …), fit to multiply them."""
    return per_row((a * b).reshape(*torch.broadcast_shapes(a.shape[:2], b.shape[:2]), -1).sum(2), a)
