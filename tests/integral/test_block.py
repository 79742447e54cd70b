"""Blocks: segments that examples share are integrated once, and their gradients are split."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from helpers import Counted, mlp, relative_error, wave
from leastpath import Path, Score, integrate

POOL = torch.tensor([[0.0, 0.0], [1.0, 0.2], [0.4, 1.0], [1.5, 1.5]], dtype=torch.float64)


def routes(*rows):
    offsets = torch.tensor([0, *(len(r) for r in rows)]).cumsum(0)
    return Path(POOL, torch.tensor([i for r in rows for i in r]), offsets)


@pytest.mark.parametrize("settings", [{}, {"tolerance": None, "n_steps": 30}, {"max_gradients": 50}])
def test_shared_segments_are_integrated_once_and_split(settings):
    """Example 1 walks example 0's route backwards, example 2 a part of it, example 3 its own way there and back."""
    path = routes([0, 1, 2, 3], [3, 2, 1, 0], [1, 2], [0, 2, 0])
    model = Counted(wave)
    result = integrate(Score(model), path, **settings)
    assert model.gradient_rows == pytest.approx(float(result.n_gradients.sum()))
    torch.testing.assert_close(result.values[1], -result.values[0])
    torch.testing.assert_close(result.length[1], result.length[0])
    torch.testing.assert_close(result.values[3], torch.zeros(2, dtype=torch.float64), rtol=0, atol=1e-12)
    assert model.gradient_rows < sum(float(integrate(Score(wave), path.select(torch.tensor([b])), **settings)
                                           .n_gradients) for b in range(4))  # fmt: skip


def test_segments_of_other_targets_are_not_shared():
    path, model = routes([0, 1, 2], [0, 1, 2], [2, 1, 0]), Counted(mlp(2).double())
    result = integrate(Score(model, torch.tensor([0, 1, 1])), path)
    assert model.gradient_rows == pytest.approx(float(result.n_gradients.sum()))
    torch.testing.assert_close(result.values[1], -result.values[2])
    for b, target in enumerate((0, 1, 1)):
        alone = integrate(Score(mlp(2).double(), target), path.select(torch.tensor([b])))
        assert relative_error(result.values[b : b + 1], alone.values) <= 0.02  # both within 1 %


@pytest.mark.parametrize("budget", [3, 10, 40, 100])
def test_budget_holds_for_every_walker_of_a_shared_segment(budget):
    """Example 3 walks only segments that others own: it pays its part of each."""
    path = routes([0, 1], [1, 2], [2, 3], [0, 1, 2, 3])
    model = Counted(wave)
    result = integrate(Score(model), path, tolerance=1e-5, max_gradients=budget)
    assert (result.n_gradients <= budget + 1e-6).all()
    assert model.gradient_rows == pytest.approx(float(result.n_gradients.sum()))


@given(st.integers(0, 100), st.integers(1, 4))
def test_shared_routes_equal_separate_polylines(seed, n):
    generator = torch.Generator().manual_seed(seed)
    rows = [torch.randint(4, (4,), generator=generator).tolist() for _ in range(n)]
    path = routes(*rows)
    separate = Path.polyline(torch.stack([path[b] for b in range(n)]))
    score = Score(lambda x: torch.sin(5 * x[:, 0]) * x[:, 1])
    a, b = integrate(score, path, tolerance=1e-4), integrate(score, separate, tolerance=1e-4)
    torch.testing.assert_close(a.values, b.values, rtol=1e-3, atol=1e-4)
    torch.testing.assert_close(a.change, b.change)
    torch.testing.assert_close(a.length, b.length, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("settings", [{}, {"tolerance": None, "n_steps": 5}])
def test_path_of_one_knot_costs_nothing(settings):
    path = Path(torch.eye(2), torch.tensor([0, 0, 1]), torch.tensor([0, 1, 3]))
    model = Counted(wave)
    result = integrate(Score(model), path, **settings)
    assert result.n_gradients[0] == 0 and not result.values[0].any() and result.length[0] == 0
    assert model.gradient_rows == result.n_gradients[1] > 0
    alone = integrate(Score(wave), path.select(torch.tensor([0])), **settings)
    assert not alone.values.any() and alone.n_gradients == 0
