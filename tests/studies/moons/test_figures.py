"""Figures from planted numbers."""

import torch

import leastpath as lp
from studies.moons.figures import attribution_maps, output_difference, purity_over_noise, sampled_paths

SCORE, POINTS = lp.Score(lambda x: torch.sigmoid(9 * x[:, 1])), torch.rand(20, 2)


def test_maps_have_a_row_a_method_and_one_signed_scale():
    figure = attribution_maps(POINTS, {"IG": torch.rand(20, 2), "other": torch.rand(20, 2)}, SCORE, (0.0, 0.0))
    signed = [ax.collections[-2] for ax in figure.axes[:8] if ax.get_title() != "Σ|A|"]
    assert len(figure.axes) == 8 + 2 and figure.axes[4].get_ylabel().startswith("other")
    assert len({drawn.norm.vmax for drawn in signed}) == 1


def test_the_difference_and_its_size():
    change = torch.linspace(-1, 1, 20)
    left, right = output_difference(POINTS, change, SCORE, (0.0, 0.0)).axes[:2]
    assert torch.equal(torch.tensor(left.collections[-2].get_array()), change)
    assert torch.equal(torch.tensor(right.collections[-2].get_array()), change.abs())


def test_purity_is_drawn_as_the_mean_over_seeds_best_first():
    purities = {"random": torch.tensor([[0.4, 0.5], [0.6, 0.5]]), "ideal": torch.ones(2, 2)}
    axis = purity_over_noise([0.1, 0.2], purities, {"random": "Random", "ideal": "Ideal"}).axes[0]
    assert [line.get_label() for line in axis.lines] == ["Ideal", "Random"]
    assert axis.lines[1].get_ydata().tolist() == [0.5, 0.5]


def test_paths_are_drawn_with_their_samples_and_lines():
    path = torch.tensor([[0.0, 0.0], [0.4, 0.6], [1.0, 1.0]])
    axis = sampled_paths(POINTS, [path], [[path + 0.01, path - 0.01]], SCORE).axes[0]
    assert len(axis.lines) == 2 + 1 + 1 + 2  # samples, line, mean, the two ends
