"""RISE. Oracles: the definition as a loop over masks, a constant score, the covariance of masks."""

import pytest
import torch

import leastpath as lp
from leastpath.methods import METHODS
from leastpath.methods.rise import draw_smooth_masks

rise = METHODS["rise"]


def drawn(n, shape=(2, 12, 9), cells=4, shown=0.5, seed=0):
    return draw_smooth_masks(torch.Size(shape), n, cells, shown, torch.Generator().manual_seed(seed))


def test_against_the_definition():
    x = torch.rand(1, 2, 12, 9, generator=torch.Generator().manual_seed(1))
    score = lp.Score(lambda x: x.flatten(1).square().sum(1).sin())
    masks, total = drawn(40), torch.zeros(12, 9)
    scores = torch.stack([score(0.25 + mask * (x - 0.25))[0] for mask in masks])
    for mask, value in zip(masks, scores, strict=True):
        total += value * mask[0]
    published = total / masks.sum((0, 1))
    values = rise(score, x, 0.25, n_masks=40, cells=4).values[0]
    torch.testing.assert_close(values.sum(0), published - scores.mean(), atol=1e-5, rtol=1e-4)


def test_masks_are_smooth_and_show_as_much_as_asked():
    masks = drawn(3000, shown=0.3)
    assert masks.min() >= 0 and masks.max() <= 1 and not torch.equal(masks, masks.round())
    assert (masks.mean(0) - 0.3).abs().max() < 0.04  # everywhere, also at the border


def test_a_constant_score_is_explained_by_nothing():
    x = torch.rand(1, 1, 8, 8, generator=torch.Generator().manual_seed(1))
    assert rise(lp.Score(lambda x: x.sum((1, 2, 3)) * 0 + 3), x, n_masks=20).values.abs().max() < 1e-5


def test_one_pixel_in_closed_form():
    """f = x at one pixel: a place has the covariance of its mask with that pixel's, over the mask's mean."""
    masks = drawn(500, (1, 12, 9))[:, 0]
    expected = ((masks * masks[:, 5:6, 4:5]).mean(0) / masks.mean(0)) - masks[:, 5, 4].mean()
    values = rise(lp.Score(lambda x: x[:, 0, 5, 4]), torch.ones(1, 1, 12, 9), n_masks=500, cells=4).values[0, 0]
    torch.testing.assert_close(values, expected, atol=1e-5, rtol=1e-3)
    assert values[5, 4] == values.max()


def test_wrong_settings_are_refused():
    for settings, what in (({"n_masks": 0}, "n_masks=0"), ({"shown": 1.0}, "shown=1.0 must be between 0 and 1")):
        with pytest.raises(ValueError, match=what):
            rise(lp.Score(lambda x: x[:, 0]), torch.ones(1, 2), **settings)
