"""Hamiltonian: draws against the closed-form density, diagnostics against Pyro's, batch equals loop."""

import pytest
import torch
from torch import nn

import leastpath as lp
from helpers import Interrupting, flat_points, mlp
from leastpath.solvers.energy.hamiltonian import _Half, split_r_hat

pyro = pytest.importorskip("pyro")

FAST = {"n_samples": 4, "warmup": 3, "n_points": 3, "max_tree_depth": 2, "n_paths": 2}


def solved(score: lp.Score, x, run=None, **settings) -> lp.Solution:
    settings = FAST | settings
    return lp.Hamiltonian(**settings).solve(score.bind(x), lp.Conformal(), torch.zeros_like(x), x, run or lp.Run())


@pytest.mark.parametrize(("kernel", "n", "warmup"), [("nuts", 60, 30), ("hmc", 250, 50)])
def test_without_a_push_draws_stray_as_far_as_the_closed_form_says(kernel, n, warmup):
    x = torch.ones(1, 3, dtype=torch.float64)
    settings = {"n_samples": n, "warmup": warmup, "n_points": 2, "max_tree_depth": 3, "n_paths": 100, "beta": 0.0}
    solution = solved(lp.Score(nn.Linear(3, 1).double()), x, kernel=kernel, spread=0.2, **settings)
    line = lp.Path.straight(torch.zeros_like(x), x).resample(4).points
    strayed = torch.stack([(path[0] - line)[1:-1].norm(dim=1) for path in solution.samples]) / x.norm()
    assert strayed.mean() == pytest.approx(0.2, rel=0.2)  # the density exp(−d/T) in three dimensions
    assert solution.stats["r_hat"][0] < 1.1 and solution.notes[0][0].outcome is lp.Outcome.SOLVER_NOTE
    assert "the chains agree: R-hat" in solution.notes[0][0].sentence
    assert (solution.path[0] - line).abs().max() < 0.1


def test_r_hat_agrees_with_pyro():
    draws = torch.randn(3, 20, 5, dtype=torch.float64) + torch.arange(3).view(3, 1, 1) / 2
    halves = []
    for chain in draws:
        for part in (chain[:10], chain[10:]):
            half = _Half()
            for draw in part:
                half.add(draw)
            halves.append(half)
    expected = pyro.ops.stats.split_gelman_rubin(draws).max()
    assert split_r_hat(halves) == pytest.approx(float(expected))


def test_a_batch_gives_what_a_loop_gives_with_targets_of_its_own():
    x, targets, model = flat_points(3, 3, dtype=torch.float64), torch.tensor([0, 2, 1]), mlp(3).double()
    whole = solved(lp.Score(model, targets, "log_softmax"), x)
    for b in range(3):
        alone = solved(lp.Score(model, int(targets[b]), "log_softmax"), x[b : b + 1])
        torch.testing.assert_close(whole.path[b], alone.path[0])
        torch.testing.assert_close(whole.samples[1][b], alone.samples[1][0])


def test_the_seed_alone_decides_and_nothing_global_is_touched():
    x, score = flat_points(1, 3), lp.Score(mlp(3), 0)
    before, store = torch.get_rng_state(), set(pyro.get_param_store())
    first = solved(score, x, lp.Run(seed=1))
    assert torch.equal(torch.get_rng_state(), before) and set(pyro.get_param_store()) == store
    torch.randn(5)
    again, other = solved(score, x, lp.Run(seed=1)), solved(score, x, lp.Run(seed=2))
    assert torch.equal(first.path.points, again.path.points)
    assert not torch.equal(first.path.points, other.path.points)


@pytest.mark.parametrize("output", ["raw", "softmax", "log_softmax"])
@pytest.mark.parametrize("activation", [nn.ReLU, nn.Tanh])
def test_outputs_and_activations(output, activation):
    x = flat_points(2, 4)
    result = lp.attribute(
        lp.Score(mlp(4, activation=activation), torch.tensor([0, 1]), output), x, method=lp.Hamiltonian(**FAST)
    )
    assert torch.equal(result.path.start, torch.zeros(2, 4)) and torch.equal(result.path.end, x)
    assert torch.isfinite(result.values).all() and result.path_spread.shape == x.shape
    assert result.stats["draws"].tolist() == [8, 8]


def test_images():
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(144, 3)).eval()
    x = torch.rand(1, 3, 8, 8, dtype=torch.float32)
    result = lp.attribute(lp.Score(model, 0, "log_softmax"), x, method=lp.Hamiltonian(**FAST))
    assert result.values.shape == x.shape == result.path_spread.shape


def test_the_budget_is_kept_and_said():
    x, score = flat_points(2, 3), lp.Score(mlp(3), 0)
    result = lp.attribute(score, x, method=lp.Hamiltonian(n_points=3, warmup=3), max_gradients=2000)
    assert (result.n_gradients <= 2000).all()
    assert "ended by max_gradients=2000 after" in result.status[0].value
    assert 0 < result.stats["draws"][0] < 200
    poor = lp.attribute(score, x, method=lp.Hamiltonian(), max_gradients=40)
    assert "the straight line was used" in poor.status[0].value and poor.path.is_straight.all()


@pytest.mark.parametrize(("limit", "any_draws"), [(1, False), (60, True)])
def test_an_interruption_keeps_the_draws_so_far(limit, any_draws):
    model = Interrupting(lambda x: (x**2).sum(1), limit)
    solution = solved(lp.Score(model), flat_points(2, 3), n_samples=50)
    assert [notes[0].outcome for notes in solution.notes] == [lp.Outcome.INTERRUPTED] * 2
    assert solution.path.is_straight.tolist() == [not any_draws, True]
    assert torch.isfinite(solution.path.points).all()


def test_chains_that_disagree_are_reported():
    def two_ways(x):  # a wall in the middle of the way that can be passed on either side
        return 3 * torch.exp(-8 * (x[:, 0] ** 2 + 9 * (x[:, 1] - 0.5) ** 2))

    solution = solved(lp.Score(two_ways), torch.tensor([[0.0, 1.0]]), n_samples=10, warmup=5, beta=50.0)
    assert solution.notes[0][0].outcome is lp.Outcome.NOT_CONVERGED
    assert "raise warmup and n_samples" in solution.notes[0][0].sentence


def test_a_score_that_ends_beside_the_line_falls_back():
    def holed(x):
        return x.sum(1) + torch.where((x[:, 0] - x[:, 1]).abs() > 1e-3, torch.nan, 0.0)

    solution = solved(lp.Score(holed), torch.ones(1, 2))
    assert solution.notes[0][0].outcome is lp.Outcome.FELL_BACK and solution.path.is_straight.all()


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"kernel": "gibbs"}, "kernel='gibbs' is unknown"),
        ({"n_chains": 1}, "n_chains=1 must be at least 2"),
        ({"n_paths": 1}, "expected 0, or 2"),
        ({"target_accept": 1.0}, "between 0 and 1"),
    ],
)
def test_settings_that_make_no_sense_are_refused(settings, words):
    with pytest.raises(ValueError, match=words):
        lp.Hamiltonian(**settings)
