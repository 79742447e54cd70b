"""What became of each example, as a sentence that the user can act on."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar


class Outcome(enum.Enum):
    """The kinds of outcome. Those that a user should look at are not `ok`.

    Example:
        >>> Outcome.REACHED.ok, Outcome.INTERRUPTED.ok
        (True, False)
    """

    SUPPORTED = "supported"  # better than chance, and than orders that know the input and not the model
    UNSUPPORTED = "unsupported"  # no better than chance, or clearly worse than the straight line
    BETTER_THAN_CHANCE = "better than chance"  # but not than orders that know the input and not the model
    UNDECIDED = "undecided"  # removal cannot tell: neither ok nor not ok
    NOT_TESTED = "not tested"  # nobody asked whether removal confirms the explanation
    REACHED = "reached"  # the tolerance of the integral, which says nothing about the explanation
    FIXED_STEPS = "fixed steps"  # without error control
    BUDGET_SPENT = "budget spent"  # before the tolerance was reached
    UNRESOLVED = "unresolved"  # the score jumps faster than its precision can resolve
    FLAT = "flat"  # the score does not change along the path
    LONGER_THAN_LINE = "longer than line"
    FELL_BACK = "fell back"  # the solver failed and the straight line was used
    INTERRUPTED = "interrupted"
    BRIDGED = "bridged"  # the route crosses between parts of the graph that nothing else joins
    NOT_CONVERGED = "not converged"  # the solver stopped too early
    SOLVER_NOTE = "solver note"

    @property
    def ok(self) -> bool | None:
        """Whether nothing went wrong; None for UNDECIDED, which is neither.

        An explanation that was not tested is not known to be true: see `NOT_TESTED`.
        """
        if self is Outcome.UNDECIDED:
            return None
        return self in (
            Outcome.SUPPORTED, Outcome.NOT_TESTED, Outcome.REACHED, Outcome.FIXED_STEPS, Outcome.SOLVER_NOTE,
        )  # fmt: skip


@dataclass(frozen=True)
class Note:
    """One thing to say about one example: what kind it is, and the sentence with its numbers and remedy.

    Example:
        >>> Note(Outcome.FELL_BACK, "the network predicts no path here").outcome.ok
        False
    """

    outcome: Outcome
    sentence: str


@dataclass(frozen=True)
class Status:
    """All that is to be said about one example. `value` is the sentence the user reads.

    Example:
        >>> Status((Note(Outcome.REACHED, "the integral is within tolerance 0.01"),)).value
        'The integral is within tolerance 0.01.'
    """

    notes: tuple[Note, ...]

    @property
    def value(self) -> str:
        """The whole status in one readable string."""
        return " ".join(f"{n.sentence[:1].upper()}{n.sentence[1:]}." for n in self.notes)

    @property
    def outcomes(self) -> tuple[Outcome, ...]:
        """The kinds of outcome, in the order of the sentences."""
        return tuple(n.outcome for n in self.notes)

    @property
    def ok(self) -> bool | None:
        """Whether nothing here needs a second look; None, which is not true, where removal could not decide.

        It is no verdict on an explanation that was not tested.
        """
        found = {outcome.ok for outcome in self.outcomes}
        return False if False in found else None if None in found else True

    def __contains__(self, outcome: Outcome) -> bool:
        return outcome in self.outcomes

    def __str__(self) -> str:
        return self.value


class HasStatus(Protocol):
    """A result with one status an example."""

    @property
    def status(self) -> Sequence[Status]: ...


Result = TypeVar("Result", bound=HasStatus)


class Interrupted(KeyboardInterrupt):
    """Ctrl-C ended the work early. A KeyboardInterrupt, so a loop around the call ends too.

    Example:
        >>> try:
        ...     raise Interrupted("half of an Attribution")
        ... except KeyboardInterrupt as stop:
        ...     print(stop.result)
        half of an Attribution
    """

    result: Any
    """What was finished before: the `Attribution` that `on_interrupt="return"` returns."""

    def __init__(self, result: Any) -> None:
        super().__init__(
            "interrupted; the result so far is in the exception's .result, and attribute(…, on_interrupt='return') "
            "returns it instead"
        )
        self.result = result

    def __reduce__(self) -> tuple[Any, ...]:
        return Interrupted, (self.result,)


def finished(result: Result) -> Result:
    """The result, if no interruption cut it short; else it raises `Interrupted` with the result so far.

    Solvers catch Ctrl-C and return what they have, which a person may look at. What is kept, averaged or measured must
    not take half a result for a finished one, so it asks here first.

    Example:
        >>> import leastpath as lp, torch
        >>> result = lp.attribute(lp.Score(lambda x: x.prod(1)), torch.ones(1, 2), method=lp.StraightLine())
        >>> finished(result) is result
        True
    """
    if any(note.outcome is Outcome.INTERRUPTED for status in result.status for note in status.notes):
        raise Interrupted(result)
    return result


def check_finished(outcomes: Iterable[Outcome]) -> None:
    """KeyboardInterrupt where one of these is an interruption: it goes on its way."""
    if Outcome.INTERRUPTED in outcomes:
        raise KeyboardInterrupt
