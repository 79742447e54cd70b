"""Quadrature rules as data, and quadrature on pieces of segments."""

import math
from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given, strategies as st
from torch import Tensor

import leastpath as lp
from helpers import Counted, Polyline, flat_points, mlp
from leastpath import integrate
from leastpath.integral.pieces import RULES, Estimate, Pieces, WholePathWeighting, chords, quadrature, rule_nodes


def pieces_of(points, t0, t1):
    n = len(points) // 2
    ends = torch.arange(n), torch.arange(n, 2 * n)
    return Pieces(points, *ends, torch.arange(n), torch.as_tensor(t0).double(), torch.as_tensor(t1).double())


@pytest.mark.parametrize("batch_size", [1, 2, 5, 100])
@pytest.mark.parametrize("metric", [lp.Conformal(), lp.RankOne(), lp.NoCancellation(), lp.Euclidean()])
def test_pieces_against_brute_force(batch_size, metric):
    """One loop over pieces and nodes, with the gradient of each point taken by itself."""
    points, n, t0, t1 = flat_points(6, 4, dtype=torch.float64), 3, np.array([0.0, 0.2, 0.5]), np.array([1.0, 0.7, 0.6])
    model = mlp().double()
    targets = torch.tensor([0, 1, 2])
    counted = Counted(model)
    score = lp.Score(counted, targets, "softmax", batch_size=batch_size).bind(points[3:])
    estimate = quadrature(score, pieces_of(points, t0, t1), metric, "gauss_legendre", n)
    nodes, weights = rule_nodes("gauss_legendre", n, points)
    for b in range(3):
        step, values = points[3 + b] - points[b], []
        attribution, length = torch.zeros(4, dtype=torch.float64), 0.0
        for t, w in zip(nodes, weights, strict=True):
            x = (points[b] + (t0[b] + t * (t1[b] - t0[b])) * step).requires_grad_()
            f = model(x[None]).softmax(1)[0, targets[b]]
            (g,) = torch.autograd.grad(f, x)
            attribution += w * g * step * (t1[b] - t0[b])
            length += float(w * metric.speed(x[None].detach(), g[None], step[None]) * (t1[b] - t0[b]))
            values.append(float(f.detach()))
        torch.testing.assert_close(estimate.attributions[b], attribution)
        assert float(estimate.length[b]) == pytest.approx(length)
        assert (float(estimate.low[b]), float(estimate.high[b])) == pytest.approx((min(values), max(values)))
    assert counted.gradient_rows == 3 * n and counted.largest <= batch_size


def test_no_pieces_cost_nothing():
    counted = Counted(mlp())
    score = lp.Score(counted, 0).bind(flat_points(1, 4))
    nothing = pieces_of(flat_points(2, 4), [0.0], [1.0]).take(torch.arange(0))
    estimate = quadrature(score, nothing, lp.Conformal(), "midpoint", 3)
    assert estimate.attributions.shape == (0, 4) and len(estimate.length) == 0 and counted.gradient_rows == 0


def test_pieces_meet_their_knots_exactly():
    points = flat_points(2, 3)
    pieces = pieces_of(points, [0.0], [1.0])
    assert torch.equal(pieces.at(torch.zeros(1), torch.float32)[0], points[0])
    assert torch.equal(pieces.at(torch.ones(1), torch.float32)[0], points[1])


def test_join_keeps_the_order():
    parts = [Estimate(torch.full((n, 2), n), *(torch.full((n,), float(n)) for _ in range(3))) for n in (1, 2)]
    assert Estimate.join(parts).length.tolist() == [1, 2, 2]


def test_chords_rise_to_the_length_of_an_arc():
    """φ turns by a quarter circle: n chords have length 2 n sin(π / 4n), below π/2."""
    score = lp.Score(lambda x: torch.cat([torch.cos(x), torch.sin(x)], 1), 0).bind(torch.zeros(1, 1).double())
    points = torch.tensor([[0.0], [math.pi / 2]], dtype=torch.float64)
    for n in (1, 2, 5):
        found = chords(score, pieces_of(points, [0.0], [1.0]), lp.Pullback(), n)
        assert float(found[0]) == pytest.approx(2 * n * math.sin(math.pi / (4 * n)))


# ---- rules ---------------------------------------------------------------------------------------------------------

# The degree up to which n nodes integrate polynomials exactly.
DEGREE = {"midpoint": lambda n: 1, "trapezoid": lambda n: 1, "gauss_legendre": lambda n: 2 * n - 1}


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("n", [1, 2, 3, 10, 51])
def test_weights_sum_to_one_and_nodes_lie_inside(rule, n):
    nodes, weights = rule_nodes(rule, n, torch.zeros(1, dtype=torch.float64))
    assert nodes.shape == weights.shape == (n,)
    assert float(weights.sum()) == pytest.approx(1, abs=1e-14)
    assert (weights > 0).all() and nodes.min() >= 0 and nodes.max() <= 1 and (nodes.diff() > 0).all()


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("n", [1, 2, 3, 5, 8])
def test_exact_for_polynomials_up_to_the_degree(rule, n):
    nodes, weights = rule_nodes(rule, n, torch.zeros(1, dtype=torch.float64))
    for power in range(DEGREE[rule](n) + 1):
        assert float((weights * nodes**power).sum()) == pytest.approx(1 / (power + 1), abs=1e-13)
    beyond = DEGREE[rule](n) + 1  # and not beyond: the degree is what it is said to be
    if n < 6:
        assert abs(float((weights * nodes**beyond).sum()) - 1 / (beyond + 1)) > 1e-7


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_nodes_have_the_dtype_of_the_inputs(rule, dtype):
    nodes, weights = rule_nodes(rule, 4, torch.zeros(1, dtype=dtype))
    assert nodes.dtype == weights.dtype == dtype


