"""Intervals, tests and corrections, against all resamples, all sign flips, and their definitions."""

from itertools import product

import numpy as np
import pytest
import torch
from scipy.special import ndtr, ndtri

from leastpath.evaluation import statistics
from leastpath.evaluation.statistics import bootstrap_interval, holm, paired_test, trapezoid

SKEWED = np.random.default_rng(0).exponential(size=40)


@pytest.mark.parametrize("method", ["bca", "percentile"])
def test_interval_against_all_resamples(method):
    """Six examples have 6⁶ equally likely resamples: their quantiles, at Efron's levels for BCa."""
    x = SKEWED[:6]
    means = np.array(list(product(x, repeat=6))).mean(1)
    tails = np.array([0.025, 0.975])
    if method == "bca":
        bias = ndtri(((means < x.mean()).mean() + (means <= x.mean()).mean()) / 2)
        apart = x - x.mean()
        skewness = (apart**3).sum() / (6 * (apart**2).sum() ** 1.5)
        tails = ndtr(bias + (bias + ndtri(tails)) / (1 - skewness * (bias + ndtri(tails))))
    low, high = np.quantile(means, tails)
    found = bootstrap_interval(x, method=method)
    assert abs(found.low - low) < 0.03 * (high - low)
    assert abs(found.high - high) < 0.03 * (high - low)
    assert found.mean == x.mean() and found.n == 6


def test_interval_covers_the_mean_about_as_often_as_it_says():
    draws = np.random.default_rng(2).exponential(size=(300, 40))
    covered = [found.low <= 1 <= found.high for x in draws if (found := bootstrap_interval(x, 0.9, resamples=499))]
    assert 0.84 < np.mean(covered) < 0.96  # three standard errors around the 0.9 asked for


def test_same_seed_same_interval():
    assert bootstrap_interval(SKEWED, seed=3) == bootstrap_interval(torch.tensor(SKEWED), seed=3)
    assert bootstrap_interval(SKEWED, seed=3) != bootstrap_interval(SKEWED, seed=4)


def test_intervals_in_chunks_equal_those_at_once(monkeypatch):
    whole = bootstrap_interval(SKEWED)
    monkeypatch.setattr(statistics, "CHUNK", 1000)
    assert bootstrap_interval(SKEWED) == whole


def test_constant_and_single_values():
    flat = bootstrap_interval([2.0, 2.0, 2.0])
    assert (flat.low, flat.mean, flat.high) == (2, 2, 2)
    assert np.isnan(bootstrap_interval([2.0]).low)


def share_of_flips(d):
    """The share of all 2ⁿ sign flips whose sum is as far from zero as the one of d (n,)."""
    sums = np.array(list(product([-1, 1], repeat=len(d)))) @ d
    return np.mean(np.abs(sums) >= abs(d.sum()) - 1e-9)


@pytest.mark.parametrize("n", [1, 2, 9, 13])
def test_exact_p_value_against_all_sign_flips(n):
    a, b = np.random.default_rng(3).normal([[0.8], [0]], size=(2, n))
    assert paired_test(a, b).p_value == pytest.approx(share_of_flips(a - b))


def test_sampled_p_value_against_all_sign_flips():
    a, b = np.random.default_rng(4).normal([[0.6], [0]], size=(2, 14))
    exact = share_of_flips(a - b)
    assert paired_test(a, b).p_value == pytest.approx(exact, abs=4 * np.sqrt(exact / 9999))


def test_p_values_in_chunks_equal_those_at_once(monkeypatch):
    at_once = paired_test(SKEWED, SKEWED[::-1]).p_value
    monkeypatch.setattr(statistics, "CHUNK", 1000)
    assert paired_test(SKEWED, SKEWED[::-1]).p_value == at_once


def test_sums_that_differ_by_rounding_only_are_as_extreme():
    assert paired_test([0.1, 0.2, -0.3], [0.0, 0.0, 0.0]).p_value == 1


def test_equal_methods_do_not_differ():
    found = paired_test(SKEWED, SKEWED)
    assert (found.difference, found.p_value) == (0, 1)


def test_swapping_methods_mirrors_the_test():
    other = SKEWED[::-1]
    ours, theirs = paired_test(SKEWED, other), paired_test(other, SKEWED)
    assert ours.p_value == theirs.p_value and ours.difference == -theirs.difference


def test_p_values_are_uniform_without_a_difference():
    d = np.random.default_rng(5).normal(size=(400, 10))
    p = [paired_test(row, np.zeros(10), resamples=99).p_value for row in d]
    assert np.mean(np.array(p) <= 0.05) <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / 400)


def test_holm_against_its_definition():
    p = np.array([0.04, 0.001, 0.2, 0.012])
    expected = np.array([0.08, 0.004, 0.2, 0.036])
    np.testing.assert_allclose(holm(p), expected)
    assert holm([]).tolist() == []
    assert (holm([0.6, 0.9]) <= 1).all()


def test_trapezoid_against_numpy():
    curves, x = torch.rand(3, 4, dtype=torch.float64), [0.0, 0.1, 0.5, 2.0]
    np.testing.assert_allclose(trapezoid(curves, x), np.trapezoid(curves.numpy(), x))
    np.testing.assert_allclose(trapezoid(curves, x, normalize=True), np.trapezoid(curves.numpy(), x) / 2)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: bootstrap_interval([1.0, np.nan]), "1 of 2 values that are NaN"),
        (lambda: bootstrap_interval([np.nan], omit_nan=True), "no number"),
        (lambda: bootstrap_interval([]), "no number"),
        (lambda: bootstrap_interval([[1.0]]), "expected one number per example"),
        (lambda: bootstrap_interval([1.0, 2.0], level=95), "between 0 and 1"),
        (lambda: bootstrap_interval([1.0, 2.0], resamples=10), "too few"),
        (lambda: bootstrap_interval([1.0, 2.0], method="basic"), "unknown"),
        (lambda: paired_test([1.0, 2.0], [1.0]), "same examples"),
        (lambda: holm([0.1, np.nan]), "not be NaN"),
        (lambda: trapezoid(torch.rand(2, 1), [0.1]), "two or more points"),
        (lambda: trapezoid(torch.rand(2, 2), [0.2, 0.1]), "strictly increasing"),
    ],
)
def test_errors_say_what_to_do(call, words):
    with pytest.raises(ValueError, match=words):
        call()


def test_examples_without_value_are_left_out_when_asked():
    found = bootstrap_interval([1.0, np.nan, 3.0], omit_nan=True)
    assert (found.n, found.mean) == (2, 2)
    assert paired_test([1.0, np.nan, 3.0], [0.0, 0.0, 0.0], omit_nan=True).n == 2


def test_values_that_differ_by_rounding_only():
    found = bootstrap_interval([1.0, 1.0 + 2**-52, 1.0, 1.0 - 2**-53])
    assert found.low == pytest.approx(1) and found.high == pytest.approx(1)
