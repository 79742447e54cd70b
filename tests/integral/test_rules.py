"""Quadrature rules as data: weights, nodes and the degree up to which they are exact."""

import pytest
import torch

from leastpath.integral.rules import RULES, rule_nodes

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


def test_errors():
    with pytest.raises(ValueError, match="rule='simpson' is unknown: use one of"):
        rule_nodes("simpson", 3, torch.zeros(1))
    with pytest.raises(ValueError, match="a rule needs at least one step, got 0"):
        rule_nodes("midpoint", 0, torch.zeros(1))


def test_nodes_asked_for_in_inference_mode_serve_a_derivative_later():
    with torch.inference_mode():
        rule_nodes("midpoint", 77, torch.zeros(1))
    _, weights = rule_nodes("midpoint", 77, torch.zeros(1))
    speeds = torch.ones(77, requires_grad=True)
    (speeds @ weights).backward()
    torch.testing.assert_close(speeds.grad, weights)
