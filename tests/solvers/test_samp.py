"""SAMP. Oracles: a transcription of the published loop, a linear score's order, the bound on steps."""

import pytest
import torch
from torch import nn

import leastpath as lp
from helpers import TextNet, cnn, flat_points, mlp, seeded


def transcribed(score, start, end, portion, inserts, momentum=None, bound=None):
    """The published loop for one example of single features: gradient, the best `portion`, a bounded move."""
    x, goal = (start.clone(), end) if inserts else (end.clone(), start)
    limit = None if bound is None else bound * (goal - x).abs().sum()
    knots, mean = [x.clone()], None
    while (x != goal).any():
        leaf = x[None].clone().requires_grad_()
        (gradient,) = torch.autograd.grad(score(leaf).sum(), leaf)
        mean = gradient[0] if mean is None or momentum is None else momentum * gradient[0] + (1 - momentum) * mean
        left = goal - x
        gain = (mean * left) if inserts else -(mean * left)
        gain[left == 0] = -torch.inf
        chosen = gain.argsort(descending=True)[:portion]
        move = torch.zeros_like(x)
        move[chosen] = left[chosen]
        size = move.abs().sum()
        if limit is not None and size > limit * (1 + 1e-6):
            x = x + move * limit / size
        else:
            x[chosen] = goal[chosen]
        knots.append(x.clone())
    return torch.stack(knots if inserts else knots[::-1])


@pytest.mark.parametrize("direction", ["insertion", "deletion"])
@pytest.mark.parametrize(("max_step", "momentum"), [(None, None), (None, 0.5), (0.15, None), (0.15, 0.5)])
def test_path_against_a_transcription(direction, max_step, momentum):
    net, x, base = mlp(6).double(), flat_points(3, 6, 1, torch.float64), flat_points(3, 6, 2, torch.float64)
    solver = lp.SAMP(direction, n_portions=3, max_step=max_step, momentum=momentum)
    result = lp.attribute(lp.Score(net, 1, "softmax"), x, base, method=solver)
    for b in range(3):
        expected = transcribed(
            lambda x: net(x).softmax(1)[:, 1], base[b], x[b], 2, direction == "insertion", momentum, max_step
        )
        torch.testing.assert_close(result.path[b], expected)


def test_a_linear_score_moves_the_largest_contributions_first():
    weights = torch.tensor([1.0, -3.0, 2.0])
    score, x = lp.Score(lambda x: x @ weights), torch.ones(1, 3)
    insertion = lp.attribute(score, x, method=lp.SAMP(n_portions=3)).path[0]
    deletion = lp.attribute(score, x, method=lp.SAMP("deletion", n_portions=3)).path[0]
    assert insertion.tolist() == [[0, 0, 0], [0, 0, 1], [1, 0, 1], [1, 1, 1]]
    assert deletion.tolist() == [[0, 0, 0], [0, 1, 0], [1, 1, 0], [1, 1, 1]]


def test_steps_stay_within_the_bound():
    x = flat_points(3, 6, 1)
    path = lp.attribute(lp.Score(mlp(6), 1), x, method=lp.SAMP(n_portions=2, max_step=0.1)).path
    for b in range(3):
        assert path[b].diff(dim=0).abs().sum(1).max() <= 0.1 * x[b].abs().sum() * 1.0001


def test_pixels_and_tokens_move_as_a_whole():
    images = flat_points(2, 72, 1).view(2, 2, 6, 6)
    knots = lp.attribute(lp.Score(cnn(), 0), images, method=lp.SAMP(n_portions=4)).path[0]
    moved = knots[1] != 0
    assert torch.equal(moved[0], moved[1]) and int(moved[0].sum()) == 9
    net: nn.Module = seeded(TextNet).eval()
    score = lp.Score(net, 1, layer=net.embedding)
    path = lp.attribute(score, torch.tensor([[1, 2, 3]]), torch.tensor([[0, 0, 0]]), method=lp.SAMP(n_portions=3)).path
    steps = path[0].diff(dim=0).abs().sum(2) > 0  # (steps, tokens)
    assert (steps.sum(1) == 1).all()


def test_wrong_settings_are_refused():
    with pytest.raises(ValueError, match="direction='up' is unknown"):
        lp.SAMP("up")
    with pytest.raises(ValueError, match=r"max_step=0 must be from 0\.0001 to 1, or None: 10,000 steps at most"):
        lp.SAMP(max_step=0)
