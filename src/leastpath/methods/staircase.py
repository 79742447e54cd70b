"""Random staircases: patches, tokens or features enter one after another, and each gets what the score gains then."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from leastpath._support.checks import check_integer
from leastpath.features.groups import feature_groups, is_image, shared_evenly
from leastpath.methods.method import KINDS, method
from leastpath.methods.permutation import gains_of_order, score_of_start
from leastpath.methods.problem import Explained, Problem

PATCHES = 8  # a side: about as many steps as a straight line has


def _cost(shape: Sequence[int], settings: Mapping[str, Any]) -> tuple[int, int]:
    return 0, 650 if len(shape) == 3 else 2 * settings["n_orders"] * math.prod(shape)


@method(
    "Random staircases",
    "One patch, token or feature after another enters and gets what is gained.",
    complete=True,
    recommended=KINDS,
    cost=_cost,
)
def staircase(problem: Problem, *, n_orders: int = 4, patch: int | None = None) -> Explained:
    """Random staircases: the mean of path integrals along which one patch after another enters the image.

    On each step of such a path only one patch moves, so the patch gets exactly what the score gains: no gradient is
    needed, none of its noise is picked up, and saturation does no harm. Every path is monotone between the baseline
    and the input. The patches of each order lie on a grid that is shifted at random, so that the mean is finer than
    one grid. Each order is walked forwards and backwards. Tokens and the features of a table enter one by one: there
    the mean is a sampled Shapley value.

    Inside a patch the gain is shared evenly by what moves: what equals its baseline gets nothing. On photographs take
    several baselines: black alone cannot see what is dark.

    Args:
        n_orders: orders, each with its reverse. About 2 × 80 forwards each for an image.
        patch: side of a patch in pixels. None: an eighth of the image's longer side.

    Example:
        >>> import leastpath as lp
        >>> score = lp.Score(lambda x: x[:, 0] * x[:, 1])
        >>> staircase(score, torch.tensor([[2.0, 3.0]])).values
        tensor([[3., 3.]])
    """
    check_integer("staircase: n_orders", n_orders, 1)
    if patch is not None:
        check_integer("staircase: patch", patch, 1)
    rows = [_row(problem, row, n_orders, patch) for row in range(len(problem))]
    said = f"the mean over {2 * n_orders} random orders, each of which adds up to the change of score"
    return Explained(torch.stack(rows), remarks=[said] * len(rows))


def _row(problem: Problem, row: int, n_orders: int, patch: int | None) -> Tensor:
    """The values of one row: (*shape)."""
    generator = torch.Generator().manual_seed(problem.seed)
    moves = (problem.end[row] != problem.start[row]).cpu()
    total, base = torch.zeros(moves.shape, dtype=problem.bound.work_dtype), score_of_start(problem, row)
    for _ in range(n_orders):
        groups = _groups(problem, row, patch, generator)
        k = int(groups.max()) + 1
        order = torch.randperm(k, generator=generator)
        there, back = (gains_of_order(problem, row, groups, each, base) for each in (order, order.flip(0)))
        total += shared_evenly((there + back) / (2 * n_orders), groups, moves)
    problem.bar.advance()
    return total.to(problem.end.device)


def _groups(problem: Problem, row: int, patch: int | None, generator: torch.Generator) -> Tensor:
    """The group of each feature (*shape): cells of a shifted grid of an image, else tokens or single features."""
    shape = problem.bound.shape
    if not is_image(shape):
        return feature_groups(problem, None)[0][row]
    side = patch or math.ceil(max(shape[1:]) / PATCHES)
    down, right = torch.randint(0, side, (2,), generator=generator).tolist()
    i, j = (torch.arange(shape[1]) + down) // side, (torch.arange(shape[2]) + right) // side
    cells = i[:, None] * (int(j[-1]) + 1) + j
    return torch.unique(cells, return_inverse=True)[1].expand(shape)
