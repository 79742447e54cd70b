"""Blücher's protocol. Oracles: the reversed explanation, whose gain is the negative, and the published order itself."""

import pytest
import torch
from torch import nn

import leastpath as lp
from studies.referees.blucher import CONTROLS, PUBLISHED, explain_by, gains_of, judge, order_of
from studies.referees.kept import Kept


def picture():
    generator = torch.Generator().manual_seed(0)
    image, weights = torch.rand(1, 3, 32, 32, generator=generator), torch.randn(3 * 32 * 32, 2, generator=generator)
    net = nn.Sequential(nn.Flatten(), nn.Linear(3 * 32 * 32, 2)).requires_grad_(False).eval()
    net[1].weight.copy_(weights.T / 20)
    return lp.Score(net, torch.tensor([1])), image


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_reversed_explanation_has_the_negative_gain():
    score, image = picture()
    weight = (score.model[1].weight[1] - score.model[1].weight[0]).view_as(image)
    values = weight * (image - 0.5)  # exact for a fill of a half
    ours, reversed_ = (judge(score, image, sign * values, 0.5) for sign in (1, -1))
    assert len(ours) == 6 and all(ours[f"another picture, {size}"] > 0.05 for size in (25, 100))
    assert {name: -gain for name, gain in reversed_.items()} == pytest.approx(ours, abs=0.02)  # halves round up


def test_input_times_gradient_is_of_the_input_less_grey():
    """Oracle: on a linear net, weight × (x − grey); of a gradient the size counts."""
    pytest.importorskip("captum")
    score, image = picture()
    weight, grey = score.model[1].weight[1].view_as(image), torch.full_like(image, 0.5)
    torch.testing.assert_close(explain_by("input_x_gradient", score, image, grey), weight * (image - grey))
    torch.testing.assert_close(explain_by("saliency", score, image, grey), weight.abs())
    assert all(explain_by(name, score, image, grey).shape == image.shape for name in CONTROLS)


def test_kendalls_correlation_with_the_published_order(tmp_path):
    kept = Kept(tmp_path / "kept.json")
    assert len(PUBLISHED) == 7
    for name, (gain, _) in PUBLISHED.items():
        kept.add(name, "20", {"mean, 25": gain, "mean, 100": gain + 0.1, "seconds": 9.0})
    assert order_of(kept) == pytest.approx(1.0) and gains_of(kept)["lrp"] == [pytest.approx(0.41)]
    kept.add("lrp", "20", {"mean, 25": -1.0, "seconds": 9.0})  # now last: 6 of 21 pairs are turned round
    assert order_of(kept) == pytest.approx(1 - 12 / 21)
    kept.add("edges", "99", {"mean, 25": 1.0})  # an image that the seven lack
    assert "edges" not in gains_of(kept)
