"""ROAR against a loop by hand; the oracle loses accuracy first; what was done survives an interruption."""

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.tree import DecisionTreeClassifier

from studies.referees.retraining import Retrained, roar

GENERATOR = torch.Generator().manual_seed(0)
X = torch.randn(240, 8, generator=GENERATOR)
Y = (X[:, 0] + X[:, 1] > 0).long()
TRAIN, TEST = (X[:160], Y[:160]), (X[160:], Y[160:])
ORACLE = torch.zeros(240, 8).index_fill(1, torch.tensor([0, 1]), 1.0)
RANDOM = torch.rand(240, 8, generator=GENERATOR) + 0.01


def pair(values):
    return values[:160], values[160:]


def nearest_mean(x, y, seed):
    """A training as a function: classes by the nearer mean."""
    centers = torch.stack([x[y == c].mean(0) for c in (0, 1)])
    return lambda points: torch.cdist(points, centers).argmin(1)


def test_against_a_loop_by_hand():
    found = roar(nearest_mean, {"random": pair(RANDOM)}, TRAIN, TEST, areas=(0.25, 0.5), repeats=1)
    mean = TRAIN[0].mean(0)
    for k, count in enumerate((0, 2, 4)):
        x = X.clone()
        for i, row in enumerate(RANDOM.tolist()):
            for j in sorted(range(8), key=lambda j: -row[j])[:count]:
                x[i, j] = mean[j]
        predict = nearest_mean(x[:160], Y[:160], 0)
        assert found.accuracy["random"][k, 0].item() == pytest.approx((predict(x[160:]) == Y[160:]).double().mean())


def test_oracle_loses_accuracy_before_random():
    found = roar(
        LogisticRegression(),
        {"oracle": pair(ORACLE), "random": pair(RANDOM)},
        TRAIN,
        TEST,
        areas=(0.25, 0.5),
        repeats=2,
    )
    assert found.mean("oracle")[0] == found.mean("random")[0] > 0.9
    assert found.mean("oracle")[1] < 0.65 < found.mean("random")[1]
    assert (found.drop("oracle") > found.drop("random")).all() and found.finished


def test_repeats_differ_by_seed_only_and_are_the_same_for_every_method():
    forest = DecisionTreeClassifier(max_features=1)
    one, other = (
        roar(forest, {"a": pair(RANDOM), "b": pair(RANDOM)}, TRAIN, TEST, areas=(0.5,), seed=s) for s in (0, 0)
    )
    assert torch.equal(one.accuracy["a"], other.accuracy["a"]) and torch.equal(one.accuracy["a"], one.accuracy["b"])
    assert len(set(one.accuracy["a"][1].tolist())) > 1
    assert forest.random_state is None


def test_standard_error_against_numpy():
    a = torch.tensor([[0.5, 0.7, 0.9], [0.4, float("nan"), 0.6]], dtype=torch.float64)
    found = Retrained((0.0, 0.5), {"a": a})
    expected = [np.std([0.5, 0.7, 0.9], ddof=1) / np.sqrt(3), np.std([0.4, 0.6], ddof=1) / np.sqrt(2)]
    np.testing.assert_allclose(found.standard_error("a"), expected)
    assert Retrained((0.0,), {"a": a[:1, :1]}).standard_error("a").isnan().all() and not found.finished


def test_interruption_keeps_what_is_done():
    calls = []

    def interrupted(x, y, seed):
        calls.append(seed)
        if len(calls) == 4:
            raise KeyboardInterrupt
        return nearest_mean(x, y, seed)

    with pytest.warns(RuntimeWarning, match="3 results are kept"):
        found = roar(interrupted, {"a": pair(RANDOM)}, TRAIN, TEST, areas=(0.25, 0.5), repeats=2)
    assert not found.accuracy["a"][:, 0].isnan().any() and found.accuracy["a"][:, 1].isnan().all()


def test_random_state_of_the_program_is_left_alone():
    def drawing(x, y, seed):
        torch.rand(3)
        return nearest_mean(x, y, seed)

    before = torch.random.get_rng_state()
    roar(drawing, {"a": pair(RANDOM)}, TRAIN, TEST, areas=(0.5,), repeats=1)
    assert torch.equal(before, torch.random.get_rng_state())


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: roar(nearest_mean, {}, TRAIN, TEST), "is empty"),
        (lambda: roar(nearest_mean, {"a": pair(RANDOM)}, TRAIN, TEST, areas=(0.5, 0.2)), "must increase"),
        (lambda: roar(nearest_mean, {"a": pair(RANDOM)}, TRAIN, TEST, repeats=0), "at least 1"),
        (lambda: roar(nearest_mean, {"a": (RANDOM, RANDOM)}, TRAIN, TEST), "expected the inputs' shape"),
        (lambda: roar(nearest_mean, {"a": pair(RANDOM * torch.nan)}, TRAIN, TEST), "NaN"),
        (lambda: roar(nearest_mean, {"a": pair(RANDOM * 0)}, TRAIN, TEST), "all zero"),
        (lambda: roar(nearest_mean, {"a": pair(RANDOM)}, (X[:160], Y), TEST), "one label per input"),
        (lambda: roar(lambda x, y, s: lambda p: p, {"a": pair(RANDOM)}, TRAIN, TEST), "one class per input"),
    ],
)
def test_errors_say_what_to_do(call, words):
    with pytest.raises(ValueError, match=words):
        call()
