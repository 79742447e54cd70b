"""Paths carried over to other ends, against closed forms."""

import pytest
import torch

import leastpath as lp
from leastpath.solvers.descent.carried import move_to_ends


def test_a_carried_path_keeps_its_deviation():
    path = lp.Path.polyline(torch.tensor([[[0.0, 0.0], [0.5, 1.0], [1.0, 0.0]]]))
    start, end = torch.tensor([[1.0, 1.0]]), torch.tensor([[2.0, 1.0]])
    (carried,) = move_to_ends(path, torch.tensor([0]), start, end)
    torch.testing.assert_close(carried, torch.tensor([[1.0, 1.0], [1.5, 2.0], [2.0, 1.0]]))
    (same,) = move_to_ends(path, torch.tensor([0]), path.start, path.end)
    assert torch.equal(same, path[0])


def test_a_carried_path_moves_with_its_line():
    """A shift moves every knot by as much; a stretch moves each by its share of the way."""
    path = lp.Path.polyline(torch.tensor([[[0.0, 0.0], [0.25, 1.0], [0.75, -1.0], [1.0, 0.0]]]))
    shift = torch.tensor([[2.0, -3.0]])
    (shifted,) = move_to_ends(path, torch.tensor([0]), path.start + shift, path.end + shift)
    torch.testing.assert_close(shifted, path[0] + shift)
    (stretched,) = move_to_ends(path, torch.tensor([0]), path.start, 3 * path.end)
    torch.testing.assert_close(stretched, path[0] * torch.tensor([3.0, 1.0]))


def test_one_path_serves_all_examples_and_several_serve_one_each():
    start, end = torch.zeros(2, 2), torch.tensor([[1.0, 0.0], [2.0, 0.0]])
    bent = lp.Path.polyline(torch.tensor([[[0.0, 0.0], [0.5, 1.0], [1.0, 0.0]], [[0.0, 0.0], [1.0, -1.0], [2.0, 0.0]]]))
    each = move_to_ends(bent, torch.tensor([0, 1]), start, end)
    assert all(torch.equal(knots, bent[b]) for b, knots in enumerate(each))
    shared = move_to_ends(bent.select(torch.tensor([0])), torch.tensor([0, 1]), start, end)
    torch.testing.assert_close(shared[1], torch.tensor([[0.0, 0.0], [1.0, 1.0], [2.0, 0.0]]))


def test_other_features_are_refused():
    path = lp.Path.straight(torch.zeros(1, 3), torch.ones(1, 3))
    with pytest.raises(ValueError, match=r"start_from has features \(3,\), the inputs \(2,\)"):
        move_to_ends(path, torch.tensor([0]), torch.zeros(1, 2), torch.ones(1, 2))
