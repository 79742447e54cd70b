"""Explainers: every way to name a method gives what the method itself gives, here and in another process."""

import pickle

import pytest
import torch

import leastpath as lp
from helpers import Interrupting, flat_points, mlp
from leastpath.methods import METHODS, register
from leastpath.methods.explainer import explainer_of
from leastpath.result.status import finished

SCORE, INPUTS = lp.Score(mlp(), 0), flat_points(3, 4)


def mine(score, inputs, baselines, seed):
    return lp.attribute(score, inputs, baselines, method=lp.StraightLine(), seed=seed)


@pytest.mark.parametrize(
    "given",
    ["integrated_gradients", METHODS["integrated_gradients"], lp.StraightLine(), mine],
    ids=lambda g: type(g).__name__,
)
def test_all_ways_give_the_same(given):
    explain = pickle.loads(pickle.dumps(explainer_of(given, "name")))
    assert explain.name == "name"
    assert torch.equal(explain(SCORE, INPUTS, None, 0).values, mine(SCORE, INPUTS, None, 0).values)


def test_settings_change_the_method_and_its_description():
    plain, eight = explainer_of("integrated_gradients"), explainer_of("integrated_gradients", tolerance=None, n_steps=8)
    assert eight(SCORE, INPUTS, None, 0).n_gradients.eq(8).all() and plain.what != eight.what
    with pytest.raises(ValueError, match="are for methods that have a name"):
        explainer_of(lp.StraightLine(), n_steps=8)


def test_of_a_method_of_ones_own_the_code_counts_too(monkeypatch):
    """A name may come to mean another function, and stored results must not be taken for its own."""
    monkeypatch.setattr(METHODS, "_things", dict(METHODS._things))
    register(lambda score, inputs, baselines=None, *, seed=0, progress=False: 1, "mine")
    first = explainer_of("mine").what
    register(lambda score, inputs, baselines=None, *, seed=0, progress=False: 2, "mine")
    assert explainer_of("mine").what != first
    assert explainer_of("lime").depends_on == ["lime", METHODS["lime"].defaults]


@pytest.mark.parametrize("given", ["blur_ig", lp.BlurIG(n_knots=5)], ids=["method", "solver"])
def test_baselines_are_kept_from_what_chooses_its_own_start(given):
    score, x = lp.Score(lambda x: (x**2).sum((1, 2))), torch.rand(1, 8, 8)
    result = explainer_of(given)(score, x, torch.zeros(1, 8, 8), 0)
    assert torch.equal(result.path.end, x) and result.path.start.any()


@pytest.mark.parametrize("given", ["guided_ig", lp.GuidedIG(n_steps=8), mine], ids=["method", "solver", "callable"])
def test_half_a_result_is_an_interruption(given):
    score = lp.Score(Interrupting(lambda x: x.prod(1), at=6), None)
    with pytest.raises(KeyboardInterrupt):
        explainer_of(given, "name")(score, INPUTS, None, 0)


def test_a_whole_result_passes_as_it_is():
    result = mine(SCORE, INPUTS, None, 0)
    assert finished(result) is result


def test_what_is_no_attribution_is_named():
    with pytest.raises(ValueError, match="tensors returned a Tensor, expected an Attribution"):
        explainer_of(lambda score, inputs, baselines, seed: inputs, "tensors")(SCORE, INPUTS, None, 0)
