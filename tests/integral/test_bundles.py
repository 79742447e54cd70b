"""Bundles: few sums for any number of pieces, and sketches that keep norms."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import leastpath as lp
from leastpath.integral import refinement
from leastpath.integral.bundles import (
    ALONE,
    CLASSES,
    LEVELS,
    NEVER,
    OWN_SUMS,
    SKETCH,
    STRANDS,
    Bundles,
    kinds_of,
    kinds_unverified,
    rank_by,
    sketched,
)


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(-1, 2)), min_size=1, max_size=20))
def test_sums_against_a_loop(pieces):
    carrier, kind = torch.tensor(pieces).T.contiguous()
    attributions = torch.arange(2.0 * len(pieces)).view(-1, 2)
    bundles, row = Bundles.of(attributions, carrier, kind)
    for b in range(len(bundles)):
        torch.testing.assert_close(bundles.sums[b], attributions[row == b].sum(0))
        assert set(carrier[row == b].tolist()) == {int(bundles.carrier[b])}
        assert set(kind[row == b].tolist()) == {int(bundles.kind[b])}
    alone = int((kind == ALONE).sum())
    assert len(bundles) == alone + len({pair for pair in pieces if pair[1] != ALONE})


def test_joined_bundles_of_one_class_are_one():
    one = Bundles(torch.ones(2, 3), torch.tensor([0, 0]), torch.tensor([ALONE, 4]))
    both, row = Bundles.join([one, one])
    assert len(both) == 3 and row[1] == row[3] and row[0] != row[2]
    assert both.sums[row[1]].tolist() == [2, 2, 2]


def test_ranks_are_those_within_an_index():
    assert rank_by(torch.tensor([3, 1, 3, 3, 1])).tolist() == [0, 0, 1, 2, 1]
    assert rank_by(torch.zeros(0, dtype=torch.long)).tolist() == []


def test_classes_by_powers_of_two():
    excess = torch.tensor([0.0, 0.01, 0.6, 1.5, 3.0, 1e9]).double()
    kind = kinds_of(excess, torch.ones(6, dtype=torch.bool), torch.tensor([0, 1, 2, 3, 4, 5]))
    assert (kind // STRANDS).tolist() == [0, 0, 3, 4, 5, LEVELS - 1] and (kind % STRANDS).tolist() == [0, 1, 0, 1, 0, 1]
    assert (kinds_of(excess, torch.zeros(6, dtype=torch.bool), torch.arange(6)) == NEVER).all()


def test_few_pieces_have_sums_of_their_own():
    few, many = torch.zeros(OWN_SUMS, dtype=torch.long), torch.zeros(OWN_SUMS + 1, dtype=torch.long)
    assert (kinds_unverified(few, 1) == ALONE).all() and len(kinds_unverified(many, 1).unique()) == STRANDS


@pytest.mark.parametrize("shape", [(5,), (SKETCH,), (3, 32, 32), (10_000,)])
def test_sketches_keep_norms(shape):
    """Exactly for few features; else up to the spread of 127 random sums, a few per cent in the mean of many."""
    x = torch.randn(50, *shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    ratio = sketched(x).norm(dim=1) / x.flatten(1).norm(dim=1)
    assert sketched(x).shape == (50, min(SKETCH, x[0].numel()))
    if x[0].numel() <= SKETCH:
        assert torch.equal(sketched(x), x.flatten(1))
    else:
        assert abs(float((ratio**2).mean()) - 1) < 0.06 and float(ratio.std()) < 0.1
    torch.testing.assert_close(sketched(x[:1] - x[1:2]), sketched(x[:1]) - sketched(x[1:2]))


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
        held.append(len(after.standing.bundles))
        return after

    monkeypatch.setattr(refinement._State, "after_cutting", watched)
    path = lp.Path.polyline(torch.rand(2, knots, 6, generator=torch.Generator().manual_seed(1), dtype=torch.float64))
    found = lp.integrate(lp.Score(kinked), path, tolerance=2e-3)
    assert found.n_gradients.max() > 8 * OWN_SUMS and max(held) <= 2 * (OWN_SUMS + CLASSES)
    error = found.values - (parts(path.end) - parts(path.start))
    assert (2 * error.norm(dim=1) <= 2e-3 * found.values.abs().sum(1)).all()  # as the tolerance counts it


def test_crowded_paths_batch_equals_loop():
    path = lp.Path.polyline(torch.rand(3, 4, 6, generator=torch.Generator().manual_seed(2), dtype=torch.float64))
    together = lp.integrate(lp.Score(kinked), path, tolerance=2e-3, max_gradients=1500)
    for b in range(3):
        alone = lp.integrate(lp.Score(kinked), path.select(torch.tensor([b])), tolerance=2e-3, max_gradients=1500)
        torch.testing.assert_close(together.values[b], alone.values[0])
        assert together.n_gradients[b] == alone.n_gradients[0] > 4 * OWN_SUMS


def test_blocks_that_hold_too_much_are_halved_with_the_same_result(monkeypatch):
    path = lp.Path.straight(*torch.rand(2, 5, 6, generator=torch.Generator().manual_seed(3), dtype=torch.float64))
    whole = lp.integrate(lp.Score(kinked), path, tolerance=1e-3, max_gradients=1000)
    monkeypatch.setattr(refinement, "HELD_NUMBERS", 1000)
    halved = lp.integrate(lp.Score(kinked), path, tolerance=1e-3, max_gradients=1000)
    torch.testing.assert_close(halved.values, whole.values)
    assert torch.equal(halved.n_gradients, whole.n_gradients)


def test_no_pieces_have_no_sketch():
    assert sketched(torch.zeros(0, 3, 32, 32)).shape == (0, SKETCH)
