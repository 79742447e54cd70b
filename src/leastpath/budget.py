"""Budget: the one ledger of gradients. What each example has spent, what it may still spend, and what is reserved.

The score counts the rows that it differentiates, for each example. A budget is a limit on this count, and everything
that spends gradients asks one first. A part of the work gets a stricter budget, made from the one of the call. All
budgets of a call read the same count, so that what one part spends is gone for all the others.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from leastpath.bound import BoundScore

Examples = Tensor | int | slice  # which examples of the batch
EVERYONE = slice(None)


@dataclass(frozen=True)
class Budget:
    """How many gradients each example of a bound score may spend. Made by `Run.budget`.

    `share`, `shared_by`, `at_most` and `keeping` make stricter budgets. They divide what is left at that moment, and
    what is reserved is not in them.

    Args:
        score: the one that counts.
        limit: (batch,) float64, the count that an example must not pass. Infinite: there is no limit.
        reserved: (batch,) the part of it that only `with_reserved` may spend.

    Example:
        >>> import leastpath as lp
        >>> score = lp.Score(lambda x: x.prod(1)).bind(torch.ones(2, 3))
        >>> budget = lp.Run(max_gradients=100, reserved=20).budget(score)
        >>> half = budget.share(0.5)
        >>> _ = score.gradients(torch.ones(30, 3), torch.zeros(30, dtype=torch.long))  # all for the first example
        >>> budget.spent().tolist(), budget.left().tolist(), half.left().tolist()
        ([30.0, 0.0], [50.0, 80.0], [20.0, 50.0])
        >>> half.affords(25).tolist()
        [False, True]
    """

    score: BoundScore
    limit: Tensor
    reserved: Tensor

    @classmethod
    def of(cls, score: BoundScore, max_gradients: int | None, reserved: int = 0) -> Budget:
        """The budget of a call: `max_gradients` an example, or no limit, of which some are reserved."""
        limit = torch.full((score.batch,), torch.inf if max_gradients is None else max_gradients, dtype=torch.float64)
        return cls(score, limit, torch.full_like(limit, reserved))

    # ---- questions -----------------------------------------------------------------------------------------------

    @property
    def limited(self) -> bool:
        """Whether there is a limit."""
        return bool(torch.isfinite(self.limit).any())

    def spent(self, examples: Examples = EVERYONE) -> Tensor:
        """(n,) gradients that these examples have spent so far, in the whole call."""
        return torch.as_tensor(self.score.gradients_spent)[examples].clone()

    def left(self, examples: Examples = EVERYONE) -> Tensor:
        """(n,) gradients that these examples may still spend, without what is reserved."""
        return ((self.limit - self.reserved)[examples] - self.spent(examples)).clamp_min(0)

    def least_left(self, examples: Examples = EVERYONE) -> float:
        """What each of these examples may still spend: the smallest of what they have left."""
        return float(self.left(examples).min())

    def affords(self, cost: float | Tensor, examples: Examples = EVERYONE) -> Tensor:
        """(n,) whether these examples may spend `cost` gradients more, one number or (n,)."""
        return self.left(examples) >= cost

    def grant(self) -> Tensor | None:
        """(batch,) what is left, as `integrate(max_gradients=…)` takes it: at least 1, and None without a limit."""
        return self.left().clamp_min(1) if self.limited else None

    # ---- stricter budgets ----------------------------------------------------------------------------------------

    @property
    def with_reserved(self) -> Budget:
        """The same budget with what is reserved: for the integral, which it is reserved for."""
        return Budget(self.score, self.limit, torch.zeros_like(self.reserved))

    def share(self, part: float) -> Budget:
        """A part of what is left. The reserved gradients count in the whole, but are never in the part."""
        return self._stricter(part * (self.limit - self.spent()))

    def shared_by(self, n: int) -> Budget:
        """One of n equal parts of what is left."""
        return self._stricter(self.left() / n)

    def at_most(self, cost: float | Tensor) -> Budget:
        """No more than `cost` gradients from now on: one number or (batch,)."""
        return self._stricter(_counts(cost))

    def keeping(self, cost: float | Tensor) -> Budget:
        """What is left when `cost` gradients are kept for something else: one number or (batch,)."""
        return self._stricter(self.left() - torch.where(torch.isfinite(self.limit), _counts(cost), 0))

    def _stricter(self, room: Tensor) -> Budget:
        """`room` (batch,) gradients from now on, or what is left where that is less."""
        limit = self.spent() + torch.minimum(room, self.left()).clamp_min(0)
        return Budget(self.score, limit, torch.zeros_like(limit))

    # ---- costs that several examples share -----------------------------------------------------------------------

    def pooled(self, examples: Tensor) -> Budget:
        """All that `examples` (n,) have left, in the hands of the first, who spends for all of them."""
        limit = self.spent()
        limit[examples[0]] += self.left(examples).sum()
        return Budget(self.score, limit, torch.zeros_like(limit))

    def settle(self, before: Tensor, shares: Tensor) -> None:
        """What has been spent since `before` (batch,) is charged as `shares` (batch,) say.

        The score counts a segment that several examples walk for one of them only. The sum stays what was counted:
        shares of an interrupted integral, which do not add up to it, change nothing.
        """
        counted = self.spent() - before
        if abs(float(shares.sum() - counted.sum())) < 0.5:  # thirds are not exact
            self.score.gradients_spent[:] = (before + shares).numpy()


def _counts(cost: float | Tensor) -> Tensor:
    return torch.as_tensor(cost, dtype=torch.float64)
