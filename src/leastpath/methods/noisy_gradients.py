"""SmoothGrad (Smilkov et al. 2017), SmoothGrad² (Hooker et al. 2019) and VarGrad (Adebayo et al. 2018) of gradients."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import torch
from torch import Tensor

from leastpath._support.checks import Count, Range
from leastpath._support.rows import flat_rows, per_row
from leastpath.methods.method import Explained, Problem, method

ShareOfRange = Annotated[float, Range(least=0, hint="a share of the input's range")]


def _cost(shape: Sequence[int], settings: Mapping[str, Any]) -> tuple[int, int]:
    return settings["n_samples"], 0


@method("SmoothGrad", "The mean gradient at noisy copies of the input.", cost=_cost)
def smooth_grad(
    problem: Problem, *, n_samples: Count = 50, noise: ShareOfRange = 0.15, absolute: bool = False
) -> Explained:
    """SmoothGrad: the mean of ∂ᵢf over noisy copies of the input. A map of sensitivity, which adds up to nothing.

    It is the gradient's: `smooth_integrated_gradients` is the mean of Integrated Gradients over noisy copies.

    Args:
        n_samples: noisy copies, one gradient each. The noise is the same for all examples.
        noise: standard deviation, as a share of the range of the input's values (max − min, for each example).
        absolute: average |∂ᵢf| in its place, which says how steep the score is, and not in which direction.

    Example:
        >>> import leastpath as lp
        >>> smooth_grad(lp.Score(lambda x: x @ torch.tensor([2.0, -1.0])), torch.ones(1, 2)).values
        tensor([[ 2., -1.]])
    """
    mean, _, size = gradient_moments(problem, n_samples, noise)
    return _explain(problem, size if absolute else mean, n_samples)


@method("SmoothGrad²", "The mean squared gradient at noisy copies of the input.", cost=_cost)
def smooth_grad_squared(problem: Problem, *, n_samples: Count = 50, noise: ShareOfRange = 0.15) -> Explained:
    """SmoothGrad²: the mean of (∂ᵢf)² over noisy copies of the input. It has no sign.

    Args:
        n_samples: as for `smooth_grad`.
        noise: as for `smooth_grad`.
    """
    mean, variance, _ = gradient_moments(problem, n_samples, noise)
    return _explain(problem, mean**2 + variance, n_samples)


@method("VarGrad", "The variance of the gradient over noisy copies of the input.", cost=_cost)
def var_grad(problem: Problem, *, n_samples: Count = 50, noise: ShareOfRange = 0.15) -> Explained:
    """VarGrad: the variance of ∂ᵢf over noisy copies of the input: SmoothGrad² minus the square of SmoothGrad.

    Args:
        n_samples: as for `smooth_grad`.
        noise: as for `smooth_grad`.
    """
    return _explain(problem, gradient_moments(problem, n_samples, noise)[1], n_samples)


def _explain(problem: Problem, values: Tensor, n_samples: int) -> Explained:
    """Baselines play no part: all of an example's have the same values."""
    values = values.repeat_interleave(problem.m, 0)
    return Explained(values, {"n_samples": n_samples}, uses_all_baselines=True)


def gradient_moments(problem: Problem, n_samples: int, noise: float) -> tuple[Tensor, Tensor, Tensor]:
    """The mean and the variance of the gradient, and the mean of its size, over noisy copies: (examples, *shape)."""
    bound, rows = problem.bound, torch.arange(0, len(problem), problem.m)
    end = problem.end[:: problem.m].to(bound.work_dtype)
    deviation = noise * _ranges(problem, end)
    first, total = end, [torch.zeros_like(end) for _ in range(3)]
    for draws in torch.arange(n_samples).split(max(1, bound.batch_size // len(rows))):
        drawn = torch.stack([problem.run.noise(tuple(bound.shape), end, draw) for draw in draws.tolist()])
        points = end + drawn[:, None] * deviation  # (draws, examples, *shape)
        gradient = bound.gradients(points.flatten(0, 1), rows.repeat(len(draws)))[1].unflatten(0, (len(draws), -1))
        first = gradient[0] if draws[0] == 0 else first
        # Without the first, so that a variance is no difference of large squares.
        apart = gradient - first
        for sums, amount in zip(total, (apart, apart**2, gradient.abs()), strict=True):
            sums.add_(amount.sum(0))
        problem.bar.advance(len(problem) * len(draws) / n_samples)
    apart, square, size = (sums / n_samples for sums in total)
    return first + apart, (square - apart**2).clamp_min(0), size


def _ranges(problem: Problem, points: Tensor) -> Tensor:
    """max − min of each tensor of an example, at each of its features: (examples, *shape)."""
    parts = problem.bound.space.split(points)
    spans = []
    for part in parts if isinstance(parts, tuple) else (parts,):
        flat = flat_rows(part)
        spans.append(per_row(flat.amax(1) - flat.amin(1), part).expand_as(part))
    return problem.bound.space.join(spans).to(points)
