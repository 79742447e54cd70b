"""Shapley values by random orders and their reverses: of groups of features, and of patches on shifted grids."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from leastpath._support.checks import check_integer
from leastpath.features.groups import (
    Groups,
    group_features,
    is_cuttable,
    kind_of,
    number_groups,
    share_evenly,
    shifted_patches,
)
from leastpath.methods.method import KINDS, Explained, Problem, method


def groups_of(problem: Problem, groups: Groups) -> tuple[Tensor, list[str]]:
    """`group_features` of each row (rows, *shape): all baselines of an example share its groups."""
    labels, remarks = group_features(groups, problem.end[:: problem.m], kind_of(problem.bound))
    return labels.repeat_interleave(problem.m, 0), [said for said in remarks for _ in range(problem.m)]


@method("Permutation SHAP", "Shapley values of groups of features, by orders and their reverses.", complete=True)
def permutation_shap(problem: Problem, *, n_permutations: int = 10, groups: Groups = None) -> Explained:
    """Permutation SHAP: what each group adds when groups join one by one, averaged over orders and their reverses.

    An absent group is at its baseline. Every order adds up to the change of score, so the mean does, too. With its
    reverse, an order is exact for scores in which at most two groups act together. Orders are the same for all examples
    that have as many groups.

    Args:
        n_permutations: orders, each with its reverse: 2 (groups − 1) forwards each.
        groups: as for `kernel_shap`.
    """
    check_integer("permutation_shap: n_permutations", n_permutations, 1)
    members, said = groups_of(problem, groups)
    rows = [_permutation_row(problem, row, members[row], n_permutations) for row in range(len(problem))]
    counts = members.flatten(1).amax(1) + 1
    remarks = [
        f"{2 * n_permutations} orders of {k} groups of features{more}"
        for k, more in zip(counts.tolist(), said, strict=True)
    ]
    return Explained(torch.stack(rows), {"n_groups": counts[:: problem.m]}, remarks)


def _permutation_row(problem: Problem, row: int, groups: Tensor, n_permutations: int) -> Tensor:
    """The values of one row: (*shape)."""
    k, generator = int(groups.max()) + 1, torch.Generator().manual_seed(problem.seed)
    total, base = torch.zeros(k, dtype=problem.bound.work_dtype), score_of_start(problem, row)
    for _ in range(n_permutations):
        order = torch.randperm(k, generator=generator)
        for each in (order, order.flip(0)):
            total += gains_of_order(problem, row, groups, each, base) / (2 * n_permutations)
    problem.bar.advance()
    return share_evenly(total.to(problem.change), groups)


def score_of_start(problem: Problem, row: int) -> Tensor:
    """f at the start of a row: (1,), on the CPU."""
    return problem.bound.values(problem.start[row : row + 1], torch.tensor([row])).cpu()


def gains_of_order(problem: Problem, row: int, groups: Tensor, order: Tensor, first: Tensor) -> Tensor:
    """What each group adds when groups join in this order: (k,), in the order of the groups' numbers, on the CPU.

    Args:
        problem: of the method.
        row: whose ends are taken.
        groups: (*shape) numbers from 0 to k − 1.
        order: (k,) the groups, first to last.
        first: of `score_of_start`.
    """
    bound, k = problem.bound, len(order)
    start, end = problem.start[row : row + 1], problem.end[row : row + 1]
    joined = order.argsort()[groups]  # when each feature joins
    here = joined[None] < torch.arange(1, k).reshape(-1, *[1] * groups.ndim)
    between = torch.where(here.to(end.device), end, start)  # (k − 1, *shape)
    scores = bound.values(between, torch.full((k - 1,), row)).cpu()
    last = first + problem.change[row : row + 1].cpu()
    return torch.empty(k, dtype=bound.work_dtype).index_copy_(0, order, torch.cat([first, scores, last]).diff())


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
def staircase(problem: Problem, *, n_orders: int = 4, patch: int | None = None, groups: Groups = None) -> Explained:
    """Random staircases: the mean of path integrals along which one patch after another enters the image.

    On each step of such a path only one patch moves, so the patch gets exactly what the score gains: no gradient is
    needed, none of its noise is picked up, and saturation does no harm. Every path is monotone between the baseline
    and the input. The patches of each order lie on a grid that is shifted at random, so that the mean is finer than
    one grid. Each order is walked forwards and backwards. Tokens, time steps and the features of a table enter one by
    one: there the mean is a sampled Shapley value.

    Inside a patch the gain is shared evenly by what moves: what equals its baseline gets nothing. On photographs take
    several baselines: black alone cannot see what is dark.

    Args:
        n_orders: orders, each with its reverse. About 2 × 80 forwards each for an image.
        patch: side of a patch in pixels. None: an eighth of the image's longer side.
        groups: what enters together, in place of patches that are drawn: as for `kernel_shap`.

    Example:
        >>> import leastpath as lp
        >>> score = lp.Score(lambda x: x[:, 0] * x[:, 1])
        >>> staircase(score, torch.tensor([[2.0, 3.0]])).values
        tensor([[3., 3.]])
    """
    check_integer("staircase: n_orders", n_orders, 1)
    if patch is not None:
        check_integer("staircase: patch", patch, 1)
    if patch is not None and groups is not None:
        raise ValueError("staircase lets patches or groups enter: pass patch or groups, not both")
    drawn = groups is None and is_cuttable(problem.bound.shape)
    members = None if drawn else groups_of(problem, groups)[0]  # (rows, *shape)
    rows = [_staircase_row(problem, row, n_orders, patch, members) for row in range(len(problem))]
    said = f"the mean over {2 * n_orders} random orders, each of which adds up to the change of score"
    return Explained(torch.stack(rows), remarks=[said] * len(rows))


def _staircase_row(problem: Problem, row: int, n_orders: int, patch: int | None, members: Tensor | None) -> Tensor:
    """The values of one row: (*shape)."""
    generator = torch.Generator().manual_seed(problem.seed)
    moves = (problem.end[row] != problem.start[row]).cpu()
    total, base = torch.zeros(moves.shape, dtype=problem.bound.work_dtype), score_of_start(problem, row)
    for _ in range(n_orders):
        groups = _draw_patches(problem.bound.shape, patch, generator) if members is None else members[row]
        k = int(groups.max()) + 1
        order = torch.randperm(k, generator=generator)
        there, back = (gains_of_order(problem, row, groups, each, base) for each in (order, order.flip(0)))
        total += share_evenly((there + back) / (2 * n_orders), groups, moves)
    problem.bar.advance()
    return total.to(problem.end.device)


def _draw_patches(shape: torch.Size, patch: int | None, generator: torch.Generator) -> Tensor:
    """The patch of each feature (*shape): cells of a grid that is shifted at random."""
    side = patch or math.ceil(max(shape[1:]) / PATCHES)
    down, right = torch.randint(0, side, (2,), generator=generator).tolist()
    return number_groups(shifted_patches(shape[1], shape[2], side, down, right)[None]).expand(shape)
