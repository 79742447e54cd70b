"""What holds for every solver's paths and measurements: each invariant runs on all of helpers.ALL_SOLVERS, which says
what one cannot do. What solvers share with methods, heads and doors is in tests/invariants."""

import dataclasses
from functools import cache

import pytest
import torch
from torch import nn

import leastpath as lp
from helpers import ALL_SOLVERS, Counted, flat_points, mlp, moons_net, separable, separable_parts
from leastpath import Outcome, Run
from leastpath.solvers.solution import chooses_start
from oracles import dense

METRICS = [lp.Conformal(), lp.RankOne(), lp.NoCancellation(), lp.Euclidean()]
X, BASE = flat_points(3), flat_points(3, 2, 1)
TARGETS = torch.tensor([0, 1, 1])


@pytest.fixture(params=ALL_SOLVERS)
def case(request):
    return request.param


def test_every_exported_solver_is_among_them():
    made = {type(solver_of(entry.values[0])) for entry in ALL_SOLVERS}
    exported = {kind for kind in vars(lp.solvers).values() if isinstance(kind, type)}
    assert made == {kind for kind in exported if dataclasses.is_dataclass(kind) and issubclass(kind, lp.Solver)}


def flat(model: nn.Module) -> nn.Module:
    """The model for two features of any shape."""
    return nn.Sequential(nn.Flatten(), model).eval()


MOONS = flat(moons_net())
SCORE = lp.Score(MOONS, 1, "softmax")


def solver_of(case, score=SCORE, metric=METRICS[0], dtype=torch.float32, needs_baselines=False) -> lp.Solver:
    solver = case.solver(score, metric, dtype)
    if needs_baselines and chooses_start(solver):
        pytest.skip("chooses its own start, so it takes no baselines")
    return solver


def explain(case, score, inputs=X, baselines=BASE, metric=METRICS[0], solver=None, **settings) -> lp.Attribution:
    solver = solver or solver_of(case, score, metric, inputs.dtype)
    start = None if chooses_start(solver) else case.shaped(baselines)
    # The test by removal is the same for every solver; tests/removal has its invariants.
    return lp.attribute(score, case.shaped(inputs), start, method=solver, metric=metric, support=False, **settings)


@cache
def found(case, metric=METRICS[0]) -> lp.Attribution:
    """The result that several invariants look at."""
    return explain(case, SCORE, metric=metric)


def ends(result: lp.Attribution) -> tuple[torch.Tensor, torch.Tensor]:
    """Where the paths start and end: (batch, 2) both."""
    return result.path.start.flatten(1), result.path.end.flatten(1)


def test_is_a_frozen_dataclass_with_one_method(case):
    solver = solver_of(case)
    assert isinstance(solver, lp.Solver) and dataclasses.is_dataclass(solver)
    assert type(solver).__dataclass_params__.frozen
    assert repr(solver).startswith(type(solver).__name__)


@pytest.mark.parametrize("metric", METRICS, ids=repr)
def test_separable_score_against_closed_form(case, metric):
    score = lp.Score(lambda x: separable(x.flatten(1)))
    result = explain(case, score, X.double(), BASE.double(), metric, tolerance=1e-4)
    start, end = ends(result)
    expected = separable_parts(end) - separable_parts(start)
    # Σ|error| to the tolerance, relative to the path: a detour of some length has that much more to err on.
    scale = expected.abs().sum(1) + result.length * (metric.bounds_score is True)
    assert ((result.values.flatten(1) - expected).abs().sum(1) <= 1e-3 * scale).all()


