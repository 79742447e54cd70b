"""References without gradients. Oracles: a linear score, a product of two features, and brute force."""

import torch
from tiny_truth import WEIGHTS, linear_problem

import leastpath as lp
from studies.truth.problem import Problem
from studies.truth.references import occlusion, random_values, shapley


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
