"""Accuracy: how exactly an integral is to be measured, its errors, and what was reached, in numbers and sentences."""

from __future__ import annotations

import math
import numbers
from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import lru_cache
from typing import Literal, NamedTuple, TypeGuard

import torch
from torch import Tensor

from leastpath._support.checks import check_integer, check_setting, show_value, write_number
from leastpath._support.rows import flat_rows
from leastpath.integral.pieces import Weighting
from leastpath.result.status import Note, Outcome
from leastpath.score.score import BoundScore


@dataclass(frozen=True)
class Limits:
    """What a call may spend. None: as much as it takes.

    Args:
        max_gradients: per example, solver and integral together.
        max_seconds: for the whole call.

    Example:
        >>> Limits(max_gradients=500)
        Limits(max_gradients=500, max_seconds=None)
    """

    max_gradients: int | None = None
    max_seconds: float | None = None

    def __post_init__(self) -> None:
        check_integer("max_gradients", self.max_gradients, 1, or_none=", or None")
        asked: object = self.max_seconds
        if asked is not None and not (_is_number(asked) and asked > 0):
            raise ValueError(
                f"max_seconds={show_value(asked)} must be a positive number of seconds, or None for no limit"
            )


def _is_number(given: object) -> TypeGuard[float]:
    return isinstance(given, numbers.Real) and not isinstance(given, bool)


Rule = Literal["gauss_legendre", "midpoint", "trapezoid"]
Measured = Literal["all", "values", "length"]
"""What must be known: attributions and length, attributions alone, or the length alone."""


@dataclass(frozen=True)
class Accuracy:
    """How exactly an integral is measured, and how much of it.

    Args:
        tolerance: the error to reach (see `integrate`). None: exactly `n_steps`, without error control.
        n_steps: gradients per path for `tolerance=None`; otherwise where refinement starts.
        rule: "gauss_legendre", "midpoint" or "trapezoid".
        measure: "all"; "values": stop when the attributions are known, even if the length is not; "length": the
            reverse.
        length_tolerance: of the length, where that is not to be `tolerance`.

    Example:
        >>> Accuracy(tolerance=None, n_steps=50).rule
        'gauss_legendre'
    """

    tolerance: float | None = 0.01
    n_steps: int | None = None
    rule: Rule = "gauss_legendre"
    measure: Measured = "all"
    length_tolerance: float | None = None

    def __post_init__(self) -> None:
        check_setting("rule", self.rule, Rule)
        check_setting("measure", self.measure, Measured)
        check_integer("n_steps", self.n_steps, 1, or_none=", or None")
        asked: object = self.tolerance
        if asked is None and self.n_steps is None:
            raise ValueError(
                "tolerance=None means fixed steps, but n_steps is None: pass n_steps=50, or tolerance=0.01"
            )
        if asked is None:
            return
        if not _is_number(asked):
            raise ValueError(
                f"tolerance={show_value(asked)} must be a number between 0 and 1, or None for exactly n_steps"
            )
        if not 0 < float(asked) < 1:
            raise ValueError(f"tolerance={asked} must lie between 0 and 1, or be None for exactly n_steps")

    def check_with(self, weighting: Weighting | None, max_gradients: object = None) -> None:
        """Refuse what cannot be integrated this exactly, before any gradient is spent."""
        if self.tolerance is None:
            if isinstance(max_gradients, int) and self.n_steps is not None and self.n_steps > max_gradients:
                raise ValueError(
                    f"n_steps={self.n_steps} do not fit in max_gradients={max_gradients}: lower the one or raise the "
                    "other"
                )
        elif weighting is not None and not weighting.complete:
            name = type(weighting).__name__
            raise ValueError(
                f"{name} is not complete, so its error cannot be controlled: pass tolerance=None, n_steps=50"
            )


# ---- errors --------------------------------------------------------------------------------------------------------

COMPARED = 0.1  # accuracy of a length that another one is compared with, if they are so different
ROUNDING = 64  # in units of eps · max|f|: errors allowed for arithmetic, beside those of quadrature


