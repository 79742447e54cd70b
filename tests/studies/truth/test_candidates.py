"""The candidates. Oracle: on a linear score every path gives weight × (input − baseline)."""

from dataclasses import replace

import pytest
import torch
from tiny_truth import WEIGHTS, linear_problem

from studies.truth.candidates import CANDIDATES, explained


@pytest.mark.parametrize(
    "name", ["ig", "ig-two", "line", "descent", "descent-damped", "descent-margin", "band", "monotone", "monotone-two"]
)
def test_every_path_is_exact_on_a_linear_score(name):
    problem, candidate = linear_problem(), CANDIDATES[name]
    baseline = problem.baselines.mean(1) if candidate.several else problem.baselines[:, 0]
    found = explained(candidate, problem)
    torch.testing.assert_close(found.values, (problem.inputs - baseline) * WEIGHTS, atol=1e-4, rtol=1e-4)
    torch.testing.assert_close(found.change, ((problem.inputs - baseline) @ WEIGHTS).double(), atol=1e-4, rtol=1e-4)


def test_a_candidate_fits_where_groups_and_baselines_are_there():
    problem = linear_problem()
    one = replace(problem, baselines=problem.baselines[:, :1])
    assert CANDIDATES["ig-two"].fits(problem) and not CANDIDATES["ig-two"].fits(one)
    assert not CANDIDATES["monotone-group"].fits(problem)
    assert CANDIDATES["monotone-group"].fits(replace(problem, groups={"group": torch.tensor([0, 0, 1])}))
    assert not replace(CANDIDATES["ig"], solver="NoSuchSolver").fits(problem)


def test_other_settings_of_a_candidate_are_computed_anew():
    assert CANDIDATES["ig"].digest != replace(CANDIDATES["ig"], tolerance=0.1).digest
    assert CANDIDATES["ig"].digest == replace(CANDIDATES["ig"], title="other words", main=False).digest
    assert len({candidate.digest for candidate in CANDIDATES.values()}) == len(CANDIDATES)
