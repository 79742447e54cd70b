"""GeodesicODE: against closed forms and fine grids, its equation against finite differences, and how it fails."""

import numpy as np
import pytest
import torch

import leastpath as lp
from helpers import Counted, Interrupting, flat_points, mlp, moons_net
from leastpath import Outcome
from leastpath.solvers.ode import _Equation
from oracles import bump, grid_length, half_plane, half_plane_length, half_plane_off_arc, ramp, valley

A = torch.tensor([[-1.0, 0.5], [0.0, 0.2], [0.5, 0.2], [-2.0, 1.5]], dtype=torch.float64)
B = torch.tensor([[1.0, 1.0], [2.0, 0.2], [0.5, 2.0], [1.0, 0.3]], dtype=torch.float64)


def explained(score, a, b, metric=None, solver=None, **settings) -> lp.Attribution:
    a, b = (torch.as_tensor(x, dtype=torch.float64) for x in (a, b))
    return lp.attribute(
        lp.Score(score), b, a, metric=metric, method=solver or lp.GeodesicODE(), support=False, **settings
    )


# ---- against closed forms ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_half_plane_against_closed_form(dtype):
    a, b = A.to(dtype), B.to(dtype)
    result = lp.attribute(lp.Score(half_plane), b, a, method=lp.GeodesicODE(), tolerance=1e-3, support=False)
    torch.testing.assert_close(result.length, half_plane_length(a, b), rtol=2e-3, atol=0)
    for i in range(len(a)):
        off = half_plane_off_arc(result.path[i], a[i], b[i])
        assert float(off.max()) < 0.01 * float(torch.linalg.vector_norm(b[i] - a[i]))
    assert all(status.ok for status in result.status)


def lifted_half_plane(x):
    return half_plane(x + torch.tensor([0.0, 2.5]).to(x))


def test_the_grid_itself_against_closed_form():
    a, b = (-1.2, -1.6), (1.6, -1.2)
    up = torch.tensor([0.0, 2.5]).double()
    ends = (torch.tensor([p]).double() + up for p in (a, b))
    assert grid_length(lifted_half_plane, 0.0, a, b) == pytest.approx(float(half_plane_length(*ends)), rel=1e-3)


GRID_CASES = [
    (bump, 0.1, (-1.0, -0.1), (1.0, 0.1)),
    (bump, 0.1, (-0.6, -0.4), (0.6, 0.2)),
    (bump, 1.0, (-1.0, -0.6), (0.8, -0.2)),
    (ramp, 0.01, (-1.0, -1.0), (1.0, 1.0)),
    (ramp, 0.01, (-0.8, 1.2), (0.8, -1.0)),
    (valley, 0.01, (-1.0, 0.8), (0.6, 1.2)),
]


@pytest.mark.parametrize(("score", "damping", "a", "b"), GRID_CASES)
def test_smooth_scores_against_fine_grid(score, damping, a, b):
    result = explained(score, [a], [b], lp.Conformal(damping))
    assert float(result.length) == pytest.approx(grid_length(score, damping, a, b), rel=0.01)
    assert float(result.length_ratio) < 1.0001 and result.status[0].ok


def test_undamped_metric_uses_the_floor_and_is_measured_as_it_is():
    a, b = (-0.8, 1.2), (0.8, -1.0)
    result = explained(ramp, [a], [b])
    # The shortest way has no damping at all; the floor may cost some of the 5 %.
    assert float(result.length) == pytest.approx(grid_length(ramp, 1e-9, a, b), rel=0.05)
    assert 0 < float(result.stats["damping"]) < 1e-3


@pytest.mark.parametrize("score", [bump, ramp])
def test_rank_one_is_as_short_as_the_change_of_score(score):
    """Where a path with a monotone score joins the ends, no path is shorter than |Δf| and that one is as short."""
    result = explained(score, [[-0.6, -0.4], [-1.0, 0.8]], [[0.6, 0.2], [0.6, 1.2]], lp.RankOne(), tolerance=1e-3)
    torch.testing.assert_close(result.certificate, torch.ones(2).double(), rtol=2e-3, atol=0)


