"""The sentences about an integral: what was reached, what was not, and what the user can do about it."""

from __future__ import annotations

import math
from collections.abc import Sequence

from leastpath.status import Note, Outcome

FLAT = Note(
    Outcome.FLAT,
    "the score is the same along the whole path, so every attribution is zero; "
    "choose another baseline, target or output",
)
UNKNOWN = Note(Outcome.INTERRUPTED, "interrupted before the integral was known, so there are no attributions")
SHORTFALLS = (  # what is said before and after the number
    ("the attributions may still be wrong by", " in total"),
    ("the length may still be wrong by", ""),
    ("the completeness gap is", ""),
    ("the completeness gaps of single pieces of the path add up to", ""),
)


def fixed_steps(n_steps: int, spent: float, budget: float, max_gradients: float | None, gap: float) -> Note:
    """No error control. `budget` is what was left of `max_gradients`."""
    why = ""
    if budget < n_steps:
        why = f"max_gradients={max_gradients or budget:.0f} left no more"
    elif spent > n_steps + 0.5:
        why = "each segment takes at least one"
    return Note(
        Outcome.BUDGET_SPENT if budget < n_steps else Outcome.FIXED_STEPS,
        f"integrated with {spent:.0f} fixed steps{f' where n_steps={n_steps} were asked for ({why})' if why else ''}, "
        f"without error control: completeness gap {gap:.2g}",
    )


def reached(tolerance: float, spent: float) -> Note:
    """All is as exact as was asked for."""
    return Note(Outcome.REACHED, f"reached tolerance {tolerance:g}, with {spent:.0f} gradients for the integral")


def reached_rounding(tolerance: float, spent: float, dtype: str, gap: float, allowed: float) -> Note:
    """All is as exact as the arithmetic allows, which is less than was asked for."""
    return Note(
        Outcome.REACHED,
        f"as exact as {dtype} rounds this score, since its rounding errors alone exceed tolerance {tolerance:g}: "
        f"completeness gap {gap:.2g} ({allowed:.2g} allowed), with {spent:.0f} gradients for the integral",
    )


def interrupted(tolerance: float, spent: float, missing: str) -> Note:
    """The user stopped it."""
    return Note(
        Outcome.INTERRUPTED,
        f"the integral was interrupted after {_gradients(spent)}, before tolerance {tolerance:g} was reached: "
        f"{missing}; run it again",
    )


def unresolved(tolerance: float, dtype: str, missing: str) -> Note:
    """The pieces that are wrong cannot be cut any more."""
    return Note(
        Outcome.UNRESOLVED,
        f"{dtype} cannot resolve this score any further (it jumps, or its changes are smaller than its rounding "
        f"errors), so tolerance {tolerance:g} was not reached: {missing}; "
        f"{'' if dtype == 'float64' else 'use float64, or '}explain a smoother output",
    )


def budget_spent(tolerance: float, spent: float, budget: float, max_gradients: float | None, missing: str) -> Note:
    """No further cut was paid for. `budget` is what was left of `max_gradients`."""
    said = max_gradients or budget
    left = "" if said == budget else f"{budget:.0f} were left of "
    return Note(
        Outcome.BUDGET_SPENT,
        f"stopped after {_gradients(spent)} ({left}max_gradients={said:.0f}), before tolerance {tolerance:g} was "
        f"reached: {missing}; raise max_gradients or tolerance",
    )


def missing(errors: Sequence[float], allowed: Sequence[float]) -> str:
    """What is not reached yet. Both are in the order of `sums.Errors`; errors that nobody has measured are inf.

    Example:
        >>> missing((0.3, 0.1, 0.06, 0.2), (0.1, 0.2, 0.15, 0.3))
        'the attributions may still be wrong by 0.3 in total (0.1 allowed)'
    """
    said = [
        f"{what} {error:.2g}{of} ({limit:.2g} allowed)"
        for (what, of), error, limit in zip(SHORTFALLS, errors, allowed, strict=True)
        if error > limit
    ]
    if math.isinf(errors[0]):  # then so is the length's: both are measured by cutting
        said[:2] = ["the errors of the attributions and of the length are not known"]
    return " and ".join(said)


def _gradients(count: float) -> str:
    return f"{count:.0f} gradient{'' if round(count) == 1 else 's'}"
