"""References without gradients. Oracles: a linear score, a product of two features, and brute force."""

import torch
from tiny_truth import WEIGHTS, linear_problem

import leastpath as lp
from studies.truth.problem import Problem
from studies.truth.references import (
    distance,
    edges,
    occlusion,
    random_values,
    shapley,
    sliding_windows,
    smooth_random,
)


def test_references_against_closed_forms():
    problem = linear_problem()
    for reference in (occlusion, shapley):
        values, change, _ = reference(problem, problem.baselines)
        torch.testing.assert_close(values, problem.inputs * WEIGHTS)
        torch.testing.assert_close(change, problem.inputs @ WEIGHTS)


def test_leaving_out_and_shapley_values_differ_where_features_need_each_other():
    inputs = torch.tensor([[2.0, 3.0]])
    problem = Problem(lambda output: lp.Score(lambda x: x.prod(1)), "raw", inputs, torch.zeros(1, 1, 2), {}, None)
    # Without either factor the product is 0; in an order of features, the last one adds all of it.
    assert occlusion(problem, problem.baselines)[0].tolist() == [[6.0, 6.0]]
    values, change, _ = shapley(problem, problem.baselines)
    assert float(values.sum()) == float(change) == 6.0 and set(values.flatten().tolist()) <= {0.0, 1.5, 3.0, 4.5, 6.0}


def test_random_values_do_not_depend_on_the_block():
    problem = linear_problem()
    alone = Problem(problem.score, "raw", problem.inputs[1:], problem.baselines[1:], {}, None)
    together = random_values(problem, problem.baselines)[0]
    assert torch.equal(together[1:], random_values(alone, alone.baselines)[0])
    assert not torch.equal(together[0], together[1])


def picture_problem() -> Problem:
    x = torch.rand(2, 3, 16, 16, generator=torch.Generator().manual_seed(0))
    x[:, :, :, 8:] = 0.25
    score = lp.Score(lambda x: x[:, 0, 4:8, 4:8].sum((1, 2)))
    return Problem(lambda output: score, "raw", x, torch.zeros(2, 1, 3, 16, 16), {}, None)


def test_what_can_be_had_of_a_picture_without_a_model():
    problem = picture_problem()
    steep, change, cost = edges(problem, problem.baselines)
    assert not steep[..., 9:].any() and steep[..., :8].min() >= 0 and steep.shape == problem.inputs.shape
    torch.testing.assert_close(distance(problem, problem.baselines)[0], problem.inputs)
    assert not cost.any() and change.shape == (2,)


def test_windows_find_what_a_model_looks_at():
    problem = picture_problem()
    values, change, cost = sliding_windows(problem, problem.baselines)
    assert (values[:, 0, 5, 5] > values[:, 0, 13, 13]).all() and (cost >= 13 * 13 // 3).all()
    torch.testing.assert_close(change, problem.inputs[:, 0, 4:8, 4:8].sum((1, 2)))


def test_a_smooth_random_map_is_smooth_and_does_not_depend_on_the_block():
    problem = picture_problem()
    together = smooth_random(problem, problem.baselines)[0]
    alone = Problem(problem.score, "raw", problem.inputs[1:], problem.baselines[1:], {}, None)
    assert torch.equal(together[1:], smooth_random(alone, alone.baselines)[0])
    rough = random_values(problem, problem.baselines)[0]
    steps = [(x.diff(dim=-1).std() / x.std()).item() for x in (together, rough)]
    assert steps[0] < 0.5 * steps[1] and not torch.equal(together[0], together[1])