def test_nodes_asked_for_in_inference_mode_serve_a_derivative_later():
    with torch.inference_mode():
        rule_nodes("midpoint", 77, torch.zeros(1))
    _, weights = rule_nodes("midpoint", 77, torch.zeros(1))
    speeds = torch.ones(77, requires_grad=True)
    (speeds @ weights).backward()
    torch.testing.assert_close(speeds.grad, weights)


# ---- weightings against their closed forms and, on bent paths, against fine sums of their definition -----------------


FIXED = {"tolerance": None, "n_steps": 40}


WEIGHTINGS = [lp.IDGI(), lp.IDG(), lp.AsPrinted(), lp.AsPrinted("length")]


def linear(weight: Tensor) -> lp.Score:
    return lp.Score(lambda x: (x * weight).sum(1))


def attributed(score: lp.Score, x: Tensor, weighting, solver=None, **settings) -> Tensor:
    solver = solver or lp.StraightLine()
    settings = settings or FIXED
    return lp.attribute(score, x, 0.0, method=solver, weighting=weighting, **settings).values


def test_linear_scores_in_closed_form():
    w, x = flat_points(1, 5, 1, torch.float64)[0], flat_points(3, 5, 2, torch.float64)
    change = x @ w
    torch.testing.assert_close(attributed(linear(w), x, lp.IDGI()), change[:, None] * w**2 / (w @ w))
    torch.testing.assert_close(attributed(linear(w), x, lp.IDG()), change[:, None] * w * x)
    torch.testing.assert_close(attributed(linear(w), x, lp.AsPrinted()), w * x)
    torch.testing.assert_close(attributed(linear(w), x, lp.AsPrinted("length")), w * x * x.norm(dim=1, keepdim=True))


def test_idg_of_a_square_in_closed_form():
    # f = x₀² + x₁ on the line α(a, b): ∂₀f = 2αa, df/dα = 2αa² + b, so value 0 is ∫ 2αa²(2αa² + b) = 4a⁴/3 + a²b.
    a, b = 1.5, -0.7
    score = lp.Score(lambda x: x[:, 0] ** 2 + x[:, 1])
    values = attributed(score, torch.tensor([[a, b]], dtype=torch.float64), lp.IDG(), tolerance=None, n_steps=1000)
    expected = torch.tensor([4 * a**4 / 3 + a**2 * b, b * (a**2 + b)]).double()
    torch.testing.assert_close(values[0], expected, atol=1e-5, rtol=0)


def test_idgi_of_a_square_in_closed_form():
    # f = x₀²/2 + x₁, line to (1, 1): g = (α, 1), g·γ̇ = α + 1; value 1 is ∫ (1 + α)/(1 + α²) = π/4 + ln 2 / 2.
    score = lp.Score(lambda x: x[:, 0] ** 2 / 2 + x[:, 1])
    values = attributed(score, torch.ones(1, 2).double(), lp.IDGI(), tolerance=1e-6)
    expected = torch.pi / 4 + torch.log(torch.tensor(2.0)) / 2
    torch.testing.assert_close(values[0], torch.stack([1.5 - expected, expected]).double(), atol=1e-6, rtol=0)


def riemann(score: lp.Score, knots: Tensor, weighting, n: int = 4000) -> Tensor:
    """The definition along one polyline (knots, features), by midpoints."""
    total, length = torch.zeros_like(knots[0]), knots.diff(dim=0).norm(dim=1).sum()
    for a, b in pairwise(knots):
        t = (torch.arange(n).double()[:, None] + 0.5) / n
        points = (a + t * (b - a)).requires_grad_()
        (g,) = torch.autograd.grad(score.model(points).sum(), points)
        along, step = g @ (b - a), b - a
        if isinstance(weighting, lp.IDGI):
            total += (along[:, None] * g**2 / (g**2).sum(1, keepdim=True)).mean(0)
        elif isinstance(weighting, lp.IDG):
            total += (g * step * along[:, None]).mean(0) * length / step.norm()
        else:
            size = step.norm() if weighting.by == "length" else 1
            total += g.mean(0) * size * (knots[-1] - knots[0])
    return total


