"""Rows of features of any shape, against plain loops."""

import pytest
import torch

from leastpath._support.rows import draw_normal, draw_uniform, flat_rows, norms, per_row


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


# ---- draws: one seed gives one sequence of numbers, whatever the program's defaults are ------------------------------


def test_defaults_of_the_program_change_no_number():
    expected = [draw(7, (5,), torch.zeros(1)) for draw in (draw_normal, draw_uniform)]
    torch.set_default_dtype(torch.float64)
    try:
        again = [draw(7, (5,), torch.zeros(1, dtype=torch.float32)) for draw in (draw_normal, draw_uniform)]
    finally:
        torch.set_default_dtype(torch.float32)
    assert all(torch.equal(a, b) for a, b in zip(again, expected, strict=True))
