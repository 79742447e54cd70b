"""Permutation SHAP: Shapley values of groups of features, by random orders and their reverses."""

from __future__ import annotations

import torch
from torch import Tensor

from leastpath._support.checks import check_integer
from leastpath.features.groups import Groups, group_features, share_evenly
from leastpath.features.kinds import kind_of
from leastpath.methods.method import method
from leastpath.methods.problem import Explained, Problem


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
    rows = [_row(problem, row, members[row], n_permutations) for row in range(len(problem))]
    counts = members.flatten(1).amax(1) + 1
    remarks = [
        f"{2 * n_permutations} orders of {k} groups of features{more}"
        for k, more in zip(counts.tolist(), said, strict=True)
    ]
    return Explained(torch.stack(rows), {"n_groups": counts[:: problem.m]}, remarks)


def _row(problem: Problem, row: int, groups: Tensor, n_permutations: int) -> Tensor:
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
