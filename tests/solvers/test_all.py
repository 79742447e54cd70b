"""What holds for every solver: each invariant is parametrised over helpers.ALL_SOLVERS."""

import dataclasses

import pytest
import torch

import leastpath as lp
from helpers import ALL_SOLVERS, Counted, flat_points, mlp, moons_net, separable, separable_parts
from leastpath import Outcome, Run

pytestmark = pytest.mark.parametrize("solver", ALL_SOLVERS)
METRICS = [lp.Conformal(), lp.RankOne(), lp.NoCancellation(), lp.Euclidean()]
X, BASE = flat_points(5), flat_points(5, 2, 1)


def explain(solver, score, inputs=X, baselines=BASE, **settings):
    return lp.attribute(score, inputs, baselines, solver=solver, **settings)


def test_is_a_frozen_dataclass_with_one_method(solver):
    assert isinstance(solver, lp.Solver) and dataclasses.is_dataclass(solver)
    assert type(solver).__dataclass_params__.frozen
    assert repr(solver).startswith(type(solver).__name__)


@pytest.mark.parametrize("metric", METRICS, ids=repr)
def test_separable_score_against_closed_form(solver, metric):
    x, base = X.double(), BASE.double()
    result = explain(solver, lp.Score(separable), x, base, metric=metric, tolerance=1e-4)
    expected = separable_parts(x) - separable_parts(base)
    # Σ|error| to the tolerance, relative to the path: a detour of some length has that much more to err on.
    scale = expected.abs().sum(1) + result.length * (metric.bounds_score is True)
    assert ((result.values - expected).abs().sum(1) <= 1e-3 * scale).all()


