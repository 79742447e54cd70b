"""Boundary IG. Oracles: the distance of a linear classifier's boundary, Integrated Gradients from the point found."""

import pytest
import torch
from torch import nn

import leastpath as lp
from helpers import flat_points, moons_net
from leastpath.methods import METHODS
from leastpath.methods.boundary import BoundaryIG


def linear(weights, offset):
    net = nn.Linear(len(weights), 2).eval()
    net.weight.data = torch.stack([torch.tensor(weights), torch.zeros(len(weights))])
    net.bias.data = torch.tensor([offset, 0.0])
    return net


def test_a_linear_boundary_is_found_at_its_distance():
    """The margin of w·x + b is |w·x + b| / ‖w‖, and IG from there is its closed form, w ⊙ (x − x′)."""
    net, x = linear([3.0, -4.0], 0.5), torch.tensor([[0.5, 0.1], [0.2, 0.0]])
    result = METHODS["boundary_ig"](lp.Score(net, 0), x)
    margins = (x @ torch.tensor([3.0, -4.0]) + 0.5) / 5
    torch.testing.assert_close(result.stats["distance"], margins, rtol=0, atol=2e-3)
    torch.testing.assert_close(result.values, margins[:, None] * torch.tensor([9.0, 16.0]) / 5, rtol=0, atol=0.02)


def test_the_start_is_just_beyond_and_the_rest_is_integrated_gradients():
    net, x = moons_net(torch.float64), flat_points(4, 2, 1, torch.float64)
    target = net(x).argmax(1)
    score = lp.Score(net, target, "softmax")
    result = lp.attribute(score, x, method=BoundaryIG(radii=(0.5, 1.5, 3.0), bisections=25))
    assert result.stats["boundary_found"].all()
    start = result.path.start
    assert (net(start).argmax(1) != target).all()
    near = torch.lerp(x, start, 0.99)
    assert (net(near).argmax(1) == target).all()
    line = lp.attribute(score, x, start, method=lp.StraightLine())
    torch.testing.assert_close(result.values, line.values)


def test_another_class_than_the_predicted_one_is_walked_to():
    net, x = linear([3.0, -4.0], 0.5), torch.tensor([[0.5, 0.1]])
    start = METHODS["boundary_ig"](lp.Score(net, 1), x).path.start
    assert int(net(start).argmax()) == 1


def test_where_no_boundary_is_near_the_status_says_so():
    result = METHODS["boundary_ig"](lp.Score(linear([1.0, 0.0], 50.0), 0), torch.ones(1, 2), radii=(0.1,))
    assert "No other class was found within 0.1" in result.status[0].value
    assert not result.stats["boundary_found"].any()


def test_the_budget_holds():
    score = lp.Score(moons_net(), 1, "softmax")
    result = METHODS["boundary_ig"](score, flat_points(3, 2, 1), radii=(0.01, 0.02), max_gradients=30)
    assert (result.n_gradients <= 30).all()


def test_wrong_settings_and_scores_are_refused():
    with pytest.raises(ValueError, match=r"radii=\(\) must be positive"):
        BoundaryIG(radii=())
    with pytest.raises(ValueError, match="boundary_ig needs a classifier and the class"):
        METHODS["boundary_ig"](lp.Score(lambda x: x.sum(1)), torch.ones(1, 2))
