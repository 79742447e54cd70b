"""Superpixels: every pixel in one group, groups numbered without gaps."""

import sys

import numpy as np
import pytest
import torch

import leastpath as lp
from leastpath.features.groups import shared_evenly, superpixels
from leastpath.methods import METHODS


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


def test_too_few_superpixels_are_asked_for_again_and_a_grid_is_told(monkeypatch):
    pytest.importorskip("captum")
    segmentation = pytest.importorskip("skimage.segmentation")
    asked = []

    def finds_one_in_sixteen(shown, n_segments, **_):
        asked.append(n_segments)
        columns = np.arange(shown.shape[1]) * max(1, n_segments // 16) // shown.shape[1]
        return np.tile(columns, (shown.shape[0], 1))

    monkeypatch.setattr(segmentation, "slic", finds_one_in_sixteen)
    x = torch.rand(1, 3, 32, 32, generator=torch.Generator().manual_seed(0))
    result = METHODS["permutation_shap"](lp.Score(lambda x: x.sum((1, 2, 3))), x, segments=16, n_permutations=1)
    assert asked == [16, 32, 64]
    assert int(result.stats["n_groups"][0]) == 16
    assert "patches of a grid, since SLIC found only 4 superpixels" in result.status[0].value


def test_superpixels_of_a_second_try_are_told(monkeypatch):
    pytest.importorskip("captum")
    segmentation = pytest.importorskip("skimage.segmentation")

    def finds_a_quarter(shown, n_segments, **_):
        columns = np.arange(shown.shape[1]) * (n_segments // 4) // shown.shape[1]
        return np.tile(columns, (shown.shape[0], 1))

    monkeypatch.setattr(segmentation, "slic", finds_a_quarter)
    x = torch.rand(1, 3, 32, 32, generator=torch.Generator().manual_seed(0))
    result = METHODS["permutation_shap"](lp.Score(lambda x: x.sum((1, 2, 3))), x, segments=16, n_permutations=1)
    assert int(result.stats["n_groups"][0]) == 8
    assert "8 groups of features, superpixels that SLIC found when asked for 32" in result.status[0].value
