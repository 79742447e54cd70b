"""Spectral IG. Oracles: the published gates of singular values, one component of a vector, a diagonal matrix."""

import pytest
import torch

import leastpath as lp
from helpers import flat_points

SCORE = lp.Score(lambda x: x.flatten(1).prod(1))


def published(difference, alpha, overlap):
    """The authors' gate, channel by channel: component k is scaled by (α − (1 − w)(1 − σₖ/σ₁)) / w within [0, 1]."""
    out = torch.zeros_like(difference)
    for channel, matrix in enumerate(difference):
        u, s, vh = torch.linalg.svd(matrix, full_matrices=False)
        for k in range(len(s)):
            gate = float(((alpha - (1 - overlap) * (1 - s[k] / s[0])) / overlap).clamp(0, 1))
            out[channel] += gate * s[k] * torch.outer(u[:, k], vh[k])
    return out


def test_knots_against_the_published_gates():
    x, base = (
        flat_points(2, 60, 1, torch.float64).view(2, 3, 4, 5),
        flat_points(2, 60, 2, torch.float64).view(2, 3, 4, 5),
    )
    solver = lp.SpectralIG(overlap=0.4, n_knots=5)
    path = lp.attribute(lp.Score(lambda x: x.flatten(1).sum(1)), x, base, method=solver).path
    for b in range(2):
        for knot, alpha in enumerate((0, 0.25, 0.5, 0.75, 1)):
            expected = base[b] + published(x[b] - base[b], alpha, 0.4)
            torch.testing.assert_close(path[b][knot], expected, rtol=1e-9, atol=1e-9)


def test_the_largest_component_comes_first():
    x = torch.diag(torch.tensor([4.0, 1.0]))[None]
    knots = lp.attribute(SCORE, x, method=lp.SpectralIG(overlap=0.25, n_knots=9)).path[0]
    assert knots[2, 0, 0] == 4 and knots[2, 1, 1] == 0


def test_an_overlap_of_one_and_a_vector_are_straight():
    x = flat_points(2, 12, 1).view(2, 3, 4)
    knots = lp.attribute(SCORE, x, method=lp.SpectralIG(overlap=1.0, n_knots=3)).path
    torch.testing.assert_close(knots[0][1], x[0] / 2)
    assert lp.attribute(SCORE, x.flatten(1), method=lp.SpectralIG()).path.is_straight.all()


def test_wrong_settings_are_refused():
    with pytest.raises(ValueError, match="overlap=0 must be above 0"):
        lp.SpectralIG(overlap=0)
    with pytest.raises(ValueError, match="n_knots=1 must be at least 2"):
        lp.SpectralIG(n_knots=1)
