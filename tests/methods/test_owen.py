"""Owen values. Oracles: the mean over all orders that keep halves together, and Shapley values of pairs."""

from itertools import product

import pytest
import torch

import leastpath as lp
from helpers import flat_points, mlp, shapley
from leastpath.methods import METHODS
from leastpath.methods.owen import halved_cells

owen = METHODS["owen"]


def by_orders(score, x, base):
    """The mean gain over all orders in which halves stay together: each of the divisions either way round."""
    k = len(x)
    divisions = []

    def collect(begin, end):
        if end - begin > 1:
            divisions.append((begin, end))
            middle = (begin + end + 1) // 2
            collect(begin, middle)
            collect(middle, end)

    collect(0, k)

    def order(begin, end, turned):
        if end - begin == 1:
            return [begin]
        middle = (begin + end + 1) // 2
        halves = [order(begin, middle, turned), order(middle, end, turned)]
        first, second = reversed(halves) if turned[begin, end] else halves
        return first + second

    values, all_turns = torch.zeros_like(x), list(product([False, True], repeat=len(divisions)))
    for turns in all_turns:
        point, before = base.clone(), float(score(base[None]))
        for i in order(0, k, dict(zip(divisions, turns, strict=True))):
            point[i] = x[i]
            after = float(score(point[None]))
            values[i] += after - before
            before = after
    return values / len(all_turns)


@pytest.mark.parametrize("k", [2, 5, 6])
def test_against_all_orders_that_keep_halves_together(k):
    x, base = flat_points(1, k, 1, torch.float64), flat_points(1, k, 2, torch.float64)
    score = lp.Score(mlp(k).double(), 1)
    result = owen(score, x, base, n_forwards=10_000)
    torch.testing.assert_close(result.values[0], by_orders(score, x[0], base[0]))


def test_features_that_act_in_pairs_get_their_shapley_values():
    x, base = flat_points(1, 4, 1, torch.float64), flat_points(1, 4, 2, torch.float64)
    score = lp.Score(lambda x: x[:, 0] * x[:, 1] - 3 * x[:, 1] * x[:, 3] + x[:, 2] ** 2)
    torch.testing.assert_close(owen(score, x, base).values[0], shapley(score, x[0], base[0]))


def test_any_budget_adds_up_and_is_kept():
    x = torch.rand(2, 3, 32, 32, generator=torch.Generator().manual_seed(0))
    for n in (2, 60, 500):
        result = owen(lp.Score(lambda x: x.flatten(1).square().sum(1).sin()), x, n_forwards=n, support=False)
        assert result.completeness_gap.abs().max() < 1e-4
        assert n <= int(result.n_forwards[1]) <= n + 8  # besides: the ends and the checks


def test_runs_are_cut_where_sentences_begin():
    """One division: what is before the cut and what is behind it, each the mean over both orders."""
    x = torch.tensor([[1.0, 2.0, 3.0, 4.0, 5.0]])
    score = lp.Score(lambda x: x[:, :4].sum(1) * x[:, 4])
    values = owen(score, x, n_forwards=2, cuts=(4,), support=False).values[0]
    torch.testing.assert_close(values, torch.tensor([6.25, 6.25, 6.25, 6.25, 25.0]))  # 10 · 5, half for each side
    near, middle = (owen(score, x, n_forwards=2, cuts=cuts, support=False).values[0] for cuts in ((1, 4), ()))
    torch.testing.assert_close(near, values)
    assert middle[2] != middle[3] == middle[4]


def test_what_matters_is_divided_first():
    score = lp.Score(lambda x: x[:, 0, 3, 21] * 4.0)
    values = owen(score, torch.ones(1, 1, 32, 32), n_forwards=700).values[0, 0]
    assert values[3, 21] == values.max() == 1.0 and (values > 0).sum() == 4  # a cell of 2 × 2 pixels


def test_halves_are_runs_of_numbers():
    cells = halved_cells(torch.Size([3, 32, 48]))
    assert cells.shape == (3, 32, 48) and sorted(set(cells.flatten().tolist())) == list(range(256))
    assert cells[0, :, :24].max() == 127 and cells[0, :16, :24].max() == 63
    with pytest.raises(ValueError, match="n_forwards=1 must be at least 2"):
        owen(lp.Score(lambda x: x[:, 0]), torch.ones(1, 2), n_forwards=1)
