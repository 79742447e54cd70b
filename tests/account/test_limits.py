"""What a call may spend. Oracle: the sentences that refuse what is none."""

import pytest

import leastpath as lp


@pytest.mark.parametrize("wrong", [0, -1, "soon", float("nan")])
def test_seconds_that_are_none_are_refused(wrong):
    with pytest.raises(ValueError, match="must be a positive number of seconds, or None"):
        lp.Limits(max_seconds=wrong)


@pytest.mark.parametrize("wrong", [0, 2.5, True])
def test_gradients_that_are_none_are_refused(wrong):
    with pytest.raises(ValueError, match="max_gradients"):
        lp.Limits(max_gradients=wrong)
