"""The running integral against closed forms, and against `attribute` with the same nodes."""

import pytest
import torch

import leastpath as lp
from explorer_subjects import picture_net
from leastpath.geometry.path import Path
from leastpath.integral.running import integrate_along


def test_sums_along_a_product_are_known():
    bound = lp.Score(lambda x: x.prod(1)).bind(torch.ones(1, 2))
    running = integrate_along(bound, Path.straight(torch.zeros(1, 2), torch.ones(1, 2)), 41)
    t = running.places
    assert torch.allclose(running.scores[0].double(), t**2, atol=1e-6)
    assert torch.allclose(running.sizes[0].double(), 2**0.5 * t, atol=1e-6)
    assert torch.allclose(running.values[0].double(), (t**2 / 2)[:, None].expand(-1, 2), atol=1e-6)


def test_straight_lines_are_the_trapezoid_rule_of_attribute():
    net, images = picture_net(), torch.rand(1, 3, 12, 10)
    score = lp.Score(net, 1, "softmax")
    running = integrate_along(score.bind(images), Path.straight(torch.zeros_like(images), images), 41)
    known = lp.attribute(score, images, method=lp.StraightLine(), tolerance=None, n_steps=41, rule="trapezoid")
    assert torch.allclose(running.values[0, -1], known.values[0], atol=1e-6)


@pytest.mark.parametrize("weighting", [lp.IDGI(), lp.IDG()])
def test_other_weightings_end_where_attribute_does(weighting):
    score = lp.Score(lambda x: torch.sigmoid(3 * x[:, 0] * x[:, 1]))
    path = Path.straight(torch.zeros(1, 2), torch.tensor([[1.0, 0.5]]))
    running = integrate_along(score.bind(path.end), path, 401, weighting)
    known = lp.attribute(score, path.end, method=lp.StraightLine(), weighting=weighting, tolerance=None, n_steps=200)
    assert torch.allclose(running.values[0, -1], known.values[0], rtol=1e-2)
