"""Maps over features: which shapes are read how."""

import pytest
import torch

from leastpath.features.maps import maps_over

SHAPE = (3, 4, 5)  # channels, height, width


@pytest.mark.parametrize(
    ("given", "read"),
    [
        (SHAPE, (1, 3, 4, 5)), ((4, 5), (1, 1, 4, 5)), ((1, 4, 5), (1, 1, 4, 5)), ((3, 4, 1), (1, 3, 4, 1)),
        ((2, 4, 5), (2, 1, 4, 5)), ((2, 3, 4, 5), (2, 3, 4, 5)), ((2, 1, 4, 5), (2, 1, 4, 5)),
        ((1, 3, 4, 5), (1, 3, 4, 5)), ((2, 3, 4, 1), (2, 3, 4, 1)),
    ],
)  # fmt: skip
def test_maps_are_for_all_examples_or_one_each(given, read):
    numbers = torch.arange(torch.Size(given).numel()).reshape(given)
    maps = maps_over(numbers, 2, torch.Size(SHAPE), "maps have")
    assert maps.shape == read and torch.equal(maps.flatten(), numbers.flatten())


@pytest.mark.parametrize("given", [(5,), (4, 4), (2, 5, 5), (4, 3, 4, 5), (2, 2, 4, 5), ()])
def test_maps_of_another_shape_are_refused(given):
    with pytest.raises(ValueError, match=r"maps have shape .*expected one for all examples"):
        maps_over(torch.zeros(given), 2, torch.Size(SHAPE), "maps have")


def test_maps_with_two_readings_are_refused_with_both_spellings():
    """Three maps for three pictures of three channels: one for each picture, or one for each channel?"""
    maps, shape = torch.arange(60).reshape(3, 4, 5), torch.Size(SHAPE)
    with pytest.raises(ValueError, match=r"maps\[:, None\].*maps\[None\]"):
        maps_over(maps, 3, shape, "maps have")
    assert torch.equal(maps_over(maps[:, None], 3, shape, "")[1, 0], maps[1])
    assert torch.equal(maps_over(maps[None], 3, shape, "")[0, 1], maps[1])
    assert torch.equal(maps_over(maps, 3, shape, "", each=True)[1, 0], maps[1])
    same = maps[:1].expand(3, 4, 5)  # both readings say the same
    assert torch.equal(maps_over(same, 3, shape, "").expand(3, *shape)[2, 1], maps[0])
