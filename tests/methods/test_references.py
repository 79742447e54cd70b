"""Expected Gradients and LPI. Oracles: a linear model, the mean of Integrated Gradients, shap, hand-made clusters."""

import pytest
import torch

import leastpath as lp
from helpers import flat_points, mlp
from leastpath.methods import METHODS
from leastpath.methods.references import _neighbourhoods

WEIGHTS = torch.tensor([2.0, -1.0, 0.5])


def test_expected_gradients_of_a_linear_score_against_the_drawn_references():
    x, base = torch.ones(2, 3), torch.stack([torch.zeros(3), torch.ones(3), 2 * torch.ones(3)])[None]
    result = METHODS["expected_gradients"](lp.Score(lambda x: x @ WEIGHTS), x, base, n_samples=30, seed=3)
    drawn = torch.randint(3, (30,), generator=torch.Generator().manual_seed(3))
    torch.testing.assert_close(result.values[0], WEIGHTS * (1 - drawn.float().mean()))
    assert result.n_gradients.tolist() == [30, 30]


def test_expected_gradients_go_to_the_mean_of_integrated_gradients():
    net, x, base = mlp(3).double(), flat_points(2, 3, 1, torch.float64), flat_points(4, 3, 2, torch.float64)[None]
    score = lp.Score(net, 1)
    exact = lp.attribute(score, x, base.expand(2, 4, 3), method=lp.StraightLine()).values
    found = METHODS["expected_gradients"](score, x, base.expand(2, 4, 3), n_samples=4000).values
    assert (found - exact).abs().max() < 0.05 * exact.abs().max()


def test_expected_gradients_against_those_of_shap():
    """Both are means over draws, which differ: they meet where there are many."""
    shap = pytest.importorskip("shap")
    net, x, base = mlp(3), flat_points(2, 3, 1), flat_points(4, 3, 2)
    theirs = shap.GradientExplainer(net, base).shap_values(x, nsamples=4000, rseed=0)[..., 1]
    ours = METHODS["expected_gradients"](lp.Score(net, 1), x, base[None].expand(2, 4, 3), n_samples=4000).values
    assert (ours - torch.as_tensor(theirs)).abs().max() < 0.06 * ours.abs().max()


def test_references_are_those_of_the_inputs_cluster_weighted_by_what_they_stand_for():
    points = torch.tensor([[0.0, 0], [0.1, 0], [0.05, 0], [1, 0], [10, 10], [10, 11]])
    near, far = _neighbourhoods(points, torch.tensor([[0.2, 0.1], [9.0, 9.0]]), lambda x: x, 2, 2, 0)
    assert sorted(zip(near[0].tolist(), near[1].tolist(), strict=True)) == [(2, 0.75), (3, 0.25)]
    assert sorted(far[0].tolist()) == [4, 5] and far[1].tolist() == [0.5, 0.5]


def test_lpi_is_the_weighted_mean_of_integrated_gradients():
    net, x = mlp(2).double(), torch.tensor([[0.2, 0.1], [9.0, 9.0]], dtype=torch.float64)
    points = torch.tensor([[0.0, 0], [0.1, 0], [0.05, 0], [1, 0], [10, 10], [10, 11]], dtype=torch.float64)
    score = lp.Score(net, 1)
    result = METHODS["lpi"](score, x, points=points, n_centers=2, n_references=2, n_steps=30)

    def line(row, start):
        return lp.attribute(score, x[row : row + 1], start[None], method=lp.StraightLine(), tolerance=1e-6).values[0]

    near = 0.75 * line(0, points[2]) + 0.25 * line(0, points[3])
    far = 0.5 * line(1, points[4]) + 0.5 * line(1, points[5])
    torch.testing.assert_close(result.values, torch.stack([near, far]), rtol=1e-3, atol=1e-4)
    assert result.completeness_gap.abs().max() < 1e-4
    assert result.n_gradients.tolist() == [60, 60]


def test_lpi_clusters_where_it_is_told_to():
    points, x = torch.tensor([[0.0, 5], [0, -5], [9, 5], [9, -5]]), torch.tensor([[1.0, 5.0]])
    score = lp.Score(lambda x: x.sum(1))
    by_second = METHODS["lpi"](score, x, points=points, represent=lambda x: x[:, 1:], n_centers=2, n_references=5)
    torch.testing.assert_close(by_second.values[0, 1], torch.tensor(0.0))  # its references differ in the first only


def test_lpi_says_what_it_needs():
    with pytest.raises(ValueError, match="lpi needs data points: pass points"):
        METHODS["lpi"](lp.Score(lambda x: x.sum(1)), torch.ones(1, 3))
    with pytest.raises(ValueError, match=r"points has features \(2,\), the inputs \(3,\)"):
        METHODS["lpi"](lp.Score(lambda x: x.sum(1)), torch.ones(1, 3), points=torch.ones(4, 2))
    with pytest.raises(ValueError, match="n_samples=0 must be at least 1"):
        METHODS["expected_gradients"](lp.Score(lambda x: x.sum(1)), torch.ones(1, 3), n_samples=0)
