"""Gradient flows: a few steps of ascent or descent of the score from a point.

Along a gradient flow the length is the change of score, under every model metric: nothing shorter joins its ends. So a
flow is the best path from an end to a region where the score is flat.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from leastpath._support.rows import flat_rows, norms, per_row
from leastpath.solvers.descent.field import Field

STEPS = 16  # gradients a flow, at most
KNOTS = 8  # of its steps that are kept
FIRST_STEP = 0.002  # relative to the distance of the ends
ARMIJO = 0.2  # a step must achieve this share of its first-order change
FLAT = 0.25  # a gradient that shrinks below this share in one step has reached a flat region …
MIN_GAIN = 0.1  # … if the step had at least this share of its first-order change
ENOUGH = 1e-3  # a flow ends where the gradient, over the whole distance, would add this share of the line's length


@dataclass
class Flow:
    """The result of some flows: (n, KNOTS + 1, …), padded by the last point, and their lengths (n,)."""

    trail: Tensor  # (n, KNOTS + 1, *features)
    values: Tensor  # (n, KNOTS + 1) score at these points …
    gradients: Tensor  # (n, KNOTS + 1, *features) … and its gradient
    cost: Tensor


def flows(
    field: Field, origin: Tensor, rows: Tensor, sign: Tensor, straight: Tensor, at_origin: tuple[Tensor, Tensor]
) -> Flow:
    """From origin (n, *features), up (sign +1) or down (−1) each; straight (n,) is the length of each line.

    `at_origin` are f (n,) and its gradient (n, *features) there.
    """
    point = origin.clone()
    value, gradient = (part.clone() for part in at_origin)
    distance = field.distance[rows]
    step, cost = FIRST_STEP * distance, torch.zeros_like(distance)
    trail, values, gradients = (x[:, None].repeat(1, STEPS, *[1] * (x.ndim - 1)) for x in (point, value, gradient))
    count = torch.zeros_like(rows)
    live = torch.ones_like(rows, dtype=torch.bool)
    for _ in range(STEPS - 1):
        live &= norms(gradient, 1) * distance > ENOUGH * straight
        i = live.nonzero()[:, 0]
        if not len(i):
            break
        now, slope = _direction(field, gradient[i])
        new = point[i] + per_row(sign[i] * step[i], now) * now
        new_value, new_gradient, finite = field.gradient(new, rows[i])
        gain = torch.where(finite, sign[i] * (new_value - value[i]) / (step[i] * slope), -1)
        works = gain >= ARMIJO
        flat = (norms(new_gradient, 1) < FLAT * norms(gradient[i], 1)) & (gain > MIN_GAIN)
        take = works | flat
        j, moved = i[take], new[take] - point[i[take]]
        before = field.metric.speed(point[j], gradient[j], moved)
        after = field.metric.speed(new[take], new_gradient[take], moved)
        cost[j] += torch.maximum((before + after) / 2, (new_value[take] - value[j]).abs())
        point[j], value[j], gradient[j] = new[take], new_value[take], new_gradient[take]
        count[j] += 1
        trail[j, count[j]], values[j, count[j]], gradients[j, count[j]] = point[j], value[j], gradient[j]
        step[i] *= torch.where(works, 2.0, torch.where(flat, 1.0, 0.3))
    return Flow(_thin(trail, count), _thin(values, count), _thin(gradients, count), cost)


def _direction(field: Field, gradient: Tensor) -> tuple[Tensor, Tensor]:
    """The unit step (n, *features) in which the score rises, and its slope (n,)."""
    smooth = field.smooth(gradient)
    tiny = torch.finfo(gradient.dtype).tiny
    unit = smooth / per_row(norms(smooth, 1).clamp_min(tiny), smooth)
    return unit, flat_rows(unit * gradient).sum(1).clamp_min(tiny)


def _thin(trail: Tensor, count: Tensor) -> Tensor:
    """KNOTS + 1 of the first count + 1 points of each trail (n, STEPS, …), evenly; the last is repeated if fewer."""
    steps = torch.arange(KNOTS + 1, device=trail.device)
    stride = count / count.clamp(1, KNOTS)  # (n,)
    pick = torch.minimum((steps * stride[:, None]).round().long(), count[:, None])
    return trail[torch.arange(len(trail), device=trail.device)[:, None], pick]
