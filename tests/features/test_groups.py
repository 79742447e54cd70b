"""Groups: which features belong together, what is refused, superpixels, and how a group shares its value."""

import sys

import numpy as np
import pytest
import torch

import leastpath as lp
from helpers import TextNet, seeded
from leastpath.features.groups import (
    FEW_FEATURES,
    check_groups,
    cut_image,
    group_features,
    kind_of,
    label_groups,
    number_groups,
    patches,
    read_maps,
    share_evenly,
    window_sides,
)
from leastpath.methods import METHODS


@pytest.mark.parametrize(
    ("groups", "shape", "expected"),
    [
        ("values", (3,), None),
        (None, (3,), None),
        ("pixels", (2, 1, 2), [[0, 1, 0, 1]]),
        ("tokens", (2, 3), [[0, 0, 0, 1, 1, 1]]),
        ("steps", (2, 3), [[0, 1, 2, 0, 1, 2]]),
        (patches(2, 3, side=2), (1, 2, 3), [[0, 0, 1, 0, 0, 1]]),  # patches at the border are smaller
        (patches(2, 2, side=9), (2, 2, 2), [[0] * 8]),
        (torch.tensor([7, -1, 7]), (3,), [[1, 0, 1]]),
        (torch.tensor([[5], [4]]), (3, 2, 1), [[1, 0] * 3]),  # superpixels without channels
        (torch.tensor([[0, 0], [4, 6]]), (2,), [[0, 0], [0, 1]]),  # one for each of two inputs
    ],
)
def test_labels(groups, shape, expected):
    labels = label_groups(groups, torch.rand(2, *shape))
    assert labels is None if expected is None else number_groups(labels.flatten(1)).tolist() == expected


@pytest.mark.parametrize(
    ("groups", "sentence"),
    [
        ("word", "groups='word' is unknown: use one of .'values', 'pixels', 'patches'"),
        (0, "groups=0 must be at least 1"),
        (1.5, "groups=1.5 must be a whole number"),
        (True, "groups=True must be a whole number"),
        (torch.ones(3), r"groups have dtype torch.float32.*groups.long\(\)"),
        (torch.ones(3, dtype=torch.bool), "groups have dtype torch.bool"),
    ],
)
def test_what_nothing_could_be_grouped_by_is_refused(groups, sentence):
    with pytest.raises(ValueError, match=sentence):
        check_groups(groups)


@pytest.mark.parametrize(
    ("groups", "shape", "sentence"),
    [
        ("pixels", (6,), r"groups='pixels' needs inputs \(batch, channels, …\), got \(2, 6\)"),
        (4, (6, 6), r"groups=4 needs inputs \(batch, channels, height, width\), got \(2, 6, 6\)"),
        ("tokens", (3, 6, 6), r"groups='tokens' needs inputs \(batch, length, width\), got \(2, 3, 6, 6\)"),
        ("steps", (3, 6, 6), r"groups='steps' needs inputs \(batch, channels, time\)"),
        (torch.zeros(5, dtype=torch.long), (6,), r"groups have shape \(5,\), the inputs \(2, 6\)"),
    ],
)
def test_shapes_that_do_not_fit_are_refused(groups, shape, sentence):
    with pytest.raises(ValueError, match=sentence):
        label_groups(groups, torch.rand(2, *shape))


def test_patches_cover_an_image_in_square_cells():
    cells = patches(5, 8, cells=4)
    assert cells.shape == (1, 5, 8) and int(cells.max()) == 11 and (cells[0, :2, :2] == 0).all()
    assert patches(3, 3).flatten().tolist() == list(range(9))


def test_long_series_are_grouped_in_windows_of_time():
    labels = label_groups("steps", torch.rand(1, 3, 150))
    assert labels.shape == (1, 3, 150) and torch.equal(labels[0, 0], labels[0, 2])
    assert labels[0, 0].unique(return_counts=True)[1].tolist() == [3] * 50


@pytest.mark.parametrize(
    ("kind", "shape", "groups"),
    [("few", (4,), 4), ("series", (3, 30), 30), ("tokens", (5, 3), 5), ("image", (1, 4, 4), 16), ("table", (40,), 40)],
)
def test_what_a_method_switches_unless_told_otherwise(kind, shape, groups):
    members, said = group_features(None, torch.rand(2, *shape), kind)
    assert members.shape == (2, *shape) and said == ["", ""]
    assert members.unique().tolist() == list(range(groups))


