"""Fixed steps: exactly as many gradients as were asked for, spread over the segments."""

import pytest
import torch
from hypothesis import given, strategies as st

import leastpath as lp
from helpers import Counted, flat_points, mlp
from leastpath import Outcome, Path, Score, integrate

LINE = Path.straight(torch.zeros(1, 2, dtype=torch.float64), torch.ones(1, 2, dtype=torch.float64))


@pytest.mark.parametrize("rule", ["gauss_legendre", "midpoint", "trapezoid"])
@pytest.mark.parametrize("n", [1, 2, 7, 50])
def test_fixed_steps_are_exactly_n_rows(rule, n):
    model = Counted(mlp(2))
    path = Path.straight(torch.zeros(3, 2), flat_points(3))
    result = integrate(Score(model, 1), path, tolerance=None, n_steps=n, rule=rule)
    assert result.n_gradients.tolist() == [n] * 3 and model.gradient_rows == 3 * n
    assert result.notes[0].outcome is Outcome.FIXED_STEPS and f"{n} fixed steps" in result.notes[0].sentence


@given(st.integers(0, 1000), st.integers(2, 6), st.integers(1, 30))
def test_fixed_steps_are_spread_over_segments_by_length(seed, knots, n):
    """They sum to n_steps, or to one a segment where n_steps are fewer; and lengths order them."""
    knots = flat_points(knots, 2, seed)[None]
    model = Counted(mlp(2))
    result = integrate(Score(model, 1), Path.polyline(knots), tolerance=None, n_steps=n)
    assert model.gradient_rows == result.n_gradients == max(n, knots.shape[1] - 1)


def test_fixed_steps_against_brute_force_segment_by_segment():
    """Segments of length 3 and 1 take 6 and 2 of 8 nodes."""
    knots = torch.tensor([[0.0, 0.0], [3.0, 0.0], [3.0, 1.0]], dtype=torch.float64)
    score = Score(lambda x: torch.exp(x[:, 0] / 2) * x[:, 1].cos())
    whole = integrate(score, Path.polyline(knots[None]), tolerance=None, n_steps=8)
    parts = [
        integrate(score, Path.straight(knots[i : i + 1], knots[i + 1 : i + 2]), tolerance=None, n_steps=n)
        for i, n in ((0, 6), (1, 2))
    ]
    torch.testing.assert_close(whole.values, parts[0].values + parts[1].values)
    torch.testing.assert_close(whole.length, parts[0].length + parts[1].length)


def test_length_is_never_below_the_change_of_score():
    """One node on a cliff sees nothing of it; the two ends do."""
    score = Score(lambda x: torch.sigmoid(1e4 * (x[:, 0] - 0.37)))
    for metric in (lp.Conformal(), lp.RankOne(), lp.NoCancellation()):
        result = integrate(score, LINE, metric, tolerance=None, n_steps=1)
        assert result.length >= result.change.abs()


def test_gradients_are_accumulated_not_kept():
    """The largest live set of gradients does not grow with the number of steps."""

    def peak(n_steps):
        seen, alive = [], []

        def hook(x):
            if torch.is_grad_enabled():
                x.register_hook(lambda g: alive.append(torch.UntypedStorage._weak_ref(g.untyped_storage())))
                seen.append(sum(not torch.UntypedStorage._expired(ref) for ref in alive))
            return (x**2).sum(1)

        integrate(Score(hook, batch_size=4), LINE, tolerance=None, n_steps=n_steps)
        return max(seen)

    assert peak(400) <= peak(20) + 1
