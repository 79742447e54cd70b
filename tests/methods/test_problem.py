"""Attributions without a path: the evidence that is left. Oracles: closed forms of a linear score."""

import pytest
import torch

import leastpath as lp
from leastpath.methods import Explained

WEIGHTS = torch.tensor([2.0, -1.0, 0.5])
SCORE = lp.Score(lambda x: x @ WEIGHTS)


def explained(values_of, inputs, baselines=None):
    def mine(problem):
        return values_of(problem)

    return lp.attribute(SCORE, inputs, baselines, method=mine)


def test_gap_and_cancellation_are_those_of_the_values():
    result = explained(lambda problem: Explained((problem.end - problem.start) * WEIGHTS), torch.ones(2, 3))
    assert result.completeness_gap.tolist() == [0.0, 0.0] and result.cancellation.tolist() == [2.0, 2.0]
    assert result.path is None and result.certificate.isnan().all()
    assert "has no path" in result.status[0].value


def test_several_baselines_are_rows_that_are_averaged():
    baselines = torch.stack([torch.zeros(1, 3), torch.ones(1, 3)], 1)  # (1, 2, 3)
    seen = []

    def values_of(problem):
        seen.append((len(problem), problem.m))
        return Explained((problem.end - problem.start) * WEIGHTS)

    result = explained(values_of, 2 * torch.ones(1, 3), baselines)
    assert seen == [(2, 2)] and torch.equal(result.values, 1.5 * WEIGHTS[None])
    assert result.baseline_spread is not None


def test_zeros_and_remarks_are_told():
    result = explained(lambda problem: Explained(torch.zeros(1, 3), remarks=["Half of it."]), torch.ones(1, 3))
    assert "gives zero everywhere" in result.status[0].value and "Half of it" in result.status[0].value


def test_values_that_are_not_finite_are_refused():
    with pytest.raises(ValueError, match="NaN or infinite attributions for example 1"):
        explained(lambda problem: Explained(torch.tensor([[1.0] * 3, [torch.nan] * 3])), torch.ones(2, 3))
