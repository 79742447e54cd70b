"""Blur IG: SciPy's Gaussian filter, the published sum, completeness, and a start of its own."""

import numpy as np
import pytest
import torch
from scipy import ndimage
from torch import Tensor

import leastpath as lp
from helpers import cnn, flat_points, mlp
from leastpath.solvers.blur import gaussian_blur


def images(batch: int = 2, side: int = 6, channels: int = 2, dtype: torch.dtype = torch.float64) -> Tensor:
    return flat_points(batch, channels * side * side, 1, dtype).view(batch, channels, side, side)


@pytest.mark.parametrize("sigma", [0.05, 0.3, 1.0, 2.7, 11.0])
def test_blur_against_scipy(sigma):
    image = flat_points(1, 3 * 9 * 14, 1, torch.float64).view(3, 9, 14)
    expected = ndimage.gaussian_filter(image.numpy(), sigma=[0, sigma, sigma], mode="constant")
    np.testing.assert_allclose(gaussian_blur(image, sigma).numpy(), expected, rtol=0, atol=1e-12)


def test_no_blur_is_the_image():
    assert torch.equal(gaussian_blur(images(), 0.0), images())


def test_path_runs_from_the_blurred_image_to_the_image():
    result = lp.attribute(lp.Score(cnn().double(), torch.tensor([0, 2])), images(), method=lp.BlurIG(2.0, 9))
    assert torch.equal(result.path.end, images())
    torch.testing.assert_close(result.path.start, gaussian_blur(images(), 2.0))
    assert result.path.n_knots.tolist() == [9, 9] and result.stats["max_sigma"] == 2.0


def test_complete_with_respect_to_its_own_start():
    score = lp.Score(cnn().double(), torch.tensor([0, 2]), "log_softmax")
    result = lp.attribute(score, images(), method=lp.BlurIG(2.0))
    torch.testing.assert_close(result.score_change, score(images()) - score(gaussian_blur(images(), 2.0)))
    assert (result.completeness_gap.abs() <= 0.01 * result.score_change.abs() + 1e-3).all()
    assert all(status.value for status in result.status)


def test_against_the_published_sum():
    model = mlp(36, 1).double()
    score = lp.Score(lambda x: model(x.flatten(1))[:, 0])
    x, largest, steps, apart = images(1, 6, 1), 2.0, 300, 1e-3

    def curve(sigma: float) -> np.ndarray:
        return ndimage.gaussian_filter(x.numpy(), sigma=[0, 0, sigma, sigma], mode="constant")

    total = np.zeros_like(x.numpy())
    for sigma in np.arange(steps) * largest / steps:  # the gradient times the derivative by σ, at equal steps of it
        leaf = torch.as_tensor(curve(sigma)).requires_grad_()
        (gradient,) = torch.autograd.grad(score.model(leaf).sum(), leaf)
        total -= largest / steps * gradient.numpy() * (curve(sigma + apart) - curve(sigma)) / apart
    ours = lp.attribute(score, x, method=lp.BlurIG(largest), tolerance=1e-3).values
    np.testing.assert_allclose(ours.numpy(), total, rtol=0, atol=1e-3 * np.abs(total).max())


def test_the_default_blur_follows_the_size_of_the_image():
    large = lp.attribute(lp.Score(lambda x: x.sum((1, 2))), torch.ones(1, 2, 600), method=lp.BlurIG(n_knots=3))
    assert large.stats["max_sigma"] == 50
    small = lp.attribute(lp.Score(lambda x: x.sum((1, 2))), torch.ones(1, 12, 6), method=lp.BlurIG(n_knots=3))
    assert small.stats["max_sigma"] == 2


def test_baselines_flat_inputs_and_bad_settings_are_refused():
    score = lp.Score(cnn().double(), 0)
    with pytest.raises(ValueError, match="BlurIG chooses its own start, so baselines cannot be given"):
        lp.attribute(score, images(), 0.0, method=lp.BlurIG())
    with pytest.raises(ValueError, match=r"BlurIG needs inputs \(batch, …, height, width\), got \(2, 4\)"):
        lp.attribute(lp.Score(mlp(), 0), flat_points(2, 4), method=lp.BlurIG())
    with pytest.raises(ValueError, match="max_sigma=0 must be above 0 and at most 10000, or None: pixels"):
        lp.BlurIG(max_sigma=0)
    with pytest.raises(ValueError, match=r"max_sigma=1e\+20 must be above 0 and at most 10000"):
        lp.BlurIG(max_sigma=1e20)
    with pytest.raises(ValueError, match="n_knots=1 must be at least 2"):
        lp.BlurIG(n_knots=1)
