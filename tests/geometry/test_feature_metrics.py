"""Fisher and Pullback: closed forms, limits that are known metrics, and who refuses them."""

import math
from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings, strategies as st
from torch import nn

import leastpath as lp

LINE = lp.StraightLine()


def small_net(seed: int = 0, classes: int = 3) -> nn.Sequential:
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        net = nn.Sequential(nn.Linear(2, 16), nn.Tanh(), nn.Linear(16, classes)).double().eval()
    return net.requires_grad_(False)


def linear(weight: torch.Tensor):
    return lambda x: x @ weight.to(x)


def bernoulli_distance(z: float, w: float) -> float:
    """∫ dp / √(p (1 − p)) between two logits."""
    return 2 * abs(math.asin(math.sqrt(1 / (1 + math.exp(-z)))) - math.asin(math.sqrt(1 / (1 + math.exp(-w)))))


@pytest.mark.parametrize(("x", "start"), [([2.0, -1.0], [0.0, 0.0]), ([4.0, 3.0], [-3.0, 1.0])])
def test_logistic_model_against_closed_form(x, start):
    weight = torch.tensor([[1.0, 0.0], [-0.5, 0.0]])
    x, start = (torch.tensor([v], dtype=torch.float64) for v in (x, start))
    logits = [float((v @ weight.double())[0, 0]) for v in (x, start)]
    score = lp.Score(linear(weight), 0)
    result = lp.attribute(score, x, start, method=LINE, metric=lp.Fisher(), tolerance=1e-4)
    assert float(result.length) == pytest.approx(bernoulli_distance(*logits), rel=1e-4)
    assert float(result.certificate) == pytest.approx(1, abs=1e-4)
    single = lp.Score(lambda v: (v @ weight.double())[:, 0])
    same = lp.attribute(single, x, start, method=LINE, metric=lp.Fisher(output="sigmoid"), tolerance=1e-4)
    assert float(same.length) == pytest.approx(bernoulli_distance(*logits), rel=1e-9)


def test_one_class_against_equal_others_is_a_bernoulli_in_closed_form():
    classes = 5  # p of the first class is σ(z − log 4); the others stay equal
    score = lp.Score(lambda x: torch.cat([x[:, :1], torch.zeros_like(x[:, :1]).expand(-1, classes - 1)], 1), 0)
    x, start = torch.tensor([[3.0]], dtype=torch.float64), torch.tensor([[-2.0]], dtype=torch.float64)
    result = lp.attribute(score, x, start, method=LINE, metric=lp.Fisher(), tolerance=1e-4)
    expected = bernoulli_distance(3 - math.log(4), -2 - math.log(4))
    assert float(result.length) == pytest.approx(expected, rel=1e-4)


def test_line_of_a_linear_softmax_against_a_fine_integral():
    """Along x̄ + t δ the squared speed is the variance of Wδ under p(t)."""
    weight = torch.tensor([[2.0, -1.0, 0.5], [0.3, 1.5, -2.0]], dtype=torch.float64)
    step = torch.tensor([[1.5, -2.0]], dtype=torch.float64)
    t = ((torch.arange(20_000) + 0.5) / 20_000).double()[:, None]
    p, slope = (t * step @ weight).softmax(1), step @ weight
    speed = ((p * slope**2).sum(1) - (p * slope).sum(1) ** 2).sqrt()
    result = lp.attribute(lp.Score(linear(weight), 0), step, method=LINE, metric=lp.Fisher(), tolerance=1e-3)
    assert float(result.length) == pytest.approx(float(speed.mean()), rel=1e-3)
    assert float(result.length) <= float(speed.mean()) * (1 + 1e-7)  # chords are never longer than the curve
    assert float(result.certificate) > 1


@pytest.mark.parametrize(
    "solver",
    [
        lp.ElasticBand(stiffness=0, monotone=False, n_knots=12, n_rounds=60),
        lp.NeighborGraph(generate="adaptive", n_points=200, refine=True),
    ],
    ids=["band", "graph"],
)
def test_geodesic_of_a_linear_softmax_has_the_fisher_rao_distance(solver):
    """All predictions can be reached, so the shortest path is the great circle between the two: 2 arccos Σ√(p q)."""
    weight = torch.tensor([[2.0, -1.0, 0.5], [0.3, 1.5, -2.0], [0.2, 0.1, -0.4]], dtype=torch.float64)
    x, start = torch.tensor([[1.0, 2.0, -1.0]]).double(), torch.tensor([[-2.0, -1.0, 0.5]]).double()
    p, q = ((point @ weight).softmax(1) for point in (x, start))
    line, found = (
        lp.attribute(lp.Score(linear(weight), 0), x, start, method=each, metric=lp.Fisher()) for each in (LINE, solver)
    )
    distance = float(2 * torch.arccos((p * q).sqrt().sum()))
    assert float(line.length) > 1.15 * distance
    assert float(found.length) == pytest.approx(distance, rel=3e-3) and float(found.length) >= distance
    assert float(found.certificate) == pytest.approx(float(found.length) / distance, rel=1e-6)


