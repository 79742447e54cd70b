"""Tetrominoes. Oracles: their definitions."""

import pytest
import torch

from studies.referees.tris import SIGNALS, draw_tetrominoes, precision, train_net


@pytest.mark.parametrize("scenario", SIGNALS)
def test_images_are_in_range_and_truths_have_their_size(scenario):
    drawn = draw_tetrominoes(scenario, 20, 0)
    assert drawn.images.shape == (20, 1, 8, 8) and drawn.images.abs().amax((1, 2, 3)).tolist() == [1.0] * 20
    assert set(drawn.truth.sum((1, 2)).tolist()) == ({4} if scenario == "rotated" else {8})
    again = draw_tetrominoes(scenario, 20, 0)
    assert torch.equal(again.images, drawn.images) and set(drawn.classes.tolist()) == {0, 1}


def test_a_class_is_seen_where_it_is_said_to_be():
    drawn = draw_tetrominoes("linear", 4000, 0)
    difference = (drawn.images[drawn.classes == 0].mean(0) - drawn.images[drawn.classes == 1].mean(0))[0].abs()
    assert difference[drawn.truth[0]].min() > 2 * difference[~drawn.truth[0]].max()


def test_precision_counts_the_strongest():
    truth = draw_tetrominoes("rotated", 3, 0).truth
    assert precision(truth[:, None].float(), truth).tolist() == [1.0] * 3
    assert precision(1 - truth[:, None].float(), truth).tolist() == [0.0] * 3


def test_a_net_learns_more_than_chance():
    _, accuracy = train_net("linear", n=600, epochs=3)
    assert accuracy > 0.7