def test_linear_model_against_closed_form(solver):
    w = torch.tensor([1.5, -0.7])
    result = explain(solver, lp.Score(lambda x: (x * w).sum(1)))
    torch.testing.assert_close(result.values, w * (X - BASE), rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("metric", METRICS, ids=repr)
def test_ends_are_exactly_fixed(solver, metric):
    result = explain(solver, lp.Score(moons_net(), 1, "softmax"), metric=metric)
    assert torch.equal(result.path.start.to(BASE), BASE) and torch.equal(result.path.end.to(X), X)
    assert result.path.points.isfinite().all()


def test_same_seed_same_path_and_no_global_seeds(solver):
    score = lp.Score(moons_net(), 1, "softmax")
    before = torch.get_rng_state()
    first = explain(solver, score, seed=3)
    assert torch.equal(before, torch.get_rng_state())
    torch.rand(7)
    second = explain(solver, score, seed=3)
    assert torch.equal(first.path.points, second.path.points) and torch.equal(first.path.route, second.path.route)
    assert torch.equal(first.values, second.values)


def test_batch_equals_loop(solver):
    targets, score = torch.tensor([0, 1, 1, 0, 1]), lp.Score
    together = explain(solver, score(moons_net(), targets, "softmax"))
    for b in range(5):
        alone = explain(solver, score(moons_net(), int(targets[b]), "softmax"), X[b : b + 1], BASE[b : b + 1])
        torch.testing.assert_close(together.path[b], alone.path[0], rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(together.values[b], alone.values[0], rtol=1e-2, atol=1e-3)
        torch.testing.assert_close(together.length[b], alone.length[0], rtol=1e-2, atol=1e-3)


def test_batch_size_changes_nothing(solver):
    results = [explain(solver, lp.Score(moons_net(), 1, "softmax", batch_size=n)) for n in (3, 1000)]
    torch.testing.assert_close(results[0].path.points, results[1].path.points, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(results[0].values, results[1].values, rtol=1e-2, atol=1e-3)


@pytest.mark.parametrize("metric", METRICS, ids=repr)
def test_result_is_complete_and_certified(solver, metric):
    result = explain(solver, lp.Score(moons_net(), 1, "softmax"), metric=metric, tolerance=0.01)
    for b, status in enumerate(result.status):
        if Outcome.REACHED in status:
            allowed = 0.01 * max(float(result.score_change[b].abs()), 0.01)
            assert float(result.completeness_gap[b].abs()) <= allowed + 1e-5
    assert (result.cancellation >= -result.completeness_gap.abs() - 1e-6).all()
    assert (result.certificate >= 1).all() or not metric.bounds_score
    assert (result.length >= 0).all() and (result.length_error >= 0).all()


@pytest.mark.parametrize("metric", METRICS, ids=repr)
def test_longer_than_the_line_only_with_a_mark(solver, metric):
    result = explain(solver, lp.Score(moons_net(), 1, "softmax"), metric=metric)
    for ratio, status in zip(result.length_ratio.tolist(), result.status, strict=True):
        assert ratio <= 1.01 or Outcome.LONGER_THAN_LINE in status


def test_solver_gradients_are_the_rows_differentiated_while_solving(solver):
    model = Counted(moons_net())
    bound = lp.Score(model, 1, "softmax").bind(X)
    solver.solve(bound, lp.Conformal(), *bound.ends(BASE), Run(0, None, False))
    spent = explain(solver, lp.Score(moons_net(), 1, "softmax")).stats["solver_gradients"]
    assert spent.dtype == torch.int64 and int(spent.sum()) == model.gradient_rows


def test_n_gradients_are_the_rows_that_the_model_differentiated(solver):
    model = Counted(moons_net())
    result = explain(solver, lp.Score(model, torch.tensor([0, 1, 1, 0, 1]), "softmax", batch_size=16))
    assert int(result.n_gradients.sum()) == model.gradient_rows and model.largest <= 16


def test_budget_is_respected(solver):
    model = Counted(moons_net())
    result = explain(solver, lp.Score(model, 1, "softmax"), max_gradients=60)
    assert (result.n_gradients <= 60).all() and model.gradient_rows <= 5 * 60
    assert all(status.value for status in result.status)


@pytest.mark.parametrize("fixed", [False, True], ids=["tolerance", "fixed steps"])
@pytest.mark.parametrize("budget", [60, 250, 1000, 4000])
def test_budget_is_respected_by_a_steep_score(solver, budget, fixed):
    """What looked cheap is dear here: edges want more steps, and the straight line has to be paid for too."""
    model = Counted(lambda x: torch.sigmoid(200 * (x[:, 0] - x[:, 1] ** 2)))
    steps = {"tolerance": None, "n_steps": min(budget, 50)} if fixed else {}
    result = explain(solver, lp.Score(model), max_gradients=budget, **steps)
    assert (result.n_gradients <= budget).all() and int(result.n_gradients.sum()) == model.gradient_rows
    known = result.length_ratio.isfinite()
    assert all(k or Outcome.BUDGET_SPENT in s for k, s in zip(known, result.status, strict=True))


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_dtype_is_kept(solver, dtype):
    x, base = X.to(dtype), BASE.to(dtype)
    result = explain(solver, lp.Score(mlp(2).to(dtype), 1), x, base)
    assert result.values.dtype == dtype
    assert torch.equal(result.path.start.to(base), base) and torch.equal(result.path.end.to(x), x)


def test_model_is_left_untouched(solver):
    model = mlp(2)
    model(X).sum().backward()
    before = {name: p.clone() for name, p in model.state_dict().items()}
    grads = [p.grad.clone() for p in model.parameters()]
    explain(solver, lp.Score(model, 1))
    assert all(torch.equal(p, before[name]) for name, p in model.state_dict().items())
    assert all(torch.equal(p.grad, g) for p, g in zip(model.parameters(), grads, strict=True))
    assert not any(m._forward_hooks for m in model.modules()) and not model.training


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_ambient_gradient_mode_changes_nothing(solver, mode):
    score = lp.Score(mlp(2), 1)
    expected = explain(solver, score).values
    with mode():
        torch.testing.assert_close(explain(solver, score).values, expected, rtol=1e-4, atol=1e-5)


def test_input_at_its_baseline_gets_zeros_and_says_so(solver):
    result = explain(solver, lp.Score(mlp(2), 1), X, X)
    torch.testing.assert_close(result.values, torch.zeros_like(X), rtol=0, atol=1e-4)
    assert torch.equal(result.path.start.to(X), X) and not any(s.ok for s in result.status)


def test_several_baselines(solver):
    base = flat_points(10, 2, 1).view(5, 2, 2)
    result = explain(solver, lp.Score(moons_net(), 1, "softmax"), X, base)
    singles = [explain(solver, lp.Score(moons_net(), 1, "softmax"), X, base[:, j]).values for j in range(2)]
    torch.testing.assert_close(result.values, (singles[0] + singles[1]) / 2, rtol=1e-2, atol=1e-3)
    assert result.baseline_spread.shape == X.shape


def test_two_implementations_of_one_function_get_equal_attributions(solver):
    model = mlp(2).double()

    def other(x):
        for layer in model:
            x = x @ layer.weight.T + layer.bias if hasattr(layer, "weight") else 1 - 2 / (torch.exp(2 * x) + 1)
        return x

    a, b = (explain(solver, lp.Score(f, 1), X.double(), BASE.double(), tolerance=1e-3).values for f in (model, other))
    torch.testing.assert_close(a, b, rtol=1e-3, atol=1e-4)
