"""Arrays over the wire: there and back is the same; NaN is null; what does not fit is refused."""

import json

import numpy as np
import pytest
import torch

from leastpath.explorer.arrays import as_json, pack, unpack


@pytest.mark.parametrize("array", [torch.rand(2, 3), torch.zeros(0, 4), torch.arange(6, dtype=torch.uint8)])
def test_there_and_back_is_the_same(array):
    assert torch.equal(unpack(json.loads(json.dumps(pack(array)))), array)


def test_other_numbers_go_as_float32():
    assert pack(torch.tensor([1.5], dtype=torch.float64))["dtype"] == "float32"
    assert pack(np.array([True]))["dtype"] == "float32"


@pytest.mark.parametrize(
    "given",
    [
        None, [], {}, {"dtype": "object", "shape": [1], "data": ""}, {"dtype": "uint8", "shape": [2], "data": "AQ=="},
        {"dtype": "uint8", "shape": [-1], "data": ""}, {"dtype": "uint8", "shape": [10**9, 10], "data": ""},
        {"dtype": "uint8", "shape": [1], "data": "?"}, {"dtype": "uint8", "shape": [True], "data": "AQ=="},
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused_with_a_sentence(given):
    with pytest.raises(ValueError, match="array"):
        unpack(given)


def test_numbers_that_json_lacks_become_null():
    assert json.loads(as_json({"a": [float("nan"), float("inf"), 1.0], "b": (2,)})) == {
        "a": [None, None, 1.0],
        "b": [2],
    }
