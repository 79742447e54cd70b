"""What the studies measure. Oracles: planted differences, SciPy."""

from __future__ import annotations

import math

import pytest
import torch
from scipy.stats import spearmanr

from studies.findings.measuring import correlation_gain, direction, rank_correlation


def test_direction_needs_a_clear_difference() -> None:
    rising = [float(i) for i in range(8)]
    assert direction([x + 1 for x in rising], rising) == 1
    assert direction(rising, [x + 1 for x in rising]) == -1
    assert direction([*rising, None], [*rising[::-1], 3.0]) == 0
    assert direction([1.0], [0.0]) == 0  # one example is no evidence


def test_rank_correlation_against_scipy() -> None:
    a, b = torch.randn(2, 30, generator=torch.Generator().manual_seed(0)).round(decimals=1).tolist()  # with ties
    assert rank_correlation(a, b) == pytest.approx(spearmanr(a, b).statistic)
    assert math.isnan(rank_correlation([1.0, 1.0], [1.0, 2.0]))


def test_correlation_gain_finds_a_planted_difference_and_no_other() -> None:
    generator = torch.Generator().manual_seed(0)
    truth = torch.randn(100, generator=generator)
    near, alike, noise = (
        (truth * weight + torch.randn(100, generator=generator)).tolist() for weight in (3.0, 3.0, 0.0)
    )
    gain, low, high = correlation_gain(near, noise, truth.tolist())
    assert 0 < low < gain < high
    _, low, high = correlation_gain(near, alike, truth.tolist())
    assert low < 0 < high
    assert correlation_gain(near, near, truth.tolist()) == (0, 0, 0)
