"""Descent: against closed forms, its promises on saturating nets, and each of its options."""

import pytest
import torch
from torch import nn

import leastpath as lp
from helpers import Counted, Interrupting, flat_points, mlp, scaled, seeded, steep_net
from leastpath import Outcome
from leastpath.account.run import Run
from leastpath.score.derivatives import hessian_vector
from leastpath.solvers.descent.solver import move_to_ends
from oracles import bump, grid_length, half_plane, half_plane_length

NET = steep_net()
X = seeded(lambda: torch.randn(5, 24), 1)
CLASSES = NET(X).argmax(1)
SCORE = lp.Score(NET, CLASSES, output="softmax")
A = torch.tensor([[-0.8, 0.4], [-1.5, 0.5]], dtype=torch.float64)
B = torch.tensor([[0.8, 0.6], [1.5, 1.5]], dtype=torch.float64)


# ---- against closed forms ----------------------------------------------------------------------------------------


def test_half_plane_against_closed_form():
    result = lp.attribute(lp.Score(half_plane), B, A, method=lp.Descent(max_gradients=3000))
    torch.testing.assert_close(result.length, half_plane_length(A, B), rtol=0.02, atol=0)
    assert all(status.ok is not False for status in result.status)


def test_way_round_a_hill_against_fine_grid():
    a, b = (-1.0, 0.0), (1.0, 0.2)
    ends = (torch.tensor([p], dtype=torch.float64) for p in (b, a))
    result = lp.attribute(lp.Score(bump), *ends, metric=lp.Conformal(0.05), method=lp.Descent(max_gradients=3000))
    assert float(result.length) <= 1.03 * grid_length(bump, 0.05, a, b)
    assert float(result.length_ratio) < 0.8


def test_linear_score_keeps_the_line_and_says_so():
    result = lp.attribute(lp.Score(lambda x: x.sum(1)), torch.ones(2, 30), method=lp.Descent())
    assert (result.length_ratio <= 1.0 + 1e-6).all()
    torch.testing.assert_close(result.values, torch.ones(2, 30), rtol=1e-3, atol=1e-3)


# ---- what it promises --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("output", ["softmax", "log_softmax"])
def test_shortens_saturating_nets_within_the_budget(output):
    result = lp.attribute(lp.Score(NET, CLASSES, output=output), X, method=lp.Descent())
    line = lp.attribute(lp.Score(NET, CLASSES, output=output), X, method=lp.StraightLine())
    assert float(result.length_ratio.median()) < 0.45 and (result.length_ratio <= 1).all()
    assert (result.stats["solver_gradients"] <= 500).all()
    assert float(result.cancellation.median()) < 0.5 * float(line.cancellation.median())


def ripples(x):
    """Sixty dimensions of ripples under a sigmoid: some crossings calm at once, others take all rounds."""
    return torch.sigmoid(6 * torch.sin(3 * x).sum(1) + x @ seeded(lambda: torch.randn(60), 5))


RIPPLED = seeded(lambda: torch.randn(3, 60), 6)


def test_rippled_sigmoid_is_crossed_by_way_of_the_plateau():
    result = lp.attribute(lp.Score(ripples), RIPPLED, method=lp.Descent())
    assert float(result.length_ratio.median()) < 0.3
    for ratio, status in zip(result.length_ratio.tolist(), result.status, strict=True):
        assert ratio < 1 or Outcome.FELL_BACK in status


@pytest.mark.parametrize("metric", [lp.RankOne(), lp.NoCancellation(), lp.Conformal(0.01)], ids=repr)
def test_other_metrics_are_never_longer_than_the_line(metric):
    result = lp.attribute(SCORE, X, method=lp.Descent(), metric=metric)
    assert (result.length_ratio <= 1.0 + 1e-6).all() and result.path.points.isfinite().all()


def test_euclidean_is_the_line_at_once():
    result = lp.attribute(SCORE, X, method=lp.Descent(), metric=lp.Euclidean())
    assert result.path.is_straight.all() and (result.stats["solver_gradients"] == 0).all()


def test_ends_are_exact_and_knots_distinct():
    result = lp.attribute(SCORE, X, 0.3, method=lp.Descent())
    assert torch.equal(result.path.end, X) and torch.equal(result.path.start, torch.full_like(X, 0.3))
    for b in range(len(X)):
        assert (torch.linalg.vector_norm(result.path[b].diff(dim=0), dim=1) > 0).all()


