"""Random attributions. Oracle: the seed and the input alone decide."""

import torch

import leastpath as lp
from helpers import flat_points, mlp
from leastpath.methods.floor import random


def test_numbers_are_standard_normal_and_know_nothing_of_the_model():
    x = flat_points(4, 5000)
    one, two = (random(lp.Score(model, 0), x).values for model in (mlp(5000), lambda x: x[:, :3] ** 2))
    assert torch.equal(one, two)
    assert abs(float(one.mean())) < 0.03 and abs(float(one.std()) - 1) < 0.03


def test_an_input_gets_the_same_numbers_alone_and_in_a_batch_and_another_gets_others():
    x, score = flat_points(3, 6), lp.Score(lambda x: x.sum(1))
    together = random(score, x, seed=4).values
    assert torch.equal(random(score, x[1:2], seed=4).values[0], together[1])
    assert not torch.equal(together[0], together[1]) and not torch.equal(random(score, x, seed=5).values, together)
