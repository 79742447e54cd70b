"""What Ctrl-C leaves: solvers catch it and return what they have, which a person may look at.

What is kept, averaged or measured must not take half a result for a whole one, so it asks here first.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol, TypeVar

from leastpath.status import Outcome, Status


class Explanation(Protocol):
    """What tells of each example how it went: an `Attribution`."""

    @property
    def status(self) -> Sequence[Status]:
        """One an example."""


Explained = TypeVar("Explained", bound=Explanation)


def whole(result: Explained) -> Explained:
    """The result, which no interruption cut short; else KeyboardInterrupt.

    Example:
        >>> import leastpath as lp, torch
        >>> result = lp.attribute(lp.Score(lambda x: x.prod(1)), torch.ones(1, 2), solver=lp.StraightLine())
        >>> whole(result) is result
        True
    """
    check_finished(outcome for status in result.status for outcome in status.outcomes)
    return result


def check_finished(outcomes: Iterable[Outcome]) -> None:
    """KeyboardInterrupt where one of these is an interruption: it goes on its way."""
    if Outcome.INTERRUPTED in outcomes:
        raise KeyboardInterrupt
