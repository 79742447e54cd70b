"""SAMP and SAMP++ (Zhang et al. 2024): gradient × step along the salient manipulation paths, in both directions."""

from __future__ import annotations

from typing import Literal, get_args

import torch

from leastpath._support.checks import Count, Share
from leastpath.methods.method import Explained, Problem, method
from leastpath.solvers.samp import SAMP, Direction, Manipulation, Step

Directions = Literal["both", "insertion", "deletion"]


@method("SAMP", "Features whose move changes the score most move first, and get gradient × move.")
def samp(problem: Problem, *, n_portions: Count = 14, direction: Directions = "both") -> Explained:
    """SAMP: features whose move changes the score most move first, and get gradient × move.

    One walk inserts features into the baseline, another deletes them from the input. The gradient is that at the start
    of each step, as published, and the values are the mean of both walks. They add up to the change of score up to the
    size of the steps, which are long. `lp.SAMP` is the path of one walk, for `attribute`, which integrates it.

    Args:
        n_portions: the features are moved in so many portions, one gradient each.
        direction: "insertion", "deletion", or "both".
    """
    return _sum_walks(problem, direction, n_portions=n_portions)


@method("SAMP++", "SAMP in small steps, with a running mean of gradients.")
def samp_plus_plus(
    problem: Problem,
    *,
    n_portions: Count = 14,
    direction: Directions = "both",
    max_step: Step | None = 0.02,
    momentum: Share | None = 0.5,
) -> Explained:
    """SAMP++: SAMP in small steps, with a running mean of gradients that chooses features and is what they get.

    Args:
        n_portions: as for `samp`.
        direction: as for `samp`.
        max_step: the largest part of the whole L1 distance that one step may go.
        momentum: weight of the new gradient in the running mean.
    """
    return _sum_walks(problem, direction, n_portions=n_portions, max_step=max_step, momentum=momentum)


def _sum_walks(problem: Problem, direction: Directions, **settings: float | None) -> Explained:
    ways: tuple[Direction, ...] = get_args(Direction) if direction == "both" else (direction,)
    total = torch.zeros_like(problem.end, dtype=problem.bound.work_dtype)
    n_steps = torch.zeros(len(problem), dtype=torch.long)
    for way in ways:
        solver = SAMP(way, **settings)  # type: ignore[arg-type]
        walk = Manipulation(solver, problem.bound, problem.start, problem.end)
        for _ in range(solver.most_steps):
            walk.step()
            problem.bar.advance(len(problem) / solver.most_steps / len(ways))
        total += walk.values / len(ways)
        n_steps += torch.tensor([len(inner) + 1 for inner in walk.inner])
    return Explained(total, {"n_steps": n_steps.view(-1, problem.m).sum(1)})
