"""The first look at a path: how much of it, and what a solver has looked at already."""

import torch

import leastpath as lp
from helpers import Counted, wave
from leastpath import Path, Score, integrate
from leastpath.integral.pieces import KnownSegments, Pieces, quadrature

LINE = Path.straight(torch.zeros(1, 2, dtype=torch.float64), torch.ones(1, 2, dtype=torch.float64))


def test_n_steps_with_a_tolerance_is_where_refinement_starts():
    few, many = (integrate(Score(lambda x: x.prod(1)), LINE, n_steps=n).n_gradients for n in (2, 60))
    assert few < 36 and many >= 60


def test_known_segments_are_verified_and_not_looked_at_again():
    """Two gradients on each of 40 segments, one of them walked backwards: as if the integrator had looked itself."""
    path, model = LINE.subdivide(40), Counted(wave)
    bound = Score(wave).bind(path.end)
    tail, head, example = torch.arange(40), torch.arange(1, 41), torch.zeros(40, dtype=torch.long)
    tail[7], head[7] = 8, 7
    whole = torch.zeros(40).double(), torch.ones(40).double()
    estimate = quadrature(bound, Pieces(path.points, tail, head, example, *whole), lp.Conformal(), "gauss_legendre", 2)
    without = integrate(Score(wave), path)
    result = integrate(Score(model), path, known=KnownSegments(tail, head, example, estimate))
    torch.testing.assert_close(result.values, without.values)
    assert model.gradient_rows == result.n_gradients == without.n_gradients - 80
