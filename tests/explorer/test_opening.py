"""From what a user gives to a session, and sentences for what is none."""

import pytest
import torch

import leastpath as lp
from explorer_subjects import table_source
from leastpath.explorer.opening import session_of
from leastpath.explorer.saved import SavedSession


def test_a_score_a_source_and_a_result():
    score = lp.Score(lambda x: x.prod(1))
    for given in ((score, torch.ones(1, 2)), (table_source(),)):
        session = session_of(*given)
        assert session.state()["kind"] == "table"
        session.close()
    assert isinstance(session_of(lp.attribute(score, torch.ones(1, 2), method=lp.StraightLine())), SavedSession)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ((3,), "expected a Score"), ((lp.Score(lambda x: x.sum(1)),), "needs inputs"),
        ((lp.Score(lambda x: x.sum(1)), (torch.ones(1, 2),)), "one tensor"),
        ((lp.Score(lambda x: x.sum((1, 2))), torch.ones(1, 2, 3)), "expected pictures"),
    ],
)  # fmt: skip
def test_what_cannot_be_explored_is_a_sentence(given, words):
    with pytest.raises(ValueError, match=words):
        session_of(*given)
