"""Integrals joined, mixed and unknown."""

import torch

import leastpath as lp
from helpers import flat_points, wave
from leastpath import Outcome, Path, Score, integrate
from leastpath.integral.result import MEASURED, joined_integrals, unknown_integral

PATH = Path.straight(torch.zeros(3, 2), flat_points(3))


def same(a: lp.Integral, b: lp.Integral) -> bool:
    return a.notes == b.notes and all(torch.equal(getattr(a, name), getattr(b, name)) for name in MEASURED)


def test_joined_in_the_order_asked_for():
    score = Score(wave)
    whole = integrate(score, PATH)
    parts = [integrate(score, PATH.select(torch.tensor(rows))) for rows in ([2, 0], [1])]
    assert same(joined_integrals(parts, torch.tensor([1, 2, 0])), whole)


def test_where_takes_the_others_measurements():
    a, b = integrate(Score(wave), PATH), integrate(Score(wave), PATH, tolerance=None, n_steps=3)
    mixed = a.where(torch.tensor([False, True, False]), b)
    for name in ("values", "length", "n_gradients"):
        one, other, both = (getattr(of, name) for of in (a, b, mixed))
        assert torch.equal(both, torch.stack([one[0], other[1], one[2]]))
    assert mixed.notes == [a.notes[0], b.notes[1], a.notes[2]]


def test_gap_is_what_the_values_miss_of_the_change():
    result = integrate(Score(wave), PATH, tolerance=None, n_steps=3)
    torch.testing.assert_close(result.gap, result.values.sum(1) - result.change)


def test_unknown_is_nan_and_costs_nothing():
    unknown = unknown_integral(Score(wave).bind(torch.ones(2, 3, 4)), 2)
    assert unknown.values.shape == (2, 3, 4) and unknown.values.isnan().all() and unknown.length.isnan().all()
    assert unknown.n_gradients.tolist() == [0, 0]
    assert [note.outcome for note in unknown.notes] == [Outcome.INTERRUPTED] * 2
