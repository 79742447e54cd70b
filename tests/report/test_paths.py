"""Films and profiles: the curves are the score's own."""

import numpy as np
import pytest
import torch

import leastpath as lp
from helpers import Polyline, cnn

pytest.importorskip("matplotlib")
from leastpath._support.checks import write_number
from leastpath.evaluation import profile_paths, scores_along
from leastpath.report import path_film, path_profile

IMAGES = torch.rand(2, 2, 6, 6, generator=torch.Generator().manual_seed(1))
SCORE = lp.Score(cnn(), torch.tensor([1, 2]), "log_softmax")
FIXED = {"tolerance": None, "n_steps": 4}
BENT = lp.attribute(SCORE, IMAGES, method=Polyline(), **FIXED)
LINE = lp.attribute(SCORE, IMAGES, method=lp.StraightLine(), **FIXED)


def curves(figure, panel):
    return {line.get_label(): np.stack(line.get_data()) for line in figure.axes[panel].lines}


def test_film_shows_the_points_of_the_path_and_their_scores():
    figure = path_film(BENT, 1, frames=5, scores=scores_along(SCORE, BENT, 1, frames=5))
    middle = BENT.path.at(torch.tensor([0.5]))[1, 0]
    shown = figure.axes[2].get_images()[0].get_array()
    first, last = BENT.path.start[1], BENT.path.end[1]
    low, high = float(torch.stack([first, last]).min()), float(torch.stack([first, last]).max())
    limits = (0, 1) if low >= 0 and high <= 1 else (low, high)
    expected = ((middle - limits[0]) / (limits[1] - limits[0])).clamp(0, 1).mean(0)
    np.testing.assert_allclose(shown, expected.numpy(), atol=1e-5)
    assert f"f = {write_number(float(SCORE(IMAGES)[1]))}" in figure.axes[4].get_xlabel()
    assert len(figure.axes) == 11  # frames, differences and a colour bar


def test_film_of_a_line_has_no_differences():
    assert len(path_film(LINE, frames=4).axes) == 4
    assert len(path_film(BENT.path, frames=4, difference=False).axes) == 4
    grey = lp.Path.straight(torch.zeros(1, 5, 5), torch.ones(1, 5, 5))
    assert len(path_film(grey, frames=3, limits=(-1, 1)).axes) == 3


@pytest.mark.parametrize("axis", ["share", "knots"])
def test_profile_ends_at_the_scores_of_the_ends_and_adds_the_line(axis):
    figure = path_profile(profile_paths(SCORE, {"bent": BENT}, 1, axis=axis, samples=20))
    assert len(figure.axes[0].lines) == 2
    for values in curves(figure, 0).values():
        assert values[1, 0] == pytest.approx(float(SCORE(torch.zeros_like(IMAGES))[1]), rel=1e-5)
        assert values[1, -1] == pytest.approx(float(SCORE(IMAGES)[1]), rel=1e-5)
    assert [label.split(":")[0] for label in curves(figure, 0)] == ["straight line", "bent"]


def test_profile_writes_the_integrators_lengths():
    figure = path_profile(profile_paths(SCORE, {"bent": BENT}, 0, samples=3))
    line, bent = (label.rsplit(" ", 1)[1] for label in curves(figure, 0))
    assert bent == f"{float(BENT.length[0]):,.4g}"
    assert line == f"{float(BENT.length[0] / BENT.length_ratio[0]):,.4g}"
    both = path_profile(profile_paths(SCORE, {"plain": LINE, "bent": BENT}, samples=3))
    assert len(both.axes[0].lines) == 2 and both.axes[0].lines[0].get_color() == "#000000"


@pytest.mark.parametrize(
    "call, match",
    [
        (lambda: path_film(BENT, 2), "example=2, but there are 2 paths"),
        (lambda: path_film(BENT, frames=1), "frames=1"),
        (lambda: path_film(lp.Path.straight(torch.zeros(1, 2), torch.ones(1, 2))), "draw tables and text with"),
        (lambda: path_film(IMAGES), "expected an Attribution or a Path"),
        (lambda: path_film(BENT, frames=3, scores=[1.0, 2.0]), "expected one for each of 3 frames"),
        (lambda: path_profile({}), "nothing to draw"),
        (lambda: path_profile(BENT), r"got a Attribution: pass path_profile\(profile_paths"),
    ],
)
def test_errors_say_what_helps(call, match):
    with pytest.raises(ValueError, match=match):
        call()
