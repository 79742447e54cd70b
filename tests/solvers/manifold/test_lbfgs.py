"""The batched minimiser against quadratics whose minimum is known, and row by row."""

import torch

from helpers import flat_points
from leastpath.solvers.manifold.lbfgs import Lbfgs

SCALES = torch.logspace(0, 3, 6, dtype=torch.float64)


def bowl(x, rows):
    """1 + ½ Σ s (x − row)²: one minimum a row, badly scaled."""
    away = x - rows[:, None, None]
    return 1 + (SCALES * away**2).sum((1, 2)) / 2, SCALES * away


def searched(function, x, rounds=100, tolerance=1e-12):
    search = Lbfgs(
        function, x, torch.eye(x.shape[1], dtype=x.dtype), torch.full((len(x),), 0.1, dtype=x.dtype), tolerance
    )
    for _ in range(rounds):
        if not len(search.open):
            break
        search.iterate()
    return search


def test_quadratic_against_its_minimum():
    search = searched(bowl, flat_points(3 * 4, 6, 1, torch.float64).view(3, 4, 6))
    assert search.converged.all() and not search.stuck.any()
    torch.testing.assert_close(search.x, torch.arange(3.0).double()[:, None, None].expand(3, 4, 6), rtol=0, atol=1e-5)


def test_rosenbrock_against_its_minimum():
    """A curved valley: (1, 1) is its only minimum."""

    def valley(x, rows):
        with torch.enable_grad():
            x = x.detach().requires_grad_()
            value = 1 + ((1 - x[..., 0]) ** 2 + 100 * (x[..., 1] - x[..., 0] ** 2) ** 2).sum(1)
            return value.detach(), torch.autograd.grad(value.sum(), x)[0]

    search = searched(valley, torch.tensor([[[-1.2, 1.0]], [[0.5, -0.5]]], dtype=torch.float64), 200)
    torch.testing.assert_close(search.x, torch.ones(2, 1, 2, dtype=torch.float64), rtol=0, atol=1e-4)


def test_batch_equals_loop():
    x = flat_points(3 * 4, 6, 1, torch.float64).view(3, 4, 6)
    together = searched(bowl, x.clone(), 9, 0.0).x
    for b in range(3):
        alone = searched(lambda x, rows, b=b: bowl(x, rows + b), x[b : b + 1].clone(), 9, 0.0).x
        torch.testing.assert_close(together[b], alone[0])


def test_rows_without_a_way_down_are_stuck_and_those_without_a_value_fail():
    def wrong(x, rows):
        """Its gradient points the wrong way for row 0, and row 1 has no value."""
        value = torch.where(rows == 1, torch.nan, 1 + (x**2).sum((1, 2)))
        return value, torch.where(rows[:, None, None] == 0, -2 * x, 2 * x)

    search = searched(wrong, torch.ones(3, 2, 1, dtype=torch.float64))
    assert search.stuck.tolist() == [True, False, False] and search.failed.tolist() == [False, True, False]
    assert search.converged.tolist() == [False, False, True]
    assert torch.equal(search.x[0], torch.ones(2, 1, dtype=torch.float64))
