"""Variants of a score: what is changed is changed, and every other argument stays."""

import inspect

import pytest
import torch

import leastpath as lp
from helpers import mlp
from leastpath.variants import changed

NET = mlp()
GIVEN = {
    "model": NET, "target": torch.tensor([0, 2]), "output": "softmax", "layer": NET[2],
    "additional_forward_args": ("an argument",), "batch_size": 3,
}  # fmt: skip


def test_all_arguments_of_a_score_are_tried_here():
    assert GIVEN.keys() == inspect.signature(lp.Score).parameters.keys()


@pytest.mark.parametrize(
    ("name", "new"),
    [
        ("model", torch.nn.Sequential(NET)), ("target", 1), ("output", "log_softmax"), ("layer", None),
        ("additional_forward_args", ()), ("batch_size", None),
    ],
)  # fmt: skip
def test_what_is_not_changed_stays(name, new):
    other = changed(lp.Score(**GIVEN), **{name: new})
    for key, expected in (GIVEN | {name: new}).items():
        found = getattr(other, key)
        assert found is expected or (torch.equal(found, expected) if key == "target" else found == expected)


def test_changes_are_checked():
    with pytest.raises(ValueError, match="output='odds' is unknown"):
        changed(lp.Score(**GIVEN), output="odds")
