"""Kinds of input, by their shape and by whether a layer is explained."""

import pytest
import torch

import leastpath as lp
from helpers import TextNet, seeded
from leastpath.features.kinds import FEW_FEATURES, kind_of


@pytest.mark.parametrize(
    ("shape", "kind"),
    [
        ((), "few"),
        ((FEW_FEATURES,), "few"),
        ((FEW_FEATURES + 1,), "table"),
        ((5, 30), "series"),  # (channels, time)
        ((1, 30), "series"),
        ((30, 1), "table"),
        ((2, 10), "few"),
        ((1, 2, 2), "image"),
        ((3, 8, 8), "image"),
        ((3, 1, 40), "table"),  # a row of pixels is not an image
        ((3, 1, 4), "few"),
    ],
)
def test_inputs_by_shape(shape, kind):
    assert kind_of(lp.Score(lambda x: x.reshape(len(x), -1).sum(1)).bind(torch.rand(2, *shape))) == kind


def test_a_layer_of_vectors_is_tokens_and_another_is_not():
    model, ids = seeded(TextNet).eval(), torch.tensor([[1, 2, 3]])
    assert kind_of(lp.Score(model, 0, layer=model.embedding).bind(ids)) == "tokens"
    assert kind_of(lp.Score(model, 0, layer=model.head).bind(ids)) == "few"
