"""Arrays over the wire: there and back is the same; NaN is null; what does not fit is refused."""

import json

import numpy as np
import pytest
import torch

from leastpath.explorer.arrays import as_json, pack, pictures_of, unpack, value_range


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


def test_three_channels_are_colours():
    red = torch.zeros(1, 3, 2, 2)
    red[:, 0] = 1
    assert pictures_of(red, (0.0, 1.0))[0, 0, 0].tolist() == [255, 0, 0]


def test_other_channels_are_grey():
    assert pictures_of(torch.full((1, 5, 2, 2), 0.2), (0.0, 1.0))[0, 0, 0].tolist() == [51, 51, 51]


def test_other_ranges_are_stretched():
    image = torch.tensor([-1.0, 3.0]).reshape(1, 1, 1, 2)
    assert pictures_of(image, value_range(image))[0, 0, :, 0].tolist() == [0, 255]


def test_frames_are_not_larger_than_asked():
    assert pictures_of(torch.rand(1, 3, 40, 20), (0.0, 1.0), 10).shape == (1, 10, 5, 3)
    assert pictures_of(torch.rand(1, 3, 4, 2), (0.0, 1.0), 10).shape == (1, 4, 2, 3)
