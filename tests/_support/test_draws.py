"""Draws: one seed gives one sequence of numbers, whatever the program's defaults are."""

import torch

from leastpath._support.draws import draw_normal, draw_uniform


def test_defaults_of_the_program_change_no_number():
    expected = [draw(7, (5,), torch.zeros(1)) for draw in (draw_normal, draw_uniform)]
    torch.set_default_dtype(torch.float64)
    try:
        again = [draw(7, (5,), torch.zeros(1, dtype=torch.float32)) for draw in (draw_normal, draw_uniform)]
    finally:
        torch.set_default_dtype(torch.float32)
    assert all(torch.equal(a, b) for a, b in zip(again, expected, strict=True))
