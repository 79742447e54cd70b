"""AGI and MFABA. Oracles: transcriptions of the published loops, a linear model's closed form."""

import pytest
import torch
from torch import nn

import leastpath as lp
from helpers import flat_points, mlp, moons_net
from leastpath.methods import METHODS


def gradient_of(function, x):
    leaf = x.clone().requires_grad_()
    return torch.autograd.grad(function(leaf[None])[0], leaf)[0]


def published_agi(net, x, target, classes, step, n_steps, limits):
    """The paper's loop for one example: up the softmax of each other class by sign steps, −∂f ⊙ step summed."""
    total = []
    for goal in classes:
        point, summed = x.clone(), torch.zeros_like(x)
        for _ in range(n_steps):
            if int(net(point[None]).argmax()) == goal:
                break
            up = gradient_of(lambda p, goal=goal: net(p).softmax(1)[:, goal], point)
            label = gradient_of(lambda p: net(p).softmax(1)[:, target], point)
            moved = point + step * up.sign()
            moved = moved if limits is None else moved.clamp(*limits)
            summed -= label * (moved - point)
            point = moved
        total.append((summed, point))
    return total


@pytest.mark.parametrize("limits", [None, (-1.0, 1.0)])
def test_agi_against_a_transcription(limits):
    net, x = mlp(4, 5).double(), flat_points(3, 4, 1, torch.float64).clamp(-1, 1)
    target = net(x).argmax(1)
    score = lp.Score(net, target, "softmax")
    result = METHODS["agi"](score, x, step=0.1, n_steps=12, limits=limits)
    for b in range(3):
        others = [c for c in range(5) if c != int(target[b])]
        walks = published_agi(net, x[b], int(target[b]), others, 0.1, 12, limits)
        torch.testing.assert_close(result.values[b], torch.stack([values for values, _ in walks]).mean(0))
        ends = torch.stack([point for _, point in walks])
        change = (net(x[b : b + 1]).softmax(1) - net(ends).softmax(1).mean(0))[0, target[b]]
        torch.testing.assert_close(result.score_change[b], change)


def test_agi_takes_classes_that_are_spread_evenly_and_never_its_own():
    net, x = mlp(4, 30), flat_points(2, 4, 1)
    result = METHODS["agi"](lp.Score(net, torch.tensor([0, 7]), "softmax"), x, n_classes=3, n_steps=1)
    assert "of 2 other classes" in result.status[0].value  # 0, 10 and 20 without its own
    assert "of 3 other classes" in result.status[1].value


def test_agi_adds_up_where_steps_are_small():
    net, x = moons_net(torch.float64), flat_points(3, 2, 1, torch.float64)
    score = lp.Score(net, net(x).argmax(1), "softmax")
    gaps = [
        METHODS["agi"](score, x, step=step, n_steps=n).completeness_gap.abs().max()
        for step, n in ((0.1, 50), (0.005, 1000))
    ]
    assert gaps[1] < 0.2 * gaps[0] + 1e-9


def test_agi_needs_a_class():
    with pytest.raises(ValueError, match="agi needs a classifier and the class that is explained"):
        METHODS["agi"](lp.Score(lambda x: x.sum(1)), torch.ones(1, 2))
    with pytest.raises(ValueError, match="agi needs a classifier with outputs"):
        METHODS["agi"](lp.Score(nn.Linear(2, 1).eval(), 0), torch.ones(1, 2))


def published_mfaba(net, x, target, variant, step, n_steps, max_distance):
    """The authors' loop for one example: points and gradients of the attack, then −Σ step ⊙ gradient."""
    points, gradients = [x], []
    for _ in range(n_steps):
        gradient = gradient_of(lambda p: net(p).softmax(1)[:, target], points[-1])
        gradients.append(gradient)
        if variant == "sharp":
            points.append(points[-1] - step * gradient / gradient.norm())
        else:
            points.append(x + (points[-1] - step * gradient.sign() - x).clamp(-max_distance, max_distance))
        if int(net(points[-1][None]).argmax()) != target:
            break
    hats = torch.stack(points)
    return -((hats[1:] - hats[:-1]) * torch.stack(gradients)).sum(0), hats[-1]


@pytest.mark.parametrize(("variant", "step"), [("sharp", 0.1), ("smooth", 0.05)])
def test_mfaba_against_a_transcription(variant, step):
    net, x = moons_net(torch.float64), flat_points(4, 2, 1, torch.float64)
    target = net(x).argmax(1)
    score = lp.Score(net, target, "softmax")
    result = METHODS["mfaba"](score, x, variant=variant, step=step, n_steps=20, max_distance=0.4)
    for b in range(4):
        values, end = published_mfaba(net, x[b], int(target[b]), variant, step, 20, 0.4)
        torch.testing.assert_close(result.values[b], values)
        change = (net(x[b : b + 1]).softmax(1) - net(end[None]).softmax(1))[0, target[b]]
        torch.testing.assert_close(result.score_change[b], change)


def test_mfaba_of_a_linear_score_against_its_closed_form():
    """Without classes all steps are walked: x − x′ = n · step · w / ‖w‖."""
    weights = torch.tensor([3.0, -4.0])
    result = METHODS["mfaba"](lp.Score(lambda x: x @ weights), torch.ones(1, 2), n_steps=10)
    torch.testing.assert_close(result.values[0], weights**2 / weights.norm())
    assert result.n_gradients.tolist() == [10] and "The class did not change" in result.status[0].value
    with pytest.raises(ValueError, match="variant='blunt' is unknown"):
        METHODS["mfaba"](lp.Score(lambda x: x @ weights), torch.ones(1, 2), variant="blunt")