def size_of_error(difference: Tensor) -> Tensor:
    """Of attributions (rows, features): (rows,). Σ|difference| up to four features, else twice the Euclidean norm.

    That is the typical error of a sum over any choice of features and signs. Pixels of a noisy gradient have
    independent errors, and Σ|difference| would take thousands of gradients to average them out.
    """
    return torch.minimum(difference.abs().sum(1), 2 * torch.linalg.vector_norm(difference, dim=1))


def averaged_errors(totals: Tensor, squares: Tensor, moved: Tensor, length_moved: Tensor) -> Tensor:
    """(batch, 3) errors of residuals, attributions and lengths of many pieces, whose errors cancel in part.

    The larger of two estimates: how far the sum over all pieces moved when they were cut last, which sees errors that
    have one cause, and what independent errors come to. On photographs it is two to three times the true error, where
    the sum of all sizes is ten times it and more. Never above that sum.

    Args:
        totals: (batch, 3) Σ of their sizes.
        squares: (batch, 3) Σ of their squares.
        moved: (batch,) how far the attributions of the whole path moved.
        length_moved: (batch,) how far its length did.
    """
    chance = (squares * squares.new_tensor([4.0, 2.0, 8.0])).sqrt()  # parts of a piece have half of its move each
    together = torch.stack([torch.zeros_like(moved), moved, length_moved], 1)  # what residuals sum to is the gap
    return torch.minimum(totals, torch.maximum(chance, together))


class Errors(NamedTuple):
    """Errors of each example, or the errors allowed: (batch,) each."""

    attribution: Tensor  # how far the attributions move when pieces are cut; inf if they were not cut
    gap: Tensor  # |Σ attributions − Δf|
    length: Tensor  # how far the length moves
    residual: Tensor  # Σ|residual| of the pieces, beyond rounding

    def take(self, rows: Tensor) -> Errors:
        """Those of some examples (rows,)."""
        return Errors(*(part[rows.to(part.device)] for part in self))

    def within(self, allowed: Errors, measured: Measured) -> Tensor:
        """(batch,) which examples have no larger errors than allowed, on the CPU; what is not measured is left out."""
        known = {
            name: error <= limit for name, error, limit in zip(self._fields, self, allowed, strict=True)
            if measured == "all" or (name == "length") == (measured == "length")
        }  # fmt: skip
        return torch.stack(list(known.values())).all(0).cpu()


