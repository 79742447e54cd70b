"""Chord lengths and their force, against finite differences and closed forms."""

import torch

import leastpath as lp
from leastpath.solvers.chords import chord_force, sampled_chords
from leastpath.solvers.shorten import jitter_positions


def bent(dtype=torch.float64):
    return torch.tensor([[[0.0, 0.0], [0.3, 0.8], [1.0, 1.0]], [[0.0, 0.1], [0.5, 0.2], [1.0, -1.0]]], dtype=dtype)


def curved_score():
    return lp.Score(lambda x: torch.stack([x[:, 0] * x[:, 1], (x**2).sum(1), x[:, 0]], 1), 0)


def positions(n=2):
    return jitter_positions(lp.Run(), 2, n, bent(), 0)


def test_against_finite_differences():
    knots, examples, h = bent(), torch.arange(2), 1e-6
    for metric in (lp.Fisher(), lp.Pullback(0.3), lp.Fisher(0.1, output="sigmoid")):
        bound = curved_score().bind(knots[:, -1])
        length, pull = chord_force(bound, metric, knots, examples, positions())
        torch.testing.assert_close(length, sampled_chords(bound, metric, knots, examples, positions()))
        for feature in range(2):
            moved = [knots.clone() for _ in range(2)]
            moved[0][:, 1, feature] += h
            moved[1][:, 1, feature] -= h
            up, down = (sampled_chords(bound, metric, k, examples, positions()) for k in moved)
            torch.testing.assert_close(pull[:, 1, feature], (up - down) / (2 * h), rtol=1e-5, atol=1e-7)


def test_pullback_of_the_identity_is_euclidean():
    bound = lp.Score(lambda x: x, 0).bind(bent()[:, -1])
    length = sampled_chords(bound, lp.Pullback(), bent(), torch.arange(2), positions(5))
    torch.testing.assert_close(length, torch.linalg.vector_norm(bent().diff(dim=1), dim=2).sum(1))


def test_bad_places_are_infinite_and_pull_nowhere():
    bound = lp.Score(lambda x: torch.stack([torch.log(x[:, 1] - 0.5), x[:, 0]], 1), 1).bind(bent()[:, -1])
    length, pull = chord_force(bound, lp.Pullback(), bent(), torch.arange(2), positions())
    assert torch.isinf(length).all() and torch.isfinite(pull).all()


def test_cost_is_a_gradient_a_point_between_the_ends():
    bound = curved_score().bind(bent()[:, -1])
    chord_force(bound, lp.Fisher(), bent(), torch.arange(2), positions(2))
    assert bound.gradients_spent.tolist() == [5, 5]  # 2 positions on each of 2 segments, and one knot
