"""SAMP and SAMP++. Oracles: a transcription of the published loop over pixels, a linear score, the solver's path."""

import pytest
import torch

import leastpath as lp
from helpers import cnn, flat_points, mlp
from leastpath.methods import METHODS

IMAGES, BLACK = flat_points(2, 72, 1, torch.float64).view(2, 2, 6, 6), torch.zeros(2, 2, 6, 6, dtype=torch.float64)
TARGETS = torch.tensor([0, 2])


def published(net, image, target, inserts, portion, bound=None, momentum=None):
    """The loop for one image and direction: the best pixels move, bounded in L1, and get smoothed gradient × move."""
    point, end = (torch.zeros_like(image), image) if inserts else (image.clone(), torch.zeros_like(image))
    limit = None if bound is None else bound * (end - point).abs().sum()
    total, smoothed, steps = torch.zeros_like(image), None, 0
    while not torch.isclose(point, end, rtol=0, atol=1e-12).all():
        leaf = point[None].clone().requires_grad_()
        (fresh,) = torch.autograd.grad(net(leaf).softmax(1)[0, target], leaf)
        first = smoothed is None or momentum is None
        smoothed = fresh[0] if first else momentum * fresh[0] + (1 - momentum) * smoothed
        left = end - point
        projection = (smoothed * left).sum(0) * (1 if inserts else -1)
        projection[(left == 0).all(0)] = -torch.inf
        chosen = torch.zeros(projection.numel(), dtype=torch.bool)
        chosen[projection.flatten().argsort(descending=True)[:portion]] = True
        move = left * chosen.view_as(projection)
        size = move.abs().sum()
        if limit is not None and size > limit:
            move = move * limit / size
            point = point + move
        else:
            point = torch.where(chosen.view_as(projection), end, point)
        total += smoothed * move
        steps += 1
    return (total if inserts else -total), steps


@pytest.mark.parametrize(
    ("name", "more"), [("samp", {}), ("samp_plus_plus", {"bound": 0.15, "momentum": 0.5})], ids=["samp", "++"]
)
def test_both_directions_against_a_transcription(name, more):
    net = cnn().double()
    settings = {"max_step": 0.15} if more else {}
    result = METHODS[name](lp.Score(net, TARGETS, "softmax"), IMAGES, BLACK, n_portions=4, **settings)
    for b in range(2):
        walks = [published(net, IMAGES[b], TARGETS[b], inserts, 9, **more) for inserts in (True, False)]
        torch.testing.assert_close(result.values[b], (walks[0][0] + walks[1][0]) / 2)
        assert int(result.stats["n_steps"][b]) == int(result.n_gradients[b]) == walks[0][1] + walks[1][1]


@pytest.mark.parametrize("name", ["samp", "samp_plus_plus"])
def test_a_linear_score_gets_weight_times_difference(name):
    weights, x, base = flat_points(1, 6, 3)[0], flat_points(2, 6, 1), flat_points(2, 6, 2)
    result = METHODS[name](lp.Score(lambda x: x @ weights), x, base)
    torch.testing.assert_close(result.values, weights * (x - base), rtol=1e-4, atol=1e-5)
    assert result.completeness_gap.abs().max() < 1e-4


def test_one_direction_is_the_sum_along_the_path_of_the_solver():
    net, x = mlp(6).double(), flat_points(1, 6, 1, torch.float64)
    score = lp.Score(net, 1, "softmax")
    for direction in ("insertion", "deletion"):
        found = METHODS["samp"](score, x, direction=direction, n_portions=3).values[0]
        knots = lp.attribute(score, x, method=lp.SAMP(direction, n_portions=3)).path[0]
        begins = (knots[:-1] if direction == "insertion" else knots[1:]).clone().requires_grad_()
        (gradient,) = torch.autograd.grad(net(begins).softmax(1)[:, 1].sum(), begins)
        torch.testing.assert_close(found, (gradient * knots.diff(dim=0)).sum(0))


def test_small_steps_add_up():
    score, x = lp.Score(mlp(8).double(), 1), flat_points(3, 8, 1, torch.float64)
    method = METHODS["samp_plus_plus"].with_settings(direction="insertion", momentum=None)
    gaps = [method(score, x, max_step=step).completeness_gap.abs().max() for step in (0.2, 0.002)]
    assert gaps[1] < 0.05 * gaps[0]


def test_wrong_settings_are_refused():
    score, x = lp.Score(mlp(6), 1), flat_points(2, 6, 1)
    with pytest.raises(ValueError, match="direction='up' is unknown"):
        METHODS["samp"](score, x, direction="up")
    with pytest.raises(ValueError, match="n_portions=0 must be at least 1"):
        METHODS["samp"](score, x, n_portions=0)
    with pytest.raises(ValueError, match=r"max_step=2 must be from 0\.0001 to 1"):
        METHODS["samp_plus_plus"](score, x, max_step=2)
