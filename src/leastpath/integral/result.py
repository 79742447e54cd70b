"""What the integrator measured."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from leastpath._support.rows import flat_rows
from leastpath.integral.notes import UNKNOWN
from leastpath.result.status import Note
from leastpath.score.bound import BoundScore

MEASURED = (
    "values",
    "change",
    "length",
    "length_error",
    "attribution_error",
    "low",
    "high",
    "n_gradients",
    "value_gradients",
)


@dataclass(frozen=True)
class Integral:
    """What the integrator measured, for each example. All (batch,) but `values` (batch, *features) and `notes`.

    Example:
        >>> import torch, leastpath as lp
        >>> bound = lp.Score(lambda x: x.prod(1)).bind(torch.ones(1, 2))
        >>> found = lp.integrate(bound, lp.Path.straight(torch.zeros(1, 2), torch.ones(1, 2)), lp.Conformal())
        >>> found.values, found.change
        (tensor([[0.5000, 0.5000]]), tensor([1.]))
    """

    values: Tensor
    change: Tensor  # f(last knot) - f(first knot)
    length: Tensor
    length_error: Tensor  # own estimate, not a bound; NaN at fixed steps
    attribution_error: Tensor  # own estimate, not a bound, as `tolerance` counts it; NaN at fixed steps
    low: Tensor  # range of the score along the path
    high: Tensor
    n_gradients: Tensor  # float64: gradients of shared segments are split between the examples that share them
    value_gradients: (
        Tensor  # float64: how many of these were spent when the values were known; the rest is the length's
    )
    notes: list[Note]

    def where(self, mask: Tensor, other: Integral) -> Integral:
        """The measurements of `other` for the examples in `mask` (batch,), these for the rest."""
        return joined_integrals([self, other], torch.arange(len(mask)) + mask * len(mask))

    @property
    def gap(self) -> Tensor:
        """(batch,) Σ values − Δf."""
        return flat_rows(self.values).sum(1) - self.change


def joined_integrals(parts: Sequence[Integral], order: Tensor | None = None) -> Integral:
    """Integrals of several blocks as one, reordered if asked."""
    tensors = {name: torch.cat([getattr(part, name) for part in parts]) for name in MEASURED}
    notes = [note for part in parts for note in part.notes]
    if order is None:
        return Integral(**tensors, notes=notes)
    return Integral(
        **{name: t[order.to(t.device)] for name, t in tensors.items()}, notes=[notes[i] for i in order.tolist()]
    )


def unknown_integral(score: BoundScore, batch: int) -> Integral:
    """For examples whose integral was interrupted before it was known: NaN everywhere."""
    values = torch.full((batch, *score.shape), torch.nan, dtype=score.work_dtype, device=score.device)
    measured = dict.fromkeys(MEASURED, values.new_full((batch,), torch.nan))
    none = torch.zeros(batch, dtype=torch.float64)
    measured |= {"values": values, "n_gradients": none, "value_gradients": none}
    return Integral(**measured, notes=[UNKNOWN] * batch)