def test_distance_is_symmetric_and_at_most_pi():
    metric, none = lp.Fisher(output="raw"), torch.zeros(1, 1)
    p, q = torch.tensor([[0.2, 0.3, 0.5]]), torch.tensor([[0.6, 0.1, 0.3]])
    a, b = metric.features(p), metric.features(q)
    expected = 2 * torch.arccos((p.double() * q.double()).sqrt().sum(1))
    torch.testing.assert_close(metric.distance(a, b, none), expected)
    torch.testing.assert_close(metric.distance(b, a, none), expected)
    assert float(metric.distance(a, a, none)) == 0


def test_pullback_of_the_identity_is_euclidean():
    x = torch.tensor([[3.0, 4.0], [1.0, 0.0]], dtype=torch.float64)
    score = lp.Score(lambda v: v, 0)
    result = lp.attribute(score, x, method=LINE, metric=lp.Pullback())
    torch.testing.assert_close(result.length, torch.tensor([5.0, 1.0], dtype=torch.float64))
    torch.testing.assert_close(result.certificate, torch.ones(2, dtype=torch.float64))
    points = torch.rand(80, 2, generator=torch.Generator().manual_seed(0)).double() * 3
    graph = lp.NeighborGraph(points, 6)
    mine, plain = (lp.attribute(score, x, method=graph, metric=m) for m in (lp.Pullback(), lp.Euclidean()))
    for b in range(2):
        torch.testing.assert_close(mine.path[b], plain.path[b])


def test_pullback_of_a_linear_map_against_closed_form():
    weight = torch.tensor([[2.0, -1.0, 0.5], [0.3, 1.5, -2.0]], dtype=torch.float64)
    knots = torch.tensor([[[0.0, 0.0], [1.0, -1.0], [2.0, 2.0]]], dtype=torch.float64)
    integral = lp.integrate(lp.Score(linear(weight), 1), lp.Path.polyline(knots), lp.Pullback())
    expected = torch.linalg.vector_norm(knots.diff(dim=1) @ weight, dim=2).sum(1)
    torch.testing.assert_close(integral.length, expected)


def test_layer_is_read():
    net = small_net()
    x = torch.tensor([[1.0, -1.0]], dtype=torch.float64)
    line = lp.attribute(lp.Score(net, 0), x, method=LINE, metric=lp.Pullback(layer=net[0]))
    torch.testing.assert_close(line.length, torch.linalg.vector_norm(x @ net[0].weight.T, dim=1))


def test_explained_layer_is_euclidean():
    net = small_net()
    score = lp.Score(net, 0, layer=net[0])
    result = lp.attribute(score, torch.ones(1, 2).double(), method=LINE, metric=lp.Pullback(layer=net[0]))
    torch.testing.assert_close(result.length, torch.linalg.vector_norm(net[0].weight.sum(1)).reshape(1))


def test_large_damping_gives_straight_lines():
    net, x = small_net(), torch.tensor([[1.5, -1.5]], dtype=torch.float64)
    band = lp.ElasticBand(stiffness=0, monotone=False)
    for metric in (lp.Fisher, lp.Pullback):
        result = lp.attribute(lp.Score(net, 0), x, method=band, metric=metric(1e8))
        share = result.path.resample(9)[0] @ x[0] / (x[0] @ x[0])
        away = result.path.resample(9)[0] - share[:, None] * x
        assert float(away.abs().max()) < 1e-3
        assert float(result.length) == pytest.approx(1e4 * float(x.norm()), rel=1e-4)


@pytest.mark.parametrize("metric", [lp.Fisher(), lp.Pullback()], ids=["fisher", "pullback"])
@pytest.mark.parametrize(
    "solver",
    [lp.ElasticBand(stiffness=0.1, n_rounds=10), lp.NeighborGraph(generate="adaptive", n_points=60, refine=True)],
    ids=["band", "graph"],
)
def test_solvers_shorten(solver, metric):
    """Two curved ridges: the line is not shortest, and no path is shorter than the distance of its ends."""
    score = lp.Score(lambda x: torch.stack([8 * (x[:, 1] - x[:, 0] ** 2), 4 * x[:, 0], 0 * x[:, 0]], 1), 1)
    x, start = torch.tensor([[1.0, 1.0]]).double(), torch.tensor([[-1.0, 1.0]]).double()
    if isinstance(solver, lp.ElasticBand):
        solver = replace(solver, monotone=False)
    result = lp.attribute(score, x, start, method=solver, metric=metric)
    assert float(result.length_ratio) < 0.95
    assert float(result.certificate) >= 1
    assert result.status[0].ok or "support" in result.status[0].value.lower()


