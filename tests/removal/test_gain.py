"""The arithmetic of the symmetric relevance gain, in closed form. Its measure: tests/evaluation/test_support.py."""

import pytest
import torch

import leastpath as lp
from leastpath.removal.gain import class_log_odds, grouped, judged_score, patches, removal_places, symmetric_gain


def test_places_follow_the_strength_and_ties_the_number():
    places, sizes = removal_places(torch.tensor([[1.0, -3.0, 2.0, -2.0]]), None, "magnitude")
    assert places.tolist() == [[3, 0, 1, 2]] and sizes.tolist() == [4]
    assert removal_places(torch.tensor([[1.0, -3.0, 2.0]]), None, "signed")[0].tolist() == [[1, 2, 0]]


def test_groups_have_one_place_and_what_stays_has_none():
    values, labels = torch.tensor([[1.0, -3.0, 2.5, 9.0]]), torch.tensor([[0, 0, 1, -1]])
    for rank, expected in (("magnitude", [0, 0, 1, -1]), ("net", [1, 1, 0, -1])):
        places, sizes = removal_places(values, labels, rank)
        assert places.tolist() == [expected] and sizes.tolist() == [2]
    strengths, index = grouped(values, labels, "net")
    assert strengths.tolist() == [[2.0, 2.5]] and index.tolist() == labels.tolist()


def test_patches_cover_an_image_in_square_cells():
    cells = patches(5, 8, cells=4)
    assert cells.shape == (1, 5, 8) and int(cells.max()) == 11 and (cells[0, :2, :2] == 0).all()
    assert patches(3, 3).flatten().tolist() == list(range(9))


def test_log_odds_are_exact_where_the_softmax_is_rounded():
    logits = torch.tensor([[200.0, 0.0], [1.0, -1.0]])
    torch.testing.assert_close(class_log_odds(logits), torch.tensor([[200.0, -200.0], [2.0, -2.0]]))
    three = torch.randn(4, 3, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(class_log_odds(three), three.softmax(1).logit())


def test_the_gain_of_a_score_without_classes_counts_any_change():
    """−|f − f(x)|: the feature that moves the score by 4 against the one that moves it by 1, up or down."""
    for sign in (1, -1):
        score, kind = judged_score(lp.Score(lambda x, sign=sign: x @ torch.tensor([4.0, 1.0]) * sign), "auto")
        bound, black = score.bind(torch.ones(1, 2)), torch.zeros(1, 2)
        gain = symmetric_gain(
            bound, kind, torch.tensor([[4.0, 1.0]]), lambda rows, masked, b=black: b[rows], shares=[0.5]
        )
        assert kind == "score" and float(gain) == pytest.approx(3)


def test_values_that_are_all_zero_order_nothing():
    score, kind = judged_score(lp.Score(lambda x: x @ torch.tensor([4.0, 1.0])), "auto")
    bound = score.bind(torch.ones(1, 2))
    assert symmetric_gain(bound, kind, torch.zeros(1, 2), lambda rows, masked: torch.zeros(len(rows), 2)).tolist() == [
        0
    ]


def test_a_softmax_without_a_class_is_refused():
    with pytest.raises(ValueError, match='probability="softmax" needs a class'):
        judged_score(lp.Score(lambda x: x), "softmax")