def test_windows_by_kind_of_input():
    assert window_sides(None, torch.Size([3, 16, 40]), "image") == (3, 2, 5)
    assert window_sides(4, torch.Size([3, 16, 40]), "image") == (3, 4, 4)
    assert window_sides(None, torch.Size([3, 40]), "series") == (3, 5)
    assert window_sides(None, torch.Size([7, 12]), "tokens") == (1, 12)
    assert window_sides(2, torch.Size([40]), "table") == (2,)


@pytest.mark.parametrize("channels", [1, 3, 4])
@pytest.mark.parametrize("with_skimage", [True, False])
def test_superpixels_number_all_pixels_without_gaps(channels, with_skimage, monkeypatch):
    if with_skimage:
        pytest.importorskip("skimage")
    else:
        monkeypatch.setitem(sys.modules, "skimage.segmentation", None)
    image = torch.rand(channels, 24, 32, generator=torch.Generator().manual_seed(0)) * 4 - 2
    groups, _ = cut_image(image, 12)
    assert groups.shape == (24, 32)
    assert groups.unique().tolist() == list(range(int(groups.max()) + 1))
    assert 4 <= int(groups.max()) + 1 <= 24


def test_superpixels_find_the_border_of_a_square():
    pytest.importorskip("skimage")
    image = torch.zeros(1, 32, 32)
    image[:, 8:24, 8:24] = 1
    groups, _ = cut_image(image, 16)
    inside = set(groups[8:24, 8:24].unique().tolist())
    outside = set(groups[image[0] == 0].unique().tolist())
    assert not inside & outside


def test_a_group_shares_its_coefficient_evenly():
    groups = torch.tensor([[0, 0, 1], [0, 0, 1]])
    values = share_evenly(torch.tensor([8.0, -3.0]), groups)
    assert values.tolist() == [[2, 2, -1.5], [2, 2, -1.5]]


def test_groups_of_a_method_with_two_readings():
    pytest.importorskip("captum")
    x = torch.rand(3, 3, 8, 8, generator=torch.Generator().manual_seed(0))
    segments = (torch.rand(3, 8, 8, generator=torch.Generator().manual_seed(1)) * 4).long()
    score = lp.Score(lambda x: (x**2).sum((1, 2, 3)))
    with pytest.raises(ValueError, match=r"maps\[:, None\]"):
        METHODS["kernel_shap"](score, x, groups=segments, n_samples=20)
    together = METHODS["kernel_shap"](score, x, groups=segments[:, None], n_samples=20).values
    alone = METHODS["kernel_shap"](score, x[1:2], groups=segments[1:2], n_samples=20).values
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
    result = METHODS["permutation_shap"](lp.Score(lambda x: x.sum((1, 2, 3))), x, groups=16, n_permutations=1)
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
    result = METHODS["permutation_shap"](lp.Score(lambda x: x.sum((1, 2, 3))), x, groups=16, n_permutations=1)
    assert int(result.stats["n_groups"][0]) == 8
    assert "8 groups of features, superpixels that SLIC found when asked for 32" in result.status[0].value


# ---- kinds of input, by their shape and by whether a layer is explained --------------------


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


# ---- maps over the features ------------------------------------------------------------------------------------------

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
    maps = read_maps(numbers, 2, torch.Size(SHAPE), "maps have")
    assert maps.shape == read and torch.equal(maps.flatten(), numbers.flatten())


@pytest.mark.parametrize("given", [(5,), (4, 4), (2, 5, 5), (4, 3, 4, 5), (2, 2, 4, 5), ()])
def test_maps_of_another_shape_are_refused(given):
    with pytest.raises(ValueError, match=r"maps have shape .*expected one for all examples"):
        read_maps(torch.zeros(given), 2, torch.Size(SHAPE), "maps have")


def test_maps_with_two_readings_are_refused_with_both_spellings():
    """Three maps for three pictures of three channels: one for each picture, or one for each channel?"""
    maps, shape = torch.arange(60).reshape(3, 4, 5), torch.Size(SHAPE)
    with pytest.raises(ValueError, match=r"maps\[:, None\].*maps\[None\]"):
        read_maps(maps, 3, shape, "maps have")
    assert torch.equal(read_maps(maps[:, None], 3, shape, "")[1, 0], maps[1])
    assert torch.equal(read_maps(maps[None], 3, shape, "")[0, 1], maps[1])
    assert torch.equal(read_maps(maps, 3, shape, "", each=True)[1, 0], maps[1])
    same = maps[:1].expand(3, 4, 5)  # both readings say the same
    assert torch.equal(read_maps(same, 3, shape, "").expand(3, *shape)[2, 1], maps[0])