@pytest.mark.parametrize("weighting", WEIGHTINGS, ids=repr)
def test_bent_paths_against_fine_sums_of_the_definition(weighting):
    model = mlp(3, 1).double()
    score, x = lp.Score(lambda x: model(x)[:, 0]), flat_points(1, 3, 2, torch.float64)
    result = lp.attribute(score, x, 0.0, method=Polyline(0.7, -0.4), weighting=weighting, tolerance=None, n_steps=400)
    torch.testing.assert_close(result.values[0], riemann(score, result.path[0], weighting), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("weighting", WEIGHTINGS, ids=repr)
def test_batch_equals_loop_also_on_a_shared_graph(weighting):
    # Routes of a graph share segments and walk some of them backwards.
    model, x = mlp(2, 1).double(), flat_points(4, 2, 5, torch.float64)
    score, solver = lp.Score(lambda x: model(x)[:, 0]), lp.NeighborGraph(flat_points(40, 2, 6, torch.float64), 5)
    batch = attributed(score, x, weighting, solver, tolerance=None, n_steps=400)
    for b in range(4):
        alone = attributed(score, x[b : b + 1], weighting, solver, tolerance=None, n_steps=400)
        torch.testing.assert_close(batch[b], alone[0], atol=1e-5, rtol=1e-4)


def test_a_segment_walked_backwards_counts_as_its_definition_says():
    points = torch.tensor([[0.0, 0.0], [1.0, 0.5], [2.0, -1.0]]).double()
    there_and_back = lp.Path(points, torch.tensor([0, 1, 2, 1]), torch.tensor([0, 4]))
    model = mlp(2, 1).double()
    score = lp.Score(lambda x: model(x)[:, 0])
    for weighting in WEIGHTINGS:
        values = integrate(score, there_and_back, tolerance=None, n_steps=400, weighting=weighting).values
        torch.testing.assert_close(values[0], riemann(score, there_and_back[0], weighting), atol=1e-5, rtol=1e-5)


def test_idg_needs_fewer_steps_than_uniform_ones_where_the_score_is_a_cliff():
    score = lp.Score(lambda x: torch.sigmoid(200 * (x[:, 0] - 0.731)) + 0 * x[:, 1])
    x = torch.ones(1, 2).double()
    exact = float(attributed(score, x, lp.IDG(), tolerance=None, n_steps=5000)[0, 0])
    adaptive = float(attributed(score, x, lp.IDG(), tolerance=None, n_steps=48)[0, 0])
    uniform = float(
        attributed(score, x, lp.IDG(follows_score=False), tolerance=None, n_steps=48, rule="midpoint")[0, 0]
    )
    assert abs(adaptive - exact) < 0.02 * abs(exact) < 0.1 * abs(exact) < abs(uniform - exact)


def test_idg_spends_exactly_its_steps():
    result = lp.attribute(
        lp.Score(mlp(), torch.tensor([0, 2, 1])),
        flat_points(3, 4),
        method=lp.StraightLine(),
        weighting=lp.IDG(),
        support=False,
        **FIXED,
    )
    assert result.n_gradients.tolist() == [40, 40, 40]
    assert result.n_forwards[2] == 2 + 9  # both ends, and the inner ends of ten intervals


@given(st.integers(0, 10_000))
def test_idgi_is_complete_and_cancels_nothing_where_the_score_is_monotone(seed):
    w, x = flat_points(1, 4, seed, torch.float64)[0], flat_points(1, 4, seed + 1, torch.float64)
    score = lp.Score(lambda x: torch.tanh(x @ w))
    result = lp.attribute(score, x, 0.0, method=lp.StraightLine(), weighting=lp.IDGI(), tolerance=1e-3)
    assert abs(float(result.completeness_gap)) <= 1e-3 * abs(float(result.score_change)) + 1e-12
    assert float(result.cancellation) <= abs(float(result.completeness_gap)) + 1e-12


def test_idgi_of_a_flat_score_is_zero():
    result = lp.attribute(
        lp.Score(lambda x: 0 * x.sum(1)), torch.ones(1, 3), method=lp.StraightLine(), weighting=lp.IDGI()
    )
    assert not result.values.any()


def test_those_that_are_not_complete_refuse_a_tolerance():
    for weighting in (lp.IDG(), lp.AsPrinted()):
        assert isinstance(weighting, WholePathWeighting)
        with pytest.raises(
            ValueError, match=r"is not complete, so its error cannot be controlled: pass tolerance=None"
        ):
            attributed(linear(torch.ones(2)), torch.ones(1, 2), weighting, tolerance=0.01)
    assert not isinstance(lp.IDGI(), WholePathWeighting)
    with pytest.raises(ValueError, match="by='knot' is unknown"):
        lp.AsPrinted(by="knot")


def test_the_line_that_replaces_a_longer_path_has_the_weighting_too():
    class Longer:
        def solve(self, score, metric, start, end, run):
            bent = Polyline(3.0).solve(score, metric, start, end, run)
            return lp.Solution(bent.path, never_longer=True)

    w, x = flat_points(1, 4, 1, torch.float64)[0], flat_points(2, 4, 2, torch.float64)
    values = attributed(linear(w), x, lp.IDGI(), Longer())
    torch.testing.assert_close(values, (x @ w)[:, None] * w**2 / (w @ w))


def test_path_integral_is_a_complete_weighting():
    assert lp.PathIntegral().complete and isinstance(hash(lp.PathIntegral()), int)
