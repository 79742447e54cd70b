"""Descriptions: equal where a stored result may be used again, different where it may not."""

import enum
import functools
import json

import numpy as np
import pytest
import torch
from torch import nn

import leastpath as lp
from helpers import mlp
from leastpath.fingerprint import described, digest


class Colour(enum.Enum):
    RED = 1
    BLUE = 2


class Holder:
    def __init__(self, x):
        self.x = x

    def method(self):
        return self.x


def closure(scale):
    return lambda x: x * scale


def changed(model):
    with torch.no_grad():
        next(model.parameters()).flatten()[0] += 1e-6
    return model


DIFFERENT = [
    pytest.param(1, 2, id="numbers"),
    pytest.param("a", "b", id="words"),
    pytest.param(torch.zeros(2), torch.tensor([0.0, 1e-30]), id="tensors"),
    pytest.param(torch.zeros(2), torch.zeros(2, 1), id="shapes"),
    pytest.param(torch.zeros(2), torch.zeros(2).double(), id="dtypes"),
    pytest.param(np.zeros(2), np.ones(2), id="arrays"),
    pytest.param(mlp(), mlp(seed=1), id="modules"),
    pytest.param(mlp(), changed(mlp()), id="one weight"),
    pytest.param(nn.LeakyReLU(0.1), nn.LeakyReLU(0.2), id="module settings"),
    pytest.param(lp.Descent(), lp.Descent(n_knots=7), id="solvers"),
    pytest.param(lambda x: x + 1, lambda x: x + 2, id="constants in code"),
    pytest.param(torch.sin, torch.cos, id="builtins"),
    pytest.param(lambda x: x.sin(), lambda x: x.cos(), id="names in code"),
    pytest.param(closure(2), closure(3), id="closures"),
    pytest.param(closure(mlp()), closure(mlp(seed=1)), id="closures over modules"),
    pytest.param(functools.partial(closure, 1), functools.partial(closure, scale=2), id="partials"),
    pytest.param(Holder(1), Holder(2), id="objects"),
    pytest.param(Holder(1).method, Holder(2).method, id="methods"),
    pytest.param(Colour.RED, Colour.BLUE, id="enums"),
    pytest.param({"a": 1}, {"a": 1, "b": 1}, id="mappings"),
    pytest.param({1, 2}, {1, 3}, id="sets"),
    pytest.param(b"a", b"b", id="bytes"),
    pytest.param(nn.ReLU, nn.GELU, id="classes"),
    pytest.param(torch.float32, torch.float64, id="torch dtypes"),
]


@pytest.mark.parametrize(("a", "b"), DIFFERENT)
def test_what_differs_is_described_differently(a, b):
    assert described(a) != described(b) and described(a) == described(a)
    assert digest(a) != digest(b)
    json.dumps(described(a))


def test_what_is_made_twice_is_described_alike():
    for make in (mlp, lp.Descent, lambda: closure(mlp()), lambda: Holder(torch.ones(2)), lambda: {"x": {3, 1, 2}}):
        assert described(make()) == described(make())


def test_what_holds_itself_ends():
    holder = Holder(None)
    holder.x = [holder]
    assert described(holder)["x"] == ["itself"]
