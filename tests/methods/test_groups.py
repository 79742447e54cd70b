"""Superpixels: every pixel in one group, groups numbered without gaps."""

import sys

import pytest
import torch

import leastpath as lp
from leastpath.methods import METHODS
from leastpath.methods.groups import maps_over, shared_evenly, superpixels


@pytest.mark.parametrize("channels", [1, 3, 4])
@pytest.mark.parametrize("with_skimage", [True, False])
def test_superpixels_number_all_pixels_without_gaps(channels, with_skimage, monkeypatch):
    if with_skimage:
        pytest.importorskip("skimage")
    else:
        monkeypatch.setitem(sys.modules, "skimage.segmentation", None)
    image = torch.rand(channels, 24, 32, generator=torch.Generator().manual_seed(0)) * 4 - 2
    groups = superpixels(image, 12)
    assert groups.shape == (24, 32)
    assert groups.unique().tolist() == list(range(int(groups.max()) + 1))
    assert 4 <= int(groups.max()) + 1 <= 24


def test_superpixels_find_the_border_of_a_square():
    pytest.importorskip("skimage")
    image = torch.zeros(1, 32, 32)
    image[:, 8:24, 8:24] = 1
    groups = superpixels(image, 16)
    inside = set(groups[8:24, 8:24].unique().tolist())
    outside = set(groups[image[0] == 0].unique().tolist())
    assert not inside & outside


def test_a_group_shares_its_coefficient_evenly():
    groups = torch.tensor([[0, 0, 1], [0, 0, 1]])
    values = shared_evenly(torch.tensor([8.0, -3.0]), groups)
    assert values.tolist() == [[2, 2, -1.5], [2, 2, -1.5]]


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


def test_segments_of_a_method_with_two_readings():
    pytest.importorskip("captum")
    x = torch.rand(3, 3, 8, 8, generator=torch.Generator().manual_seed(0))
    segments = (torch.rand(3, 8, 8, generator=torch.Generator().manual_seed(1)) * 4).long()
    score = lp.Score(lambda x: (x**2).sum((1, 2, 3)))
    with pytest.raises(ValueError, match=r"maps\[:, None\]"):
        METHODS["kernel_shap"](score, x, segments=segments, n_samples=20)
    together = METHODS["kernel_shap"](score, x, segments=segments[:, None], n_samples=20).values
    alone = METHODS["kernel_shap"](score, x[1:2], segments=segments[1:2], n_samples=20).values
    torch.testing.assert_close(together[1:2], alone)
