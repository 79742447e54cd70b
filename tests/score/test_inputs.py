"""Inputs: what is refused, with the sentence that says why."""

import pytest
import torch
from torch import nn

import leastpath as lp
from helpers import TextNet, cnn, flat_points, mlp, seeded
from leastpath.score.inputs import UnfitInputs, baselines_per_example, flat_baseline, parameter_of

X = flat_points(5, 4)


def explain(score, inputs=X, baselines=None, **settings):
    return lp.attribute(score, inputs, baselines, method=lp.StraightLine(), **settings)


def raises(match, score, inputs=X, baselines=None, **settings):
    with pytest.raises(ValueError, match=match):
        explain(score, inputs, baselines, **settings)


# ---- inputs ------------------------------------------------------------------------------------------------------


NAN, INF = X.clone(), X.clone()
NAN[3, 1], INF[2, 0] = torch.nan, torch.inf

INPUTS = {
    "integers": (X.long(), "inputs has dtype torch.int64, which has no gradient: pass inputs.float.*layer=model.embed"),
    "empty": (X[:0], r"inputs has shape \(0, 4\), expected at least one example"),
    "number": (torch.tensor(1.0), r"inputs has shape \(\), expected at least one example"),
    "list": ([[1.0, 2.0, 3.0, 4.0]], r"inputs is a list, expected a tensor: use torch.as_tensor\(inputs\)"),
    "tuple of lists": ((X, [1.0]), r"inputs\[1\] is a list"),
    "ragged tuple": ((X, X[:2]), r"inputs\[1\] has 2 examples, inputs\[0\] has 5"),
    "nan": (NAN, "inputs of example 3 holds NaN or infinite values"),
    "inf": (INF, "inputs of example 2 holds NaN or infinite values"),
    "nan in one dimension": (NAN[:, 1], "inputs of example 3 holds NaN"),
}


@pytest.mark.parametrize(("inputs", "match"), INPUTS.values(), ids=INPUTS)
def test_input_errors(inputs, match):
    raises(match, lp.Score(mlp(), 1), inputs)


# ---- baselines ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("baseline", "expected"),
    [
        (None, torch.zeros(2, 3)),
        (0.5, torch.full((2, 3), 0.5)),
        (2, torch.full((2, 3), 2.0)),
        (torch.tensor(0.5), torch.full((2, 3), 0.5)),
        (torch.tensor([[1.0, 2.0, 3.0]]), torch.tensor([[1.0, 2.0, 3.0]] * 2)),
        (torch.tensor([[1, 2, 3]]), torch.tensor([[1.0, 2.0, 3.0]] * 2)),
        (torch.arange(6.0).view(2, 3), torch.arange(6.0).view(2, 3)),
    ],
)
def test_baseline_forms_against_written_out(baseline, expected):
    assert torch.equal(flat_baseline(baseline, torch.ones(2, 3), 1), expected)


def test_several_baselines_are_rows_of_their_example():
    several = torch.arange(12.0).view(2, 2, 3)
    assert baselines_per_example(several, torch.ones(2, 3)) == 2
    assert torch.equal(flat_baseline(several, torch.ones(2, 3), 2), several.view(4, 3))
    shared = torch.arange(6.0).view(1, 2, 3)  # the same two for everyone
    assert torch.equal(flat_baseline(shared, torch.ones(2, 3), 2), shared.expand(2, 2, 3).reshape(4, 3))


def test_raw_image_baseline_of_a_token_layer_is_one_baseline():
    """(batch, channels, height, width) has as many dimensions as several activations (batch, m, tokens, width)."""
    assert baselines_per_example(torch.zeros(2, 3, 8, 8), torch.zeros(2, 3, 8, 8), torch.Size([5, 7])) == 1
    assert baselines_per_example(torch.zeros(2, 3, 5, 7), torch.zeros(2, 3, 8, 8), torch.Size([5, 7])) == 3


