"""Results that Ctrl-C cut short. Solvers catch Ctrl-C and return what they have.

Code that stores, averages or measures results asks here first, so that it uses only finished ones.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol, TypeVar

from leastpath.status import Outcome, Status


class HasStatus(Protocol):
    """A result with one status an example."""

    @property
    def status(self) -> Sequence[Status]: ...


Result = TypeVar("Result", bound=HasStatus)


def finished(result: Result) -> Result:
    """The result, or KeyboardInterrupt if Ctrl-C cut it short.

    Example:
        >>> import leastpath as lp, torch
        >>> result = lp.attribute(lp.Score(lambda x: x.prod(1)), torch.ones(1, 2), solver=lp.StraightLine())
        >>> finished(result) is result
        True
    """
    check_finished(outcome for status in result.status for outcome in status.outcomes)
    return result


def check_finished(outcomes: Iterable[Outcome]) -> None:
    """Raise KeyboardInterrupt if one of these outcomes is an interruption."""
    if Outcome.INTERRUPTED in outcomes:
        raise KeyboardInterrupt
