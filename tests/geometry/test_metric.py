"""Metrics against their formulas, their limits, and the inequalities between them."""

import math

import pytest
import torch
from hypothesis import given, strategies as st

import leastpath as lp
from helpers import flat_points
from leastpath.geometry.metric import energy, length

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
    with pytest.raises(
        ValueError, match=r"damping=.* must be ((finite and )?at least 0|a number, and NaN is not a number)"
    ):
        metric(damping=damping)


def test_length_and_energy_against_closed_form():
    """speed 1 + t on [0, 1]: length 3/2, energy ½ ∫ (1 + t)² = 7/6, exact for three Gauss nodes."""
    from leastpath.integral.pieces import rule_nodes

    nodes, weights = rule_nodes("gauss_legendre", 3, torch.zeros(1, dtype=torch.float64))
    speeds = (1 + nodes).expand(2, 3)
    torch.testing.assert_close(length(speeds, weights), torch.full((2,), 3 / 2, dtype=torch.float64))
    torch.testing.assert_close(energy(speeds, weights), torch.full((2,), 7 / 6, dtype=torch.float64))


# ---- metrics of the data, and both together ----------------------------------------------------------------------

DATA = flat_points(40, 3, 7, torch.float64)
HALF = lp.Reconstruction(lambda x: x[:, :2], lambda z: torch.cat([z, torch.zeros_like(z[:, :1])], 1), scale=0.5)


def rows(n: int = 6) -> tuple[torch.Tensor, ...]:
    """Points, gradients and steps."""
    return tuple(flat_points(n, 3, seed, torch.float64) for seed in range(3))


