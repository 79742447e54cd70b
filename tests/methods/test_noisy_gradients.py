"""SmoothGrad and its kin of gradients. Oracles: closed forms of quadratic scores, Captum's NoiseTunnel, a loop."""

import pytest
import torch

from helpers import Counted, flat_points, mlp
from leastpath.account.run import Run
from leastpath.methods import METHODS
from leastpath.score.score import Score

NAMES = ("smooth_grad", "smooth_grad_squared", "var_grad")
SETTINGS = {"n_samples": 4000, "noise": 0.25}


def test_a_quadratic_score_in_closed_form():
    """∂ᵢ Σ aᵢ xᵢ² at x + σ n is 2 aᵢ (xᵢ + σ n): its mean, mean square and variance are known."""
    a, x = torch.tensor([1.0, -2.0, 0.5]), torch.tensor([[1.0, 3.0, -1.0]])
    score = Score(lambda x: (a * x**2).sum(1))
    sigma = 0.25 * 4  # the range of x is 4
    mean, square, variance = (METHODS[name](score, x, **SETTINGS).values[0] for name in NAMES)
    torch.testing.assert_close(mean, 2 * a * x[0], atol=0.15, rtol=0)
    torch.testing.assert_close(square, 4 * a**2 * (x[0] ** 2 + sigma**2), atol=0, rtol=0.08)
    torch.testing.assert_close(variance, 4 * a**2 * sigma**2, atol=0, rtol=0.08)
    torch.testing.assert_close(variance, square - mean**2, atol=1e-4, rtol=1e-4)


def test_a_linear_score_has_no_variance():
    w, x = torch.tensor([2.0, -1.0]), flat_points(2, 2)
    mean, square, variance = (METHODS[name](Score(lambda x: x @ w), x).values for name in NAMES)
    assert torch.equal(mean, w.expand(2, 2)) and torch.equal(square, (w**2).expand(2, 2)) and not variance.any()


def test_against_captum_with_the_same_noise():
    captum = pytest.importorskip("captum.attr")
    model, x = mlp(), flat_points(1, 4)
    score = Score(model, 2)
    noise = torch.stack([Run(seed=7).noise((4,), x, draw) for draw in range(20)])
    copies = x + 0.1 * (x.max() - x.min()) * noise
    gradients = captum.Saliency(model).attribute(copies.requires_grad_(), target=2, abs=False).detach()
    expected = gradients.mean(0), gradients.square().mean(0), gradients.var(0, unbiased=False)
    for name, wanted in zip(NAMES, expected, strict=True):
        found = METHODS[name](score, x, n_samples=20, noise=0.1, seed=7).values[0]
        torch.testing.assert_close(found, wanted, atol=1e-6, rtol=1e-4)
    size = METHODS["smooth_grad"](score, x, n_samples=20, noise=0.1, seed=7, absolute=True).values[0]
    torch.testing.assert_close(size, gradients.abs().mean(0), atol=1e-6, rtol=1e-4)


def test_a_gradient_for_each_copy_whatever_the_baselines():
    counted, x = Counted(mlp()), flat_points(2, 4)
    result = METHODS["smooth_grad"](Score(counted, 0), x, flat_points(6, 4).view(2, 3, 4), n_samples=9)
    assert counted.gradient_rows == int(result.n_gradients.sum()) == 18 and result.baseline_spread is None


def test_wrong_settings_are_refused():
    for settings, what in (({"n_samples": 0}, "n_samples=0"), ({"noise": -1.0}, "noise=-1.0 must be at least 0")):
        with pytest.raises(ValueError, match=what):
            METHODS["var_grad"](Score(lambda x: x[:, 0] ** 2), torch.ones(1, 2), **settings)
