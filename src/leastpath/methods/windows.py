"""Occlusion: windows of the input are hidden one after another (Zeiler & Fergus 2014)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from leastpath._support.checks import check_integer
from leastpath._support.rows import per_row
from leastpath.features.groups import Groups, kind_of, kind_of_shape, share_evenly, window_sides
from leastpath.methods.masks import score_masks
from leastpath.methods.method import KINDS, Explained, Problem, method
from leastpath.methods.shapley import RowGroups


def _occlusion_cost(shape: Sequence[int], settings: Mapping[str, Any]) -> tuple[int, int]:
    if settings["groups"] is not None:
        return 0, math.prod(shape)
    size = torch.Size(shape)
    sides = window_sides(settings["window"], size, kind_of_shape(shape))
    return 0, 1 + math.prod(len(line) for line in place_windows(size, sides, _strides(settings["stride"], sides, size)))


@method(
    "Occlusion", "How the score falls without a window.", unitless=True, recommended=KINDS, cost=_occlusion_cost,
    every_class=True,
)  # fmt: skip
def occlusion(
    problem: Problem,
    *,
    window: int | tuple[int, ...] | None = None,
    stride: int | tuple[int, ...] | None = None,
    groups: Groups = None,
) -> Explained:
    """Occlusion: how much the score falls where a window of the input is replaced by the baseline.

    The fall is shared evenly by the window's features, so that the values of a token add up to what hiding it costs. A
    feature of several windows has the mean of its shares. A window that reaches over the border is shared as a whole
    one, so that what is cut is not brighter. (Captum gives every feature of a window the whole fall.) On photographs
    take two baselines, `lp.several("black", "mean")`: black alone cannot see what is dark.

    Args:
        window: hidden at once: one number, or one per dimension of the features. None: an eighth of an image's sides,
            or of a series' time, in all channels; a token of a layer's (tokens, width); otherwise single features.
        stride: between windows, one number or one per dimension. None: half a window, rounded up.
        groups: hidden one after another in place of windows, as for `kernel_shap`. So all numbers that stand for one
            category of a table are hidden together: groups=torch.tensor([0, 1, 1, 1]).

    Example:
        >>> import leastpath as lp
        >>> occlusion(lp.Score(lambda x: x[:, 0] * x[:, 1]), torch.tensor([[2.0, 3.0]])).values
        tensor([[6., 6.]])
    """
    if groups is not None:
        return _hide_groups(problem, window, stride, groups)
    size = window_sides(window, problem.bound.shape, kind_of(problem.bound))
    step = _strides(stride, size, problem.bound.shape)
    inside = place_windows(problem.bound.shape, size, step)
    n = math.prod(len(line) for line in inside)
    rows = torch.arange(len(problem))
    whole = problem.scores(problem.end, rows).cpu()
    falls = whole[:, None] - score_masks(problem, rows, n, lambda i: ~window_masks(inside, i))  # (rows, windows, …)
    by_row = falls.movedim(1, -1)
    spread = spread_over_windows(by_row.reshape(-1, n) / math.prod(size), inside)
    values = spread.reshape(*by_row.shape[:-1], *problem.bound.shape)
    return Explained(values.to(problem.end.device), {"window": size, "stride": step})


def _strides(stride: Any, size: tuple[int, ...], shape: torch.Size) -> tuple[int, ...]:
    if isinstance(stride, tuple):
        if len(stride) != len(shape):
            raise ValueError(f"stride={stride} does not fit features of shape {tuple(shape)}: one number per dimension")
        for step in stride:
            check_integer("occlusion: stride", step, 1)
        return stride
    check_integer("occlusion: stride", stride, 1, or_none=", a tuple, or None for half a window")
    return tuple(w if w == n else (stride or -(-w // 2)) for w, n in zip(size, shape, strict=True))


def place_windows(shape: torch.Size, size: Sequence[int], step: Sequence[int]) -> list[Tensor]:
    """For each dimension which places (windows, side) each window covers; the last may reach over the border.

    Example:
        >>> [line.int().tolist() for line in place_windows(torch.Size([3]), [2], [2])]
        [[[1, 1, 0], [0, 0, 1]]]
    """
    lines = []
    for side, width, stride in zip(shape, size, step, strict=True):
        first = stride * torch.arange(1 + -(-(side - width) // stride))[:, None]
        lines.append((torch.arange(side) >= first) & (torch.arange(side) < first + width))
    return lines


def window_masks(inside: Sequence[Tensor], windows: Tensor) -> Tensor:
    """Which features windows (n,) cover, as `place_windows` gives them, numbered along the last dimension first."""
    masks = torch.ones(len(windows), *[1] * len(inside), dtype=torch.bool)
    for at, line in reversed(list(enumerate(inside))):
        own = line[windows % len(line)]  # (n, side)
        windows = windows // len(line)
        masks = masks & own.reshape(len(own), *[own.shape[1] if d == at else 1 for d in range(len(inside))])
    return masks


def spread_over_windows(amounts: Tensor, inside: Sequence[Tensor]) -> Tensor:
    """The mean of the amounts (rows, windows) over all windows that cover a feature: (rows, *shape)."""
    total = amounts.reshape(len(amounts), *(len(line) for line in inside))
    for line in inside:  # the first dimension left is used up, and comes back as the last
        cover = line.to(total) / line.sum(0).clamp_min(1).to(total)  # the mean, before there are as many as features
        total = torch.tensordot(total, cover, dims=([1], [0]))
    return total


def _hide_groups(problem: Problem, window: Any, stride: Any, groups: Groups) -> Explained:
    """What hiding each group costs, shared evenly by its features."""
    if window is not None or stride is not None:
        raise ValueError("occlusion hides windows or groups: pass groups alone, or window and stride")
    grouped, values = RowGroups.of(problem, groups), []
    for row, k in enumerate(grouped.counts.tolist()):
        members, start, end = grouped.members[row].to(problem.end.device), problem.start[row], problem.end[row]
        is_hidden = members == per_row(torch.arange(k, device=end.device), members[None])  # (k, *shape)
        points = torch.cat([end[None], torch.where(is_hidden, start, end)])
        scores = problem.scores(points, torch.full((k + 1,), row))
        values.append(share_evenly(scores[0] - scores[1:], members))
        problem.bar.advance()
    return grouped.explain(problem, torch.stack(values), "each of {} groups of features hidden once")
