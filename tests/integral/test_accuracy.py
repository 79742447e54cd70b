"""What sums may err by."""

import math
from dataclasses import replace

import pytest
import torch

import leastpath as lp
from helpers import flat_points, wave
from leastpath import Outcome, Path, Score, integrate
from leastpath.integral import accuracy as notes
from leastpath.integral.accuracy import (
    MEASURED,
    Accuracy,
    Errors,
    Sums,
    averaged_errors,
    join_integrals,
    size_of_error,
    unknown_integral,
)

TENTH = Accuracy(0.1)


EPS = torch.finfo(torch.float32).eps


def example(**given) -> Sums:
    """One example with values (3, -1), Δf = 2, and a score between 0 and 4."""
    numbers = {"length": 5, "residual": 0.01, "moved": 0.01, "length_moved": 0.01, "pieces": 3, "low": 0, "high": 4}
    numbers |= {"change": 2, "rival": torch.nan} | given
    return Sums(torch.tensor([[3.0, -1.0]]), **{name: torch.tensor([float(n)]) for name, n in numbers.items()})


def test_allowed_errors_against_their_definition():
    attribution, gap, length, residual = (float(part) for part in example().allow(TENTH, 0.0))
    assert (attribution, gap, length, residual) == pytest.approx((0.4, 0.2, 0.5, 0.4))
    assert float(example(change=1).allow(TENTH, 0.0).residual) == pytest.approx(0.1)  # not complete: gap 1
    assert float(example(change=0).allow(TENTH, 0.0).gap) == pytest.approx(0.1 * 0.01 * 4)  # of the score's range
    assert float(example().allow(TENTH, 1e-3).gap) == pytest.approx(0.2 + 64 * 1e-3 * 4)


def test_a_length_that_is_only_compared_against_its_definition():
    """Length 5: 10 % beside a length far away, half of the difference beside a near one, its own 1 % at least."""
    asked = replace(TENTH, length_tolerance=0.01, measure="length")
    for rival, allowed in ((50.0, 0.5), (0.1, 0.5), (5.4, 0.2), (5.0, 0.05)):
        assert float(example(rival=rival).allow(asked, 0.0).length) == pytest.approx(allowed)


def test_what_nobody_takes_against_its_definition():
    """Length 5: beside a shorter rival it is only compared; where the rival is longer, all is as exact as asked for."""
    asked = replace(TENTH, length_tolerance=0.01)
    for rival, length in ((0.1, 0.5), (4.6, 0.2), (5.0, 0.05), (5.4, 0.05), (50.0, 0.05)):
        found, alone = example(rival=rival).allow(asked, 0.0), example().allow(asked, 0.0)
        assert float(found.length) == pytest.approx(length)
        others = [found.attribution, found.gap, found.residual]
        if rival < 5:
            assert all(map(torch.isinf, others))
        else:
            assert others == [alone.attribution, alone.gap, alone.residual]


def test_averaged_errors_against_random_walks():
    """Independent moves of 400 pieces in 50 features: the estimate is near the true move of the sum, far below Σ."""
    generator = torch.Generator().manual_seed(0)
    moves = torch.randn(20, 400, 50, generator=generator, dtype=torch.float64)
    true = size_of_error(moves.sum(1))
    halves = size_of_error(moves.flatten(0, 1)).view(20, 400, 1).repeat_interleave(2, 1) / 2  # one a part
    totals, squares = (part.sum(1).expand(-1, 3) for part in (halves, halves**2))
    found = averaged_errors(totals, squares, true, torch.zeros_like(true))
    assert ((found[:, 1] >= true) & (found[:, 1] < 1.5 * true) & (found[:, 1] < 0.1 * totals[:, 1])).all()
    coherent = averaged_errors(totals, squares, totals[:, 1], totals[:, 2])  # moves of one sign: nothing cancels
    torch.testing.assert_close(coherent[:, 1:], totals[:, 1:])


@pytest.mark.parametrize("wrong", [{"moved": 0.41}, {"change": 1.7}, {"length_moved": 0.51}, {"residual": 0.41}])
def test_an_example_is_done_when_every_error_is_within(wrong):
    assert example().errors.within(example().allow(TENTH, 0.0), "all").all()
    sums = example(**wrong)
    assert not sums.errors.within(sums.allow(TENTH, 0.0), "all").any()
    assert sums.errors.within(sums.allow(TENTH, 0.0), "length").all() == ("length_moved" not in wrong)


def test_flat_and_taken():
    assert not example().flat(EPS).any() and not example(high=0).flat(EPS).any()  # there are values, then
    assert example(high=0)._replace(values=torch.zeros(1, 2)).flat(EPS).all()
    nearly = example(low=1, high=1 + 1e-6)._replace(values=torch.zeros(1, 2))
    assert nearly.flat(EPS).all() and not nearly.flat(torch.finfo(torch.float64).eps).any()
    twice = Sums(*(torch.cat([a, b]) for a, b in zip(example(), example(length=7), strict=True)))
    assert twice.take(torch.tensor([1])).length.tolist() == [7] and isinstance(twice.errors, Errors)


