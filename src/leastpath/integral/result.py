"""What the integrator measured, and the sentences about it: what was reached, what was not, and what can be done."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import lru_cache

import torch
from torch import Tensor

from leastpath._support.numbers import write_number
from leastpath._support.rows import flat_rows
from leastpath.result.status import Note, Outcome
from leastpath.score.bound import BoundScore


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
    value_gradients: Tensor  # float64: spent when the values were known; the rest is the length's
    notes: list[Note]

    def where(self, mask: Tensor, other: Integral) -> Integral:
        """The measurements of `other` for the examples in `mask` (batch,), these for the rest."""
        return join_integrals([self, other], torch.arange(len(mask)) + mask * len(mask))

    @property
    def gap(self) -> Tensor:
        """(batch,) Σ values − Δf."""
        return flat_rows(self.values).sum(1) - self.change


MEASURED = tuple(field.name for field in fields(Integral) if field.name != "notes")


def join_integrals(parts: Sequence[Integral], order: Tensor | None = None) -> Integral:
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


# ---- sentences -----------------------------------------------------------------------------------------------------

FLAT = Note(
    Outcome.FLAT,
    "the score is the same along the whole path, so every attribution is zero; "
    "choose another baseline, target or output",
)
UNKNOWN = Note(Outcome.INTERRUPTED, "interrupted before the integral was known, so there are no attributions")
SHORTFALLS = (  # in the order of `accuracy.Errors`
    "the attributions may still be wrong by {} in total ({} allowed)",
    "the completeness gap is {} ({} allowed)",
    "the length may still be wrong by {} ({} allowed)",
)
# The fourth of these errors, if nothing else is missing.
OF_PIECES = "the completeness gaps of single pieces of the path add up to {} ({} allowed)"


def fixed_steps(
    n_steps: int, spent: float, budget: float, max_gradients: float | None, gap: float, max_seconds: float | None = None
) -> Note:
    """An example at fixed steps. `budget` is what was left of `max_gradients`, or of `max_seconds` if that is given."""
    why = ""
    if budget < n_steps and max_seconds is not None:
        why = f"max_seconds={max_seconds:g} left no more"
    elif budget < n_steps:
        why = f"max_gradients={max_gradients or budget:.0f} left no more"
    elif spent > n_steps + 0.5:
        why = "each segment takes at least one"
    return Note(
        Outcome.BUDGET_SPENT if budget < n_steps else Outcome.FIXED_STEPS,
        f"integrated with {spent:.0f} fixed steps{f' where n_steps={n_steps} were asked for ({why})' if why else ''}, "
        f"without error control: completeness gap {write_number(gap, 2)}",
    )


@lru_cache(maxsize=4096)
def within(tolerance: float, spent: int) -> Note:
    """An example that is done: the same note for all that took as many gradients."""
    return Note(Outcome.REACHED, f"the integral is within tolerance {tolerance:g}, {_after(spent)}")


def as_exact_as_rounding(tolerance: float, dtype: str, spent: float, gap: float, allowed: float) -> Note:
    """An example that is done, where the allowed gap is mostly that of rounding errors."""
    return Note(
        Outcome.REACHED,
        f"the integral is as exact as {dtype} rounds this score, whose rounding errors alone exceed tolerance "
        f"{tolerance:g}: completeness gap {write_number(gap, 2)} ({write_number(allowed, 2)} allowed), "
        f"{_after(round(spent))}",
    )


def _after(spent: int) -> str:
    return f"after {spent} gradient{'' if spent == 1 else 's'}"


def not_reached(
    tolerance: float, dtype: str, missing: str, interrupted: bool, stuck: bool, spent: float, budget: float,
    max_gradients: float | None, late: str = "",
) -> Note:  # fmt: skip
    """An example that is not done. `stuck`: a piece should be cut, but floating point cannot cut it.

    `late`: after how many seconds it was stopped, if by the clock.
    """
    gradients = f"{spent:.0f} gradient{'' if round(spent) == 1 else 's'}"
    before = f"before tolerance {tolerance:g} was reached"
    if interrupted:
        sentence = f"the integral was interrupted after {gradients}, {before}: {missing}; run it again"
        return Note(Outcome.INTERRUPTED, sentence)
    if stuck:
        return Note(
            Outcome.UNRESOLVED,
            f"{dtype} cannot resolve this score any further (it jumps, or its changes are smaller than its rounding "
            f"errors), so tolerance {tolerance:g} was not reached: {missing}; "
            f"{'' if dtype == 'float64' else 'use float64, or '}explain a smoother output",
        )
    if late:
        sentence = f"stopped after {late} and {gradients} for the integral, {before}: {missing}"
        return Note(Outcome.BUDGET_SPENT, f"{sentence}; raise max_seconds or tolerance")
    said = max_gradients or budget
    limit = f"{'' if said == budget else f'{budget:.0f} were left of '}max_gradients={said:.0f}"
    sentence = f"stopped after {gradients} ({limit}), {before}: {missing}; raise max_gradients or tolerance"
    return Note(Outcome.BUDGET_SPENT, sentence)


def missing(errors: Sequence[float], allowed: Sequence[float]) -> str:
    """The first two things that are not reached. In the order of `accuracy.Errors`; errors not measured are inf."""
    said = [
        words.format(write_number(error, 2), write_number(limit, 2))
        for words, error, limit in zip(SHORTFALLS, errors[:3], allowed[:3], strict=True)
        if limit < error < math.inf
    ]
    if math.isinf(errors[0]):  # so is the length's: both are measured by cutting
        said.insert(0, "the errors of the attributions and of the length are not known")
    return " and ".join(said[:2]) or OF_PIECES.format(write_number(errors[3], 2), write_number(allowed[3], 2))
