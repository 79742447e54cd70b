"""The paper's energy: its terms against hand-made ones, its force against double back-propagation."""

import pytest
import torch
from torch import nn

import leastpath as lp
from helpers import cnn, flat_points, mlp
from leastpath import Run
from leastpath.solvers.energy.energy import GradientNorm, PathEnergy, polylines, solver_budget


def energy_of(score, start, end, **settings) -> PathEnergy:
    bound = score.bind(end)
    solver = lp.Variational(**settings)
    return PathEnergy.of(bound, torch.arange(len(end)), start, end, solver.n_points, solver)


def test_the_slope_of_the_gradient_norm_agrees_with_double_backpropagation():
    model, points = mlp(4).double(), flat_points(6, 4, dtype=torch.float64)
    bound = lp.Score(model, 1, "log_softmax").bind(points)
    x = points.clone().requires_grad_()
    GradientNorm.apply(x, bound, torch.arange(6), torch.full((6,), 1e-6, dtype=torch.float64)).sum().backward()
    y = points.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(model(y).log_softmax(1)[:, 1].sum(), y, create_graph=True)
    gradient.norm(dim=1).sum().backward()
    torch.testing.assert_close(x.grad, y.grad, rtol=1e-4, atol=1e-5)


def test_the_slope_sees_the_kink_of_a_relu_where_double_backpropagation_is_blind():
    bound = lp.Score(lambda x: torch.relu(x[:, 0] - 1) + x[:, 0]).bind(torch.zeros(1, 2))
    x = torch.tensor([[0.95, 0.0]], requires_grad=True)
    GradientNorm.apply(x, bound, torch.arange(1), torch.tensor([0.1])).sum().backward()
    assert x.grad[0, 0] > 1


def test_the_norm_alone_costs_one_gradient_and_with_its_slope_two():
    bound = lp.Score(mlp(4), 1).bind(torch.zeros(3, 4))
    step = torch.full((3,), 0.1)
    GradientNorm.apply(torch.zeros(3, 4), bound, torch.arange(3), step)
    assert bound.gradients_spent.tolist() == [1, 1, 1]
    GradientNorm.apply(torch.zeros(3, 4, requires_grad=True), bound, torch.arange(3), step)
    assert bound.gradients_spent.tolist() == [3, 3, 3]


@pytest.mark.parametrize("shape", [(4,), (2, 6, 6)])
def test_energy_against_its_definition_over_all_features(shape):
    model = mlp(4) if len(shape) == 1 else cnn()
    score = lp.Score(model.double(), torch.tensor([0, 2]), "log_softmax")
    end = torch.randn(2, *shape, dtype=torch.float64)
    energy = energy_of(score, torch.zeros_like(end), end, n_points=5, beta_scale=0.3, endpoint_weight=7.0)
    deviation = torch.randn(2, 5, *shape, dtype=torch.float64)
    for b, target in enumerate([0, 2]):
        x = energy.knots(deviation)[b].requires_grad_()
        (gradient,) = torch.autograd.grad(model(x).log_softmax(1)[:, target].sum(), x)
        line = energy.line[b].clone().requires_grad_()
        (on_line,) = torch.autograd.grad(model(line).log_softmax(1)[:, target].sum(), line)
        beta = 0.3 * on_line.flatten(1).norm(dim=1).mean()
        distance = (x - line).flatten(1).norm(dim=1)
        weights = torch.tensor([8.0, 1, 1, 1, 8]).double()
        expected = (weights * distance).sum() + beta * gradient.flatten(1).norm(dim=1).sum()
        torch.testing.assert_close(energy.energy(deviation)[b], expected.detach())


def test_the_sign_turns_the_gradient_term_around_and_as_printed_also_sets_the_temperature():
    score, end = lp.Score(mlp(4), 1), flat_points(2, 4)
    away, toward, printed = (
        energy_of(score, torch.zeros(2, 4), end, n_points=3, **kw)
        for kw in ({}, {"sign": "toward"}, {"as_printed": True})
    )
    zero = torch.zeros(2, 3, 4)
    torch.testing.assert_close(away.energy(zero), -toward.energy(zero))
    torch.testing.assert_close(printed.energy(zero), toward.energy(zero))
    assert (printed.temperature == 1).all()
    torch.testing.assert_close(away.temperature, 0.3 * end.norm(dim=1) / 4)


def test_relative_deviations_do_not_depend_on_the_scale_of_the_inputs():
    score, end, deviation = lp.Score(lambda x: x[:, 0]), flat_points(2, 4), flat_points(6, 4).view(2, 3, 4)
    small, large = (energy_of(score, torch.zeros(2, 4), s * end, n_points=3, beta=0.0) for s in (1, 10))
    torch.testing.assert_close(10 * small.knots(deviation), large.knots(deviation))
    torch.testing.assert_close(small.reduce(deviation), large.reduce(deviation))


def test_coinciding_ends_give_a_finite_energy_that_cannot_move():
    energy = energy_of(lp.Score(mlp(4), 1), torch.ones(1, 4), torch.ones(1, 4), n_points=3)
    deviation = torch.randn(1, 3, 4)
    assert torch.isfinite(energy.reduce(deviation)).all()
    assert torch.equal(energy.knots(deviation), torch.ones(1, 3, 4))


def test_polylines_keep_their_ends_exactly_and_failed_examples_straight():
    start, end, knots = flat_points(2), flat_points(2, seed=1), torch.zeros(2, 3, 2, dtype=torch.float64)
    path = polylines(start, knots, end, torch.tensor([True, False]))
    assert path.n_knots.tolist() == [5, 2]
    assert torch.equal(path.start, start) and torch.equal(path.end, end)


def test_a_budget_leaves_enough_for_the_integrals():
    bound = lp.Score(mlp(4), 1).bind(torch.ones(1, 4))
    expected = {None: (float("inf"), 8), 100_000: (100_000 - 18 * 153, 8), 1_000: (1_000 - 306, 0), 100: (50, 0)}
    for max_gradients, answer in expected.items():
        budget, n_samples = solver_budget(Run(max_gradients=max_gradients).budget(bound), 50, 8)
        assert (budget.least_left(), n_samples) == answer


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"n_points": 0}, "at least one knot"),
        ({"sign": "up"}, "sign='up' is unknown"),
        ({"beta": -1.0}, "beta=-1.0 must be at least 0"),
        ({"spread": 0.0}, "spread=0.0 must be positive"),
    ],
)
def test_settings_that_make_no_energy_are_refused(settings, words):
    for solver in (lp.Variational, lp.Hamiltonian):
        with pytest.raises(ValueError, match=words):
            solver(**settings)


def test_a_model_without_a_slope_pushes_nowhere():
    energy = energy_of(lp.Score(nn.Linear(4, 2), 0), torch.zeros(1, 4), torch.ones(1, 4), n_points=3)
    deviation = torch.zeros(1, 3, 4, requires_grad=True)
    energy.energy(deviation).sum().backward()
    torch.testing.assert_close(deviation.grad, torch.zeros(1, 3, 4), atol=1e-5, rtol=0)
