"""Magnitude aligned scoring against closed forms and a loop that follows its definition."""

import numpy as np
import pytest
import torch

import leastpath as lp
from helpers import flat_points, mlp
from leastpath.evaluation import (
    Deletion,
    Insertion,
    MagnitudeAlignedDeletion,
    MagnitudeAlignedInsertion,
    Masking,
    given_attribution,
    measure_all,
)

WEIGHTS = torch.tensor([4.0, 3.0, 2.0, 1.0], dtype=torch.float64)
LINEAR, ONES = lp.Score(lambda x: x @ WEIGHTS.to(x)), torch.ones(1, 4, dtype=torch.float64)
QUARTERS = Masking((0.0, 0.25, 0.5, 0.75, 1.0))


def test_right_values_of_a_linear_model_have_no_penalty():
    """The curve is the share of Σ|A| itself: 0, .4, .7, .9, 1."""
    result, area = given_attribution(WEIGHTS[None]), 0.25 * (0.4 + 0.7 + 0.9 + 0.5)
    insertion = MagnitudeAlignedInsertion(QUARTERS)(LINEAR, ONES, None, result)
    deletion = MagnitudeAlignedDeletion(QUARTERS)(LINEAR, ONES, None, result)
    assert float(insertion.values) == pytest.approx(area)
    assert float(deletion.values) == pytest.approx(1 - area)
    assert float(Insertion(QUARTERS)(LINEAR, ONES, None, result).values) == pytest.approx(10 * area)


def test_right_order_with_wrong_sizes_pays():
    """Mass .25, .5, .75 beside a curve of .4, .7, .9: distances .15, .2, .15."""
    result = given_attribution(torch.tensor([[1.003, 1.002, 1.001, 1.0]], dtype=torch.float64))
    insertion = MagnitudeAlignedInsertion(QUARTERS)(LINEAR, ONES, None, result)
    assert float(insertion.values) == pytest.approx(0.25 * (0.25 + 0.5 + 0.75 + 0.5), abs=2e-3)
    deletion = MagnitudeAlignedDeletion(QUARTERS)(LINEAR, ONES, None, result)
    assert float(deletion.values) == pytest.approx(0.25 * (0.5 + 0.75 + 0.5 + 0.25), abs=2e-3)


@pytest.mark.parametrize("keep", [True, False])
def test_against_a_loop(keep):
    score, x = lp.Score(mlp(), 1), flat_points(3, 4)
    values = torch.randn(3, 4, generator=torch.Generator().manual_seed(3))
    measure = (MagnitudeAlignedInsertion if keep else MagnitudeAlignedDeletion)(QUARTERS)
    found = measure(score, x, None, given_attribution(values)).values
    for b in range(3):
        order = values[b].abs().argsort(descending=True)
        points, held = [], []
        for k in range(5):
            point = torch.zeros_like(x[b]) if keep else x[b].clone()
            point[order[:k]] = x[b, order[:k]] if keep else 0
            points.append(point)
            held.append(float(values[b, order[:k]].abs().sum() / values[b].abs().sum()))
        p = score.model(torch.stack(points)).softmax(1)[:, 1].detach().double().numpy()
        rise = np.maximum.accumulate(np.clip((p - p[0]) / (p[-1] - p[0]), 0, 1))
        response, mass = (rise, np.array(held)) if keep else (1 - rise, 1 - np.array(held))
        curve = np.clip(response - abs(response - mass) if keep else response + abs(response - mass), 0, 1)
        assert float(found[b]) == pytest.approx(float(np.trapezoid(curve, np.linspace(0, 1, 5))), abs=1e-5)


def test_forward_passes_are_shared_with_insertion():
    values = given_attribution(torch.rand(3, 4))
    shared = measure_all(
        [Insertion(QUARTERS), MagnitudeAlignedInsertion(QUARTERS), Deletion(QUARTERS)],
        lp.Score(mlp(), 1), flat_points(3, 4), None, values,
    )  # fmt: skip
    assert int(shared[0].n_forwards.sum()) > 0 == int(shared[1].n_forwards.sum())


def test_nothing_to_align_is_nan():
    flat = lp.Score(lambda x: x.sum(1) * 0)
    assert torch.isnan(MagnitudeAlignedInsertion(QUARTERS)(flat, ONES, None, given_attribution(WEIGHTS[None])).values)
    none = given_attribution(torch.zeros_like(ONES))
    assert torch.isnan(MagnitudeAlignedDeletion(QUARTERS)(LINEAR, ONES, None, none).values)


def test_areas_that_leave_the_ends_out_are_refused():
    with pytest.raises(ValueError, match="needs areas from 0 to 1"):
        MagnitudeAlignedInsertion(Masking())
