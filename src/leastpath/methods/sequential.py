"""Sequential IG (Enguehard 2023): Integrated Gradients of each token by itself, all others as they are."""

from __future__ import annotations

import torch

from leastpath._support.checks import Count
from leastpath._support.rows import per_row
from leastpath.features.groups import Groups
from leastpath.integral.pieces import integrate_lines
from leastpath.methods.method import Explained, Problem, method
from leastpath.methods.shapley import RowGroups


@method("Sequential IG", "The line of each token by itself, all others as they are.", unitless=True)
def sequential_ig(problem: Problem, *, n_steps: Count = 50, groups: Groups = None) -> Explained:
    """Sequential IG: for each token the line from the input without this token, which is set to its baseline.

    So the rest of the sentence is never absent. The values of a token add up to what the score loses without it, f(x) −
    f(x without the token); all together they add up to nothing in particular. Where there are no tokens, groups of
    features take their place, as in `kernel_shap`.

    Args:
        n_steps: gradients for each token.
        groups: as for `kernel_shap`.
    """
    bound, grouped = problem.bound, RowGroups.of(problem, groups)
    values = torch.zeros_like(problem.end, dtype=bound.work_dtype)
    for row, count in enumerate(grouped.counts.tolist()):
        start, end = (points[row].to(bound.work_dtype) for points in (problem.start, problem.end))
        own = grouped.members[row].to(end.device)
        for some in torch.arange(count, device=end.device).split(bound.batch_size):
            without = torch.where(own == per_row(some, own[None]), start, end)  # (some, *features)
            lines = integrate_lines(bound, without, end.expand_as(without), torch.full((len(some),), row), n_steps)
            values[row] += lines.sum(0)
        problem.bar.advance()
    return grouped.explain(problem, values, "a line for each of {} groups of features")