@settings(max_examples=10, deadline=None)
@given(st.integers(0, 1000))
def test_length_is_never_below_the_distance_of_the_predictions(seed):
    net, knots = small_net(seed), torch.randn(1, 4, 2, generator=torch.Generator().manual_seed(seed)).double()
    path = lp.Path.polyline(knots)
    integral = lp.integrate(lp.Score(net, 0), path, lp.Fisher(), measure="length")
    p, q = (net(end).softmax(1) for end in (path.start, path.end))
    assert float(integral.length) >= float(2 * torch.arccos((p * q).sqrt().sum().clamp_max(1))) - 1e-6


def test_batch_equals_loop():
    net, x = small_net(), torch.randn(3, 2, generator=torch.Generator().manual_seed(1)).double()
    solver = lp.ElasticBand(stiffness=0.1)
    together = lp.attribute(lp.Score(net, 0), x, method=solver, metric=lp.Fisher())
    alone = [lp.attribute(lp.Score(net, 0), x[b : b + 1], method=solver, metric=lp.Fisher()) for b in range(3)]
    torch.testing.assert_close(together.length, torch.cat([r.length for r in alone]), rtol=1e-6, atol=1e-9)
    torch.testing.assert_close(together.values, torch.cat([r.values for r in alone]), rtol=1e-6, atol=1e-9)


def test_geometry_of_another_score_is_served():
    net, x = small_net(), torch.tensor([[1.0, -1.0]]).double()
    result = lp.attribute(
        lp.Score(net, 0, "softmax"), x, method=lp.ElasticBand(), metric=lp.Fisher(), geometry="logit_margin"
    )
    assert math.isfinite(float(result.length)) and "logit_margin" in result.geometry


def test_built_graph_knows_its_metric_and_its_model():
    net, x = small_net(), torch.ones(1, 2).double()
    points = torch.rand(40, 2, generator=torch.Generator().manual_seed(0)).double()
    graph = lp.NeighborGraph(points, 5).build(lp.Score(net, 0), lp.Fisher())
    assert float(lp.attribute(lp.Score(net, 0), x, method=graph, metric=lp.Fisher()).length) > 0
    with pytest.raises(ValueError, match="built for Fisher"):
        lp.attribute(lp.Score(net, 0), x, method=graph, metric=lp.Pullback())
    with pytest.raises(ValueError, match="built for another score"):
        lp.attribute(lp.Score(small_net(7), 0), x, method=graph, metric=lp.Fisher())


@pytest.mark.parametrize("solver", [lp.Descent(), lp.GeodesicODE()], ids=["descent", "ode"])
def test_solvers_that_cannot_take_them_refuse(solver):
    with pytest.raises(ValueError, match=r"no speed at a point|geodesic equations of Conformal"):
        lp.attribute(lp.Score(small_net(), 0), torch.ones(1, 2).double(), method=solver, metric=lp.Fisher())


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: lp.Fisher(output="logits"), "is unknown: use one of"),
        (lambda: lp.Fisher(-1.0), "damping=-1.0 must be"),
        (lambda: lp.Pullback(layer="conv1"), "expected a part of the model"),
        (lambda: lp.Pullback(outputs="raw"), "is unknown: use one of"),
        (lambda: lp.Mixed(lp.Fisher(), lp.Euclidean()), "has no speed at a point, which Mixed needs"),
    ],
)
def test_mistakes_are_sentences(make, sentence):
    with pytest.raises(ValueError, match=sentence):
        make()


@pytest.mark.parametrize(
    ("model", "metric", "sentence"),
    [
        (lambda x: x[:, 0], lp.Fisher(), r'use Fisher\(output="sigmoid"\)'),
        (lambda x: x, lp.Fisher(output="raw"), "needs probabilities that add up to 1"),
        (lambda x: x, lp.Pullback(layer=nn.Linear(2, 2)), "must be a part of the model"),
    ],
)
def test_models_that_do_not_fit_are_refused(model, metric, sentence):
    with pytest.raises(ValueError, match=sentence):
        target = None if model(torch.ones(1, 2)).ndim == 1 else 0
        lp.attribute(lp.Score(model, target), 3 * torch.ones(1, 2), method=LINE, metric=metric)