def test_errors():
    with pytest.raises(ValueError, match="rule='simpson' is unknown: use one of"):
        Accuracy(rule="simpson")
    with pytest.raises(ValueError, match="n_steps=0 must be at least 1"):
        Accuracy(tolerance=None, n_steps=0, rule="midpoint")


# ---- integrals joined, mixed and unknown, and what statuses say about them -------------------------------------------


LINE = Path.straight(torch.zeros(1, 2, dtype=torch.float64), torch.ones(1, 2, dtype=torch.float64))


PATH = Path.straight(torch.zeros(3, 2), flat_points(3))


def same(a: lp.Integral, b: lp.Integral) -> bool:
    return a.notes == b.notes and all(torch.equal(getattr(a, name), getattr(b, name)) for name in MEASURED)


def test_joined_in_the_order_asked_for():
    score = Score(wave)
    whole = integrate(score, PATH)
    parts = [integrate(score, PATH.select(torch.tensor(rows))) for rows in ([2, 0], [1])]
    assert same(join_integrals(parts, torch.tensor([1, 2, 0])), whole)


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


# ---- sentences -----------------------------------------------------------------------------------------------------

WITHIN = (0.1, 0.15, 0.2, 0.3)  # attributions, completeness gap, length, gaps of single pieces


@pytest.mark.parametrize("settings", [{}, {"tolerance": None, "n_steps": 5}])
def test_flat_score_says_so(settings):
    result = integrate(Score(lambda x: 0 * x.sum(1) + 3), LINE, **settings)
    assert result.notes[0].outcome is Outcome.FLAT and not result.values.any()


def test_status_says_when_rounding_and_not_the_tolerance_was_reached():
    score = lp.Score(lambda x: (x**2).sum(1) + 1000)  # in float32 a change of 2 is known to 1e-4 at best
    path = lp.Path.straight(torch.zeros(1, 2), torch.ones(1, 2))
    (note,) = lp.integrate(score, path, tolerance=1e-6).notes
    assert note.outcome is lp.Outcome.REACHED and "as exact as float32 rounds this score" in note.sentence
    (note,) = lp.integrate(score, path, tolerance=0.1).notes
    assert note.sentence.startswith("the integral is within tolerance 0.1, after ")


def test_status_says_when_segments_took_more_than_the_fixed_steps():
    path = lp.Path.polyline(torch.linspace(0, 1, 9)[None, :, None].expand(1, 9, 2))
    (note,) = lp.integrate(lp.Score(lambda x: x.sum(1)), path, tolerance=None, n_steps=3).notes
    assert "8 fixed steps where n_steps=3 were asked for" in note.sentence


def test_a_gap_within_what_is_allowed_is_not_reported_as_missing():
    assert notes.say_missing((0.3, 0.06, 0.1, 0.2), WITHIN) == (
        "the attributions may still be wrong by 0.3 in total (0.1 allowed)"
    )
    assert notes.say_missing((0.05, 0.06, 0.1, 0.4), WITHIN) == (
        "the completeness gaps of single pieces of the path add up to 0.4 (0.3 allowed)"
    )


def test_what_was_not_measured_is_not_known_and_not_infinite():
    assert notes.say_missing((math.inf, 0.06, math.inf, 0.4), WITHIN) == (
        "the errors of the attributions and of the length are not known"
    )


def test_at_most_two_things_are_missing_in_a_sentence():
    assert notes.say_missing((0.3, 0.2, 0.25, 0.4), WITHIN) == (
        "the attributions may still be wrong by 0.3 in total (0.1 allowed) and "
        "the completeness gap is 0.2 (0.15 allowed)"
    )


def not_reached(**facts) -> lp.Note:
    facts = {"interrupted": False, "stuck": False, "spent": 36.0, "budget": 40.0, "max_gradients": 40} | facts
    return notes.note_shortfall(0.01, facts.pop("dtype", "float32"), "something is missing", **facts)


def test_budget_says_what_was_left_of_it():
    note = not_reached()
    assert note.outcome is Outcome.BUDGET_SPENT and note.sentence == (
        "stopped after 36 gradients (max_gradients=40), before tolerance 0.01 was reached: something is missing; "
        "raise max_gradients or tolerance"
    )
    assert "stopped after 1 gradient (40 were left of max_gradients=100)," in not_reached(
        spent=1.0, max_gradients=100
    ).sentence  # fmt: skip


def test_float64_is_no_remedy_for_float64():
    assert not_reached(stuck=True).outcome is Outcome.UNRESOLVED
    assert not_reached(stuck=True).sentence.endswith("; use float64, or explain a smoother output")
    assert not_reached(stuck=True, dtype="float64").sentence.endswith("missing; explain a smoother output")


def test_fixed_steps_that_the_budget_cut_short():
    note = notes.note_fixed_steps(50, 20.0, 20.0, 80, 0.5)
    assert note.outcome is Outcome.BUDGET_SPENT
    assert "20 fixed steps where n_steps=50 were asked for (max_gradients=80 left no more)" in note.sentence
