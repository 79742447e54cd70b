"""Paths carried over to other ends. Oracle: by hand."""

import pytest
import torch

import leastpath as lp
from leastpath.solvers.descent.carried import carried_over


def test_a_carried_path_keeps_its_deviation():
    path = lp.Path.polyline(torch.tensor([[[0.0, 0.0], [0.5, 1.0], [1.0, 0.0]]]))
    start, end = torch.tensor([[1.0, 1.0]]), torch.tensor([[2.0, 1.0]])
    (carried,) = carried_over(path, torch.tensor([0]), start, end)
    torch.testing.assert_close(carried, torch.tensor([[1.0, 1.0], [1.5, 2.0], [2.0, 1.0]]))
    (same,) = carried_over(path, torch.tensor([0]), path.start, path.end)
    assert torch.equal(same, path[0])


def test_paths_of_other_features_are_refused():
    path = lp.Path.polyline(torch.zeros(1, 3, 2))
    with pytest.raises(ValueError, match="expected the same features"):
        carried_over(path, torch.tensor([0]), torch.zeros(1, 5), torch.ones(1, 5))
