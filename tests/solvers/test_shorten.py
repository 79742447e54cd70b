"""Shortening: devices and plateaus, and chord lengths against finite differences and closed forms.

What it does to lengths is tested with the solvers that use it.
"""

import pytest
import torch

import leastpath as lp
from leastpath.solvers.shorten import Shortening, _chord_force, _sampled_chords, coarse, jitter_positions, shorten


@pytest.mark.parametrize("metric", [lp.Conformal(), lp.NoCancellation()])
def test_on_a_plateau_no_path_runs_away(metric):
    """Forces of 1e-200, whose squares vanish, and every step seems to shorten: knots stay within reach of the ends."""
    x = torch.tensor([[1.0, 0.5]], dtype=torch.float64)
    score = lp.Score(lambda x: torch.exp(-400 - 20 * x[:, 0] ** 2 - x[:, 1])).bind(x)
    knots = lp.Path.straight(torch.zeros_like(x), x).resample(9).points[None]
    run = lp.Run()
    short = shorten(score, metric, knots, torch.arange(1), run.budget(score), run, Shortening(rounds=60))
    assert float(short.abs().max()) < 60 * float(x.norm())


class Elsewhere(torch.Tensor):
    """Stands for a tensor of another device: as in PyTorch, no tensor of the CPU may be indexed with it."""

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        if func is torch.Tensor.__getitem__ and isinstance(args[1], cls) and not isinstance(args[0], cls):
            raise RuntimeError("indices should be either on cpu or on the same device as the indexed tensor (cpu)")
        if func is torch.Tensor.cpu:
            return args[0].as_subclass(torch.Tensor)
        if func is torch.Tensor.device.__get__:
            return torch.device("cpu")
        return super().__torch_function__(func, types, args, kwargs or {})


def test_tensors_of_the_cpu_are_never_indexed_by_those_of_a_device(monkeypatch):
    """`arange` is told where to be: there it makes what belongs to that device."""
    arange = torch.arange
    monkeypatch.setattr(
        torch,
        "arange",
        lambda *a, device=None, **k: arange(*a, **k) if device is None else arange(*a, **k).as_subclass(Elsewhere),
    )
    x = torch.ones(2, 6)
    score = lp.Score(lambda x: torch.sigmoid(6 * x[:, 0] - 3 * x[:, 1] ** 2)).bind(x)
    knots = lp.Path.straight(torch.zeros_like(x), x).resample(9).points.unflatten(0, (2, 9)).as_subclass(Elsewhere)
    for run in (lp.Run(), lp.Run(max_gradients=10_000)):
        short = shorten(score, lp.Conformal(), knots, arange(2), run.budget(score), run, Shortening(rounds=2))
        assert short.shape == knots.shape


def test_coarse_grid_keeps_what_is_smooth():
    torch.testing.assert_close(coarse(torch.ones(2, 3, 8, 10), 4), torch.ones(2, 3, 8, 10))


# ---- under a feature metric ----------------------------------------------------------------------------------------


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
        length, pull = _chord_force(bound, metric, knots, examples, positions())
        torch.testing.assert_close(length, _sampled_chords(bound, metric, knots, examples, positions()))
        for feature in range(2):
            moved = [knots.clone() for _ in range(2)]
            moved[0][:, 1, feature] += h
            moved[1][:, 1, feature] -= h
            up, down = (_sampled_chords(bound, metric, k, examples, positions()) for k in moved)
            torch.testing.assert_close(pull[:, 1, feature], (up - down) / (2 * h), rtol=1e-5, atol=1e-7)


def test_pullback_of_the_identity_is_euclidean():
    bound = lp.Score(lambda x: x, 0).bind(bent()[:, -1])
    length = _sampled_chords(bound, lp.Pullback(), bent(), torch.arange(2), positions(5))
    torch.testing.assert_close(length, torch.linalg.vector_norm(bent().diff(dim=1), dim=2).sum(1))


def test_bad_places_are_infinite_and_pull_nowhere():
    bound = lp.Score(lambda x: torch.stack([torch.log(x[:, 1] - 0.5), x[:, 0]], 1), 1).bind(bent()[:, -1])
    length, pull = _chord_force(bound, lp.Pullback(), bent(), torch.arange(2), positions())
    assert torch.isinf(length).all() and torch.isfinite(pull).all()


def test_cost_is_a_gradient_a_point_between_the_ends():
    bound = curved_score().bind(bent()[:, -1])
    _chord_force(bound, lp.Fisher(), bent(), torch.arange(2), positions(2))
    assert bound.gradients_spent.tolist() == [5, 5]  # 2 positions on each of 2 segments, and one knot
