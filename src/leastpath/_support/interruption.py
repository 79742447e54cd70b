"""What Ctrl-C leaves: solvers catch it and return what they have, which a person may look at.

What is kept, averaged or measured must not take half a result for a finished one, so it asks here first.
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
    """The result, if no interruption cut it short; else KeyboardInterrupt.

    Example:
        >>> import leastpath as lp, torch
        >>> result = lp.attribute(lp.Score(lambda x: x.prod(1)), torch.ones(1, 2), solver=lp.StraightLine())
        >>> finished(result) is result
        True
    """
    check_finished(outcome for status in result.status for outcome in status.outcomes)
    return result


def check_finished(outcomes: Iterable[Outcome]) -> None:
    """KeyboardInterrupt where one of these is an interruption: it goes on its way."""
    if Outcome.INTERRUPTED in outcomes:
        raise KeyboardInterrupt
