"""Purity by its definition, and what random and ideal rankings give."""

import numpy as np
import pytest
import torch

import leastpath as lp
from helpers import flat_points, moons_net
from leastpath.evaluation.measure import given_attribution
from leastpath.evaluation.purity import auc_purity, purity, purity_of


def test_against_brute_force():
    values, predicted = flat_points(31, 2), torch.randint(2, (31,))
    strength = [abs(a) + abs(b) for a, b in values.tolist()]
    top = sorted(range(31), key=lambda i: -strength[i])[:15]
    assert purity(values, predicted, 1) == pytest.approx(np.mean([int(predicted[i] != 1) for i in top]))


def test_of_a_net_against_brute_force():
    model, x, baseline = moons_net(), flat_points(40, 2), torch.tensor([[-0.5, -0.5]])
    score = lp.Score(model, 0, "log_softmax")
    result = lp.attribute(score, x, baseline, method=lp.StraightLine())
    predicted, start = model(x).argmax(1), int(model(baseline).argmax())
    assert purity_of(score, x, baseline, result) == purity(result.values, predicted, start)


def test_single_output_is_classed_by_its_sign():
    score = lp.Score(lambda x: x[:, 0])
    x = torch.tensor([[3.0, 0.0], [-1.0, 0.0], [2.0, 0.0], [-0.5, 0.0]])
    assert purity_of(score, x, -1.0, given_attribution(x + 1)) == 1


def test_paper_range_has_chance_at_thirty_and_ceiling_at_sixty():
    noises = [0.05 * k for k in range(1, 14)]
    assert auc_purity(noises, [0.5] * 13) == pytest.approx(0.3)
    assert auc_purity(noises, torch.ones(5, 13)).tolist() == pytest.approx([0.6] * 5)


def test_random_ranking_gives_the_class_balance():
    predicted = torch.arange(4000) % 2
    assert purity(flat_points(4000, 2), predicted, 0) == pytest.approx(0.5, abs=0.04)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: purity(torch.zeros(4, 2), torch.tensor([0, 1, 0, 1]), 0), "all attributions are zero"),
        (lambda: purity(torch.full((4, 2), torch.nan), torch.tensor([0, 1, 0, 1]), 0), "NaN"),
        (lambda: purity(torch.ones(4, 2), torch.tensor([0, 1]), 0), "one class per input"),
        (lambda: purity(torch.ones(1, 2), torch.tensor([0]), 0), "two or more"),
        (
            lambda: purity_of(lp.Score(moons_net(), 0), flat_points(4), None, given_attribution(torch.ones(4, 3))),
            "shape",
        ),
    ],
)
def test_errors_say_what_to_do(call, words):
    with pytest.raises(ValueError, match=words):
        call()
