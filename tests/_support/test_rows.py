"""Rows of features of any shape, against plain loops."""

import pytest
import torch

from leastpath._support.rows import draw_normal, draw_uniform, flat_rows, norms, per_row
from leastpath.integral.block import extreme_by, rank_by, share_by, sum_by


@pytest.mark.parametrize("shape", [(3, 2, 4), (3,), (0, 5), (2, 0)])
def test_flat_rows_keeps_rows_and_numbers(shape):
    tensor = torch.rand(shape)
    flat = flat_rows(tensor)
    assert flat.shape == (shape[0], torch.Size(shape[1:]).numel())
    assert torch.equal(flat.flatten(), tensor.flatten())


def test_norms_against_a_loop():
    tensor = torch.rand(2, 3, 4, 5)
    expected = torch.tensor([[float(part.norm()) for part in row] for row in tensor])
    assert torch.allclose(norms(tensor, 2), expected)
    assert torch.equal(norms(torch.tensor([-2.0, 3.0]), 1), torch.tensor([2.0, 3.0]))


def test_per_row_multiplies_row_by_row():
    factors, tensor = torch.rand(3), torch.rand(3, 2, 4)
    expected = torch.stack([factor * row for factor, row in zip(factors, tensor, strict=True)])
    assert torch.equal(per_row(factors, tensor) * tensor, expected)
    assert torch.equal(per_row(factors, factors), factors)


INDEX = torch.tensor([0, 2, 0])


def test_rows_by_an_index_against_loops():
    values = torch.tensor([1.0, 2.0, 4.0])
    assert sum_by(values, INDEX, 3).tolist() == [5, 0, 2]
    assert sum_by(values[:, None].expand(3, 2), INDEX, 3).tolist() == [[5, 5], [0, 0], [2, 2]]
    assert extreme_by(values, INDEX, 3, "amin").tolist() == [1, torch.inf, 2]
    assert extreme_by(values, INDEX, 3, "amax").tolist() == [4, -torch.inf, 2]
    assert share_by(values, INDEX, 3).tolist() == pytest.approx([0.2, 1, 0.8])
    assert share_by(torch.zeros(3), INDEX, 3).tolist() == [0.5, 1, 0.5]


def test_ranks_are_those_within_an_index():
    assert rank_by(torch.tensor([3, 1, 3, 3, 1])).tolist() == [0, 0, 1, 2, 1]
    assert rank_by(torch.zeros(0, dtype=torch.long)).tolist() == []


# ---- draws: one seed gives one sequence of numbers, whatever the program's defaults are ------------------------------


def test_defaults_of_the_program_change_no_number():
    expected = [draw(7, (5,), torch.zeros(1)) for draw in (draw_normal, draw_uniform)]
    torch.set_default_dtype(torch.float64)
    try:
        again = [draw(7, (5,), torch.zeros(1, dtype=torch.float32)) for draw in (draw_normal, draw_uniform)]
    finally:
        torch.set_default_dtype(torch.float32)
    assert all(torch.equal(a, b) for a, b in zip(again, expected, strict=True))
