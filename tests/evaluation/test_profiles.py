"""The numbers behind pictures: along paths, over a plane and from each baseline they are the score's own."""

import numpy as np
import pytest
import torch

import leastpath as lp
from helpers import Polyline, TextNet, cnn, mlp, seeded
from leastpath.evaluation import profile_paths, score_plane, scores_along, try_baselines
from leastpath.score.baselines import BASELINES

IMAGES = torch.rand(2, 2, 6, 6, generator=torch.Generator().manual_seed(1))
SCORE = lp.Score(cnn(), torch.tensor([1, 2]), "log_softmax")
FIXED = {"tolerance": None, "n_steps": 4}
BENT = lp.attribute(SCORE, IMAGES, method=Polyline(), **FIXED)


def test_profile_gradient_norm_against_autograd():
    path = lp.Path.straight(torch.zeros(1, 3), torch.ones(1, 3))
    profile = profile_paths(lp.Score(lambda x: (x**2).sum(1)), path, samples=5)["path"]
    np.testing.assert_allclose(profile.norms, 2 * np.sqrt(3) * profile.position, atol=1e-6)


def test_profile_through_layers_tuples_and_several_baselines():
    net = seeded(TextNet).eval()
    ids = torch.tensor([[1, 2, 3], [4, 5, 6]])
    score = lp.Score(net, torch.tensor([0, 2]), "log_softmax", layer=net.embedding)
    result = lp.attribute(score, ids, method=lp.StraightLine(), **FIXED)
    profile = profile_paths(score, {"line": result}, 1, inputs=ids, samples=4)["line"]
    assert float(profile.values[-1]) == pytest.approx(float(score(ids)[1]), rel=1e-5)
    with pytest.raises(ValueError, match="pass inputs=inputs"):
        profile_paths(score, result)

    pair = (torch.rand(2, 2), torch.rand(2, 2))
    joint = lp.Score(lambda a, b: mlp()(torch.cat([a, b], 1)), torch.tensor([0, 1]))
    result = lp.attribute(joint, pair, (torch.rand(2, 3, 2), 0.0), method=lp.StraightLine(), **FIXED)
    profile = profile_paths(joint, result, 4, inputs=pair, samples=4)["path"]  # second baseline of the second example
    assert float(profile.values[-1]) == pytest.approx(float(joint(pair)[1]), rel=1e-5)


def test_scores_along_a_path_end_at_those_of_its_ends():
    scores = scores_along(SCORE, BENT, 1, frames=5)
    assert scores.shape == (5,)
    torch.testing.assert_close(scores[[0, -1]], torch.stack([SCORE(x)[1] for x in (torch.zeros_like(IMAGES), IMAGES)]))


def test_a_plane_is_the_score_around_the_points():
    plane = score_plane(lp.Score(lambda x: x[:, 0] + 10 * x[:, 1]), torch.rand(5, 2), torch.tensor([[-1.0, 2.0]]))
    assert plane.x[0] < -1 and plane.y[-1] > 2
    np.testing.assert_allclose(plane.values, plane.x + 10 * plane.y[:, None], rtol=1e-5, atol=1e-5)


def test_baselines_give_what_attribute_gives():
    score = lp.Score(cnn(), 1, "log_softmax")
    found = try_baselines(score, IMAGES[0], {"black": {}, "samples": {"points": IMAGES, "n": 2}}, **FIXED)
    assert list(found) == ["image", "black", "samples"] and found["samples"].count == 2
    black = lp.attribute(score, IMAGES[:1], method=lp.StraightLine(), **FIXED)
    torch.testing.assert_close(found["black"].values, black.values[0])
    assert found["black"].score == pytest.approx(float(score(torch.zeros(1, 2, 6, 6))), abs=1e-5)
    assert found["image"].score == float(score(IMAGES[:1])) and found["image"].values is None
    assert list(try_baselines(score, IMAGES[:1], **FIXED)) == ["image", *(n for n in BASELINES if n != "samples")]


@pytest.mark.parametrize(
    "call, match",
    [
        (lambda: profile_paths(SCORE, BENT, axis="time"), "use one of .'share', 'knots'"),
        (lambda: profile_paths(SCORE, BENT, samples=1), "samples=1"),
        (lambda: profile_paths(SCORE, {}), "nothing to draw"),
        (lambda: profile_paths(SCORE, BENT, inputs=torch.rand(3, 2, 6, 6)), "got 3 inputs for 2 paths"),
        (lambda: try_baselines(SCORE, IMAGES), "expected one"),
    ],
)
def test_errors_say_what_helps(call, match):
    with pytest.raises(ValueError, match=match):
        call()