def test_linear_model_against_closed_form(case):
    w = torch.tensor([1.5, -0.7])
    result = explain(case, lp.Score(lambda x: (x.flatten(1) * w).sum(1)))
    start, end = ends(result)
    torch.testing.assert_close(result.values.flatten(1), w * (end - start), rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("metric", METRICS, ids=repr)
def test_ends_are_exactly_fixed(case, metric):
    result, own_start = found(case, metric), chooses_start(solver_of(case, metric=metric))
    start, end = ends(result)
    assert torch.equal(end.to(X), X) and (own_start or torch.equal(start.to(BASE), BASE))
    assert result.path.points.isfinite().all()


MOONS_FLOAT64 = flat(moons_net(torch.float64))


def softmax(x: torch.Tensor) -> torch.Tensor:
    """The score of the measurements below, with plain PyTorch: (n, *features) -> (n,)."""
    return MOONS_FLOAT64(x.double()).softmax(1)[:, 1]


@pytest.mark.parametrize("metric", METRICS, ids=repr)
def test_measurements_against_dense_quadrature(case, metric):
    """Attributions, length, certificate, ratio and mark of the path that was found, at a tolerance of 1 %."""
    result = found(case, metric)
    for b, status in enumerate(result.status):
        knots, values = result.path[b], result.values[b].double()
        path, line = dense(softmax, knots, metric), dense(softmax, knots[[0, -1]], metric)
        first, last = softmax(knots[[0, -1]]).tolist()
        change = last - first
        assert Outcome.REACHED in status
        assert abs(float(result.score_change[b]) - change) <= 1e-5
        allowed = 0.01 * max(abs(change), 0.01 * path.spread) + 1e-5
        assert abs(float(values.sum()) - change) <= allowed
        assert float((values - path.values).abs().sum()) <= 0.02 * max(path.length, path.spread) + 1e-4
        cancellation = float(values.abs().sum()) - abs(change)
        torch.testing.assert_close(float(result.cancellation[b]), cancellation, rtol=1e-3, atol=1e-5)
        assert abs(float(result.length[b]) - path.length) <= 0.02 * path.length
        # The line is only compared: to 10 %, or to half of the difference where the two are nearer to each other.
        of_line = 0.03 + min(0.1, max(0.0, 1 - path.length / line.length) / 2)
        torch.testing.assert_close(float(result.length_ratio[b]), path.length / line.length, rtol=of_line, atol=0)
        if metric.bounds_score:  # neither number is clamped
            assert path.length >= abs(change) * (1 - 1e-3)
            assert float(result.length[b]) >= abs(change) - float(result.length_error[b])
            floor = 64 * torch.finfo(X.dtype).eps  # a change that may be rounding alone certifies nothing
            expected = path.length / abs(change) if abs(change) > floor else torch.inf
            torch.testing.assert_close(float(result.certificate[b]), expected, rtol=0.02, atol=0)
        if abs(path.length / line.length - 1.01) > 0.02:  # else either verdict is right
            assert (Outcome.LONGER_THAN_LINE in status) == (path.length > 1.01 * line.length)


def test_solver_gradients_are_the_rows_differentiated_while_solving(case):
    model, solver = Counted(MOONS), solver_of(case)
    bound = lp.Score(model, 1, "softmax").bind(case.shaped(X))
    start = None if chooses_start(solver) else case.shaped(BASE)
    solver.solve(bound, METRICS[0], *bound.space.ends(start), Run(0, None, False))
    spent = found(case).stats["solver_gradients"]
    assert spent.dtype == torch.int64 and int(spent.sum()) == model.gradient_rows


def test_n_gradients_are_the_rows_that_the_model_differentiated(case):
    model, solver = Counted(MOONS), solver_of(case, lp.Score(MOONS, TARGETS, "softmax"))
    result = explain(case, lp.Score(model, TARGETS, "softmax", batch_size=16), solver=solver)
    assert int(result.n_gradients.sum()) == model.gradient_rows and model.largest <= 16


def test_budget_is_respected(case):
    model, solver = Counted(MOONS), solver_of(case)
    result = explain(case, lp.Score(model, 1, "softmax"), solver=solver, max_gradients=60)
    assert (result.n_gradients <= 60).all() and model.gradient_rows <= 3 * 60
    known = result.length_ratio.isfinite()
    assert all(k or Outcome.BUDGET_SPENT in s for k, s in zip(known, result.status, strict=True))


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_ambient_gradient_mode_changes_nothing(case, mode):
    score = lp.Score(flat(mlp(2)), 1)
    expected = explain(case, score).values
    with mode():
        torch.testing.assert_close(explain(case, score).values, expected, rtol=1e-4, atol=1e-5)


def test_input_at_its_baseline_gets_zeros_and_says_so(case):
    score = lp.Score(flat(mlp(2)), 1)
    result = explain(case, score, X, X, solver=solver_of(case, score, needs_baselines=True))
    torch.testing.assert_close(result.values, torch.zeros_like(X), rtol=0, atol=1e-4)
    assert torch.equal(result.path.start.to(X), X) and not any(s.ok for s in result.status)


def test_several_baselines(case):
    solver, base = solver_of(case, needs_baselines=True), flat_points(6, 2, 1).view(3, 2, 2)
    result = explain(case, SCORE, X, base, solver=solver)
    singles = [explain(case, SCORE, X, base[:, j], solver=solver).values for j in range(2)]
    torch.testing.assert_close(result.values, (singles[0] + singles[1]) / 2, rtol=1e-2, atol=1e-3)
    assert result.baseline_spread.shape == X.shape


def test_two_implementations_of_one_function_get_equal_attributions(case):
    model = mlp(2).double()

    def other(x):
        x = x.flatten(1)
        for layer in model:
            x = x @ layer.weight.T + layer.bias if hasattr(layer, "weight") else 1 - 2 / (torch.exp(2 * x) + 1)
        return x

    scores = lp.Score(flat(model), 1), lp.Score(other, 1)
    a, b = (explain(case, score, X.double(), BASE.double(), tolerance=1e-3).values for score in scores)
    torch.testing.assert_close(a, b, rtol=1e-3, atol=1e-4)
