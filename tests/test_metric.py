"""Metrics against their formulas, their limits, and the inequalities between them."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import leastpath as lp
from helpers import flat_points
from leastpath.metric import energy, length

ALL = [lp.Euclidean, lp.Conformal, lp.RankOne, lp.NoCancellation]
FORMULAS = {
    lp.Euclidean: lambda g, d, e: d.norm() * math.sqrt(1 + e),
    lp.Conformal: lambda g, d, e: torch.sqrt(g.norm() ** 2 + e) * d.norm(),
    lp.RankOne: lambda g, d, e: torch.sqrt((g * d).sum() ** 2 + e * d.norm() ** 2),
    lp.NoCancellation: lambda g, d, e: (g * d).abs().sum() + math.sqrt(e) * d.norm(),
}


@pytest.mark.parametrize("metric", ALL)
@pytest.mark.parametrize("damping", [0.0, 0.3, 5.0])
@pytest.mark.parametrize("shape", [(4,), (2, 3), ()])
def test_speed_against_formula_row_by_row(metric, damping, shape):
    generator = torch.Generator().manual_seed(1)
    point, gradient, step = (torch.randn(6, *shape, generator=generator, dtype=torch.float64) for _ in range(3))
    speed = metric(damping=damping).speed(point, gradient, step)
    expected = torch.stack([FORMULAS[metric](g, d, damping) for g, d in zip(gradient, step, strict=True)])
    assert speed.shape == (6,)
    torch.testing.assert_close(speed, expected.view(6))


@pytest.mark.parametrize("metric", ALL)
def test_speed_is_proportional_to_the_step(metric):
    point, gradient, step = (flat_points(6, 4, seed, torch.float64) for seed in range(3))
    for damping in (0.0, 0.7):
        m = metric(damping=damping)
        torch.testing.assert_close(m.speed(point, gradient, -2.5 * step), 2.5 * m.speed(point, gradient, step))
        assert not m.speed(point, gradient, 0 * step).any()


@pytest.mark.parametrize("metric", [lp.Conformal, lp.RankOne, lp.NoCancellation])
def test_large_damping_is_the_euclidean_limit(metric):
    """ε → ∞: speed / √ε → ‖δ‖, so that shortest paths become straight lines."""
    point, gradient, step = (flat_points(6, 4, seed, torch.float64) for seed in range(3))
    speed = metric(damping=1e12).speed(point, gradient, step) / 1e6
    torch.testing.assert_close(speed, lp.Euclidean().speed(point, gradient, step), rtol=1e-5, atol=0)


@given(st.integers(0, 10_000), st.integers(1, 6))
def test_inequalities_between_speeds(seed, features):
    """Σ|gᵢδᵢ| ≥ |g·δ| and ‖g‖‖δ‖ ≥ |g·δ|, at every point."""
    gradient, step = flat_points(8, features, seed, torch.float64), flat_points(8, features, seed + 1, torch.float64)
    rank_one, conformal, l1 = (
        m.speed(step, gradient, step) for m in (lp.RankOne(), lp.Conformal(), lp.NoCancellation())
    )
    change = (gradient * step).sum(1).abs()
    slack = 1 + 1e-12  # rounding of the sums
    assert (l1 * slack >= rank_one).all() and (conformal * slack >= rank_one).all()
    assert (rank_one * slack >= change).all()


@pytest.mark.parametrize("metric", ALL)
def test_declares_what_it_needs_and_bounds(metric):
    assert isinstance(metric(), lp.Metric)
    assert metric.needs_gradient == metric.bounds_score == (metric is not lp.Euclidean)
    point = flat_points(3, 2)
    if not metric.needs_gradient:
        assert torch.equal(metric().speed(point, point * torch.nan, point), metric().speed(point, point, point))


@pytest.mark.parametrize("metric", ALL)
@pytest.mark.parametrize("damping", [-1.0, math.inf, math.nan])
def test_bad_damping(metric, damping):
    with pytest.raises(ValueError, match=r"damping=.* must be a finite number ≥ 0"):
        metric(damping=damping)


def test_length_and_energy_against_closed_form():
    """speed 1 + t on [0, 1]: length 3/2, energy ½ ∫ (1 + t)² = 7/6, exact for three Gauss nodes."""
    from leastpath.quadrature import rule_nodes

    nodes, weights = rule_nodes("gauss_legendre", 3, torch.zeros(1, dtype=torch.float64))
    speeds = (1 + nodes).expand(2, 3)
    torch.testing.assert_close(length(speeds, weights), torch.full((2,), 3 / 2, dtype=torch.float64))
    torch.testing.assert_close(energy(speeds, weights), torch.full((2,), 7 / 6, dtype=torch.float64))
