"""The protocol: what measurements hold, and noise that belongs to the example."""

from dataclasses import dataclass

import pytest
import torch

import leastpath as lp
from helpers import flat_points
from leastpath.evaluation import Comprehensiveness, MaxSensitivity
from leastpath.evaluation.measure import (
    Measure,
    Measured,
    generators,
    given_attribution,
    measure_all,
    needs_method,
    read_attributions,
)


@dataclass(frozen=True)
class Anew:
    """Explains a second time and returns the difference."""

    name: str = "anew"
    higher_is_better: bool = False
    needs_method: bool = True

    def __call__(self, score, inputs, baselines, result, *, seed=0, explain=None):
        again = explain(score, inputs, baselines, seed)
        return Measured.of((again.values - result.values).abs().flatten(1).sum(1))


@dataclass(frozen=True)
class NotAnew(Anew):
    """Declares that it does not explain anew, and is called like a measure that says nothing."""

    needs_method: bool = False

    def __call__(self, score, inputs, baselines, result, *, seed=0):
        return Measured.of(result.values.flatten(1).sum(1))


def test_who_explains_anew():
    """A measure with nothing but its name, direction and call says nothing, which means no."""
    measures = (Anew(), NotAnew(), Comprehensiveness(), MaxSensitivity())
    assert [needs_method(measure) for measure in measures] == [True, False, False, True]
    result = given_attribution(torch.ones(2, 3))
    found = measure_all([NotAnew()], lp.Score(lambda x: x.sum(1)), torch.ones(2, 3), None, result)
    assert found[0].values.tolist() == [3, 3]


def test_costs_are_one_number_an_example():
    found = Measured.of(torch.zeros(3), n_forwards=2, n_gradients=torch.tensor([1, 2, 3]))
    assert found.n_forwards.tolist() == [2, 2, 2] and found.n_gradients.tolist() == [1, 2, 3]
    with pytest.raises(ValueError, match="one number per example"):
        Measured(torch.zeros(3), {}, torch.zeros(2), torch.zeros(3))


def test_measures_that_explain_anew_get_the_method():
    score, x = lp.Score(lambda x: x.prod(1)), flat_points(2)
    result = lp.attribute(score, x, method=lp.StraightLine())

    def explain(score, inputs, baselines, seed):
        return lp.attribute(score, inputs, baselines, method=lp.StraightLine(), seed=seed)

    assert isinstance(Anew(), Measure)
    assert measure_all([Anew()], score, x, None, result, explain=explain)[0].values.tolist() == [0, 0]
    with pytest.raises(ValueError, match="pass explain="):
        measure_all([Anew()], score, x, None, result)


def test_generators_depend_on_example_and_seed_but_not_on_place():
    x = flat_points(3, 4)

    def draws(inputs, seed):
        return [torch.rand((), generator=g).item() for g in generators(inputs, seed)]

    assert draws(x.flip(0), 1) == draws(x, 1)[::-1]
    assert len(set(draws(x, 1))) == 3 and set(draws(x, 2)).isdisjoint(draws(x, 1))
    assert draws((x, x), 1) != draws(x, 1)
    assert draws(x.long(), 1) == draws(x.long().clone(), 1)


def test_given_attributions_have_what_follows_from_them():
    found = given_attribution((torch.tensor([[1.0, -2.0]]), torch.tensor([[3.0]])), torch.tensor([2.0]))
    assert (found.completeness_gap.item(), found.cancellation.item()) == (0, 4)
    assert given_attribution(torch.ones(1, 2)).cancellation.isnan().all()
    assert found.path is None and found.status[0].ok


def test_attributions_that_are_no_tensor_or_no_result_are_named():
    with pytest.raises(ValueError, match=r"values is a ndarray, expected a tensor: use torch.as_tensor"):
        given_attribution(torch.ones(1, 2).numpy())
    score, inputs = lp.Score(lambda x: x.sum(1)), torch.ones(2, 3)
    with pytest.raises(ValueError, match=r"result is a Tensor, expected an Attribution: given_attribution\(values\)"):
        read_attributions(score.bind(inputs), inputs)


def test_joint_vector_of_tuple_inputs():
    score = lp.Score(lambda a, b: a.sum(1) + b.flatten(1).sum(1))
    a, b = flat_points(2, 3), flat_points(2, 4).view(2, 2, 2)
    joint = read_attributions(score.bind((a, b)), given_attribution((a, b)))
    assert torch.equal(joint, torch.cat([a, b.flatten(1)], 1))