class Sums(NamedTuple):
    """Sums over the pieces, for each example: (batch,), but values (batch, *features)."""

    values: Tensor
    length: Tensor
    residual: Tensor  # these three as of `Errors`
    moved: Tensor
    length_moved: Tensor
    pieces: Tensor  # how many, at least 1
    low: Tensor  # smallest and largest score met
    high: Tensor
    change: Tensor  # Δf
    rival: Tensor | None = None  # a length that this one is only compared with; NaN or None: there is none

    def take(self, rows: Tensor) -> Sums:
        """The sums of some examples (rows,)."""
        return Sums(*(None if part is None else part[rows.to(part.device)] for part in self))  # type: ignore[arg-type]

    def rounding(self, eps: float) -> Tensor:
        """What arithmetic may move the score by."""
        return ROUNDING * eps * torch.maximum(self.low.abs(), self.high.abs())

    def flat(self, eps: float) -> Tensor:
        """Whether the score does not change at all, but for what a model rounds otherwise in another row."""
        return (self.high - self.low <= self.rounding(eps)) & ~flat_rows(self.values).any(1)

    @property
    def scale(self) -> Tensor:
        """What errors are relative to. The change of score alone may be zero, as on a closed path."""
        return torch.maximum(self.change.abs(), 0.01 * (self.high - self.low))

    @property
    def errors(self) -> Errors:
        """The errors of each example, as far as they are known."""
        return Errors(self.moved, self.gap.abs(), self.length_moved, self.residual)

    @property
    def gap(self) -> Tensor:
        """Σ values − Δf."""
        return flat_rows(self.values).sum(1) - self.change

    def allow(self, asked: Accuracy, eps: float) -> Errors:
        """The errors allowed for each example.

        A length that is only compared may err by 10 %, if that cannot change which of the two is longer. Where the
        rival is shorter, nothing else need be known, since nobody takes what is longer.

        Residuals of pieces cancel if the score goes up and down. If what remains, the gap, is within the tolerance,
        their sum may be as large as the error of the attributions.
        """
        tolerance = asked.tolerance
        assert tolerance is not None
        rounding = self.rounding(eps)
        at_least, scale = max(tolerance, 8 * eps), self.scale
        attribution = at_least * torch.maximum(flat_rows(self.values).abs().sum(1), scale) + rounding
        gap = tolerance * scale + rounding
        residual = torch.where(self.gap.abs() <= gap, torch.maximum(gap, attribution), gap)
        length = max(asked.length_tolerance or tolerance, 8 * eps) * self.length
        if self.rival is None:
            return Errors(attribution, gap, length + rounding, residual)
        apart = torch.minimum(COMPARED * self.length, (self.length - self.rival).abs() / 2)
        lost = self.length > self.rival  # not if there is none, which is NaN
        only_compared = lost if asked.measure == "all" else ~torch.isnan(self.rival)
        length = torch.where(only_compared, torch.maximum(length, apart), length) + rounding
        attribution, gap, residual = (torch.where(lost, torch.inf, of) for of in (attribution, gap, residual))
        return Errors(attribution, gap, length, residual)


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

    @classmethod
    def of(cls, sums: Sums, notes: list[Note], spent: Tensor, of_values: Tensor, inputs: Tensor) -> Integral:
        """From the sums, with a note for each example.

        Args:
            sums: over all pieces.
            notes: what became of each example.
            spent: (batch,) float64 gradients.
            of_values: (batch,) those that were spent when the values were known; the same where it is infinite.
            inputs: (batch,) the row of the inputs that each belongs to, for the error.
        """
        bad = (~torch.isfinite(flat_rows(sums.values)).all(1)).nonzero()
        if len(bad):
            raise ValueError(
                f"the gradient of example {int(inputs[int(bad[0])])} is NaN or infinite along its path, "
                "though its score is finite: look for sqrt(0), log(0), 0/0 or norm(0) in the model"
            )
        return cls(
            sums.values, sums.change, sums.length, sums.length_moved, sums.moved,
            sums.low, sums.high, spent, torch.minimum(of_values, spent), notes,
        )  # fmt: skip

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
    if len(parts) == 1 and order is None:
        return parts[0]
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


def note_fixed_steps(
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
def note_done(tolerance: float, spent: int) -> Note:
    """An example that is done: the same note for all that took as many gradients."""
    return Note(Outcome.REACHED, f"the integral is within tolerance {tolerance:g}, {_after(spent)}")


def note_rounding(tolerance: float, dtype: str, spent: float, gap: float, allowed: float) -> Note:
    """An example that is done, where the allowed gap is mostly that of rounding errors."""
    return Note(
        Outcome.REACHED,
        f"the integral is as exact as {dtype} rounds this score, whose rounding errors alone exceed tolerance "
        f"{tolerance:g}: completeness gap {write_number(gap, 2)} ({write_number(allowed, 2)} allowed), "
        f"{_after(round(spent))}",
    )


def _after(spent: int) -> str:
    return f"after {spent} gradient{'' if spent == 1 else 's'}"


def note_shortfall(
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


def say_missing(errors: Sequence[float], allowed: Sequence[float]) -> str:
    """The first two things that are not reached. In the order of `accuracy.Errors`; errors not measured are inf."""
    said = [
        words.format(write_number(error, 2), write_number(limit, 2))
        for words, error, limit in zip(SHORTFALLS, errors[:3], allowed[:3], strict=True)
        if limit < error < math.inf
    ]
    if math.isinf(errors[0]):  # so is the length's: both are measured by cutting
        said.insert(0, "the errors of the attributions and of the length are not known")
    return " and ".join(said[:2]) or OF_PIECES.format(write_number(errors[3], 2), write_number(allowed[3], 2))
