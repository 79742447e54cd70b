"""Sequential IG. Oracles: Integrated Gradients of one token at a time, leaving one out, a separable score."""

import pytest
import torch

import leastpath as lp
from helpers import TextNet, flat_points, mlp, seeded, separable, separable_parts
from leastpath.methods import METHODS


def test_tokens_against_integrated_gradients_of_each_alone():
    net = seeded(TextNet).eval()
    score, ids = lp.Score(net, 1, layer=net.embedding), torch.tensor([[1, 2, 3], [4, 5, 6]])
    result = METHODS["sequential_ig"](score, ids, torch.zeros_like(ids))
    for token in range(3):
        without = ids.clone()
        without[:, token] = 0
        alone = lp.attribute(score, ids, without, method=lp.StraightLine(), tolerance=1e-5)
        torch.testing.assert_close(result.values[:, token], alone.values[:, token], rtol=1e-3, atol=1e-5)
        torch.testing.assert_close(result.values[:, token].sum(1), alone.score_change, rtol=1e-3, atol=1e-5)
    assert result.n_gradients.tolist() == [150, 150]


def test_a_separable_score_against_its_closed_form():
    x, base = flat_points(2, 3, 1, torch.float64), flat_points(2, 3, 2, torch.float64)
    result = METHODS["sequential_ig"](lp.Score(separable), x, base, n_steps=20)
    torch.testing.assert_close(result.values, separable_parts(x) - separable_parts(base))


def test_groups_may_be_given():
    x = flat_points(2, 4, 1)
    result = METHODS["sequential_ig"](lp.Score(mlp(), 0), x, groups=torch.zeros(4, dtype=torch.long), n_steps=50)
    line = lp.attribute(lp.Score(mlp(), 0), x, method=lp.StraightLine(), tolerance=1e-5)
    torch.testing.assert_close(result.values, line.values, rtol=1e-3, atol=1e-5)
    with pytest.raises(ValueError, match="sequential_ig: n_steps=0 must be at least 1"):
        METHODS["sequential_ig"](lp.Score(mlp(), 0), x, n_steps=0)
