"""The Fisher–Rao path. Oracles: the uniform prediction, the exact natural step of a linear model, the trust radius."""

import pytest
import torch
from torch import nn

import leastpath as lp
from helpers import flat_points, mlp, seeded
from leastpath.methods import METHODS
from leastpath.methods.fisher_rao import FisherRaoPath


def distance(p, q):
    return 2 * ((p * q).sqrt().sum(-1)).clamp_max(1).arccos()


def linear(features=5, classes=3):
    return seeded(lambda: nn.Linear(features, classes)).double().eval()


def test_a_linear_model_comes_to_the_uniform_prediction_along_the_great_circle():
    net, x = linear(), 2 * flat_points(3, 5, 1, torch.float64)
    score = lp.Score(net, 1, "softmax")
    result = lp.attribute(score, x, method=FisherRaoPath(n_pieces=40, n_products=4, damping=1e-6, max_step=10.0))
    uniform = torch.full((3,), 1 / 3, dtype=torch.float64)
    for b in range(3):
        p = net(result.path[b]).softmax(1)
        first = distance(p[-1], uniform)
        torch.testing.assert_close(result.stats["distance"][b], first)
        assert distance(p[0], uniform) < 0.03 * first
        walked = distance(p[1:], p[:-1]).sum()  # no detour: the sum of the pieces is the distance
        assert walked < 1.01 * first


def test_one_step_against_the_normal_equations():
    """Oracle: δ = (JᵀJ + λI)⁻¹ Jᵀv with the Jacobian of 2√softmax from autograd."""
    net, x = linear(4, 3), flat_points(1, 4, 1, torch.float64)
    solver = FisherRaoPath(n_pieces=50, n_products=3, damping=0.0, max_step=10.0)
    start = lp.attribute(lp.Score(net, 0), x, method=solver).path[0]

    def sphere(x):
        return 2 * net(x).softmax(-1).sqrt()

    jacobian = torch.autograd.functional.jacobian(sphere, x[0])
    a, goal = sphere(x[0]).detach(), torch.full((3,), 2 / 3**0.5, dtype=torch.float64)
    tangent = goal - a * (a @ goal) / 4
    v = tangent / tangent.norm() * distance(a**2 / 4, goal**2 / 4) / 50
    expected = torch.linalg.pinv(jacobian) @ v
    torch.testing.assert_close(start[-2] - start[-1], expected, rtol=5e-3, atol=1e-6)


def test_steps_stay_within_the_trust_radius():
    net, x = mlp(4, 5).double(), 2 * flat_points(4, 4, 1, torch.float64)
    result = METHODS["fisher_rao"](lp.Score(net, 1, "softmax"), x)
    uniform = torch.full((5,), 0.2, dtype=torch.float64)
    for b in range(4):
        p = net(result.path[b]).softmax(1)
        piece = distance(p[-1], uniform) / 20
        assert distance(p[1:], p[:-1]).max() <= 2.001 * piece
        assert (distance(p, uniform).diff() > 0).all()  # every step comes nearer
    assert (result.completeness_gap.abs() <= 0.011 * result.score_change.abs() + 1e-6).all()


def test_another_goal_may_be_given():
    net, x = linear(), flat_points(2, 5, 1, torch.float64)
    goal = torch.tensor([0.6, 0.3, 0.1])
    result = METHODS["fisher_rao"](lp.Score(net, 1), x, goal=goal, max_step=10.0)
    torch.testing.assert_close(net(result.path.start).softmax(1), goal.double().expand(2, 3), rtol=0, atol=0.03)
    with pytest.raises(ValueError, match=r"expected probabilities \(3,\) that add up to 1"):
        METHODS["fisher_rao"](lp.Score(net, 1), x, goal=torch.ones(3))


def test_the_budget_holds_and_a_path_that_cannot_be_paid_is_a_line():
    score, x = lp.Score(mlp(), 1, "softmax"), flat_points(2, 4, 1)
    assert (METHODS["fisher_rao"](score, x, max_gradients=40).n_gradients <= 40).all()
    poor = METHODS["fisher_rao"](score, x, max_gradients=2)
    assert "leaves no gradients for a path" in poor.status[0].value


def test_without_classes_it_says_what_it_needs():
    with pytest.raises(ValueError, match="fisher_rao needs a classifier with outputs"):
        METHODS["fisher_rao"](lp.Score(lambda x: x.sum(1)), torch.ones(1, 2))
    with pytest.raises(ValueError, match=r"damping=-1 must be at least 0"):
        FisherRaoPath(damping=-1)