def test_batch_equals_loop():
    model = NET.to(torch.float64)
    try:
        together = lp.attribute(lp.Score(model, CLASSES, output="softmax"), X.double(), method=lp.Descent())
        for b in range(len(X)):
            alone = lp.attribute(
                lp.Score(model, int(CLASSES[b]), output="softmax"), X[b : b + 1].double(), method=lp.Descent()
            )
            torch.testing.assert_close(together.path[b], alone.path[0], rtol=1e-6, atol=1e-6)
            assert int(together.stats["solver_gradients"][b]) == int(alone.stats["solver_gradients"][0])
    finally:
        model.to(torch.float32)


def test_blocks_change_nothing(monkeypatch):
    whole = lp.attribute(SCORE, X, method=lp.Descent())
    monkeypatch.setattr("leastpath.solvers.descent.solver.BLOCK_ELEMENTS", 1)
    torch.testing.assert_close(lp.attribute(SCORE, X, method=lp.Descent()).values, whole.values, rtol=1e-2, atol=1e-3)


def test_seed_decides_and_global_state_is_left_alone():
    before = torch.get_rng_state()
    first, again, other = (lp.attribute(lp.Score(ripples), RIPPLED, method=lp.Descent(), seed=s) for s in (1, 1, 2))
    assert torch.equal(first.path.points, again.path.points)
    assert first.path.points.shape != other.path.points.shape or not torch.equal(first.path.points, other.path.points)
    assert torch.equal(before, torch.get_rng_state())


# ---- budget, interruption, bad gradients -------------------------------------------------------------------------


