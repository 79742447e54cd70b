"""Quadrature rules as data, and quadrature on pieces of segments."""

import math

import numpy as np
import pytest
import torch

import leastpath as lp
from helpers import Counted, flat_points, mlp
from leastpath.integral.pieces import RULES, Estimate, Pieces, chords, quadrature, rule_nodes


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
