"""The ceiling of removal against all orders by brute force, and against the closed form of a linear score."""

from itertools import permutations

import numpy as np
import pytest
import torch

import leastpath as lp
from helpers import flat_points, mlp
from leastpath.evaluation import Comprehensiveness, Masking, NearOptimalRemoval, compare, symmetric_relevance_gain


def deletion_area(score, x, order):
    points = []
    for k in range(1, len(order)):
        point = x.clone()
        point[list(order[:k])] = 0
        points.append(point)
    return float(score.model(torch.stack(points)).softmax(1)[:, score.target].detach().double().sum())


def order_of(values):
    return tuple(values.argsort(descending=True).tolist())


@pytest.mark.parametrize("seed", range(3))
def test_exact_order_against_all_orders(seed):
    score, x = lp.Score(mlp(6, 3, seed), 1), flat_points(2, 6, seed)
    found = NearOptimalRemoval()(score, x).values
    for b in range(2):
        best = min(deletion_area(score, x[b], order) for order in permutations(range(6)))
        assert deletion_area(score, x[b], order_of(found[b])) == pytest.approx(best, abs=1e-6)


def test_search_is_near_the_exact_order_and_never_above_greedy_alone():
    for seed in range(3):
        score, x = lp.Score(mlp(8, 3, seed), 1), flat_points(2, 8, seed)
        exact, searched, greedy = (
            NearOptimalRemoval(exact=e, sweeps=s)(score, x).values for e, s in ((12, 0), (0, 20), (0, 0))
        )
        areas = np.array(
            [[deletion_area(score, x[b], order_of(v[b])) for v in (exact, searched, greedy)] for b in (0, 1)]
        )
        assert (areas[:, 0] <= areas[:, 1] + 1e-6).all() and (areas[:, 1] <= areas[:, 2] + 1e-6).all()


def test_linear_score_in_closed_form():
    weights = torch.tensor([0.5, 3.0, -1.0, 2.0])
    score, x = lp.Score(lambda p: p @ weights), torch.tensor([[1.0, 1.0, 1.0, -2.0]])
    for exact in (0, 12):
        values = NearOptimalRemoval(exact=exact)(score, x).values
        assert order_of(values[0]) == order_of((weights * x)[0])


def test_no_method_stands_above_it():
    score, x = lp.Score(mlp(6, 3), 1), flat_points(4, 6)
    every = Masking(tuple(k / 6 for k in range(1, 7)), rank="signed")
    found = compare(
        {"ceiling": NearOptimalRemoval(), "line": lp.StraightLine()}, score, x, None, [Comprehensiveness(every)]
    )
    wide = found.per_example.pivot(index="input", columns="method", values="comprehensiveness")
    assert (wide["ceiling"] >= wide["line"] - 1e-3).all()


def test_features_that_are_removed_together():
    score, x = lp.Score(lambda p: p @ torch.tensor([1.0, 1.0, 3.0, 0.5])), torch.ones(1, 4)
    values = NearOptimalRemoval(groups=torch.tensor([0, 0, 1, -1]))(score, x).values
    torch.testing.assert_close(values, torch.tensor([[0.25, 0.25, 1.0, 0.0]]))
    assert float(symmetric_relevance_gain(score, x, values)) > 0


def test_batch_equals_loop_and_costs_are_counted():
    score, x = lp.Score(mlp(6, 3), 1), flat_points(3, 6)
    together = NearOptimalRemoval()(score, x)
    alone = [NearOptimalRemoval()(score, x[b : b + 1]).values for b in range(3)]
    torch.testing.assert_close(together.values, torch.cat(alone))
    assert together.n_forwards.tolist() == [2**6] * 3


def test_mistakes_are_sentences():
    with pytest.raises(ValueError, match="evaluations, more than most=5 allows"):
        NearOptimalRemoval(most=5)(lp.Score(mlp(6, 3), 0), flat_points(1, 6))
    with pytest.raises(ValueError, match=r"exact=40 must be from 0 to 20: it takes 2\^exact"):
        NearOptimalRemoval(exact=40)