BASELINES = {
    "other features": (torch.zeros(5, 3), r"baselines have shape \(5, 3\), inputs \(5, 4\): expected .*\(5, m, 4\)"),
    "other batch": (torch.zeros(3, 4), r"baselines have shape \(3, 4\), inputs \(5, 4\)"),
    "no batch": (torch.zeros(4), r"baselines have shape \(4,\), inputs \(5, 4\)"),
    "too many dimensions": (torch.zeros(5, 2, 1, 4), r"baselines have shape \(5, 2, 1, 4\)"),
    "none of several": (torch.zeros(5, 0, 4), r"baselines have shape \(5, 0, 4\)"),
    "nan": (NAN, "baselines hold NaN or infinite values"),
    "nan number": (float("nan"), "baselines hold NaN or infinite values"),
    "text": ("zeros", "baselines must be None, a number or a tensor, got str"),
    "tuple": ((0.0, 0.0), "got 2 baselines for 1 inputs"),
}


@pytest.mark.parametrize(("baselines", "match"), BASELINES.values(), ids=BASELINES)
def test_baseline_errors(baselines, match):
    raises(match, lp.Score(mlp(), 1), X, baselines)


def test_baseline_errors_of_tuples_and_layers():
    pair = lp.Score(lambda a, b: a.sum(1) + b.sum(1))
    raises("got 1 baselines for 2 inputs", pair, (X, X), torch.zeros(5, 4))
    raises("different numbers of baselines", pair, (X, X), (torch.zeros(5, 2, 4), torch.zeros(5, 3, 4)))
    net = seeded(TextNet).eval()
    raises("got 2 baselines for 1 inputs", lp.Score(net, 1, layer=net.embedding), torch.ones(2, 3).long(), (0, 0))
    model = mlp()
    raises("baselines hold NaN", lp.Score(model, 1, layer=model[1]), X, NAN)


# ---- models ------------------------------------------------------------------------------------------------------


def image_net() -> nn.Module:
    return nn.Sequential(nn.Conv2d(2, 4, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(-3), nn.Linear(4, 3)).eval()


UNFIT = {  # the model, the inputs, what it is told
    "vector alone": (mlp(), X[0], r"shape \(4,\), 4 examples of shape \(\): .*inputs\.unsqueeze\(0\)"),
    "other features": (mlp(3), X, r"shape \(5, 4\), 5 examples of shape \(4,\): .*cannot be multiplied"),
    "image alone": (
        image_net(),
        torch.zeros(2, 6, 6),
        r"2 examples of shape \(6, 6\): .*inputs\.unsqueeze\(0\)",
    ),
    "other channels": (image_net(), torch.zeros(5, 3, 6, 6), r"5 examples of shape \(3, 6, 6\): .*channels, but got"),
    "dimension that is not there": (lambda x: x.sum(1), X[0], r"4 examples of shape \(\): .*Dimension out of range"),
    "double for float": (
        mlp(),
        X.double(),
        r"inputs are torch\.float64, the model's parameters torch\.float32: pass inp",
    ),
    "float for double": (mlp().double(), X, r"pass inputs\.to\(torch\.float64\), or use model\.to\(torch\.float32\)"),
    "half for float": (cnn(), torch.zeros(2, 2, 6, 6).half(), r"inputs are torch\.float16, the model's parameters"),
}


@pytest.mark.parametrize(("model", "inputs", "match"), UNFIT.values(), ids=UNFIT)
def test_inputs_that_do_not_fit_the_model(model, inputs, match):
    raises(match, lp.Score(model, None if not isinstance(model, nn.Module) else 1), inputs)


def test_inputs_that_do_not_fit_the_model_before_a_layer():
    model = mlp()
    raises(r"inputs are torch\.float64", lp.Score(model, 1, layer=model[1]), X.double())


def test_the_model_s_own_error_is_told_too():
    with pytest.raises(UnfitInputs, match=r"The model's error: .*cannot be multiplied") as caught:
        lp.Score(mlp(3), 1)(X)
    assert isinstance(caught.value.__cause__, RuntimeError)


def test_a_floating_point_parameter_tells_device_and_dtype():
    assert parameter_of(mlp().double()).dtype == torch.float64
    assert parameter_of(nn.ReLU()) is None and parameter_of(torch.sin) is None
