"""Failures: inputs that a model cannot read, with the sentence that says why."""

import pytest
import torch
from torch import nn

import leastpath as lp
from helpers import cnn, flat_points, mlp
from leastpath.score.failures import UnfitInputs, parameter_of

X = flat_points(5, 4)


def raises(match, score, inputs=X):
    with pytest.raises(ValueError, match=match):
        lp.attribute(score, inputs, method=lp.StraightLine())


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
