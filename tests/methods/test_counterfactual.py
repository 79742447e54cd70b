"""IG². Oracles: a transcription of the published path and sum, a linear model."""

import pytest
import torch
from torch import nn

import leastpath as lp
from helpers import flat_points, mlp
from leastpath.methods import METHODS


def published_ig2(net, represent, x, reference, target, step, n_steps):
    """The authors' GradPath and sum for one example, with f the score of a class and r the representation."""
    goal, point, total = represent(reference[None]).detach(), x, torch.zeros_like(x)
    for _ in range(n_steps):
        leaf = point[None].clone().requires_grad_()
        (down,) = torch.autograd.grad((represent(leaf) - goal).square().sum(), leaf)
        (gradient,) = torch.autograd.grad(net(leaf)[:, target].sum(), leaf)
        moved = point - step * down[0] / down.norm()
        total = total + (point - moved) * gradient[0]
        point = moved
    return total, point


@pytest.mark.parametrize("layer", [None, 2])
def test_against_a_transcription(layer):
    net, x, base = mlp().double(), flat_points(3, 4, 1, torch.float64), flat_points(3, 4, 2, torch.float64)
    represent = net if layer is None else net[: layer + 1]
    score = lp.Score(net, 1)
    module = None if layer is None else net[layer]
    result = METHODS["ig2"](score, x, base, representation=module, step=0.05, n_steps=15)
    for b in range(3):
        values, end = published_ig2(net, represent, x[b], base[b], 1, 0.05, 15)
        torch.testing.assert_close(result.values[b], values)
        torch.testing.assert_close(result.score_change[b], (net(x[b : b + 1]) - net(end[None]))[0, 1])
    assert result.n_gradients.tolist() == [30, 30, 30]
    assert not any(module._forward_hooks for module in net.modules())


def test_the_counterfactual_is_taken_for_the_reference():
    net, x, base = mlp().double(), flat_points(3, 4, 1, torch.float64), flat_points(3, 4, 2, torch.float64)
    result = METHODS["ig2"](lp.Score(net, 1), x, base, n_steps=150)
    assert (result.stats["distance_left"] < 0.1).all()
    torch.testing.assert_close(result.score_change, (net(x) - net(base))[:, 1], rtol=0, atol=0.05)
    assert (result.completeness_gap.abs() < 0.05).all()


def test_batches_change_nothing_and_references_are_averaged():
    net, x, base = mlp(), flat_points(3, 4, 1), flat_points(6, 4, 2).view(3, 2, 4)
    method = METHODS["ig2"].with_settings(n_steps=6, representation=net[1])
    small, large = (method(lp.Score(net, 1, batch_size=n), x, base).values for n in (2, 100))
    torch.testing.assert_close(small, large)
    each = [method(lp.Score(net, 1), x, base[:, j]).values for j in range(2)]
    torch.testing.assert_close(large, (each[0] + each[1]) / 2)


def test_a_module_that_does_not_run_is_refused():
    with pytest.raises(ValueError, match="representation did not run"):
        METHODS["ig2"](lp.Score(mlp(), 1), flat_points(2, 4), representation=nn.Linear(2, 2))
