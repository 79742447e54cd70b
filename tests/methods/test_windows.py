"""Occlusion. Oracles: closed forms, and Captum's, which gives every feature of a window the whole fall."""

import pytest
import torch
from torch import nn

import leastpath as lp
from helpers import flat_points, mlp, seeded
from leastpath.methods import METHODS

TARGETS = torch.tensor([0, 2, 1])


def scored(model: nn.Module) -> lp.Score:
    return lp.Score(model, TARGETS, "log_softmax")


def image_net() -> nn.Module:
    return seeded(lambda: nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 14 * 14, 3))).eval()


def test_occlusion_of_single_features_in_closed_form():
    model, x, baselines = mlp(), flat_points(3, 4, 1), flat_points(3, 4, 2)
    result = METHODS["occlusion"](scored(model), x, baselines)
    for i in range(4):
        hidden = x.clone()
        hidden[:, i] = baselines[:, i]
        torch.testing.assert_close(result.values[:, i], scored(model)(x) - scored(model)(hidden), atol=1e-5, rtol=1e-4)


def test_occlusion_hides_all_columns_of_a_category_together():
    model, x, baselines = mlp(), flat_points(3, 4, 1), flat_points(3, 4, 2)
    columns = torch.tensor([5, 2, 5, 5])  # one category in three numbers, and a number
    result = METHODS["occlusion"](scored(model), x, baselines, groups=columns)
    for column in (2, 5):
        hidden = torch.where(columns == column, baselines, x)
        fall = scored(model)(x) - scored(model)(hidden)
        torch.testing.assert_close(result.values[:, columns == column].sum(1), fall, atol=1e-5, rtol=1e-4)
    assert torch.equal(result.values[:, 0], result.values[:, 3])
    assert result.stats["n_groups"].tolist() == [2, 2, 2]
    assert "groups=given" in result.method
    with pytest.raises(ValueError, match="windows or groups"):
        METHODS["occlusion"](scored(model), x, baselines, groups=columns, window=1)


def test_occlusion_of_superpixels_and_of_several_baselines():
    x, several = flat_points(2, 3 * 16 * 16).view(2, 3, 16, 16), torch.zeros(2, 2, 3, 16, 16)
    several[:, 1] = 0.5
    halves = torch.arange(16).ge(8).long().expand(16, 16)
    score = lp.Score(image_net(), TARGETS[:2])
    result = METHODS["occlusion"](score, x, several, groups=halves)
    falls = []
    for start in several.unbind(1):
        hidden = torch.where(halves == 1, start, x)
        falls.append((image_net()(x) - image_net()(hidden))[torch.arange(2), TARGETS[:2]])
    torch.testing.assert_close(result.values[..., 8:].sum((1, 2, 3)), torch.stack(falls).mean(0), atol=1e-5, rtol=1e-4)


def test_occlusion_of_images_hides_patches_of_all_channels():
    x = flat_points(2, 3 * 16 * 16).view(2, 3, 16, 16)
    result = METHODS["occlusion"](lp.Score(image_net(), TARGETS[:2]), x)
    assert result.stats["window"] == (3, 2, 2) and result.stats["stride"] == (3, 1, 1)
    assert torch.equal(result.values[:, 0], result.values[:, 2])
    coarse = METHODS["occlusion"](lp.Score(image_net(), TARGETS[:2]), x, window=8, stride=8, support=False)
    assert int(coarse.n_forwards[1]) <= 3 + 2 + 4  # four patches, the input itself, the ends and a check
    corner = x.clone()
    corner[..., :8, :8] = 0
    fall = (image_net()(x) - image_net()(corner))[torch.arange(2), TARGETS[:2]]
    torch.testing.assert_close(coarse.values[..., :8, :8].sum((1, 2, 3)), fall, atol=1e-5, rtol=1e-4)
    with pytest.raises(ValueError, match=r"window=\(3, 20, 2\) does not fit"):
        METHODS["occlusion"](lp.Score(image_net(), TARGETS[:2]), x, window=(3, 20, 2))


@pytest.mark.parametrize("window, stride", [((3, 5, 4), (3, 3, 3)), ((1, 7, 7), (1, 4, 7)), ((3, 16, 2), (3, 16, 1))])
def test_occlusion_against_captum(window, stride):
    captum = pytest.importorskip("captum.attr")
    x, base = flat_points(2, 3 * 16 * 16).view(2, 3, 16, 16), flat_points(2, 3 * 16 * 16, 1).view(2, 3, 16, 16)
    theirs = captum.Occlusion(image_net()).attribute(x, window, stride, base, TARGETS[:2])
    score = lp.Score(image_net(), TARGETS[:2])
    ours = METHODS["occlusion"](score, x, base, window=window, stride=stride, support=False)
    torch.testing.assert_close(ours.values, theirs / torch.tensor(window).prod(), atol=1e-6, rtol=1e-4)


def test_full_batches_and_the_cost_that_was_said():
    calls = []

    def model(x):
        calls.append(len(x))
        return x.flatten(1).sum(1)

    x = torch.rand(2, 1, 16, 16, generator=torch.Generator().manual_seed(0))
    score = lp.Score(model, batch_size=50)
    result = METHODS["occlusion"](score, x, lp.several("black", "mean"), window=4, support=False)
    n = METHODS["occlusion"].with_settings(window=4).cost((1, 16, 16))[1]
    assert n == 1 + 7 * 7 and max(calls) == 50 and calls.count(50) >= 3  # 4 × 49 windows in four calls
    assert int(result.n_forwards[0]) >= 2 * n


def test_a_model_that_looks_nowhere_near_the_border_gets_nothing_there():
    score = lp.Score(lambda x: x[:, 0, 10:14, 10:14].sum((1, 2)))
    values = METHODS["occlusion"](score, torch.ones(1, 1, 27, 27), window=6, stride=4).values[0, 0]
    assert (values[:4] == 0).all() and (values[-6:] == 0).all() and (values[:, -6:] == 0).all()


def test_wrong_strides_are_refused():
    with pytest.raises(ValueError, match=r"stride=\(1, 2\) does not fit"):
        METHODS["occlusion"](lp.Score(lambda x: x[:, 0]), torch.ones(1, 2), stride=(1, 2))
