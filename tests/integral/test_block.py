"""Blocks: segments that examples share are integrated once, and their gradients are split."""

import pytest
import torch
from hypothesis import given, strategies as st

import leastpath as lp
from helpers import Counted, mlp, relative_error, wave
from leastpath import Path, Score, integrate
from leastpath.integral import integrator
from leastpath.integral.block import (
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
    extreme_by,
    rank_by,
    share_by,
    sketch,
    sum_by,
)

POOL = torch.tensor([[0.0, 0.0], [1.0, 0.2], [0.4, 1.0], [1.5, 1.5]], dtype=torch.float64)


def routes(*rows):
    offsets = torch.tensor([0, *(len(r) for r in rows)]).cumsum(0)
    return Path(POOL, torch.tensor([i for r in rows for i in r]), offsets)


@pytest.mark.parametrize("settings", [{}, {"tolerance": None, "n_steps": 30}, {"max_gradients": 50}])
def test_shared_segments_are_integrated_once_and_split(settings):
    """Example 1 walks example 0's route backwards, example 2 a part of it, example 3 its own way there and back."""
    path = routes([0, 1, 2, 3], [3, 2, 1, 0], [1, 2], [0, 2, 0])
    model = Counted(wave)
    result = integrate(Score(model), path, **settings)
    assert model.gradient_rows == pytest.approx(float(result.n_gradients.sum()))
    torch.testing.assert_close(result.values[1], -result.values[0])
    torch.testing.assert_close(result.length[1], result.length[0])
    torch.testing.assert_close(result.values[3], torch.zeros(2, dtype=torch.float64), rtol=0, atol=1e-12)
    assert model.gradient_rows < sum(float(integrate(Score(wave), path.select(torch.tensor([b])), **settings)
                                           .n_gradients) for b in range(4))  # fmt: skip


def test_segments_of_other_targets_are_not_shared():
    path, model = routes([0, 1, 2], [0, 1, 2], [2, 1, 0]), Counted(mlp(2).double())
    result = integrate(Score(model, torch.tensor([0, 1, 1])), path)
    assert model.gradient_rows == pytest.approx(float(result.n_gradients.sum()))
    torch.testing.assert_close(result.values[1], -result.values[2])
    for b, target in enumerate((0, 1, 1)):
        alone = integrate(Score(mlp(2).double(), target), path.select(torch.tensor([b])))
        assert relative_error(result.values[b : b + 1], alone.values) <= 0.02  # both within 1 %


@pytest.mark.parametrize("budget", [3, 10, 40, 100])
def test_budget_holds_for_every_walker_of_a_shared_segment(budget):
    """Example 3 walks only segments that others own: it pays its part of each."""
    path = routes([0, 1], [1, 2], [2, 3], [0, 1, 2, 3])
    model = Counted(wave)
    result = integrate(Score(model), path, tolerance=1e-5, max_gradients=budget)
    assert (result.n_gradients <= budget + 1e-6).all()
    assert model.gradient_rows == pytest.approx(float(result.n_gradients.sum()))


@given(st.integers(0, 100), st.integers(1, 4))
def test_shared_routes_equal_separate_polylines(seed, n):
    generator = torch.Generator().manual_seed(seed)
    rows = [torch.randint(4, (4,), generator=generator).tolist() for _ in range(n)]
    path = routes(*rows)
    separate = Path.polyline(torch.stack([path[b] for b in range(n)]))
    score = Score(lambda x: torch.sin(5 * x[:, 0]) * x[:, 1])
    a, b = integrate(score, path, tolerance=1e-4), integrate(score, separate, tolerance=1e-4)
    torch.testing.assert_close(a.values, b.values, rtol=1e-3, atol=1e-4)
    torch.testing.assert_close(a.change, b.change)
    torch.testing.assert_close(a.length, b.length, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("settings", [{}, {"tolerance": None, "n_steps": 5}])
def test_path_of_one_knot_costs_nothing(settings):
    path = Path(torch.eye(2), torch.tensor([0, 0, 1]), torch.tensor([0, 1, 3]))
    model = Counted(wave)
    result = integrate(Score(model), path, **settings)
    assert result.n_gradients[0] == 0 and not result.values[0].any() and result.length[0] == 0
    assert model.gradient_rows == result.n_gradients[1] > 0
    alone = integrate(Score(wave), path.select(torch.tensor([0])), **settings)
    assert not alone.values.any() and alone.n_gradients == 0


# ---- totals: few sums for any number of pieces, and sketches that keep norms -----------------------------------------


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(-1, 2)), min_size=1, max_size=20))
def test_sums_against_a_loop(pieces):
    receiver, error_class = torch.tensor(pieces).T.contiguous()
    attributions = torch.arange(2.0 * len(pieces)).view(-1, 2)
    totals, row = Totals.add_up(attributions, receiver, error_class)
    for b in range(len(totals.receiver)):
        torch.testing.assert_close(totals.sums[b], attributions[row == b].sum(0))
        assert set(receiver[row == b].tolist()) == {int(totals.receiver[b])}
        assert set(error_class[row == b].tolist()) == {int(totals.error_class[b])}
    alone = int((error_class == ALONE).sum())
    assert len(totals.receiver) == alone + len({pair for pair in pieces if pair[1] != ALONE})


def test_joined_totals_of_one_class_are_one():
    one = Totals(torch.ones(2, 3), torch.tensor([0, 0]), torch.tensor([ALONE, 4]))
    both, row = Totals.join([one, one])
    assert len(both.receiver) == 3 and row[1] == row[3] and row[0] != row[2]
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
    held, old = [], integrator._cut_round

    def watched(state, chosen):
        after = old(state, chosen)
        held.append(len(after.division.totals.receiver))
        return after

    monkeypatch.setattr(integrator, "_cut_round", watched)
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
    monkeypatch.setattr(integrator, "HELD_NUMBERS", 1000)
    halved = lp.integrate(lp.Score(kinked), path, tolerance=1e-3, max_gradients=1000)
    torch.testing.assert_close(halved.values, whole.values)
    assert torch.equal(halved.n_gradients, whole.n_gradients)


def test_no_pieces_have_no_sketch():
    assert sketch(torch.zeros(0, 3, 32, 32)).shape == (0, SKETCH)


# ---- rows that belong together ----------------------------------------------------------------------------------


INDEX = torch.tensor([0, 2, 0])


def test_rows_by_an_index_against_loops():
    values = torch.tensor([1.0, 2.0, 4.0])
    assert sum_by(values, INDEX, 3).tolist() == [5, 0, 2]
    assert sum_by(values[:, None].expand(3, 2), INDEX, 3).tolist() == [[5, 5], [0, 0], [2, 2]]
    assert extreme_by(values, INDEX, 3, "amin").tolist() == [1, torch.inf, 2]
    assert extreme_by(values, INDEX, 3, "amax").tolist() == [4, -torch.inf, 2]
    assert share_by(values, INDEX, 3).tolist() == pytest.approx([0.2, 1, 0.8])
    assert share_by(torch.zeros(3), INDEX, 3).tolist() == [0.5, 1, 0.5]


def test_ranks_are_those_within_an_index():
    assert rank_by(torch.tensor([3, 1, 3, 3, 1])).tolist() == [0, 0, 1, 2, 1]
    assert rank_by(torch.zeros(0, dtype=torch.long)).tolist() == []