@pytest.mark.parametrize("budget", [60, 300, 700])
def test_budget_is_kept_and_half_is_left_for_the_measurement(budget):
    model = Counted(NET)
    result = lp.attribute(lp.Score(model, CLASSES, output="softmax"), X, method=lp.Descent(), max_gradients=budget)
    assert (result.stats["solver_gradients"] <= budget // 2).all()
    assert model.gradient_rows == int(result.n_gradients.sum()) <= budget * len(X)
    if budget == 60:
        assert all("needs" in s.value and Outcome.FELL_BACK in s for s in result.status)


@pytest.mark.parametrize("at", [1, 2, 5, 12, 20])
def test_interruption_returns_the_best_so_far(at):
    start = torch.zeros_like(RIPPLED)
    bound = lp.Score(Interrupting(ripples, at)).bind(RIPPLED)
    solution = lp.Descent().solve(bound, lp.Conformal(), start, RIPPLED, Run())
    assert all(notes[-1].outcome is Outcome.INTERRUPTED for notes in solution.notes)
    assert torch.equal(solution.path.end, RIPPLED) and torch.equal(solution.path.start, start)
    assert bool(solution.path.is_straight.all()) == (at <= 5)


def test_nan_on_the_line_falls_back_and_spares_the_others():
    x = torch.ones(2, 30)
    x[1] = 5.0
    bound = lp.Score(lambda x: torch.sigmoid(x.sum(1)) + torch.log(2 - x[:, 0])).bind(x)
    solution = lp.Descent().solve(bound, lp.Conformal(), torch.zeros_like(x), x, Run())
    assert solution.notes[1][0].outcome is Outcome.FELL_BACK and "NaN" in solution.notes[1][0].sentence
    assert solution.path.is_straight[1] and solution.path.points.isfinite().all()
    assert not solution.notes[0]


def test_trial_points_outside_the_domain_are_avoided():
    a, b = torch.tensor([[-1.0, 0.02]]).double(), torch.tensor([[1.0, 0.02]]).double()
    result = lp.attribute(lp.Score(half_plane), b, a, method=lp.Descent(max_gradients=2000))
    assert float(result.length) <= 1.3 * float(half_plane_length(a, b))


def test_input_at_its_baseline_stays_there():
    result = lp.attribute(SCORE, X, X, method=lp.Descent())
    assert torch.equal(result.path.end, X) and torch.equal(result.values, torch.zeros_like(X))


def test_progress_shows_the_length_ratio(capfd):
    lp.attribute(SCORE, X, method=lp.Descent(), progress=True)
    shown = "".join(capfd.readouterr())
    assert "descent" in shown and "of the line" in shown


# ---- options -----------------------------------------------------------------------------------------------------


def test_warm_start_from_its_own_solution_is_as_short_and_cheaper():
    first = lp.attribute(SCORE, X, method=lp.Descent())
    again = lp.attribute(SCORE, X, method=lp.Descent(start_from=first.path))
    assert (again.length_ratio <= first.length_ratio + 0.02).all()
    assert again.stats["solver_gradients"].sum() < 0.7 * first.stats["solver_gradients"].sum()


def test_warm_start_takes_the_nearest_solved_input():
    first = lp.attribute(SCORE, X, method=lp.Descent())
    solver = lp.Descent().warm(first, X)
    near = X.flip(0) + 0.002
    warm = lp.attribute(lp.Score(NET, CLASSES.flip(0), output="softmax"), near, method=solver)
    cold = lp.attribute(lp.Score(NET, CLASSES.flip(0), output="softmax"), near, method=lp.Descent())
    assert warm.stats["solver_gradients"].sum() < cold.stats["solver_gradients"].sum()
    assert float(warm.length_ratio.mean()) < 1.2 * float(cold.length_ratio.mean())
    assert "Descent" in warm.method


def test_warm_start_that_does_not_help_costs_little():
    bad = lp.Path.polyline(torch.stack([torch.zeros(1, 24), torch.full((1, 24), 9.0), torch.ones(1, 24)], 1))
    warm = lp.attribute(SCORE, X, method=lp.Descent(start_from=bad))
    cold = lp.attribute(SCORE, X, method=lp.Descent())
    torch.testing.assert_close(warm.length_ratio, cold.length_ratio, rtol=0.5, atol=0.1)


class Recorder(lp.Descent):
    """In the place of Descent: gives back the paths that it was to begin with."""

    def solve(self, score, metric, start, end, run):
        return lp.Solution(self.start_from)


def test_the_nearest_input_against_brute_force():
    known, asked = flat_points(9, 3, 1), flat_points(6, 3, 2)
    paths = lp.Path.straight(torch.zeros_like(known), known)
    bound = lp.Score(lambda x: x.sum(1)).bind(asked)
    warm = lp.WarmDescent(Recorder(), known, paths)
    chosen = warm.solve(bound, lp.Conformal(), torch.zeros_like(asked), asked, lp.Run()).path.end
    for x, end in zip(asked, chosen, strict=True):
        assert torch.equal(end, min(known, key=lambda other: float((other - x).norm())))


def test_a_warm_start_of_other_features_is_refused():
    warm = lp.WarmDescent(lp.Descent(), torch.ones(1, 3), lp.Path.straight(torch.zeros(1, 3), torch.ones(1, 3)))
    with pytest.raises(ValueError, match=r"what is solved already has features \(3,\), the inputs \(24,\)"):
        lp.attribute(SCORE, X, method=warm)


def small_cnn() -> nn.Module:
    def make() -> nn.Module:
        net = nn.Sequential(nn.Conv2d(1, 6, 3, 2), nn.Tanh(), nn.Conv2d(6, 8, 3, 2), nn.Tanh(), nn.Flatten())
        net.append(nn.Linear(8 * 9, 3))
        return scaled(net, 3)

    return seeded(make, 2)


def test_resolution_makes_the_deviation_smooth():
    net, x = small_cnn(), seeded(lambda: torch.rand(2, 1, 16, 16), 3)
    score = lp.Score(net, net(x).argmax(1), output="softmax")
    for resolution in (None, 4):
        result = lp.attribute(score, x, method=lp.Descent(resolution=resolution))
        assert (result.length_ratio <= 1).all()
        roughness = []
        for b in range(2):
            knots = result.path[b]
            if len(knots) > 2:
                t = ((knots - knots[0]) * x[b]).flatten(1).sum(1) / (x[b] ** 2).sum()
                deviation = (knots - t.view(-1, 1, 1, 1) * x[b])[1:-1]
                roughness.append(deviation.diff(dim=-1).norm() / deviation.norm())
        assert roughness and (max(roughness) < 0.5) == (resolution == 4)


def test_double_backward_against_finite_difference():
    net, x = mlp(6).double(), seeded(lambda: torch.randn(4, 6).double(), 4)
    lengths = []
    for hessian in ("finite_difference", "double_backward"):
        solver = lp.Descent(max_gradients=2000, hessian=hessian)
        lengths.append(lp.attribute(lp.Score(net, 1), x, -x, method=solver).length)
    torch.testing.assert_close(*lengths, rtol=0.02, atol=0)


def test_hessian_vector_against_closed_form_and_its_price():
    bound = lp.Score(lambda x: (x**3).sum(1) / 6, batch_size=2).bind(torch.ones(3, 4))
    points, vectors = torch.randn(5, 4), torch.randn(5, 4)
    product = hessian_vector(bound, points, vectors, torch.tensor([0, 0, 1, 2, 2]))
    torch.testing.assert_close(product, points * vectors)
    assert bound.gradients_spent.tolist() == [4, 2, 4]
    linear = lp.Score(nn.Sequential(nn.Linear(4, 5), nn.ReLU(), nn.Linear(5, 1))).bind(torch.ones(3, 4))
    assert not hessian_vector(linear, points, vectors, torch.tensor([0, 0, 1, 2, 2])).any()


# ---- settings ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"max_gradients": 0}, "max_gradients=0 must be at least 1"),
        ({"hessian": "exact"}, "hessian='exact' is unknown"),
        ({"resolution": 0}, "resolution=0 must be at least 1"),
        ({"n_knots": 1}, "n_knots=1 must be at least 2"),
    ],
)
def test_settings_are_checked(settings, message):
    with pytest.raises(ValueError, match=message):
        lp.Descent(**settings)


