"""The axioms as measurements: zero where they hold, the known amount where they are broken on purpose."""

import functools
import math

import pytest
import torch

import axiom_oracles as oracle
import leastpath as lp
from helpers import Polyline, flat_points, mlp
from leastpath.evaluation import axioms

straight = functools.partial(lp.attribute, method=lp.StraightLine(), tolerance=1e-4)
X = flat_points(4, 3)


class Crooked:
    """Not a line integral: the values of a line, with `add` on top."""

    def __init__(self, add) -> None:
        self.add = add

    def __call__(self, score, inputs, baselines):
        import dataclasses

        result = straight(score, inputs, baselines)
        return dataclasses.replace(result, values=result.values + self.add)


def product(x):
    return x.prod(1)


def test_gap_and_cancellation_against_definition():
    values, change = flat_points(4, 6).view(4, 2, 3), flat_points(4, 1)[:, 0]
    torch.testing.assert_close(oracle.completeness_gap(values, change), values.sum((1, 2)) - change)
    torch.testing.assert_close(oracle.cancellation(values, change), values.abs().sum((1, 2)) - change.abs())


def test_gap_and_cancellation_agree_with_the_result():
    result = straight(lp.Score(product), X)
    torch.testing.assert_close(oracle.completeness_gap(result.values, result.score_change), result.completeness_gap)
    torch.testing.assert_close(oracle.cancellation(result.values, result.score_change), result.cancellation)


def test_cancellation_of_the_counter_examples():
    score = lp.Score(lambda x: 2 * x[:, 0] - x[:, 1])
    result = straight(score, torch.ones(1, 2))
    torch.testing.assert_close(oracle.cancellation(result.values, result.score_change), torch.tensor([2.0]))


def test_dummy_is_the_largest_value_on_ignored_features():
    score = lp.Score(lambda x: x[:, 0] * x[:, 1])
    ignored = torch.tensor([False, False, True])
    assert oracle.dummy(straight(score, X).values, ignored).tolist() == [0] * 4
    broken = Crooked(torch.tensor([0.0, 0.0, -0.3]))(score, X, torch.zeros(4, 3))
    torch.testing.assert_close(oracle.dummy(broken.values, ignored), torch.full((4,), 0.3))


@pytest.mark.parametrize("features", [None, [0, 2]])
def test_sensitivity_holds_for_line_integrals_and_shows_what_breaks_it(features):
    score, base = lp.Score(mlp(3), 1), torch.full((1, 3), 0.2)
    gaps = oracle.sensitivity(straight, score, X, base, features)
    assert gaps.shape == (len(features or range(3)), 4)
    torch.testing.assert_close(gaps, torch.zeros_like(gaps), rtol=0, atol=1e-4)
    # 0.1 too much on every feature: once on the changed one, twice on the others.
    broken = oracle.sensitivity(Crooked(0.1), score, X, base, features)
    torch.testing.assert_close(broken, torch.full_like(broken, 0.3), rtol=0, atol=1e-3)


def test_symmetry_holds_on_the_line_and_shows_what_breaks_it():
    score = lp.Score(lambda x: torch.tanh(x[:, 0] * x[:, 1]) + x[:, 2])
    gaps = axioms.symmetry(straight, score, X, [(0, 1)], 0.1)
    assert gaps.shape == (1, 4)
    torch.testing.assert_close(gaps, torch.zeros_like(gaps), rtol=0, atol=1e-6)
    broken = axioms.symmetry(Crooked(torch.tensor([0.0, 0.25, 0.0])), score, X, [(0, 1)], 0.1)
    torch.testing.assert_close(broken, torch.full_like(broken, 0.25))


def test_implementation_invariance_of_one_function_and_of_two():
    same = (lp.Score(product), lp.Score(lambda x: x[:, 2] * x[:, 1] * x[:, 0]))
    torch.testing.assert_close(oracle.implementation_invariance(straight, *same, X), torch.zeros(4), rtol=0, atol=1e-5)
    other = oracle.implementation_invariance(straight, same[0], lp.Score(lambda x: 2 * x.prod(1)), X)
    torch.testing.assert_close(other, torch.ones(4), rtol=1e-3, atol=0)
    flat = lp.Score(lambda x: 0 * x.sum(1))
    assert oracle.implementation_invariance(straight, flat, flat, X).tolist() == [0] * 4


