"""The straight line: two knots, no cost, plain Integrated Gradients."""

import torch

import leastpath as lp
from helpers import Counted, flat_points, mlp


def test_two_knots_and_no_gradients():
    model, x = Counted(mlp(3)), flat_points(4, 3)
    bound = lp.Score(model, 1).bind(x)
    solution = lp.StraightLine().solve(bound, lp.Conformal(), torch.zeros_like(x), x, lp.Run())
    assert solution.path.n_knots.tolist() == [2] * 4 and solution.path.is_straight.all()
    assert solution.notes is None and model.gradient_rows == model.value_rows == 0


def test_same_line_under_every_metric():
    x, score = flat_points(3), lp.Score(mlp(2), 1)
    values = [
        lp.attribute(score, x, method=lp.StraightLine(), metric=metric, tolerance=None, n_steps=20).values
        for metric in (lp.Conformal(), lp.RankOne(), lp.NoCancellation(), lp.Euclidean(), lp.Conformal(damping=9.0))
    ]
    assert all(torch.equal(v, values[0]) for v in values)


def test_subdivided_line_gives_the_same_attributions():
    """Limit equals known method: a polyline whose knots lie on the line is the line."""
    x, score = flat_points(3, dtype=torch.float64), lp.Score(mlp(2).double(), 1)
    line = lp.Path.straight(torch.zeros_like(x), x)
    a, b = (lp.integrate(score, path, tolerance=1e-8) for path in (line, line.subdivide(7)))
    torch.testing.assert_close(a.values, b.values)
    torch.testing.assert_close(a.length, b.length)
