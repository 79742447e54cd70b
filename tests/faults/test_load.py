"""Interruptions and failures in the middle of long work. `python -m faults` presses Ctrl-C more often."""

import pytest

from faults.load import WORK, explain_prompt, failing, out_of_memory, press_at_random, tokenizer
from helpers import left_untouched
from invariants.columns import assert_same

LANGUAGE = "language.explain"


@pytest.mark.parametrize("name", WORK)
def test_ctrl_c_at_random_moments(name):
    if name == LANGUAGE:
        pytest.importorskip("transformers")
    tally = press_at_random(WORK[name](), 3)
    assert tally.interrupted + tally.finished == 3


@pytest.mark.parametrize("name", WORK)
def test_a_forward_that_fails_in_the_middle_is_raised_and_leaves_nothing(name):
    if name == LANGUAGE:
        pytest.importorskip("transformers")
    work = WORK[name]()
    expected = work.do(work.model)
    gone = RuntimeError("the disk of weights is gone")
    with left_untouched(work.model), pytest.raises(Exception, match="is gone"), failing(work.model, gone, at=2):
        work.do(work.model)
    assert_same(work.do(work.model), expected)


def test_memory_for_one_row_only_gives_the_same_answer():
    pytest.importorskip("transformers")
    model = WORK[LANGUAGE]().model
    expected = explain_prompt(model)
    with left_untouched(model), failing(model, out_of_memory(), rows=2), pytest.warns(RuntimeWarning, match="halved"):
        assert_same(explain_prompt(model), expected)


def test_memory_for_no_row_is_said():
    pytest.importorskip("transformers")
    model = WORK[LANGUAGE]().model
    with left_untouched(model), pytest.raises(Exception, match="memory"), failing(model, out_of_memory(), rows=1):
        explain_prompt(model)


def test_a_tokenizer_that_returns_nothing_is_said():
    from leastpath.language import explain

    class Empty:
        def __getattr__(self, name):
            return getattr(tokenizer(), name)

        def __call__(self, *_, **__):
            return {"input_ids": [], "attention_mask": [], "offset_mapping": []}

    with pytest.raises(ValueError, match=r"token|empty"):
        explain(WORK[LANGUAGE]().model, Empty(), "the cat sat", " mat")
    with pytest.raises(ValueError, match=r"tokenizer|None"):
        explain(WORK[LANGUAGE]().model, None, "the cat sat", " mat")
