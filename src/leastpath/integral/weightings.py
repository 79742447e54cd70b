"""Other integrands on the same paths: what a gradient adds to the attributions besides the line integral.

Given to `attribute(…, weighting=…)` or `integrate`. The line integral itself is `PathIntegral`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

import torch
from torch import Tensor

from leastpath._support.rows import flat_rows

By = Literal["segment", "length"]


@dataclass(frozen=True)
class IDGI:
    """Important Direction Gradient Integration (Yang et al. 2023): ∫ (∇f·γ̇) (∂ᵢf)² / ‖∇f‖² dt. Complete.

    Each step's change of score is shared out by squared gradients, as if the step had gone along the gradient; what it
    did across the gradient is noise to it. Where f is monotone along the path, all values have one sign.

    Example:
        >>> import torch, leastpath as lp
        >>> score = lp.Score(lambda x: 2 * x[:, 0] - x[:, 1])
        >>> lp.attribute(score, torch.ones(1, 2), solver=lp.StraightLine(), weighting=lp.IDGI()).values
        tensor([[0.8000, 0.2000]])
    """

    complete: bool = True

    def weigh(self, gradient: Tensor, step: Tensor) -> Tensor:
        """gradient (rows, nodes, *features), step (rows, 1, *features) -> (rows, nodes, *features)."""
        size = _inner(gradient, gradient)
        # Where the gradient is zero so is the change of score, and there is nothing to share out.
        return gradient**2 * (_inner(gradient, step) / torch.where(size > 0, size, 1))

    def finish(self, total: Tensor, step: Tensor) -> Tensor:
        """The sum itself: (rows, *features)."""
        return total


@dataclass(frozen=True)
class IDG:
    """Integrated Decision Gradients (Walker et al. 2024): ∫ ∂ᵢf γ̇ᵢ · df/dα dα, with α the share of the path walked.

    Gradients count where the score moves, not where it is saturated; fixed steps are placed there too. Not complete:
    values scale with the square of the score.

    Example:
        >>> import torch, leastpath as lp
        >>> score = lp.Score(lambda x: 2 * x[:, 0] - x[:, 1])
        >>> lp.attribute(
        ...     score, torch.ones(1, 2), solver=lp.StraightLine(), weighting=lp.IDG(), tolerance=None, n_steps=8
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
        """Times the step: (rows, *features)."""
        return total * step

    def conclude(self, total: Tensor, length: Tensor, difference: Tensor) -> Tensor:
        """Times the length, since df/dα = length · df/ds: (batch, *features)."""
        return total * _as_rows(length, total)


@dataclass(frozen=True)
class AsPrinted:
    """The paper's equation as printed, (xᵢ − x̄ᵢ) Σₖ ∫₀¹ ∂ᵢf dt over the segments k of the path. Not complete.

    The straight difference multiplies gradients of a curved path, and every segment counts alike, however short: cut in
    two, it counts twice. For comparison only; on a path of one segment it is the line integral.

    Args:
        by: "segment", the equation to the letter; "length", the authors' code for variational paths, which multiplies
            each segment by its Euclidean length.

    Example:
        >>> import torch, leastpath as lp
        >>> score = lp.Score(lambda x: 2 * x[:, 0] - x[:, 1])
        >>> lp.attribute(
        ...     score, torch.ones(1, 2), solver=lp.StraightLine(), weighting=lp.AsPrinted(), tolerance=None, n_steps=8
        ... ).values
        tensor([[ 2., -1.]])
    """

    by: By = "segment"
    complete: bool = False
    follows_score: bool = False

    def __post_init__(self) -> None:
        if self.by not in get_args(By):
            raise ValueError(f"by={self.by!r} is unknown: use one of {list(get_args(By))}")

    def weigh(self, gradient: Tensor, step: Tensor) -> Tensor:
        """The gradient: (rows, nodes, *features)."""
        return gradient

    def finish(self, total: Tensor, step: Tensor) -> Tensor:
        """The mean gradient of a segment, times its length if asked: (rows, *features)."""
        if self.by == "segment":
            return total
        return total * _as_rows(torch.linalg.vector_norm(flat_rows(step), dim=1), total)

    def conclude(self, total: Tensor, length: Tensor, difference: Tensor) -> Tensor:
        """Times the straight difference: (batch, *features)."""
        return total * difference


def _inner(a: Tensor, b: Tensor) -> Tensor:
    """Inner products over the features of (rows, nodes, *features): (rows, nodes, 1, …), fit to multiply them."""
    product = (a * b).reshape(*torch.broadcast_shapes(a.shape[:2], b.shape[:2]), -1).sum(2)
    return product.reshape(*product.shape, *[1] * (a.ndim - 2))


def _as_rows(numbers: Tensor, like: Tensor) -> Tensor:
    """(rows,) as (rows, 1, …), fit to multiply `like`."""
    return numbers.view(-1, *[1] * (like.ndim - 1))
