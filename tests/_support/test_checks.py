"""Settings that are no whole numbers get a sentence, wherever they are given."""

import numpy as np
import pytest
import torch

import leastpath as lp
from leastpath._support.checks import check_features, check_integer

SCORE, X = lp.Score(lambda x: x.prod(1)), torch.ones(1, 2)
POINTS = torch.rand(9, 2)


@pytest.mark.parametrize("given", [1, 7, np.int64(3), np.uint8(2)])
def test_whole_numbers_pass(given):
    check_integer("n", given, 1)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (None, "n=None must be a whole number: pass n=5"),
        (2.0, "n=2.0 must be a whole number"),
        ("2", "n='2' must be a whole number"),
        (True, "n=True must be a whole number"),
        (np.int64(0), "n=0 must be at least 1: pass n=5"),
    ],
)
def test_others_are_refused(given, words):
    with pytest.raises(ValueError, match=words):
        check_integer("n", given, 1, advice="pass n=5")


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: lp.attribute(SCORE, X, seed=None), "seed=None must be a whole number"),
        (lambda: lp.attribute(SCORE, X, max_gradients=np.int64(0)), "max_gradients=0 must be at least 1, or None"),
        (lambda: lp.attribute(SCORE, X, n_steps=2.5), "n_steps=2.5 must be a whole number, or None"),
        (lambda: lp.Descent(max_gradients=None), r"max_gradients=None must be a whole number: .*max_gradients=10_000"),
        (lambda: lp.Descent(n_knots=2.0), "n_knots=2.0 must be a whole number"),
        (lambda: lp.GuidedIG(n_steps=None), "n_steps=None must be a whole number"),
        (lambda: lp.NeighborGraph(POINTS, n_neighbors=5.0), "n_neighbors=5.0 must be a whole number"),
        (lambda: lp.NeighborGraph(generate="line", n_points="200"), "n_points='200' must be a whole number"),
        (lambda: lp.EnhancedIG(POINTS, n_neighbors=5.0), "n_neighbors=5.0 must be a whole number"),
        (lambda: lp.Score(SCORE.model, batch_size=8.0), "batch_size=8.0 must be a whole number, or None"),
        (lambda: lp.attribute(SCORE, [X, X]), r"inputs is a list, .*a tuple: pass tuple\(inputs\)"),
        (lambda: lp.attribute(SCORE, [[1.0, 1.0]]), r"use torch.as_tensor\(inputs\)"),
    ],
)
def test_likely_mistakes(make, words):
    with pytest.raises(ValueError, match=words):
        make()


def test_other_features_are_refused_with_both_shapes():
    check_features("start_from", (2, 3), torch.zeros(5, 2, 3).shape[1:])
    with pytest.raises(ValueError, match=r"start_from has features \(2,\), the inputs \(3,\): expected the same"):
        check_features("start_from", (2,), (3,))
