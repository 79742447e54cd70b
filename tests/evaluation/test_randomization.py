"""Model randomisation against Quantus, and against methods that do or do not look at the model."""

import numpy as np
import pytest
import torch
from torch import nn

import leastpath as lp
from helpers import TextNet, flat_points, left_untouched, mlp
from leastpath.evaluation import ModelRandomization, compare, given_attribution, randomize
from leastpath.methods import METHODS

X = flat_points(4, 6)


def gradient_times_input(score, inputs, baselines, seed):
    bound = score.bind(inputs)
    _, gradient = bound.gradients(bound.space.points(), torch.arange(len(inputs)))
    return given_attribution(gradient * inputs)


def blind(score, inputs, baselines, seed):
    return given_attribution(inputs.clone())


@pytest.mark.parametrize("order", ["cascading", "independent"])
def test_against_quantus(order, monkeypatch):
    quantus = pytest.importorskip("quantus")
    from quantus.helpers.model.pytorch_model import PyTorchModel

    net = mlp(6, 3)
    score, targets = lp.Score(net, torch.tensor([0, 1, 2, 0])), np.array([0, 1, 2, 0])
    result = gradient_times_input(score, X, None, 0)
    ours = ModelRandomization(order)(score, X, None, result, explain=gradient_times_input)

    def same_models(self, order="top_down", seed=42):  # Quantus seeds all layers alike, so only draws are replaced
        return randomize(self.model, "cascading" if order == "top_down" else "independent")

    monkeypatch.setattr(PyTorchModel, "get_random_layer_generator", same_models)

    def explain(model, inputs, targets, **_):
        of = lp.Score(model, torch.as_tensor(targets))
        return gradient_times_input(of, torch.as_tensor(inputs), None, 0).values.numpy()

    metric = quantus.MPRT(
        layer_order="top_down" if order == "cascading" else "independent", return_average_correlation=True,
        normalise=False, abs=True, disable_warnings=True,
    )  # fmt: skip
    theirs = metric(net, X.numpy(), targets, a_batch=result.values.numpy(), explain_func=explain)
    correlations = ours.curves["correlation"].sum(1)
    steps = ours.curves["correlation"].shape[1]
    assert np.allclose(theirs, ((correlations + 1) / (steps + 1)).numpy(), atol=1e-6)  # Quantus counts the model itself


def test_single_layer_is_drawn_as_quantus_draws_it():
    quantus = pytest.importorskip("quantus.helpers.model.pytorch_model")
    net = nn.Sequential(nn.Linear(6, 2)).eval()
    (_, theirs), *_ = quantus.PyTorchModel(net).get_random_layer_generator(seed=5)
    (_, ours), *_ = randomize(net, seed=5)
    assert torch.equal(ours[0].weight, theirs[0].weight)


def test_method_that_ignores_the_model_has_one():
    score = lp.Score(mlp(6, 3), 0)
    found = ModelRandomization()(score, X, None, blind(score, X, None, 0), explain=blind)
    torch.testing.assert_close(found.values, torch.ones(4, dtype=torch.float64))
    seeing = ModelRandomization()(score, X, None, gradient_times_input(score, X, None, 0), explain=gradient_times_input)
    assert float(seeing.values.mean()) < 0.9


def test_cascade_keeps_and_independence_restores():
    net = mlp(6, 3)
    before = [p.clone() for p in net.parameters()]
    for order, kept in (("cascading", True), ("independent", False)):
        steps = [[p.clone() for p in model.parameters()] for _, model in randomize(net, order)]
        assert not torch.equal(steps[0][-1], before[-1])  # the output's bias first
        assert torch.equal(steps[-1][-1], before[-1]) is not kept
        assert not torch.equal(steps[-1][0], before[0])


def test_model_and_random_state_are_left_alone():
    net, state = mlp(6, 3), torch.get_rng_state()
    with left_untouched(net):
        assert len(list(randomize(net, stages=2))) == 2
    assert torch.equal(torch.get_rng_state(), state)


def test_parameters_without_a_reset_are_shuffled():
    class Scaled(nn.Module):
        def __init__(self):
            super().__init__()
            self.scale = nn.Parameter(torch.arange(6.0))

        def forward(self, x):
            return (x * self.scale).sum(1)

    (_, changed), *_ = randomize(Scaled(), seed=1)
    assert not torch.equal(changed.scale, torch.arange(6.0))
    assert torch.equal(changed.scale.sort().values, torch.arange(6.0))


def test_layers_of_a_score_move_along():
    net = TextNet().eval()
    tokens = torch.tensor([[1, 2, 3], [3, 2, 1]])
    score = lp.Score(net, 0, layer=net.embedding)
    method = METHODS["integrated_gradients"].with_settings(tolerance=None, n_steps=4)
    found = ModelRandomization(stages=1)(score, tokens, None, method(score, tokens), explain=method)
    assert torch.isfinite(found.values).all() and int(found.n_gradients.min()) >= 4


def test_batch_equals_loop_in_a_comparison():
    score = lp.Score(mlp(6, 3), 0)
    found = [
        compare({"mine": gradient_times_input}, score, X, None, [ModelRandomization()], batch_size=size).per_example
        for size in (1, 4)
    ]
    assert np.allclose(*(f["model_randomization"] for f in found))


def test_mistakes_are_sentences():
    with pytest.raises(ValueError, match="order='up' is unknown"):
        ModelRandomization("up")
    with pytest.raises(ValueError, match="has no weights to draw anew"):
        next(randomize(lambda x: x))
    with pytest.raises(ValueError, match="has no parameters"):
        next(randomize(nn.ReLU()))
    with pytest.raises(ValueError, match="pass explain="):
        ModelRandomization()(lp.Score(mlp(6, 3), 0), X, None, given_attribution(X))
