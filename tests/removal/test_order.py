"""Orders of removal: places, ties, groups, and how shares become counts."""

import torch

from leastpath.removal.order import Order, group_strengths, round_counts


def test_places_follow_the_strength_and_ties_the_number():
    order = Order.of(torch.tensor([[1.0, -3.0, 2.0, -2.0]]), None, "magnitude")
    assert order.places.tolist() == [[[3, 0, 1, 2]]] and order.sizes.tolist() == [4]
    assert Order.of(torch.tensor([[1.0, -3.0, 2.0]]), None, "signed").places.tolist() == [[[1, 2, 0]]]


def test_groups_have_one_place_and_what_stays_has_none():
    values, labels = torch.tensor([[1.0, -3.0, 2.5, 9.0]]), torch.tensor([[0, 0, 1, -1]])
    for rank, expected in (("magnitude", [0, 0, 1, -1]), ("net", [1, 1, 0, -1])):
        order = Order.of(values, labels, rank)
        only = torch.tensor([0])
        assert order.of_features(only, only).tolist() == [expected] and order.sizes.tolist() == [2]
    assert group_strengths(values, labels, "net").tolist() == [[2.0, 2.5]]


def test_halves_of_a_share_go_up_and_no_share_is_nothing():
    counts = round_counts((0.0, 0.01, 0.35, 0.5, 1.0), torch.tensor([10, 3]))
    assert counts.tolist() == [[0, 0], [1, 1], [4, 1], [5, 2], [10, 3]]


def test_what_is_removed_first_last_and_all_but_first():
    order = Order.of(torch.tensor([[3.0, 1.0, 2.0, 0.0]]), None, "magnitude")
    assert order.first((0.25, 1.0)).tolist() == [[[0, 1]], [[0, 4]]]
    assert order.last((0.25,)).tolist() == [[[3, 4]]] and order.all_but_first((0.25,)).tolist() == [[[1, 4]]]


def test_other_orders_keep_absent_groups_last():
    values, labels = torch.ones(2, 3), torch.tensor([[0, 1, 2], [0, 2, 2]])  # the second example has no group 1
    order = Order.of(values, labels, "magnitude")
    drawn = order.rank_anew(torch.tensor([[[1.0, 9.0, 2.0]], [[5.0, 9.0, 2.0]]]).expand(2, 2, 3))
    assert drawn.places[:, 0].tolist() == [[2, 0, 1], [1, 0, 2]]
    assert drawn.places[:, 1].tolist() == [[1, 2, 0], [0, 2, 1]]
