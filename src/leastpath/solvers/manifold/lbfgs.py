"""L-BFGS for a batch of separate problems, so that a batch gives what a loop gives.

By hand: torch's and scipy's L-BFGS minimise one sum, so one problem's step would depend on the others of its batch.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from leastpath._support.rows import norms, per_row

ARMIJO = 1e-4  # a step must achieve this share of its first-order decrease
TRIES = 12  # halvings of a step
MEMORY = 8  # past steps that a direction is made from


class Lbfgs:
    """Minimises a positive function of (k, d) numbers, for every row of a batch.

    Args:
        function: from points (n, k, d) and their row numbers (n,) to values (n,) and gradients (n, k, d).
        x: (batch, k, d) first points.
        inverse: (k, k) first estimate of the inverse Hessian along the second dimension, up to a scale.
        first_move: (batch,) the largest move of one of the k in a first trial step.
        tolerance: a row has converged when its next step would lower its value by a smaller share.
    """

    def __init__(
        self, function: Callable[[Tensor, Tensor], tuple[Tensor, Tensor]], x: Tensor, inverse: Tensor,
        first_move: Tensor, tolerance: float,
    ) -> None:  # fmt: skip
        self.function, self.x, self.inverse, self.tolerance = function, x, inverse, tolerance
        self.first_move = first_move
        everyone = torch.arange(len(x), device=x.device)
        self.value, self.gradient = function(x, everyone)
        self.failed = ~torch.isfinite(self.value) | ~torch.isfinite(self.gradient).flatten(1).all(1)
        self.converged = (first_move == 0) | (self.value == 0)
        self.stuck = torch.zeros_like(self.failed)
        self.iterations = torch.zeros_like(everyone)
        self.scale = torch.zeros_like(self.value)  # of the inverse Hessian; zero: nothing is known yet
        self.past: list[tuple[Tensor, Tensor, Tensor]] = []  # moves, changes of the gradient, 1 / (their product)

    @property
    def open(self) -> Tensor:
        """(n,) the rows that can still go lower."""
        return (~(self.converged | self.stuck | self.failed)).nonzero()[:, 0]

    def iterate(self) -> None:
        """One step of every open row: enough decrease, or it forgets its past steps, or it is stuck."""
        rows = self.open
        direction, slope, step = self._direction(rows)
        promise = -slope * step / 2  # the decrease of a quadratic function
        done = promise <= self.tolerance * self.value[rows]
        self.converged[rows[done]] = True
        rows, direction, slope, step = (part[~done] for part in (rows, direction, slope, step))
        moved, before = torch.zeros_like(slope, dtype=torch.bool), self.gradient[rows]
        for _ in range(TRIES):
            todo = (~moved).nonzero()[:, 0]
            if not len(todo):
                break
            trial = self.x[rows[todo]] + per_row(step[todo], direction) * direction[todo]
            value, gradient = self.function(trial, rows[todo])
            good = value <= self.value[rows[todo]] + ARMIJO * step[todo] * slope[todo]
            at = rows[todo[good]]
            self.x[at], self.value[at], self.gradient[at] = trial[good], value[good], gradient[good]
            moved[todo[good]] = True
            step[todo[~good]] /= 2
        self.iterations[rows] += 1
        self._remember(rows[moved], (per_row(step, direction) * direction)[moved], before[moved])
        # Without a decrease, a row tries once more without its past steps; then it is stuck.
        failed = rows[~moved]
        self.stuck[failed] = self.scale[failed] == 0
        self.scale[failed] = 0
        for _, _, inverse in self.past:
            inverse[failed] = 0

    def _direction(self, rows: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Directions of `rows` (n,): (n, k, d), slopes along them (n,) and first trial steps (n,)."""
        gradient, fresh = self.gradient[rows], self.scale[rows] == 0
        q, shares = gradient.clone(), []
        for move, change, inverse in reversed(self.past):
            share = inverse[rows] * _product(move[rows], q)
            q -= per_row(share, q) * change[rows]
            shares.append(share)
        q = per_row(torch.where(fresh, 1.0, self.scale[rows]), q) * (self.inverse @ q)
        for (move, change, inverse), share in zip(self.past, reversed(shares), strict=True):
            q += per_row(share - inverse[rows] * _product(change[rows], q), q) * move[rows]
        slope = -_product(gradient, q)
        largest = norms(q, 2).amax(1).clamp_min(torch.finfo(q.dtype).tiny)
        return -q, slope, torch.where(fresh, self.first_move[rows] / largest, 1.0)

    def _remember(self, rows: Tensor, move: Tensor, gradient: Tensor) -> None:
        change = self.gradient[rows] - gradient
        product = _product(move, change)
        curved = product > 0  # negative curvature would spoil the next direction
        rows, move, change, product = (part[curved] for part in (rows, move, change, product))
        if not len(rows):
            return
        self.scale[rows] = product / _product(change, self.inverse @ change)
        moves, changes, inverse = torch.zeros_like(self.x), torch.zeros_like(self.x), torch.zeros_like(self.value)
        moves[rows], changes[rows], inverse[rows] = move, change, 1 / product
        self.past = [*self.past, (moves, changes, inverse)][-MEMORY:]


def _product(a: Tensor, b: Tensor) -> Tensor:
    return (a * b).flatten(1).sum(1)
