"""SmoothGrad of a method. Oracle: the method itself, where there is no noise."""

import pytest
import torch

import leastpath as lp
from helpers import Interrupting, cnn, flat_points, mlp
from leastpath.methods import METHODS, smooth


def scored_two() -> lp.Score:
    return lp.Score(mlp(), torch.tensor([0, 2]), "log_softmax")


def test_smooth_wraps_any_method_and_averages_over_the_noise():
    x = flat_points(2, 4, 1)
    method = smooth(METHODS["input_x_gradient"])
    assert method.name == "smooth_input_x_gradient"
    noiseless = method(scored_two(), x, n_samples=3, noise=0.0)
    torch.testing.assert_close(noiseless.values, METHODS["input_x_gradient"](scored_two(), x).values)
    assert noiseless.n_gradients.tolist() == [3, 3]
    with pytest.raises(ValueError, match="which has no gradient"):
        method(scored_two(), x.long())
    with pytest.raises(ValueError, match="n_samples=0 must be at least 1"):
        method(scored_two(), x, n_samples=0)


def test_smooth_averages_no_half_results():
    with pytest.raises(KeyboardInterrupt):
        smooth(METHODS["guided_ig"])(lp.Score(Interrupting(lambda x: x.prod(1), at=9)), torch.ones(1, 3), n_samples=3)


def test_smooth_of_a_method_with_its_own_start_is_held_against_that_start():
    x, score = flat_points(2, 72, 1).view(2, 2, 6, 6), lp.Score(cnn(), torch.tensor([0, 2]))
    plain = METHODS["blur_ig"](score, x, n_knots=5)
    smoothed = smooth(METHODS["blur_ig"])(score, x, n_samples=2, noise=0.0, n_knots=5)
    torch.testing.assert_close(smoothed.score_change, plain.score_change)
    torch.testing.assert_close(smoothed.completeness_gap, plain.completeness_gap, atol=1e-6, rtol=0)
