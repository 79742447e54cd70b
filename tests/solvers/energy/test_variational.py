"""Variational: batch equals loop, nothing leaks, the sign does what the paper says, and every way to end early."""

import copy

import pytest
import torch
from torch import nn

import leastpath as lp
from helpers import Interrupting, flat_points, mlp, moons_net, seeded

pyro = pytest.importorskip("pyro")

BASELINE = torch.full((1, 2), -0.5)
FAST = {"n_iterations": 12, "n_points": 6, "n_samples": 2}


def moons_points(n: int = 8, dtype: torch.dtype = torch.float64) -> torch.Tensor:
    """(n, 2) on the upper arc."""
    angle = torch.linspace(0.4, 2.6, n, dtype=torch.float64)
    return torch.stack([angle.cos(), angle.sin()], 1).to(dtype)


def moons_score(x: torch.Tensor, output: str = "log_softmax") -> lp.Score:
    model = copy.deepcopy(moons_net()).to(x.dtype)
    return lp.Score(model, model(x).argmax(1), output)


def solved(score: lp.Score, x, start=None, run=None, **settings) -> lp.Solution:
    start = torch.zeros_like(x) if start is None else start.to(x).expand_as(x)
    return lp.Variational(**(FAST | settings)).solve(score.bind(x), lp.Conformal(), start, x, run or lp.Run())


def test_ends_are_exact_for_the_path_and_its_samples():
    x = moons_points(3, torch.float32)
    solution = solved(moons_score(x), x, BASELINE)
    for path in (solution.path, *solution.samples):
        assert torch.equal(path.end, x) and torch.equal(path.start, BASELINE.expand(3, 2))
        assert path.n_knots.tolist() == [8, 8, 8]
    assert len(solution.samples) == 2


def test_a_batch_gives_what_a_loop_gives_with_targets_of_its_own():
    x = flat_points(3, 3, dtype=torch.float64)
    targets, model = torch.tensor([0, 2, 1]), mlp(3).double()
    whole = solved(lp.Score(model, targets, "log_softmax"), x, n_iterations=220)
    for b in range(3):
        alone = solved(lp.Score(model, int(targets[b]), "log_softmax"), x[b : b + 1], n_iterations=220)
        torch.testing.assert_close(whole.path[b], alone.path[0], rtol=1e-6, atol=1e-6)
        torch.testing.assert_close(whole.samples[1][b], alone.samples[1][0], rtol=1e-6, atol=1e-6)
        assert whole.stats["iterations"][b] == alone.stats["iterations"][0]


def test_the_seed_alone_decides_and_nothing_global_is_touched():
    x = moons_points(2)
    score = moons_score(x)
    pyro.get_param_store().clear()
    pyro.param("loc", torch.tensor(3.0))
    before = torch.get_rng_state()
    first = solved(score, x, BASELINE, lp.Run(seed=1))
    assert torch.equal(torch.get_rng_state(), before)
    assert set(pyro.get_param_store()) == {"loc"} and pyro.param("loc").item() == 3
    torch.randn(5)
    again, other = solved(score, x, BASELINE, lp.Run(seed=1)), solved(score, x, BASELINE, lp.Run(seed=2))
    assert torch.equal(first.path.points, again.path.points)
    assert not torch.equal(first.path.points, other.path.points)
    pyro.get_param_store().clear()


def test_away_removes_cancellation_and_toward_adds_to_it():
    # Five points of one net: the energy is a heuristic, and on others it does not help. benchmarks/moons_variational.py
    # has the distribution.
    x = torch.cat([moons_points(8)[4:], torch.tensor([[1.0, 0.5]]).double() - moons_points(8)[-1:]])
    score, baseline = moons_score(x), BASELINE.double()
    straight = lp.attribute(score, x, baseline, method=lp.StraightLine()).cancellation.mean()
    away, toward = (
        lp.attribute(score, x, baseline, method=lp.Variational(300, 30, sign=sign, n_samples=0)).cancellation.mean()
        for sign in ("away", "toward")
    )
    assert away < 0.2 * straight
    assert toward > straight


