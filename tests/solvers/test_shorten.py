"""Shortening: devices and plateaus. What it does to lengths is tested with the solvers that use it."""

import pytest
import torch

import leastpath as lp
from leastpath.solvers.shorten import Shortening, coarse, shorten


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
