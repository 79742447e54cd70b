"""Inputs of which parts are replaced by the baseline: built and scored in full batches."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from leastpath.methods.method import Problem


def score_masks(problem: Problem, rows: Tensor, n: int, masks: Callable[[Tensor], Tensor]) -> Tensor:
    """The score of n partly hidden copies of each of some rows: (len(rows), n, …), in batches as large as may be.

    Args:
        problem: what is explained.
        rows: (k,) rows of the problem.
        n: copies of each row.
        masks: from numbers (c,) of copies to what is shown of them, (c, *shape) or broadcast to it: bool, or numbers
            between 0, the baseline, and 1, the input. The copies of all rows are masked alike.

    Example:
        >>> import leastpath as lp
        >>> from leastpath.account.run import Run
        >>> problem = Problem.bind(lp.Score(lambda x: x.sum(1)), torch.ones(1, 2), None, Run())
        >>> score_masks(problem, torch.tensor([0]), 2, lambda i: torch.eye(2)[i].bool())
        tensor([[1., 1.]])
    """
    every = rows.repeat_interleave(n)
    return score_own_masks(problem, every, lambda i: masks(i % n), len(rows)).unflatten(0, (-1, n))


def score_own_masks(problem: Problem, rows: Tensor, masks: Callable[[Tensor], Tensor], progress: float = 0.0) -> Tensor:
    """The score of partly hidden inputs (n, …), copy i being one of `rows[i]`; `masks` is asked for copies (c,).

    The bar advances by `progress` in all.
    """
    bound, device = problem.bound, problem.end.device
    found = []
    for copies in torch.arange(len(rows)).split(max(1, bound.batch_size)) if len(rows) else ():
        of, shown = rows[copies], masks(copies).to(device)
        start, end = problem.start[of.to(device)], problem.end[of.to(device)]
        points = torch.where(shown, end, start) if shown.dtype == torch.bool else torch.lerp(start, end, shown.to(end))
        found.append(problem.scores(points, of).cpu())
        problem.bar.advance(progress * len(copies) / len(rows))
    return torch.cat(found) if found else torch.zeros(0, dtype=bound.work_dtype)