def test_as_printed_ignores_the_sign():
    x = moons_points(2)
    score = moons_score(x)
    printed, also = (solved(score, x, BASELINE, as_printed=True, sign=sign) for sign in ("away", "toward"))
    assert torch.equal(printed.path.points, also.path.points)
    assert not torch.equal(printed.path.points, solved(score, x, BASELINE, sign="toward").path.points)


def test_without_a_push_the_path_is_the_straight_line():
    x = moons_points(2)
    solution = solved(moons_score(x), x, BASELINE, n_iterations=300, beta=0.0, spread=0.01)
    line = lp.Path.straight(BASELINE.to(x).expand(2, 2), x).resample(8)
    torch.testing.assert_close(solution.path.points, line.points, atol=0.02, rtol=0)


def test_scales_settle_where_the_spread_says():
    x = torch.ones(1, 50)
    solution = solved(lp.Score(nn.Linear(50, 1)), x, n_iterations=400, spread=0.2, beta=0.0, tolerance=0.0)
    strayed = (solution.samples[0][0] - solution.path[0])[1:-1].norm(dim=1).mean() / x.norm()
    assert 0.1 < strayed < 0.3


@pytest.mark.parametrize("output", ["raw", "softmax", "log_softmax"])
@pytest.mark.parametrize("activation", [nn.ReLU, nn.Tanh])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_outputs_activations_and_precisions(output, activation, dtype):
    x = flat_points(3, 4, dtype=dtype)
    score = lp.Score(mlp(4, activation=activation).to(dtype), torch.tensor([0, 1, 2]), output)
    result = lp.attribute(score, x, method=lp.Variational(**FAST))
    assert result.values.dtype == dtype and result.path.points.dtype == dtype
    assert torch.isfinite(result.values).all() and torch.isfinite(result.path_spread).all()
    assert result.path_spread.shape == x.shape and (result.path_spread > 0).any()


def test_images():
    model = seeded(lambda: nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(144, 3))).eval()
    x = torch.rand(2, 3, 8, 8)
    result = lp.attribute(lp.Score(model, torch.tensor([0, 1]), "log_softmax"), x, method=lp.Variational(**FAST))
    assert result.values.shape == x.shape == result.path_spread.shape
    assert result.stats["scale"].shape == (2, 6, 3, 8, 8)


def test_tuples_several_baselines_and_no_samples():
    score = lp.Score(lambda a, b: (a.sum(1) * b.prod(1)).tanh())
    x = flat_points(2, 3), flat_points(2, 2)
    result = lp.attribute(score, x, method=lp.Variational(**FAST))
    assert [part.shape for part in result.path_spread] == [part.shape for part in x]
    several = lp.attribute(lp.Score(mlp(3), 0), x[0], torch.randn(2, 2, 3), method=lp.Variational(**FAST))
    assert several.path_spread.shape == (2, 3)
    settings = FAST | {"n_samples": 0}
    assert lp.attribute(lp.Score(mlp(3), 0), x[0], method=lp.Variational(**settings)).path_spread is None


def test_the_budget_is_kept_and_said():
    x = moons_points(2)
    result = lp.attribute(moons_score(x), x, BASELINE, method=lp.Variational(n_points=6), max_gradients=900)
    assert (result.n_gradients <= 900).all()
    assert lp.Outcome.BUDGET_SPENT in result.status[0]
    assert "ended by max_gradients=900 after" in result.status[0].value
    poor = lp.attribute(moons_score(x), x, BASELINE, method=lp.Variational(), max_gradients=90)
    assert "max_gradients=90 is too small for one iteration of 100" in poor.status[0].value
    assert poor.path.is_straight.all() and (poor.n_gradients <= 90).all()


def test_sampled_paths_are_counted():
    x = moons_points(2)
    without, with_samples = (
        lp.attribute(moons_score(x), x, BASELINE, method=lp.Variational(**(FAST | {"n_samples": n}))) for n in (0, 2)
    )
    assert (with_samples.n_gradients > without.n_gradients).all()
    torch.testing.assert_close(with_samples.values, without.values)