def test_density_against_its_formula_row_by_row():
    point, gradient, step = rows()
    metric = lp.DataDensity(DATA, bandwidth=0.8)

    def log_density(x):
        return math.log(sum(math.exp(-float((x - y).square().sum()) / (2 * 0.8**2)) for y in DATA) / len(DATA))

    typical = sorted(log_density(x) for x in DATA)[(len(DATA) - 1) // 2]
    expected = [
        math.sqrt(1 + 2 * max(0, typical - log_density(x))) * float(d.norm()) for x, d in zip(point, step, strict=True)
    ]
    torch.testing.assert_close(metric.speed(point, gradient, step), torch.tensor(expected, dtype=torch.float64))


def test_density_far_away_is_the_distance_in_bandwidths():
    metric = lp.DataDensity(DATA, bandwidth=0.5)
    far, step = torch.tensor([[1000.0, 0, 0]]).double(), torch.tensor([[0.0, 1, 0]]).double()
    assert float(metric.speed(far, far, step)) == pytest.approx(1000 / 0.5, rel=0.01)


def test_density_survives_single_precision_far_from_the_origin():
    """Distances come from products, whose rounding grows with the points' size: they are centred first."""
    point, gradient, step = rows()
    near, far = lp.DataDensity(DATA, 0.8), lp.DataDensity((DATA + 1000).float(), 0.8)
    shifted = far.speed((point + 1000).float(), gradient.float(), step.float())
    torch.testing.assert_close(shifted.double(), near.speed(point, gradient, step), rtol=1e-3, atol=0)


def test_density_in_blocks_equals_at_once(monkeypatch):
    metric, (point, gradient, step) = lp.DataDensity(DATA), rows()
    whole = metric.speed(point, gradient, step)
    monkeypatch.setitem(lp.DataDensity.log_density.__globals__, "BLOCK_ELEMENTS", 2 * len(DATA))
    torch.testing.assert_close(metric.speed(point, gradient, step), whole)


def test_bandwidth_is_the_median_distance_to_the_fifth_neighbour():
    fifth = torch.cdist(DATA, DATA).sort(1).values[:, 5]
    assert lp.DataDensity(DATA).bandwidth == pytest.approx(float(fifth.median()))


def test_reconstruction_against_its_formula():
    point, gradient, step = rows()
    expected = torch.sqrt(1 + (point[:, 2] / 0.5) ** 2) * step.norm(dim=1)  # the third coordinate is what gets lost
    torch.testing.assert_close(HALF.speed(point, gradient, step), expected)


@pytest.mark.parametrize("data", [lp.DataDensity(DATA), HALF], ids=["density", "reconstruction"])
def test_data_metrics_look_at_points_and_not_at_gradients(data):
    point, gradient, step = rows()
    assert isinstance(data, lp.Metric) and not data.needs_gradient and not data.bounds_score
    speed = data.speed(point, gradient * torch.nan, step)
    assert (speed >= step.norm(dim=1)).all() and not torch.allclose(data.speed(point + 1, gradient, step), speed)
    torch.testing.assert_close(data.speed(point, gradient, -2.5 * step), 2.5 * speed)


@pytest.mark.parametrize("model", [lp.Conformal(), lp.RankOne(0.1), lp.NoCancellation()], ids=repr)
@pytest.mark.parametrize(
    "data", [lp.DataDensity(DATA), HALF, lp.Euclidean()], ids=["density", "reconstruction", "plain"]
)
def test_mixed_with_weight_zero_or_one_is_its_part(model, data):
    point, gradient, step = rows()
    for weight, part in ((0, model), (1, data)):
        mixed = lp.Mixed(model, data, weight)
        assert torch.equal(mixed.speed(point, gradient, step), part.speed(point, gradient, step))
        assert (mixed.needs_gradient, mixed.bounds_score) == (part.needs_gradient, part.bounds_score)


@given(st.floats(0.01, 0.99), st.integers(0, 1000))
def test_mixed_with_euclidean_is_damping(weight, seed):
    """(1 − w) ggᵀ + w I is ggᵀ + w/(1 − w) I, times 1 − w."""
    gradient, step = flat_points(4, 3, seed, torch.float64), flat_points(4, 3, seed + 1, torch.float64)
    mixed = lp.Mixed(lp.RankOne(), lp.Euclidean(), weight).speed(step, gradient, step)
    damped = lp.RankOne(weight / (1 - weight)).speed(step, gradient, step)
    torch.testing.assert_close(mixed, (1 - weight) ** 0.5 * damped)


@given(st.floats(0, 1), st.integers(0, 1000))
def test_mixed_bounds_the_score_where_all_parts_do(weight, seed):
    """With two bounding parts the speed is at least |g·δ|; with one it is only at least √(1 − w) of it."""
    gradient, step = flat_points(8, 3, seed, torch.float64), flat_points(8, 3, seed + 1, torch.float64)
    change = (gradient * step).sum(1).abs()
    both = lp.Mixed(lp.Conformal(), lp.NoCancellation(), weight)
    assert both.bounds_score and (both.speed(step, gradient, step) >= change * (1 - 1e-12)).all()
    one = lp.Mixed(lp.RankOne(), lp.DataDensity(DATA), weight)
    assert one.bounds_score == (weight == 0)
    assert (one.speed(step, gradient, step) >= (1 - weight) ** 0.5 * change * (1 - 1e-12)).all()


def test_mixed_can_fall_below_the_change_of_score():
    """Why there is no certificate: f = 10 x₀, a step of 1, weight ½: √(½ 100 + ½) < 10."""
    score = lp.Score(lambda x: 10 * x[:, 0])
    metric = lp.Mixed(lp.Conformal(), lp.Euclidean(), 0.5)
    result = lp.attribute(score, torch.tensor([[1.0, 0.0]]), method=lp.StraightLine(), metric=metric)
    assert float(result.length) == pytest.approx(math.sqrt(50.5)) and result.certificate.isnan().all()
    sure = lp.Mixed(lp.Conformal(), lp.RankOne(), 0.5)
    assert float(lp.attribute(score, torch.ones(1, 2), method=lp.StraightLine(), metric=sure).certificate) >= 1


def test_mixed_has_a_derivative_where_both_parts_stop():
    step = torch.zeros(2, 3, dtype=torch.float64, requires_grad=True)
    lp.Mixed(lp.RankOne(), lp.Euclidean()).speed(step, step, step).sum().backward()
    assert step.grad.isfinite().all()


def test_names_tell_metrics_apart():
    """Graphs that are kept recognise their metric by its repr."""
    assert repr(lp.DataDensity(DATA, 1.0)) == repr(lp.DataDensity(DATA.clone(), 1.0))
    assert repr(lp.DataDensity(DATA, 1.0)) != repr(lp.DataDensity(DATA + 1, 1.0))
    nets = [torch.nn.Linear(3, 3).requires_grad_(False) for _ in range(2)]
    names = {repr(lp.Reconstruction(net, net, 1.0)) for net in nets}
    assert len(names) == 2 and all("Linear" in name for name in names)
    assert "DataDensity(40 points #" in repr(lp.Mixed(lp.Conformal(), lp.DataDensity(DATA)))


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: lp.DataDensity(DATA[:0]), r"points have shape \(0, 3\), expected at least one point"),
        (lambda: lp.DataDensity([1.0]), "points is a list, expected a tensor"),
        (lambda: lp.DataDensity(DATA * torch.nan), "NaN or infinite"),
        (lambda: lp.DataDensity(DATA, bandwidth=0), "bandwidth=0 must be positive"),
        (lambda: lp.DataDensity(torch.zeros(9, 2)), "half of the points are the same, so give a bandwidth"),
        (lambda: lp.Reconstruction(abs, abs, scale=-1), "scale=-1 must be positive"),
        (lambda: lp.Mixed(lp.Conformal, lp.Euclidean()), "model_metric=.* is not a metric: Mixed"),
        (lambda: lp.Mixed(lp.Conformal(), "data"), "data_metric='data' is not a metric"),
        (lambda: lp.Mixed(lp.Conformal(), lp.Euclidean(), 1.5), r"weight=1\.5 must be from 0"),
    ],
)  # fmt: skip
def test_bad_data_metrics(make, words):
    with pytest.raises(ValueError, match=words):
        make()
