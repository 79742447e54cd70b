"""Totals: few sums for any number of pieces, and sketches that keep norms."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import leastpath as lp
from leastpath.integral import refinement
from leastpath.integral.division import (
    ALONE,
    CLASSES,
    LEVELS,
    NEVER,
    OWN_TOTALS,
    SKETCH,
    STRANDS,
    Totals,
    classes_before_cutting,
    classes_of_error,
    sketch,
)


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(-1, 2)), min_size=1, max_size=20))
def test_sums_against_a_loop(pieces):
    receiver, error_class = torch.tensor(pieces).T.contiguous()
    attributions = torch.arange(2.0 * len(pieces)).view(-1, 2)
    totals, row = Totals.add_up(attributions, receiver, error_class)
    for b in range(len(totals)):
        torch.testing.assert_close(totals.sums[b], attributions[row == b].sum(0))
        assert set(receiver[row == b].tolist()) == {int(totals.receiver[b])}
        assert set(error_class[row == b].tolist()) == {int(totals.error_class[b])}
    alone = int((error_class == ALONE).sum())
    assert len(totals) == alone + len({pair for pair in pieces if pair[1] != ALONE})


def test_joined_totals_of_one_class_are_one():
    one = Totals(torch.ones(2, 3), torch.tensor([0, 0]), torch.tensor([ALONE, 4]))
    both, row = Totals.join([one, one])
    assert len(both) == 3 and row[1] == row[3] and row[0] != row[2]
    assert both.sums[row[1]].tolist() == [2, 2, 2]


def test_classes_by_powers_of_two():
    excess = torch.tensor([0.0, 0.01, 0.6, 1.5, 3.0, 1e9]).double()
    kind = classes_of_error(excess, torch.ones(6, dtype=torch.bool), torch.tensor([0, 1, 2, 3, 4, 5]))
    assert (kind // STRANDS).tolist() == [0, 0, 3, 4, 5, LEVELS - 1] and (kind % STRANDS).tolist() == [0, 1, 0, 1, 0, 1]
    assert (classes_of_error(excess, torch.zeros(6, dtype=torch.bool), torch.arange(6)) == NEVER).all()


def test_few_pieces_have_totals_of_their_own():
    few, many = torch.zeros(OWN_TOTALS, dtype=torch.long), torch.zeros(OWN_TOTALS + 1, dtype=torch.long)
    assert (classes_before_cutting(few, 1) == ALONE).all() and len(classes_before_cutting(many, 1).unique()) == STRANDS


@pytest.mark.parametrize("shape", [(5,), (SKETCH,), (3, 32, 32), (10_000,)])
def test_sketches_keep_norms(shape):
    """Exactly for few features; else up to the spread of 127 random sums, a few per cent in the mean of many."""
    x = torch.randn(50, *shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    ratio = sketch(x).norm(dim=1) / x.flatten(1).norm(dim=1)
    assert sketch(x).shape == (50, min(SKETCH, x[0].numel()))
    if x[0].numel() <= SKETCH:
        assert torch.equal(sketch(x), x.flatten(1))
    else:
        assert abs(float((ratio**2).mean()) - 1) < 0.06 and float(ratio.std()) < 0.1
    torch.testing.assert_close(sketch(x[:1] - x[1:2]), sketch(x[:1]) - sketch(x[1:2]))


WEIGHTS = torch.linspace(1, 2, 6, dtype=torch.float64)


def kinked(x):
    """A hundred kinks along a path, with more than four features; a sum over features, so that values are known."""
    return parts(x).sum(1)


def parts(x):
    return torch.sin(12 * x * WEIGHTS).abs() * WEIGHTS


@pytest.mark.parametrize("knots", [2, 5])
def test_sums_held_do_not_grow_with_gradients_and_values_are_right(monkeypatch, knots):
    """Hundreds of pieces, against the closed form of a sum over features."""
    held, old = [], refinement._State.after_cutting

    def watched(state, chosen):
        after = old(state, chosen)
        held.append(len(after.division.totals))
        return after

    monkeypatch.setattr(refinement._State, "after_cutting", watched)
    path = lp.Path.polyline(torch.rand(2, knots, 6, generator=torch.Generator().manual_seed(1), dtype=torch.float64))
    found = lp.integrate(lp.Score(kinked), path, tolerance=2e-3)
    assert found.n_gradients.max() > 8 * OWN_TOTALS and max(held) <= 2 * (OWN_TOTALS + CLASSES)
    error = found.values - (parts(path.end) - parts(path.start))
    assert (2 * error.norm(dim=1) <= 2e-3 * found.values.abs().sum(1)).all()  # as the tolerance counts it


def test_crowded_paths_batch_equals_loop():
    path = lp.Path.polyline(torch.rand(3, 4, 6, generator=torch.Generator().manual_seed(2), dtype=torch.float64))
    together = lp.integrate(lp.Score(kinked), path, tolerance=2e-3, max_gradients=1500)
    for b in range(3):
        alone = lp.integrate(lp.Score(kinked), path.select(torch.tensor([b])), tolerance=2e-3, max_gradients=1500)
        torch.testing.assert_close(together.values[b], alone.values[0])
        assert together.n_gradients[b] == alone.n_gradients[0] > 4 * OWN_TOTALS


def test_blocks_that_hold_too_much_are_halved_with_the_same_result(monkeypatch):
    path = lp.Path.straight(*torch.rand(2, 5, 6, generator=torch.Generator().manual_seed(3), dtype=torch.float64))
    whole = lp.integrate(lp.Score(kinked), path, tolerance=1e-3, max_gradients=1000)
    monkeypatch.setattr(refinement, "HELD_NUMBERS", 1000)
    halved = lp.integrate(lp.Score(kinked), path, tolerance=1e-3, max_gradients=1000)
    torch.testing.assert_close(halved.values, whole.values)
    assert torch.equal(halved.n_gradients, whole.n_gradients)


def test_no_pieces_have_no_sketch():
    assert sketch(torch.zeros(0, 3, 32, 32)).shape == (0, SKETCH)
