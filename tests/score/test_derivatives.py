"""Derivatives: of a function of the outputs, of features, and of the gradient."""

import pytest
import torch
from torch import nn

import leastpath as lp
from helpers import flat_points, mlp, seeded
from leastpath.score.derivatives import hessian_vector, output_gradients, pull_back, read_features

X = flat_points(5, 4)


def test_outputs_and_gradients_of_a_function_of_them_against_autograd():
    model, x, weights = mlp(), X.clone().requires_grad_(), flat_points(5, 3, 2)
    expected = model(x)
    (expected.softmax(1) * weights).sum().backward()
    bound, rows = lp.Score(model, 0, batch_size=2).bind(X), torch.arange(5)
    outputs, gradient = output_gradients(bound, X, rows, lambda out, part: (out.softmax(1) * weights[part]).sum(1))
    torch.testing.assert_close(outputs, expected.detach())
    torch.testing.assert_close(gradient, x.grad)
    torch.testing.assert_close(bound.outputs(X, rows), expected.detach())
    assert bound.gradients_spent.tolist() == bound.forwards_spent.tolist() == [1] * 5


def test_a_function_that_ignores_the_outputs_has_no_gradient():
    bound = lp.Score(mlp(), 0).bind(X)
    gradient = output_gradients(bound, X, torch.arange(5), lambda out, part: torch.ones(len(out)))[1]
    assert not gradient.any()


def test_hessian_of_a_transformer_against_a_difference_of_gradients():
    """torch's own layer attends by a kernel without a second derivative."""
    layer = seeded(
        lambda: nn.TransformerEncoderLayer(8, 2, 16, 0.0, "gelu", batch_first=True, dtype=torch.float64)
    ).eval()
    x = seeded(lambda: torch.randn(2, 3, 8, dtype=torch.float64))
    vector, h = seeded(lambda: torch.randn(2, 3, 8, dtype=torch.float64), 1), 1e-5
    bound = lp.Score(lambda tokens: layer(tokens).sin().flatten(1).sum(1)).bind(x)
    rows = torch.arange(2)
    slopes = [bound.gradients(x + side * h * vector, rows)[1] for side in (1, -1)]
    found = hessian_vector(bound, x, vector, rows)
    torch.testing.assert_close(found, (slopes[0] - slopes[1]) / (2 * h), rtol=1e-5, atol=1e-6)


# ---- features -------------------------------------------------------------------------------------------------------


def test_pulled_back_against_autograd_and_in_small_batches():
    net = mlp(4, 3).requires_grad_(False)
    points, vectors = torch.randn(5, 4), torch.randn(5, 3)
    for size in (None, 2):
        bound = lp.Score(net, 0, batch_size=size).bind(points)
        rows = torch.arange(5)
        torch.testing.assert_close(read_features(bound, points, rows, lp.Pullback()), net(points))
        leaf = points.clone().requires_grad_()
        (expected,) = torch.autograd.grad(net(leaf), leaf, vectors)
        torch.testing.assert_close(pull_back(bound, points, rows, lp.Pullback(), vectors), expected)
        assert bound.forwards_spent.tolist() == bound.gradients_spent.tolist() == [1] * 5


def test_features_that_are_not_finite_name_the_example():
    bound = lp.Score(lambda x: torch.stack([x.sum(1), x[:, 0].log()], 1), 0).bind(torch.ones(2, 2))
    points = torch.tensor([[1.0, 1.0], [-1.0, 1.0]])
    with pytest.raises(ValueError, match="is NaN or infinite on the path of example 1"):
        read_features(bound, points, torch.arange(2), lp.Pullback())
    assert torch.isnan(read_features(bound, points, torch.arange(2), lp.Pullback(), strict=False)[1, 1])


def test_features_before_the_explained_layer_are_refused():
    net = mlp(4, 3)
    bound = lp.Score(net, 0, layer=net[1]).bind(torch.ones(1, 4))
    metric = lp.Pullback(layer=net[0])
    with pytest.raises(ValueError, match="does not depend on the inputs"):
        pull_back(bound, bound.space.points(), torch.arange(1), metric, torch.ones(1, net[0].out_features))