def test_rank_one_against_the_surface_of_revolution():
    """RankOne(ε) is the metric of the graph of f / √ε, times ε. On a paraboloid geodesics obey Clairaut's relation."""
    damping = 0.5
    result = explained(
        lambda x: (x**2).sum(1) / 2, [[-1.0, 0.3]], [[0.6, 0.8]], lp.RankOne(damping), lp.GeodesicODE(n_knots=401)
    )
    knots = result.path[0]
    step, middle = knots.diff(dim=0), (knots[1:] + knots[:-1]) / 2
    pace = lp.RankOne(damping).speed(middle, middle, step)  # ∇f is the point itself
    momentum = (middle[:, 0] * step[:, 1] - middle[:, 1] * step[:, 0]) / pace  # r² dφ/ds is constant
    assert float(momentum.std() / momentum.mean().abs()) < 0.01
    assert float(result.length_ratio) < 0.99


@pytest.mark.parametrize("metric", [lp.Conformal(1e6), lp.RankOne(1e6)], ids=repr)
def test_much_damping_gives_the_straight_line(metric):
    result = explained(bump, [[-1.0, -0.1]], [[1.0, 0.3]], metric)
    assert result.path.is_straight.all() and result.status[0].ok


def test_linear_score_gives_the_straight_line():
    result = explained(lambda x: x @ torch.tensor([1.0, -2.0, 0.5]).double(), [[0.0, 0, 0]], [[1.0, 1, 1]])
    assert result.path.is_straight.all() and result.status[0].ok
    torch.testing.assert_close(result.values, torch.tensor([[1.0, -2.0, 0.5]]).double())


def test_more_than_two_features_are_shorter_than_the_line():
    x, base = flat_points(2, 6, 2, torch.float64), flat_points(2, 6, 1, torch.float64)
    score = lp.Score(mlp(6).double(), 1, "log_softmax")
    result = lp.attribute(score, x, base, method=lp.GeodesicODE(n_starts=1), support=False)
    assert (result.length_ratio < 0.999).all() and all(status.ok for status in result.status)


# ---- the equation ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("metric", [lp.Conformal(), lp.RankOne()], ids=repr)
def test_acceleration_and_jacobian_against_automatic_differentiation(metric):
    """γ'' by autograd from the Euler–Lagrange equations of the energy, its part across γ', and its derivatives."""
    damping, n = 0.3, 3
    generator = torch.Generator().manual_seed(0)
    weight = torch.randn(n, n, generator=generator, dtype=torch.float64)

    def f(x):
        return torch.sin(x @ weight).sum(-1)

    def tensor(x):
        g = torch.func.grad(f)(x)
        outer = torch.outer(g, g) if isinstance(metric, lp.RankOne) else (g @ g) * torch.eye(n).double()
        return outer + damping * torch.eye(n).double()

    def acceleration(x, v):
        by_x = torch.func.jacrev(tensor)(x)  # (i, j, k): ∂G_ij / ∂x_k
        force = torch.einsum("ijk,i,j->k", by_x, v, v) / 2 - torch.einsum("ijk,j,k->i", by_x, v, v)
        a = torch.linalg.solve(tensor(x), force)
        return a - (a @ v) / (v @ v) * v

    y = torch.randn(2 * n, 4, generator=generator, dtype=torch.float64)
    bound = lp.Score(f).bind(torch.zeros(1, n, dtype=torch.float64))
    equation = _Equation(bound, metric, 0, 1e-5, 1e-5, lp.Run().budget(bound), damping)
    expected = torch.stack([acceleration(c[:n], c[n:]) for c in y.T], 1)
    np.testing.assert_allclose(equation.derivative(None, y.numpy())[n:], expected, rtol=1e-4, atol=1e-6)
    jacobian = torch.stack(
        [torch.func.jacrev(lambda c: torch.cat([c[n:], acceleration(c[:n], c[n:])]))(c) for c in y.T], 2
    )
    np.testing.assert_allclose(equation.jacobian(None, y.numpy()), jacobian, rtol=1e-2, atol=1e-2)


# ---- manners -----------------------------------------------------------------------------------------------------


def test_ends_are_exact_and_knots_as_asked():
    a, b = A.float() / 3, B.float() / 7 + 0.1
    result = lp.attribute(lp.Score(half_plane), b, a, method=lp.GeodesicODE(n_knots=17), support=False)
    assert torch.equal(result.path.start, a) and torch.equal(result.path.end, b)
    assert set(result.path.n_knots.tolist()) <= {2, 17}


def test_batch_equals_loop_and_runs_repeat():
    a, b = A[:3], B[:3]
    batch = explained(half_plane, a, b)
    for i in range(3):
        alone = explained(half_plane, a[i : i + 1], b[i : i + 1])
        assert torch.equal(batch.path[i], alone.path[0])
        assert batch.n_gradients[i] == alone.n_gradients[0]


