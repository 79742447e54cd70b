"""Status: the sentences, and what counts as fine."""

from types import SimpleNamespace

import pytest

import leastpath as lp
from leastpath.result.status import Note, Outcome, Status, check_finished, finished


def test_value_is_one_readable_string():
    status = lp.Status((lp.Note(lp.Outcome.BRIDGED, "used a bridge"), lp.Note(lp.Outcome.REACHED, "reached it")))
    assert status.value == str(status) == "Used a bridge. Reached it."
    assert status.outcomes == (lp.Outcome.BRIDGED, lp.Outcome.REACHED)


OK = (Outcome.SUPPORTED, Outcome.NOT_TESTED, Outcome.REACHED, Outcome.FIXED_STEPS, Outcome.SOLVER_NOTE)


@pytest.mark.parametrize("outcome", lp.Outcome)
def test_ok_only_where_nothing_needs_a_look(outcome):
    status = lp.Status((lp.Note(lp.Outcome.REACHED, "reached"), lp.Note(outcome, "and this")))
    assert outcome in status
    assert status.ok is (None if outcome is lp.Outcome.UNDECIDED else outcome in OK)


def test_contains_only_what_was_said():
    assert lp.Outcome.FLAT not in lp.Status((lp.Note(lp.Outcome.REACHED, "reached"),))


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
