"""The walk along a path: means over baselines, idle stretches, and a last sum that is the result."""

import pytest
import torch

import leastpath as lp
from leastpath.explorer.walk import shares_moved, walk_along
from leastpath.geometry.path import Path


def test_several_baselines_are_averaged():
    score, end = lp.Score(lambda x: x.prod(1)), torch.ones(2, 2)
    starts = torch.tensor([[0.0, 0.0], [1.0, 0.0]])
    walk = walk_along(score.bind(end[:1], 2), Path.straight(starts, end))
    known = lp.attribute(score, end[:1], starts[None], method=lp.StraightLine())
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
    found = shares_moved(torch.stack([start[0], 0.25 * end[0], end[0]]), start, end, features, 2)
    assert found.tolist() == [[0.0, 1.0], [0.25, 1.0], [1.0, 1.0]]  # what need not move has arrived