def test_same_ends_and_single_features_are_straight():
    result = explained(half_plane, A[:1], A[:1])
    assert float(result.length) == 0 and result.path.is_straight.all()
    result = explained(lambda x: x[:, 0] ** 2, [[1.0]], [[2.0]])
    assert result.path.is_straight.all() and result.status[0].ok


def test_flat_score_is_straight():
    result = explained(lambda x: 0 * x.sum(1), [[0.0, 0.0]], [[1.0, 2.0]])
    assert result.path.is_straight.all() and float(result.length) == 0


def test_shapes_are_kept():
    x = flat_points(1, 6, dtype=torch.float64).reshape(1, 2, 3)
    result = lp.attribute(
        lp.Score(lambda x: x.flatten(1).tanh().prod(1)), x, 1.0, method=lp.GeodesicODE(n_starts=1), support=False
    )
    assert result.path[0].shape[1:] == (2, 3)


@pytest.mark.parametrize("budget", [100, 1000, 4000])
def test_budget_is_kept(budget):
    model = Counted(bump)
    a, b = [[-1.0, -0.1]], [[1.0, 0.1]]
    result = explained(model, a, b, lp.Conformal(0.1), max_gradients=budget)
    assert model.gradient_rows == int(result.n_gradients) <= budget
    assert not result.status[0].ok and f"max_gradients={budget}" in result.status[0].value
    assert float(result.length_ratio) <= 1


@pytest.mark.parametrize("at", [1, 30, 60])
def test_interruption_returns_the_best_so_far(at):
    bound = lp.Score(Interrupting(half_plane, at)).bind(B[:2])
    solution = lp.GeodesicODE().solve(bound, lp.Conformal(), A[:2], B[:2], lp.Run())
    assert all(note.outcome is Outcome.INTERRUPTED for notes in solution.notes for note in notes)
    assert bool(solution.path.is_straight[0]) == (at == 1) and bool(solution.path.is_straight[1])


@pytest.mark.parametrize("output", ["raw", "log_softmax"])
def test_kinks_are_noted_and_never_longer(output):
    x, base = torch.tensor([[1.0, 0.2]]), torch.tensor([[-0.5, -0.5]])
    result = lp.attribute(lp.Score(moons_net(), 1, output), x, base, method=lp.GeodesicODE(max_nodes=50))
    assert not result.status[0].ok and "Descent" in result.status[0].value
    assert float(result.length_ratio) <= 1.01


def test_too_few_nodes_keep_the_last_solution_that_converged():
    a, b = [[-0.8, 1.2]], [[0.8, -1.0]]
    result = explained(ramp, a, b, solver=lp.GeodesicODE(max_nodes=30, n_starts=1))
    assert Outcome.NOT_CONVERGED in result.status[0] and "raise max_nodes=30" in result.status[0].value
    assert float(result.stats["damping"]) > 1e-3 and float(result.length_ratio) < 0.8


def test_bows_find_what_the_line_misses():
    a, b, metric = [[-1.0, -0.1]], [[1.0, 0.1]], lp.Conformal(0.1)
    one = explained(bump, a, b, metric, lp.GeodesicODE(n_starts=1))
    three = explained(bump, a, b, metric, lp.GeodesicODE(n_starts=3))
    assert float(three.length) < 0.7 * float(one.length)


def test_progress_shows_the_length_ratio(capfd):
    explained(half_plane, A[:1], B[:1], progress=True)
    shown = capfd.readouterr()
    assert "length ratio" in shown.out + shown.err


@pytest.mark.parametrize(
    ("settings", "match"),
    [
        ({"n_knots": 2}, "n_knots=2 must be at least 3"),
        ({"n_starts": 0}, "n_starts=0 must be at least 1"),
        ({"floor": 0.0}, "floor=0.0 must be between"),
        ({"tolerance": 1.0}, "tolerance=1.0 must be between"),
        ({"max_nodes": 5}, "max_nodes=5 must be above"),
    ],
)
def test_settings_are_checked(settings, match):
    with pytest.raises(ValueError, match=match):
        lp.GeodesicODE(**settings)


def test_errors_say_what_to_do():
    with pytest.raises(ValueError, match="Conformal and RankOne, got NoCancellation"):
        explained(half_plane, A, B, lp.NoCancellation())
    with pytest.raises(ValueError, match="use Descent, or raise the limit with GeodesicODE\\(max_features=21\\)"):
        explained(lambda x: x.sum(1), torch.zeros(1, 21), torch.ones(1, 21))
