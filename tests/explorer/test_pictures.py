"""Tensors as pictures: colours, grey, ranges, sizes."""

import torch

from leastpath.explorer.pictures import pictures_of, value_range


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
