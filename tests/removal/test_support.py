"""The arithmetic of the symmetric relevance gain, in closed form. Its measure: tests/evaluation/test_support.py."""

import pytest
import torch

import leastpath as lp
from leastpath.removal.curves import Order
from leastpath.removal.support import class_log_odds, judged_score, measure_curves


def test_log_odds_are_exact_where_the_softmax_is_rounded():
    logits = torch.tensor([[200.0, 0.0], [1.0, -1.0]])
    torch.testing.assert_close(class_log_odds(logits), torch.tensor([[200.0, -200.0], [2.0, -2.0]]))
    three = torch.randn(4, 3, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(class_log_odds(three), three.softmax(1).logit())


def test_the_gain_of_a_score_without_classes_counts_any_change():
    """−|f − f(x)|: the feature that moves the score by 4 against the one that moves it by 1, up or down."""
    for sign in (1, -1):
        score, scale = judged_score(lp.Score(lambda x, sign=sign: x @ torch.tensor([4.0, 1.0]) * sign))
        bound, black = score.bind(torch.ones(1, 2)), torch.zeros(1, 2)
        order = Order.of(torch.tensor([[4.0, 1.0]]), None, "magnitude")
        gain, _ = measure_curves(bound, scale, order, [black], shares=[0.5])
        assert scale == "score" and float(gain) == pytest.approx(3)


def test_values_that_are_all_zero_order_nothing():
    score, scale = judged_score(lp.Score(lambda x: x @ torch.tensor([4.0, 1.0])))
    bound, order = score.bind(torch.ones(1, 2)), Order.of(torch.zeros(1, 2), None, "magnitude")
    assert measure_curves(bound, scale, order, [torch.zeros(1, 2)])[0].tolist() == [[[0]]]


def test_a_softmax_without_a_class_is_refused():
    with pytest.raises(ValueError, match='probability="softmax" needs a class'):
        judged_score(lp.Score(lambda x: x), "softmax")


@pytest.mark.parametrize(
    ("target", "output", "expected"),
    [
        (0, "raw", ("log_odds", "softmax")), (0, "softmax", ("log_odds", "softmax")),
        (0, "sigmoid", ("log_odds", "sigmoid")), (None, "sigmoid", ("log_odds", "sigmoid")),
        (None, "raw", ("score", "")),
        (lambda out: out[:, 0], "sigmoid", ("score", "")), (lambda out: out[:, 0], "raw", ("score", "")),
    ],
)  # fmt: skip
def test_which_score_is_judged(target, output, expected):
    """One answer for all doors: the score's own sigmoid, else the softmax of a class, else the score."""
    logits = torch.tensor([[2.0, 1.0, -1.0]]) if target is not None else torch.tensor([[2.0]])
    judged, scale = judged_score(lp.Score(lambda x: logits.expand(len(x), -1), target, output))
    assert scale == expected[0]
    known = {"softmax": logits.softmax(1)[:, 0].logit(), "sigmoid": logits[:, 0]}
    if scale == "log_odds":
        torch.testing.assert_close(
            judged.bind(torch.ones(1, 2)).values(torch.ones(1, 2), torch.tensor([0])), known[expected[1]]
        )
