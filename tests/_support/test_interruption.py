"""An interrupted result is told from a finished one by its statuses alone."""

from types import SimpleNamespace

import pytest

from leastpath._support.interruption import check_finished, finished
from leastpath.status import Note, Outcome, Status

REACHED = Status((Note(Outcome.REACHED, "done"),))
INTERRUPTED = Status((Note(Outcome.REACHED, "done"), Note(Outcome.INTERRUPTED, "stopped")))


def test_a_finished_result_comes_back_itself():
    result = SimpleNamespace(status=(REACHED, REACHED))
    assert finished(result) is result


def test_one_interrupted_example_is_enough():
    with pytest.raises(KeyboardInterrupt):
        finished(SimpleNamespace(status=(REACHED, INTERRUPTED)))


def test_outcomes_without_a_result():
    check_finished([Outcome.REACHED, Outcome.BUDGET_SPENT])
    with pytest.raises(KeyboardInterrupt):
        check_finished(iter([Outcome.REACHED, Outcome.INTERRUPTED]))
