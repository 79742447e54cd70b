"""IG² (Zhuo & Ge 2024): the way to a counterfactual whose representation is that of a reference."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from leastpath._support.checks import Count, Positive
from leastpath._support.rows import flat_rows, norms, per_row
from leastpath._support.threads import in_this_thread
from leastpath.methods.attack import Limits, check_limits, clip_to
from leastpath.methods.method import Explained, Problem, method
from leastpath.score.derivatives import output_gradients
from leastpath.score.score import BoundScore

SHARE = 0.01  # of the distance to the reference: about the published step, 256 for images of 224 pixels up to 255


@method("IG²", "The descent from the input to the representation of a reference.")
def ig2(
    problem: Problem,
    *,
    representation: nn.Module | None = None,
    n_steps: Count = 201,
    step: Positive | None = None,
    limits: Limits = None,
) -> Explained:
    """IG²: gradient × step along the descent from the input to the representation of a reference.

    Baselines are the references; several an example are averaged. The path descends ‖r(x) − r(reference)‖² by steps of
    one length, shorter ones close to the goal, and ends at a counterfactual: an input that the model takes for the
    reference. Values add up to f(x) − f(counterfactual), up to the size of the steps, and `score_change` is that
    difference.

    Args:
        representation: the module whose output is r. None: the model's own output. The authors take the layer before
            the last.
        n_steps: of the path, two gradients each.
        step: Euclidean length of a step; None: 1 % of the distance between input and reference.
        limits: the ends of the values' range, (0, 1) for images; None: no limits.
    """
    check_limits(limits)
    bound, rows = problem.bound, torch.arange(len(problem))
    x = problem.end.to(bound.work_dtype)
    length = SHARE * norms(flat_rows(x - problem.start), 1) if step is None else torch.full((len(x),), step).to(x)
    values = torch.zeros_like(x)
    with _representations(bound, representation) as (represent, descent):
        goal = represent(problem.start, rows)
        for _ in range(n_steps):
            apart, direction = descent(x, rows, goal)
            gradient = bound.gradients(x, rows)[1]
            size = norms(flat_rows(direction), 1).clamp_min(torch.finfo(x.dtype).tiny ** 0.5)
            # A step beyond the goal would turn around: its direction is rounding, and no two batches round alike.
            stride = torch.minimum(length / size, apart / size.square())
            moved = clip_to(x - per_row(stride, x) * direction, limits)
            values += gradient * (x - moved)
            x = moved
            problem.bar.advance(len(problem) / n_steps)
        left = norms(represent(x, rows) - goal, 1) / norms(represent(problem.end, rows) - goal, 1).clamp_min(1e-12)
    change = bound.values(problem.end, rows) - bound.values(x, rows)
    remarks = [f"the counterfactual keeps {share:.0%} of the distance to the reference" for share in left.tolist()]
    return Explained(values, {"distance_left": left.view(-1, problem.m).mean(1)}, remarks, change)


Represented = Callable[[Tensor, Tensor], Tensor]
Descent = Callable[[Tensor, Tensor, Tensor], tuple[Tensor, Tensor]]


@contextmanager
def _representations(bound: BoundScore, module: nn.Module | None) -> Iterator[tuple[Represented, Descent]]:
    """Functions that give the representation of points (n, d); its squared distance to a goal, with the gradient."""
    seen: list[Tensor] = []

    def record(_module: nn.Module, _inputs: Any, output: Any) -> None:
        seen.append(output[0] if isinstance(output, tuple) else output)

    def read(outputs: Tensor) -> Tensor:
        if module is None:
            return flat_rows(outputs)
        if not seen:
            raise ValueError("representation did not run: pass a module of the explained model, as in model.features")
        return flat_rows(torch.cat([part.to(outputs.dtype) for part in seen]))

    def represent(points: Tensor, examples: Tensor) -> Tensor:
        seen.clear()
        return read(bound.outputs(points, examples)).detach()

    def descent(points: Tensor, examples: Tensor, goal: Tensor) -> tuple[Tensor, Tensor]:
        apart = torch.zeros(len(points)).to(goal)

        def distance(outputs: Tensor, rows: slice) -> Tensor:
            found = (read(outputs) - goal[rows]).square().sum(1)
            apart[rows] = found.detach()
            seen.clear()  # the next chunk of rows records its own
            return found

        seen.clear()
        return apart, output_gradients(bound, points, examples, distance)[1]

    handle = None if module is None else module.register_forward_hook(in_this_thread(record))
    try:
        yield represent, descent
    finally:
        if handle is not None:
            handle.remove()
