"""Attributions along adversarial attacks: AGI (Pan et al. 2021) and MFABA (Zhu et al. 2024).

Both sum gradient × step along the way from the input to an example of another class, which is their reference.
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from leastpath._support.checks import Count, Positive
from leastpath._support.rows import flat_rows, norms, per_row
from leastpath.methods.attack import Limits, check_limits, check_logits, clip_to
from leastpath.methods.method import Explained, Problem, method
from leastpath.score.derivatives import output_gradients
from leastpath.score.score import BoundScore

Variant = Literal["sharp", "smooth"]
SHARP_STEP = 0.1  # Euclidean, the published 100 α
SMOOTH_STEP = 0.001  # of each feature, the published α


@method("AGI", "The way back from adversarial examples of other classes.", takes_baselines=False)
def agi(
    problem: Problem, *, n_classes: Count = 20, step: Positive = 0.05, n_steps: Count = 50, limits: Limits = None
) -> Explained:
    """Adversarial Gradient Integration: the way back from examples of other classes.

    For each of some other classes, the input walks up that class's probability by sign steps until the model predicts
    it. The attribution is −Σ ∂f(xₖ) (xₖ₊₁ − xₖ), the mean over the classes. It adds up to the mean of f(x) − f(x′), up
    to the size of the steps. The paper sums over the classes, and its f is a softmax. The authors' code takes every
    step from the input itself; here steps follow each other.

    Args:
        n_classes: others to walk to, spread evenly over the indices.
        step: of each feature, in the units of the inputs.
        n_steps: at most so many to a class, two gradients each.
        limits: the ends of the values' range, (0, 1) for images; None: no limits.
    """
    check_limits(limits)
    bound, target = problem.bound, problem.bound.classes("agi")
    rows = torch.arange(len(problem))
    total = check_logits(bound.outputs(problem.end[:1], rows[:1]), "agi").shape[1]
    spread = (
        torch.arange(0, total, max(1, total // n_classes))[:n_classes] if total > n_classes else torch.arange(total)
    )
    pairs = torch.cartesian_prod(rows, spread)
    pairs = pairs[pairs[:, 1] != target[pairs[:, 0]]]
    example, goal = pairs[:, 0], pairs[:, 1].to(problem.end.device)
    x, values, reached = _walk_to_classes(problem, example, goal, step, n_steps, limits)
    change = (bound.values(problem.end, rows) - _mean_of(bound.values(x, example), example, rows)).detach()
    count = _mean_of(reached.to(change), example, rows) * torch.bincount(example).to(change)
    remarks = [
        f"walked to {int(n)} of {k} other classes" for n, k in zip(count.round(), torch.bincount(example), strict=True)
    ]
    return Explained(_mean_of(values, example, rows), {"classes_reached": count.round().long()}, remarks, change)


def _walk_to_classes(
    problem: Problem, example: Tensor, goal: Tensor, step: float, n_steps: int, limits: Limits
) -> tuple[Tensor, Tensor, Tensor]:
    """From the input of each pair up the probability of its class: last points, summed gradients, class reached."""
    bound = problem.bound
    x = problem.end[example].to(bound.work_dtype)
    values, walking = torch.zeros_like(x), torch.arange(len(x))
    for _ in range(n_steps):
        at = walking

        def probability(outputs: Tensor, part: slice, at: Tensor = at) -> Tensor:
            return outputs.softmax(1).gather(1, goal[at[part]][:, None])[:, 0]

        outputs, up = output_gradients(bound, x[at], example[at], probability)
        under_way = (outputs.argmax(1) != goal[at]).cpu()
        walking, up = at[under_way], up[under_way]
        if not len(walking):
            break
        gradient = bound.gradients(x[walking], example[walking])[1]
        moved = clip_to(x[walking] + step * up.sign(), limits)
        values[walking] -= gradient * (moved - x[walking])
        x[walking] = moved
        problem.bar.advance(len(problem) / n_steps)
    reached = torch.ones(len(x), dtype=torch.bool)
    reached[walking] = (
        (bound.outputs(x[walking], example[walking]).argmax(1) == goal[walking]).cpu() if len(walking) else True
    )
    return x, values, reached


def _mean_of(values: Tensor, example: Tensor, rows: Tensor) -> Tensor:
    """The mean of values (pairs, …) over the pairs of each example: (rows, …)."""
    at = example.to(values.device)
    total = values.new_zeros(len(rows), *values.shape[1:]).index_add_(0, at, values)
    return total / per_row(torch.bincount(at, minlength=len(rows)).clamp_min(1).to(total), total)


@method("MFABA", "The attack that lowers the score until the class changes.", takes_baselines=False)
def mfaba(
    problem: Problem,
    *,
    variant: Variant = "sharp",
    step: Positive | None = None,
    n_steps: Count = 50,
    max_distance: Positive = 0.3,
    limits: Limits = None,
) -> Explained:
    """MFABA: the attack that lowers the score, until the class changes, with gradient × step summed on the way.

    It costs one gradient per step, and is among the cheapest. It adds up to f(x) − f(x′) up to the size of the steps,
    where x′ is the end of the attack. A score that is about no class walks all steps.

    Args:
        variant: "sharp" takes steps along the gradient, "smooth" along its sign.
        step: Euclidean length of a sharp step (0.1), or of each feature in a smooth one (0.001).
        n_steps: at most so many.
        max_distance: of each feature from the input, for "smooth".
        limits: the ends of the values' range, (0, 1) for images; None: no limits.
    """
    check_limits(limits)
    bound, rows, walking = problem.bound, torch.arange(len(problem)), torch.arange(len(problem))
    first = problem.end.to(bound.work_dtype)
    x, values = first.clone(), torch.zeros_like(first)
    for _ in range(n_steps):
        gradient = bound.gradients(x[walking], walking)[1]
        if variant == "sharp":
            size = norms(flat_rows(gradient), 1).clamp_min(torch.finfo(gradient.dtype).tiny)
            moved = x[walking] - (step or SHARP_STEP) * gradient / per_row(size, gradient)
        else:
            away = x[walking] - (step or SMOOTH_STEP) * gradient.sign() - first[walking]
            moved = first[walking] + away.clamp(-max_distance, max_distance)
        moved = clip_to(moved, limits)
        values[walking] -= gradient * (moved - x[walking])
        x[walking] = moved
        walking = walking[_same_class(bound, moved, walking)]
        problem.bar.advance(len(problem) / n_steps)
        if not len(walking):
            break
    remarks = ["the class did not change" if row in walking.tolist() else "" for row in rows.tolist()]
    change = bound.values(problem.end, rows) - bound.values(x, rows)
    return Explained(values, {"class_changed": ~torch.isin(rows, walking)}, remarks, change)


def _same_class(bound: BoundScore, points: Tensor, examples: Tensor) -> Tensor:
    """Whether points (n, *shape) are still of their example's class: (n,). All, where there are no classes."""
    if not isinstance(bound.score.target, (int, Tensor)):
        return torch.ones(len(points), dtype=torch.bool)
    predicted = check_logits(bound.outputs(points, examples), "mfaba").argmax(1)
    return predicted.cpu() == bound.classes("mfaba")[examples]
