"""The candidates. Oracle: on a linear score every path gives weight × (input − baseline)."""

from dataclasses import replace

import pytest
import torch
from tiny_truth import WEIGHTS, linear_problem, tiny
from torch import nn

import leastpath as lp
from helpers import TextNet, seeded
from leastpath.methods import METHODS
from studies.truth.candidates import CANDIDATES, explained
from studies.truth.nets import image_problem
from studies.truth.problem import Problem


class Linear(nn.Module):
    def forward(self, x):
        return x @ WEIGHTS[:, None]


@pytest.mark.parametrize(
    "name", ["ig", "ig-two", "line", "descent", "descent-damped", "descent-margin", "band", "monotone", "monotone-two"]
)
def test_every_path_is_exact_on_a_linear_score(name):
    problem, candidate = linear_problem(), CANDIDATES[name]
    baseline = problem.baselines.mean(1) if candidate.several else problem.baselines[:, 0]
    found = explained(candidate, problem)
    torch.testing.assert_close(found.values, (problem.inputs - baseline) * WEIGHTS, atol=1e-4, rtol=1e-4)
    torch.testing.assert_close(found.change, ((problem.inputs - baseline) @ WEIGHTS).double(), atol=1e-4, rtol=1e-4)


RIVALS = ["saliency", "expected", "samp", "samp++", "spectral", "ig2", "agi", "mfaba", "boundary", "fisher-rao"]


@pytest.mark.parametrize("name", RIVALS)
def test_methods_of_the_table_are_candidates_by_their_name(name):
    """Oracle: the method itself, called by its name."""
    problem = tiny()[0].open(None, None).problem(range(3))
    candidate = CANDIDATES[name]
    found = explained(candidate, problem)
    assert candidate.reference and candidate.fits(problem)
    assert found.values.shape == problem.inputs.shape and found.values.abs().max() > 0
    method = METHODS[candidate.solver]
    settings = {"limits": (0.0, 1.0)} if "limits" in method.defaults else {}
    if {"tolerance", "n_steps"} <= method.defaults.keys():
        settings |= {"tolerance": None, "n_steps": 50}
    base = problem.baselines if candidate.several else problem.baselines[:, :1]
    expected = method(
        problem.score("log_softmax"), problem.inputs, base if method.takes_baselines else None, **settings
    )
    torch.testing.assert_close(found.values, expected.values)


def test_maps_are_read_where_there_are_convolutions():
    assert not CANDIDATES["grad-cam"].fits(tiny()[0].open(None, None).problem(range(2)))
    net = nn.Sequential(nn.Conv2d(1, 3, 3), nn.ReLU(), nn.Flatten(), nn.Linear(48, 2)).eval()
    problem = image_problem(net, torch.rand(2, 1, 6, 6), torch.zeros(2).long(), "softmax")
    assert CANDIDATES["grad-cam"].fits(problem) and explained(CANDIDATES["grad-cam"], problem).values.shape == (
        2,
        1,
        6,
        6,
    )


def test_other_examples_are_where_local_paths_start():
    """Oracle: on a linear score, the weighted mean reference, so values add up to the change that is told."""
    problem, lpi = linear_problem(), CANDIDATES["lpi"]
    assert not lpi.fits(problem)
    others = torch.rand(8, 3, generator=torch.Generator().manual_seed(0))
    near = replace(problem, others=lambda: others, score=lambda output: lp.Score(Linear().eval(), output="raw"))
    assert lpi.fits(near)
    found = explained(lpi, near)
    torch.testing.assert_close(found.values.sum(1).double(), found.change, atol=1e-4, rtol=1e-4)


def test_words_are_those_of_the_embedding():
    net = seeded(TextNet).eval()
    ids = torch.tensor([[1, 2, 3], [4, 5, 6]])
    problem = Problem(
        lambda output: lp.Score(net, 1, output, layer=net.embedding), "log_softmax", ids,
        torch.zeros(2, 1, 3, 4), {}, None,
    )  # fmt: skip
    assert explained(CANDIDATES["discretized"], problem).values.shape == (2, 3, 4)
    assert explained(CANDIDATES["sequential"], problem).values.shape == (2, 3, 4)


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


def test_controls_stand_last_and_are_the_methods_of_that_name():
    """Oracle: the method itself, called by its name."""
    names = ["edges", "distance", "smooth-random", "random", "untrained", "other-class"]
    assert list(CANDIDATES)[-6:] == names
    problem = tiny()[0].open(None, None).problem(range(2))
    for name in names[4:]:  # the study has the others itself
        candidate = CANDIDATES[name]
        expected = METHODS[candidate.solver](problem.score("log_softmax"), problem.inputs, problem.baselines[:, :1])
        assert candidate.fits(problem) and candidate.main and candidate.reference
        torch.testing.assert_close(explained(candidate, problem).values, expected.values)
    assert not CANDIDATES["untrained"].fits(linear_problem())
