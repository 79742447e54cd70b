"""Generated points: where they lie, in closed form, and what graphs of them are worth."""

import pytest
import torch

import leastpath as lp
from helpers import flat_points, moons_net
from leastpath.solvers.graph.generated import make_points

X, BASE = flat_points(6), torch.full((1, 2), -1.5)
SCORE = lp.Score(moons_net(), 1, "log_softmax")


def explain(solver, score=SCORE, inputs=X, baselines=BASE, **rest):
    return lp.attribute(score, inputs, baselines, method=solver, **rest)


A, B = torch.tensor([0.0, -1.0, 2.0]), torch.tensor([3.0, 3.0, 2.0])  # five apart


def points(kind, n=512, spread=0.2, score=None, seed=0):
    bound = (score or lp.Score(lambda x: torch.sigmoid(30 * (x[:, 0] - 2)))).bind(B[None])
    return make_points(kind, n, spread, bound, 0, A, B, lp.Run(seed))


@pytest.mark.parametrize("kind", ["line", "sobol", "adaptive"])
def test_as_many_as_asked_for_by_seed_alone(kind):
    found = points(kind, 51)
    assert found.shape == (51, 3) and found.dtype == A.dtype and torch.equal(found, points(kind, 51))
    assert not torch.equal(found, points(kind, 51, seed=1))


def test_points_around_the_line_stray_by_the_spread():
    """Off the line by a normal deviate of spread · 5 / √3 a coordinate; along it one point in every n-th."""
    found, way = points("line"), B - A
    along = (found - A) @ way / 25
    off = found - A - along[:, None] * way
    assert off.square().sum(1).mean().sqrt() == pytest.approx(0.2 * 5 * (2 / 3) ** 0.5, rel=0.1)
    calm = (points("line", spread=1e-6) - A) @ way / 25
    assert ((calm * 512).floor() == torch.arange(512)).float().mean() > 0.95


def test_sobol_points_fill_the_widened_box_evenly():
    found, margin = points("sobol"), 0.2 * 5
    low, high = torch.minimum(A, B) - margin, torch.maximum(A, B) + margin
    unit = (found - low) / (high - low)
    assert (unit >= 0).all() and (unit <= 1).all()
    counts = torch.histc(unit[:, 0], 8, 0, 1)
    assert (counts == 64).all()  # 512 points of a (0, m, s)-net: every eighth holds as many


def test_adaptive_points_gather_where_the_score_is_steep():
    """The cliff at 2 takes a twentieth of the way; the second half of the points is drawn to it."""
    found = points("adaptive")
    near = (found[:, 0] - 2).abs() < 0.3
    assert near[256:].float().mean() > 2 * near[:256].float().mean()
    flat = points("adaptive", score=lp.Score(lambda x: x.sum(1)))  # as steep everywhere: nowhere is preferred
    assert abs(float(flat[256:, 0].mean() - flat[:256, 0].mean())) < 0.2


@pytest.mark.parametrize("kind", ["line", "sobol", "adaptive"])
def test_generated_points_shorten_the_line(kind):
    result = explain(lp.NeighborGraph(generate=kind, n_points=150))
    assert float(result.length_ratio.median()) < 1
    alone = explain(lp.NeighborGraph(generate=kind, n_points=150), inputs=X[2:3])
    torch.testing.assert_close(result.path[2], alone.path[0])


@pytest.mark.parametrize("kind", ["line", "sobol", "adaptive"])
def test_generated_points_without_a_score_take_no_part(kind):
    """Half of the points have a negative logarithm's argument; the path stays where there is one."""
    score, solver = lp.Score(lambda x: x[:, 1].log()), lp.NeighborGraph(generate=kind, refine=True)
    result = explain(solver, score, torch.tensor([[1.0, 0.1]]), torch.tensor([[0.0, 0.1]]))
    assert (result.path.points[:, 1] > 0).all() and result.values.isfinite().all()
    assert "points were left out" in result.status[0].value