def test_an_interruption_keeps_the_path_so_far():
    x = moons_points(2)
    score = moons_score(x)
    early, late = (
        solved(
            lp.Score(Interrupting(score.model, calls, only_gradients=True), score.target, "log_softmax"), x, BASELINE
        )
        for calls in (1, 10)
    )
    assert early.notes[1][0].outcome is late.notes[1][0].outcome is lp.Outcome.INTERRUPTED
    assert early.path.is_straight.all() and not late.path.is_straight.any()
    assert "interrupted after 4 of 12" in late.notes[0][0].sentence
    whole = solved(score, x, BASELINE, n_iterations=12)
    assert not torch.equal(whole.path.points, late.path.points)


def test_a_score_that_ends_beside_the_line_falls_back_for_that_example_alone():
    def holed(x):  # not a number once the path leaves the diagonal, on the right half of the plane only
        return x.sum(1) + torch.where((x[:, 0] > 0) & ((x[:, 0] - x[:, 1]).abs() > 1e-3), torch.nan, 0.0)

    x = torch.tensor([[1.0, 1.0], [-9.0, -9.0]])
    solution = solved(lp.Score(holed), x, 0.5 * x)
    assert solution.notes[0][0].outcome is lp.Outcome.FELL_BACK
    assert "away from the straight line the score of example 0 is NaN" in solution.notes[0][0].sentence
    assert solution.path.n_knots.tolist() == [2, 8]
    assert torch.isfinite(solution.path.points).all()


def test_a_gradient_that_is_not_finite_falls_back():
    def steep(x):  # finite everywhere, but its gradient is 0/0 where the root begins
        return x[:, 1] + ((x[:, 1] - x[:, 0]) * (x[:, 1] > x[:, 0])).sqrt()

    solution = solved(lp.Score(steep), torch.tensor([[1.0, 2.0]]), n_iterations=30)
    assert solution.notes[0][0].outcome is lp.Outcome.FELL_BACK
    assert "NaN or infinite after" in solution.notes[0][0].sentence
    assert solution.path.is_straight.all()


def test_convergence_is_judged_by_example():
    x = torch.ones(1, 3)
    solution = solved(lp.Score(nn.Linear(3, 1)), x, n_iterations=1000, tolerance=0.05)
    assert solution.stats["iterations"][0] < 1000 and solution.notes[0] == ()
    short = solved(lp.Score(nn.Linear(3, 1)), x)
    assert short.notes[0][0].outcome is lp.Outcome.NOT_CONVERGED
    assert "raise n_iterations" in short.notes[0][0].sentence


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"n_iterations": 0}, "n_iterations=0 must be at least 1"),
        ({"lr_decay": 0.0}, "must be above 0 and at most 1"),
        ({"n_samples": 1}, "a deviation needs two paths"),
    ],
)
def test_settings_that_make_no_sense_are_refused(settings, words):
    with pytest.raises(ValueError, match=words):
        lp.Variational(**settings)


def test_without_pyro_the_error_names_the_extra(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "pyro", None)
    with pytest.raises(ImportError, match=r"leastpath\[svi\]"):
        solved(lp.Score(mlp(3), 0), torch.ones(1, 3))


def test_a_block_that_is_taken_apart_keeps_within_the_budget():
    calls = []

    def model(x):
        calls.append(1)
        value = torch.sigmoid(6 * x[:, 0] - 3 * x[:, 1] ** 2)
        return value * torch.nan if len(calls) == 70 else value

    solver = lp.Variational(n_iterations=60, n_points=3, n_samples=0, tolerance=0)
    result = lp.attribute(lp.Score(model), torch.ones(2, 2), method=solver, max_gradients=400)
    assert (result.n_gradients <= 400).all()
    assert (
        not lp.attribute(lp.Score(mlp(3), 0), torch.ones(1, 3), method=solver, max_gradients=4).path.n_knots.gt(2).any()
    )
