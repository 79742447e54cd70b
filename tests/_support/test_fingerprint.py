"""Descriptions: equal where a stored result may be used again, different where it may not."""

import enum
import functools
import json
import os
import subprocess
import sys
import warnings
from dataclasses import dataclass, field

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.ensemble import RandomForestClassifier
from torch import nn

import leastpath as lp
from helpers import mlp, seeded
from leastpath._support.fingerprint import describe, digest, doubts


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


class Private(nn.Module):
    def __init__(self, temperature):
        super().__init__()
        self._temperature = temperature

    def forward(self, x):
        return x / self._temperature


class Slotted:
    __slots__ = ("__hidden", "scale")

    def __init__(self, scale, hidden=0):
        self.scale, self.__hidden = scale, hidden


def edited(source, **names):
    """The function or class `made` of a user's module with this source."""
    space = {"__name__": "users_own_module", "torch": torch, "nn": nn, **names}
    exec(source, space)
    return space["made"]


def hooked(shift):
    net = mlp()
    net.register_forward_hook(lambda module, inputs, output: output + shift)
    return net


def traced(constant):
    table = torch.full((3,), constant)
    with warnings.catch_warnings(action="ignore"):  # torch.jit is deprecated, and still met
        return torch.jit.trace(lambda x: x * table, torch.ones(3))


def scripted_attribute(value):
    class Scaled(nn.Module):
        def __init__(self):
            super().__init__()
            self.scale: float = value

        def forward(self, x):
            return x * self.scale

    with warnings.catch_warnings(action="ignore"):
        return torch.jit.script(Scaled())


def traced_module(constant):
    class Table(nn.Module):
        def forward(self, x):
            return x * torch.full((3,), constant)

    with warnings.catch_warnings(action="ignore"):
        return torch.jit.trace(Table(), torch.ones(3))


def exported(constant):
    class Table(nn.Module):
        def __init__(self):
            super().__init__()
            self.table = torch.full((3,), constant)

        def forward(self, x):
            return x * self.table

    return torch.export.export(Table(), (torch.ones(3),)).module()


def frame(cell):
    return pd.DataFrame({"a": [1.0, cell], "name": ["x", "y"]})


def fitted(seed):
    rows = np.random.default_rng(seed).normal(size=(30, 3))
    return RandomForestClassifier(3, random_state=0).fit(rows, rows[:, 0] > 0)


def remembered(scale):
    return functools.cache(closure(scale))


DIFFERENT = [
    pytest.param(Private(1.0), Private(5.0), id="private attributes"),
    pytest.param(Slotted(1), Slotted(2), id="slots"),
    pytest.param(Slotted(1), Slotted(1, hidden=1), id="private slots"),
    pytest.param(closure(Slotted(1)), closure(Slotted(2)), id="closures over slots"),
    pytest.param(closure(frame(1.0)), closure(frame(2.0)), id="closures over data frames"),
    pytest.param(Holder(frame(1.0)), Holder(frame(2.0)), id="objects that wrap data frames"),
    pytest.param(closure(frame(1.0).rename(columns={"a": "b"})), closure(frame(1.0)), id="columns of data frames"),
    pytest.param(closure(fitted(0)), closure(fitted(1)), id="closures over fitted estimators"),
    pytest.param(traced(1.0), traced(2.0), id="constants of traced functions"),
    pytest.param(traced_module(1.0), traced_module(2.0), id="constants of traced modules"),
    pytest.param(exported(1.0), exported(2.0), id="constants of exported programs"),
    pytest.param(scripted_attribute(1.0), scripted_attribute(2.0), id="attributes of scripted modules"),
    pytest.param(hooked(1.0), hooked(2.0), id="forward hooks"),
    pytest.param(hooked(0.0), mlp(), id="a forward hook or none"),
    pytest.param(np.array([1, "a"], object), np.array([1, "b"], object), id="arrays of objects"),
    pytest.param(1j, 2j, id="complex numbers"),
    pytest.param(remembered(1), remembered(2), id="cached functions"),
    pytest.param(edited("class made: x = 1"), edited("class made: x = 2"), id="a user's own classes"),
    pytest.param(
        edited("class A:\n    def __getitem__(self, i): return i\nmade = A()"),
        edited("class A:\n    def __getitem__(self, i): return -i\nmade = A()"),
        id="a data set's code",
    ),
    pytest.param(range(3), range(4), id="ranges"),
    pytest.param(torch.eye(2).to_sparse(), (2 * torch.eye(2)).to_sparse(), id="sparse tensors"),
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
    assert describe(a) != describe(b) and describe(a) == describe(a)
    assert digest(a) != digest(b)
    json.dumps(describe(a))


def test_what_is_made_twice_is_described_alike():
    models = (mlp, lambda: Tempered(2.0), lambda: Linked("a", "b"), lambda: torch.fx.symbolic_trace(Tempered(2.0)))
    others = (lp.Descent, lambda: closure(mlp()), lambda: Holder(torch.ones(2)), lambda: {"x": {3, 1, 2}})
    new = (
        lambda: Private(2.0), lambda: closure(frame(1.0)), lambda: closure(fitted(0)), lambda: traced(1.0),
        lambda: hooked(1.0), lambda: remembered(1), lambda: Slotted(1, 2),
    )  # fmt: skip
    for make in (*models, *others, *new):
        assert describe(make()) == describe(make())


def test_a_spawned_process_describes_alike():
    """There the module that was started has another name."""
    here, there = (tempered(__module__=name) for name in ("__main__", "__mp_main__"))
    assert describe(here) == describe(there) and describe(type(here)) == describe(type(there))


def test_what_holds_itself_ends():
    holder = Holder(None)
    holder.x = [holder]
    assert describe(holder)["x"] == ["itself"]


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


@pytest.mark.parametrize("value", [(n for n in range(2)), closure(x for x in "ab"), torch.ones(2, device="meta")])
def test_what_cannot_be_described_is_marked(value):
    assert doubts(describe(value))
    json.dumps(describe(value))


@pytest.mark.parametrize("value", [mlp(), lp.Descent(), closure(1), Holder(frame(1.0)), fitted(0), torch.sin, print])
def test_nothing_is_in_doubt_of_what_is_known(value):
    assert doubts(describe(value)) == []


def test_a_module_that_runs_is_described_as_before():
    net = nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.Flatten(), nn.MultiheadAttention(8, 2)).eval()
    before = describe(net)
    net[:2](torch.zeros(1, 1, 4, 4))
    assert describe(net) == before


def test_a_field_that_is_not_compared_does_not_count():
    @dataclass(frozen=True)
    class Kept:
        name: str
        _folder: str = field(default="", compare=False)

    assert digest(Kept("a", "here")) == digest(Kept("a", "there")) != digest(Kept("b", "here"))


def test_a_backward_hook_is_part_of_a_module():
    def hooked(factor):
        net = nn.Linear(2, 1)
        nn.init.ones_(net.weight)
        nn.init.zeros_(net.bias)
        net.register_full_backward_hook(lambda module, given, got: tuple(factor * g for g in given))
        return net

    assert describe(hooked(1.0)) == describe(hooked(1.0)) != describe(hooked(2.0))


def test_keys_that_look_alike_are_two_keys():
    assert describe({1: 0.5, "1": 2.0}) != describe({1: 0.7, "1": 2.0})
