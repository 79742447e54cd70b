"""Guided IG against the published algorithm, one example at a time in NumPy, and its limits."""

import math

import numpy as np
import pytest
import torch

import leastpath as lp
from helpers import cnn, flat_points, mlp


def published(gradient, x, baseline, steps: int, fraction: float, max_dist: float) -> tuple[np.ndarray, np.ndarray]:
    """The algorithm as its authors describe and publish it: knots (steps + 1, features) and attributions (features,).

    Attributions take the gradient at the beginning of each step. Quantiles by `method=`, which NumPy 2.4 still has.
    """
    point, knots, values = baseline.copy(), [baseline.copy()], np.zeros_like(x)
    whole = np.abs(x - baseline).sum()
    for step in range(1, steps + 1):
        here = gradient(point)
        sizes, before = np.abs(here), point.copy()
        alpha = step / steps
        least = baseline + (x - baseline) * max(alpha - max_dist, 0)
        most = baseline + (x - baseline) * min(alpha + max_dist, 1)
        wanted = whole * (1 - step / steps)
        while True:
            with np.errstate(divide="ignore", invalid="ignore"):
                walked = (point - baseline) / (x - baseline)
            late = walked < max(alpha - max_dist, 0)  # NaN, where there is no way to go, is not late
            point[late] = least[late]
            distance = np.abs(x - point).sum()
            if math.isclose(distance, wanted, rel_tol=1e-9, abs_tol=1e-9):
                break
            sizes[point == most] = np.inf
            chosen = (sizes <= np.quantile(sizes, fraction, method="lower")) & (sizes != np.inf)
            room = np.abs(point - most)[chosen].sum()
            gamma = (distance - wanted) / room if room > 0 else np.inf
            if gamma <= 1:
                point[chosen] += gamma * (most - point)[chosen]
                break
            point[chosen] = most[chosen]
        values += here * (point - before)
        knots.append(point.copy())
    return np.stack(knots), values


def smooth_net(features: int) -> lp.Score:
    model = mlp(features, 1).double()
    return lp.Score(lambda x: model(x)[:, 0])


def bowl(x: torch.Tensor) -> torch.Tensor:
    """An analytic score: sin of a quadratic form."""
    k = torch.arange(1, x.shape[1] + 1, dtype=x.dtype)
    return torch.sin((k * x**2).sum(1) / 4) + (x[:, 0] * x[:, 1])


def gradient_of(score: lp.Score):
    def gradient(point: np.ndarray) -> np.ndarray:
        leaf = torch.as_tensor(point)[None].requires_grad_()
        return torch.autograd.grad(score.model(leaf).sum(), leaf)[0][0].numpy()

    return gradient


@pytest.mark.parametrize("score", [lp.Score(bowl), smooth_net(7)], ids=["analytic", "net"])
@pytest.mark.parametrize(
    ("fraction", "max_distance", "steps"),
    [(0.25, 0.02, 40), (0.25, 0.1, 25), (0.1, 1.0, 30), (0.5, 0.3, 11), (1.0, 0.2, 9)],
)
def test_path_against_the_published_algorithm(score, fraction, max_distance, steps):
    x, baselines = flat_points(3, 7, 1, torch.float64), flat_points(3, 7, 2, torch.float64)
    x[0, 3] = baselines[0, 3]  # a feature that has no way to go
    solver = lp.GuidedIG(fraction, max_distance, steps)
    result = lp.attribute(score, x, baselines, method=solver, tolerance=None, n_steps=steps)
    for b in range(3):
        knots, _ = published(gradient_of(score), x[b].numpy(), baselines[b].numpy(), steps, fraction, max_distance)
        torch.testing.assert_close(result.path[b], torch.as_tensor(knots), rtol=0, atol=1e-8)


def test_published_attributions_are_the_limit_of_fine_steps():
    score, x, baseline = lp.Score(bowl), flat_points(1, 7, 1, torch.float64), flat_points(1, 7, 2, torch.float64)
    errors = []
    for steps in (40, 120, 360):
        ours = lp.attribute(score, x, baseline, method=lp.GuidedIG(0.25, 0.1, steps), tolerance=1e-3).values[0]
        _, theirs = published(gradient_of(score), x[0].numpy(), baseline[0].numpy(), steps, 0.25, 0.1)
        errors.append(float((ours - torch.as_tensor(theirs)).abs().max() / ours.abs().max()))
    assert errors[2] < errors[1] < errors[0] and errors[2] < 0.03


def test_no_distance_is_the_straight_line():
    x = flat_points(2, 5, 1, torch.float64)
    result = lp.attribute(smooth_net(5), x, method=lp.GuidedIG(max_distance=0.0, n_steps=8), tolerance=1e-4)
    line = lp.attribute(smooth_net(5), x, method=lp.StraightLine(), tolerance=1e-4)
    for b in range(2):
        expected = torch.linspace(0, 1, 9, dtype=torch.float64)[:, None] * x[b]
        torch.testing.assert_close(result.path[b], expected, rtol=0, atol=1e-8)
    torch.testing.assert_close(result.values, line.values, rtol=1e-3, atol=1e-5)


def test_every_step_covers_its_share_of_the_l1_distance_within_the_band():
    x = flat_points(2, 72, 1).view(2, 2, 6, 6)
    result = lp.attribute(lp.Score(cnn(), torch.tensor([0, 2])), x, method=lp.GuidedIG(0.25, 0.1, 20))
    alpha = torch.linspace(0, 1, 21)
    for b in range(2):
        left = (x[b] - result.path[b]).flatten(1).abs().sum(1) / x[b].abs().sum()
        torch.testing.assert_close(left, 1 - alpha, rtol=0, atol=1e-5)
        walked = result.path[b] / x[b]
        assert ((walked - alpha[:, None, None, None]).abs() <= 0.1 + 1e-4).all()
        assert torch.equal(result.path[b][-1], x[b])


def test_an_input_at_its_baseline_stays_there():
    x = torch.stack([torch.zeros(4), torch.ones(4)])
    result = lp.attribute(lp.Score(mlp(), 0), x, method=lp.GuidedIG(n_steps=5))
    assert not result.path[0].any() and not result.values[0].any() and result.values[1].any()


def test_most_of_the_budget_is_left_to_the_integral():
    result = lp.attribute(lp.Score(mlp(), 0), flat_points(2, 4), method=lp.GuidedIG(), max_gradients=60)
    assert result.stats["n_steps"] == 24 and (result.n_gradients <= 60).all()


@pytest.mark.parametrize("settings", [{"fraction": -0.1}, {"fraction": 1.5}, {"max_distance": 2.0}])
def test_settings_out_of_range_are_refused(settings):
    with pytest.raises(ValueError, match="must be from 0 to 1"):
        lp.GuidedIG(**settings)
    with pytest.raises(ValueError, match="n_steps=0 must be at least 1"):
        lp.GuidedIG(n_steps=0)


def test_budget_pays_for_the_walk_the_path_and_the_line():
    score = lp.Score(lambda x: torch.sigmoid(8 * (x[:, 0] - x[:, 1] ** 2)))
    for settings in ({"max_gradients": 100}, {"max_gradients": 60, "tolerance": None, "n_steps": 50}):
        result = lp.attribute(score, torch.ones(1, 6), method=lp.GuidedIG(n_steps=200), **settings)
        assert int(result.n_gradients) <= settings["max_gradients"] and result.length_ratio.isfinite().all()
    result = lp.attribute(score, torch.ones(1, 6), method=lp.GuidedIG(n_steps=200), max_gradients=4)
    assert result.path.is_straight.all() and "max_gradients=4" in result.status[0].value