def test_lengths_of_a_linear_score_against_closed_form():
    """f = 3x₀ − 4x₁ from 0 to (1, 1): L₁ = 7, L_r = 1, L_c = 5√2, Σ|A| = 7."""
    measured = oracle.lengths(
        lp.Score(lambda x: 3 * x[:, 0] - 4 * x[:, 1]), lp.Path.straight(torch.zeros(1, 2), torch.ones(1, 2))
    )
    for name, expected in (("no_cancellation", 7), ("rank_one", 1), ("conformal", 5 * math.sqrt(2)), ("magnitude", 7)):
        assert float(getattr(measured, name)) == pytest.approx(expected, rel=1e-5), name
    assert float(measured.change) == pytest.approx(-1)
    certificates = {name: float(c) for name, c in measured.certificates().items()}
    assert certificates == pytest.approx({"no_cancellation": 7, "rank_one": 1, "conformal": 5 * math.sqrt(2)}, rel=1e-5)
    assert all(float(v) <= 1e-5 for v in measured.violations().values())


def test_violations_show_what_is_broken():
    """Numbers that no path has: every inequality fails by a half."""
    one, two, four = (torch.tensor([v]) for v in (1.0, 2.0, 4.0))
    broken = oracle.Lengths(no_cancellation=one, rank_one=two, conformal=one, magnitude=two, change=four).violations()
    assert {name: float(v) for name, v in broken.items()} == pytest.approx(dict.fromkeys(broken, 0.5))
    assert len(broken) == 5


def test_lengths_of_curved_paths_keep_the_inequalities():
    score, x = lp.Score(mlp(3), 1), X
    path = Polyline().solve(None, None, torch.zeros_like(x), x, None).path
    assert all((v <= 3e-3).all() for v in oracle.lengths(score, path).violations().values())  # measured to 1e-3 each


ERRORS = {
    "batch": (
        lambda: oracle.cancellation(torch.ones(2, 3), torch.ones(3)),
        "values of 2 examples and score changes of 3",
    ),
    "mask shape": (
        lambda: oracle.dummy(torch.ones(2, 3), torch.tensor([True])),
        r"expected a bool mask of shape \(3,\)",
    ),
    "mask dtype": (lambda: oracle.dummy(torch.ones(2, 3), torch.ones(3)), "ignored is torch.float32"),
    "mask empty": (
        lambda: oracle.dummy(torch.ones(2, 2), torch.tensor([False, False])),
        "ignored marks no feature",
    ),
    "no pairs": (lambda: axioms.symmetry(straight, lp.Score(product), X, []), r"pairs is empty: .*pairs=\[\(0, 1\)\]"),
    "not symmetric": (
        lambda: axioms.symmetry(straight, lp.Score(lambda x: x[:, 0] - x[:, 1]), X, [(0, 1)]),
        "the score is not symmetric in features 0 and 1: a swap changes it by up to",
    ),
}


@pytest.mark.parametrize(("make", "match"), ERRORS.values(), ids=ERRORS)
def test_errors(make, match):
    with pytest.raises(ValueError, match=match):
        make()


# ---- as measures -------------------------------------------------------------------------------------------------


def anew(score, inputs, baselines, seed):
    return straight(score, inputs, baselines)


def test_measures_repeat_what_the_result_reports():
    result = straight(lp.Score(product), X)
    values = {m.name: m(None, None, None, result).values for m in (axioms.CompletenessGap(), axioms.Cancellation())}
    torch.testing.assert_close(values["completeness_gap"], result.completeness_gap.abs())
    torch.testing.assert_close(values["cancellation"], result.cancellation)
    assert torch.equal(axioms.Certificate()(None, None, None, result).values, result.certificate)
    relative = axioms.Cancellation(relative=True)(None, None, None, result).values
    torch.testing.assert_close(relative, result.cancellation / result.score_change.abs())


def test_symmetry_as_measure_against_the_function():
    score, pairs = lp.Score(product), ((0, 1), (1, 2))
    result = straight(score, X)
    crooked = Crooked(torch.tensor([0.0, 0.25, 0.0]))
    found = axioms.Asymmetry(pairs)(score, X, None, result, explain=lambda s, x, b, seed: crooked(s, x, b))
    torch.testing.assert_close(found.values, torch.full((4,), 0.25), atol=1e-4, rtol=0)
    assert (found.n_gradients > 0).all()
    assert (axioms.Asymmetry(pairs)(score, X, None, result, explain=anew).values < 1e-3).all()
    with pytest.raises(ValueError, match="pass explain="):
        axioms.Asymmetry(pairs)(score, X, None, result)
    with pytest.raises(ValueError, match="one input tensor"):
        axioms.Asymmetry(pairs)(score, (X, X), None, result, explain=anew)


@pytest.mark.parametrize("measure", [axioms.CompletenessGap(), axioms.Cancellation(), axioms.Certificate()])
def test_measures_refuse_the_result_of_other_inputs(measure):
    score = lp.Score(mlp(), 0)
    result = lp.attribute(score, flat_points(3, 4), method=lp.StraightLine())
    with pytest.raises(ValueError, match="explains 3 examples, the inputs are 5"):
        measure(score, flat_points(5, 4), None, result)
