"""Descriptions: equal where a stored result may be used again, different where it may not."""

import enum
import functools
import json
import os
import subprocess
import sys

import numpy as np
import pytest
import torch
from torch import nn

import leastpath as lp
from helpers import mlp, seeded
from leastpath._support.fingerprint import described, digest


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


class Tempered(nn.Module):
    """Divides by a number that is neither a weight nor in the repr."""

    scale = 1.0

    def __init__(self, temperature, shift=0.0):
        super().__init__()
        self.temperature = temperature
        self.register_buffer("shift", torch.tensor(shift), persistent=False)

    def forward(self, x):
        return self.tempered(x)

    def tempered(self, x):
        return self.scale * x / self.temperature


def tempered(**members):
    """Another class of the same name, as after an edit of the file."""
    return type("Tempered", (Tempered,), {"__module__": Tempered.__module__} | members)(1.0)


def attention(heads):
    return seeded(lambda: nn.MultiheadAttention(4, heads))


class Linked(nn.Module):
    """Knows its parts a second time, in an order that torch does not see, and itself."""

    def __init__(self, *order):
        super().__init__()
        self.a, self.b = nn.Linear(1, 1), nn.Linear(1, 1)
        nn.init.ones_(self.a.weight), nn.init.zeros_(self.a.bias)
        self.b.load_state_dict(self.a.state_dict())
        self.order = [getattr(self, name) for name in order] + [self]


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
    pytest.param(Tempered(1.0), Tempered(5.0), id="plain attributes"),
    pytest.param(nn.Sequential(Tempered(1.0)), nn.Sequential(Tempered(5.0)), id="plain attributes of a part"),
    pytest.param(Tempered(1.0), Tempered(1.0, shift=2.0), id="buffers that are not saved"),
    pytest.param(tempered(), tempered(forward=lambda self, x: x), id="code of forward"),
    pytest.param(tempered(), tempered(tempered=lambda self, x: x), id="code of its helpers"),
    pytest.param(tempered(), tempered(scale=2.0), id="attributes of a class"),
    pytest.param(Linked("a", "b"), Linked("b", "a"), id="links to parts"),
    pytest.param(attention(1), attention(2), id="settings that torch does not show"),
    pytest.param(torch.fx.symbolic_trace(Tempered(1.0)), torch.fx.symbolic_trace(Tempered(5.0)), id="traced graphs"),
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
    models = (mlp, lambda: Tempered(2.0), lambda: Linked("a", "b"), lambda: torch.fx.symbolic_trace(Tempered(2.0)))
    others = (lp.Descent, lambda: closure(mlp()), lambda: Holder(torch.ones(2)), lambda: {"x": {3, 1, 2}})
    for make in (*models, *others):
        assert described(make()) == described(make())


def test_a_spawned_process_describes_alike():
    """There the module that was started has another name."""
    here, there = (tempered(__module__=name) for name in ("__main__", "__mp_main__"))
    assert described(here) == described(there) and described(type(here)) == described(type(there))


def test_what_holds_itself_ends():
    holder = Holder(None)
    holder.x = [holder]
    assert described(holder)["x"] == ["itself"]


def test_other_starts_of_python_describe_alike():
    """Sets of words are ordered by a hash that every start draws anew."""
    script = (
        "from torch import nn; from leastpath._support.fingerprint import digest\n"
        "class Net(nn.Module):\n"
        "    words = frozenset({'a', 'b', 'c', 'd'})\n"
        "    def forward(self, x): return x if self.mode in {'a', 'b', 'c', 'd'} else -x\n"
        "print(digest([Net(), lambda x: x in {'a', 'b', 'c', 'd'}]))"
    )
    found = {
        subprocess.run(
            [sys.executable, "-c", script], env=os.environ | {"PYTHONHASHSEED": seed}, capture_output=True, check=True
        ).stdout
        for seed in ("1", "2")
    }
    assert len(found) == 1