def test_what_does_not_fit_is_refused():
    with pytest.raises(ValueError, match="resolution=4 needs inputs of shape"):
        lp.attribute(SCORE, X, method=lp.Descent(resolution=4))
    two = lp.Path.straight(torch.zeros(2, 24), torch.ones(2, 24))
    with pytest.raises(ValueError, match="start_from has 2 paths for 5 examples"):
        lp.attribute(SCORE, X, method=lp.Descent(start_from=two))
    small = lp.Path.straight(torch.zeros(1, 3), torch.ones(1, 3))
    with pytest.raises(ValueError, match="expected the same features"):
        lp.attribute(SCORE, X, method=lp.Descent(start_from=small))
    result = lp.attribute(SCORE, X, method=lp.StraightLine())
    with pytest.raises(ValueError, match="the result has 5 paths for 2 inputs"):
        lp.Descent().warm(result, X[:2])


# ---- paths moved to other ends -----------------------------------------------------------------------------------


def test_a_carried_path_keeps_its_deviation():
    path = lp.Path.polyline(torch.tensor([[[0.0, 0.0], [0.5, 1.0], [1.0, 0.0]]]))
    start, end = torch.tensor([[1.0, 1.0]]), torch.tensor([[2.0, 1.0]])
    (carried,) = move_to_ends(path, torch.tensor([0]), start, end)
    torch.testing.assert_close(carried, torch.tensor([[1.0, 1.0], [1.5, 2.0], [2.0, 1.0]]))
    (same,) = move_to_ends(path, torch.tensor([0]), path.start, path.end)
    assert torch.equal(same, path[0])


def test_a_carried_path_moves_with_its_line():
    """A shift moves every knot by as much; a stretch moves each by its share of the way."""
    path = lp.Path.polyline(torch.tensor([[[0.0, 0.0], [0.25, 1.0], [0.75, -1.0], [1.0, 0.0]]]))
    shift = torch.tensor([[2.0, -3.0]])
    (shifted,) = move_to_ends(path, torch.tensor([0]), path.start + shift, path.end + shift)
    torch.testing.assert_close(shifted, path[0] + shift)
    (stretched,) = move_to_ends(path, torch.tensor([0]), path.start, 3 * path.end)
    torch.testing.assert_close(stretched, path[0] * torch.tensor([3.0, 1.0]))


def test_one_path_serves_all_examples_and_several_serve_one_each():
    start, end = torch.zeros(2, 2), torch.tensor([[1.0, 0.0], [2.0, 0.0]])
    bent = lp.Path.polyline(torch.tensor([[[0.0, 0.0], [0.5, 1.0], [1.0, 0.0]], [[0.0, 0.0], [1.0, -1.0], [2.0, 0.0]]]))
    each = move_to_ends(bent, torch.tensor([0, 1]), start, end)
    assert all(torch.equal(knots, bent[b]) for b, knots in enumerate(each))
    shared = move_to_ends(bent.select(torch.tensor([0])), torch.tensor([0, 1]), start, end)
    torch.testing.assert_close(shared[1], torch.tensor([[0.0, 0.0], [1.0, 1.0], [2.0, 0.0]]))


def test_other_features_are_refused():
    path = lp.Path.straight(torch.zeros(1, 3), torch.ones(1, 3))
    with pytest.raises(ValueError, match=r"start_from has features \(3,\), the inputs \(2,\)"):
        move_to_ends(path, torch.tensor([0]), torch.zeros(1, 2), torch.ones(1, 2))
