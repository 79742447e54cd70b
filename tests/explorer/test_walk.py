"""The walk against closed forms, and against `attribute` with the same nodes."""

import pytest
import torch

import leastpath as lp
from explorer_subjects import picture_net
from leastpath.explorer.walk import PLACES, moved, walk_along
from leastpath.geometry.path import Path


def test_sums_along_a_product_are_known():
    bound = lp.Score(lambda x: x.prod(1)).bind(torch.ones(1, 2))
    walk = walk_along(bound, Path.straight(torch.zeros(1, 2), torch.ones(1, 2)))
    t = walk.places
    assert torch.allclose(walk.scores.double(), t**2, atol=1e-6)
    assert torch.allclose(walk.gradient_norms.double(), 2**0.5 * t, atol=1e-6)
    assert torch.allclose(walk.attributed.double(), (t**2 / 2)[:, None].expand(-1, 2), atol=1e-6)
    assert torch.allclose(walk.length, torch.ones(1), atol=1e-5)  # ∫ √2 t √2 dt


def test_straight_walks_are_the_trapezoid_rule_of_attribute():
    net, images = picture_net(), torch.rand(1, 3, 12, 10)
    score = lp.Score(net, 1, "softmax")
    walk = walk_along(score.bind(images), Path.straight(torch.zeros_like(images), images))
    known = lp.attribute(score, images, solver=lp.StraightLine(), tolerance=None, n_steps=PLACES, rule="trapezoid")
    assert torch.allclose(walk.attributed[-1], known.values[0], atol=1e-6)
    assert torch.allclose(walk.length, known.length, rtol=1e-4)


@pytest.mark.parametrize("weighting", [lp.IDGI(), lp.IDG()])
def test_other_weightings_end_where_attribute_does(weighting):
    score = lp.Score(lambda x: torch.sigmoid(3 * x[:, 0] * x[:, 1]))
    path = Path.straight(torch.zeros(1, 2), torch.tensor([[1.0, 0.5]]))
    walk = walk_along(score.bind(path.end), path, weighting, places=401)
    known = lp.attribute(score, path.end, solver=lp.StraightLine(), weighting=weighting, tolerance=None, n_steps=200)
    assert torch.allclose(walk.attributed[-1], known.values[0], rtol=1e-2)


def test_several_baselines_are_averaged():
    score, end = lp.Score(lambda x: x.prod(1)), torch.ones(2, 2)
    starts = torch.tensor([[0.0, 0.0], [1.0, 0.0]])
    walk = walk_along(score.bind(end[:1], 2), Path.straight(starts, end))
    known = lp.attribute(score, end[:1], starts[None], solver=lp.StraightLine())
    assert torch.allclose(walk.attributed[-1], known.values[0], atol=1e-4)
    assert torch.allclose(walk.points[0], starts.mean(0))


def test_idle_stretches_are_where_the_gradient_is_small():
    score = lp.Score(lambda x: torch.relu(x[:, 0] - 0.5))
    walk = walk_along(score.bind(torch.ones(1, 1)), Path.straight(torch.zeros(1, 1), torch.ones(1, 1)))
    ((begin, end),) = walk.idle
    assert begin == 0.0
    assert end == pytest.approx(0.5, abs=1 / 40)


def test_the_last_sum_is_the_result():
    bound = lp.Score(lambda x: x.prod(1)).bind(torch.ones(1, 2))
    walk = walk_along(bound, Path.straight(torch.zeros(1, 2), torch.ones(1, 2)), places=3)
    assert torch.equal(walk.ending_at(torch.tensor([0.6, 0.4])).attributed[-1], torch.tensor([0.6, 0.4]))


def test_a_sudden_rise_between_two_places_is_attributed_where_it_happens():
    score = lp.Score(lambda x: torch.sigmoid(400 * (x[:, 0] - 0.96)) + 0.001 * x[:, 1])
    path = Path.straight(torch.zeros(1, 2), torch.ones(1, 2))
    walk = walk_along(score.bind(path.end), path).ending_at(torch.tensor([1.0, 0.001]))
    known = walk.scores - walk.scores[0]
    assert torch.allclose(walk.attributed.sum(1), known, atol=1e-4)  # complete at every place, not only at the end
    assert float(walk.attributed[30, 0].abs()) < 1e-4  # nothing has happened yet


def test_a_weighting_that_is_not_complete_is_not_made_to_follow_the_score():
    bound = lp.Score(lambda x: x.prod(1)).bind(torch.ones(1, 2))
    walk = walk_along(bound, Path.straight(torch.zeros(1, 2), torch.ones(1, 2)), places=5)
    ended = walk.ending_at(2 * walk.attributed[-1], complete=False)
    assert torch.allclose(ended.attributed - walk.attributed, walk.places[:, None].float() * walk.attributed[-1])


def test_how_far_a_token_has_come():
    start, end = torch.zeros(1, 2, 2), torch.tensor([[[1.0, 1.0], [0.0, 0.0]]])
    features = torch.tensor([[0, 0], [1, 1]])
    found = moved(torch.stack([start[0], 0.25 * end[0], end[0]]), start, end, features, 2)
    assert found.tolist() == [[0.0, 1.0], [0.25, 1.0], [1.0, 1.0]]  # what need not move has arrived
