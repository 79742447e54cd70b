"""The first look at a path: how much of it, and what a solver has looked at already."""

import pytest
import torch

import leastpath as lp
from helpers import Counted, wave
from leastpath import Path, Score, integrate
from leastpath.integral.first_look import _first_pieces
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


@pytest.mark.parametrize(("pieces", "saved"), [(6, 12), (3, 0)])
@pytest.mark.parametrize("backwards", [False, True])
def test_a_segment_that_is_known_in_pieces_is_verified_and_not_looked_at_again(pieces, saved, backwards):
    """As if the integrator had looked itself, if there are as many pieces as it would take; fewer are not enough."""
    _, t0, t1 = _first_pieces(torch.tensor([pieces]), torch.tensor([True]))
    tail, head = (torch.full((pieces,), end) for end in ((1, 0) if backwards else (0, 1)))
    t0, t1 = (1 - t1, 1 - t0) if backwards else (t0, t1)
    bound, example = Score(wave).bind(LINE.end), torch.zeros(pieces).long()
    estimate = quadrature(bound, Pieces(LINE.points, tail, head, example, t0, t1), lp.Conformal(), "gauss_legendre", 2)
    known = KnownSegments(tail, head, example, estimate, torch.stack([t0, t1], 1))
    without, result = integrate(Score(wave), LINE), integrate(Score(wave), LINE, known=known)
    torch.testing.assert_close(result.values, without.values)
    assert result.n_gradients == without.n_gradients - saved
