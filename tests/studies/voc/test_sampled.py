"""Sampled IDGI: the line when nothing is drawn, complete, and a batch gives what a loop gives."""

import pytest
import torch

import leastpath as lp
from helpers import Interrupting
from leastpath.geometry.path import Path
from studies.voc.sampled import bowed, line_sampled_idgi, sampled_idgi

SCORE = lp.Score(lambda x: torch.sigmoid(3 * x[:, :15].sum(1) / 15 - x[:, 15:].prod(1)))
QUICK = {"resolution": None, "solver_gradients": 90, "n_steps": 20}


def inputs():
    return torch.rand(3, 30, generator=torch.Generator().manual_seed(0))


def test_is_complete_up_to_the_integral():
    result = sampled_idgi(SCORE, inputs(), spread=0.05, **QUICK)
    assert (result.completeness_gap.abs() < 0.02 * result.score_change.abs() + 1e-3).all()


def test_a_batch_gives_what_a_loop_gives():
    together = sampled_idgi(SCORE, inputs(), **QUICK).values
    alone = torch.cat([sampled_idgi(SCORE, x[None], **QUICK).values for x in inputs()])
    torch.testing.assert_close(together, alone)


def test_without_spread_and_a_linear_score_it_is_idgi_on_the_line():
    weights = torch.linspace(-1, 1, 30)
    score = lp.Score(lambda x: x @ weights)
    line = lp.attribute(score, inputs(), method=lp.StraightLine(), weighting=lp.IDGI()).values
    torch.testing.assert_close(sampled_idgi(score, inputs(), spread=0.0, **QUICK).values, line)


def test_lines_alone_are_idgi_where_nothing_is_drawn():
    line = lp.attribute(
        SCORE, inputs(), method=lp.StraightLine(), weighting=lp.IDGI(), tolerance=None, n_steps=16, rule="midpoint"
    ).values
    torch.testing.assert_close(line_sampled_idgi(SCORE, inputs(), spread=0.0).values, line)


def test_bows_keep_their_ends_and_draw_by_seed():
    path = Path.straight(torch.zeros(2, 5), torch.ones(2, 5)).subdivide(6)
    first, same, other = (bowed(path, 0.3, lp.Run(seed), 1) for seed in (0, 0, 1))
    assert torch.equal(first.start, path.start) and torch.equal(first.end, path.end)
    assert torch.equal(first.points, same.points) and not torch.equal(first.points, other.points)


@pytest.mark.parametrize("at", [12, 30])
def test_an_interruption_goes_on_its_way(at):
    """In the search for the geodesic, or in an integral: both return what they have, which is not to be averaged."""
    with pytest.raises(KeyboardInterrupt):
        sampled_idgi(lp.Score(Interrupting(SCORE.model, at)), inputs(), **QUICK)


def test_settings_are_checked():
    with pytest.raises(ValueError, match="n_paths=0"):
        sampled_idgi(SCORE, inputs(), n_paths=0)
    with pytest.raises(ValueError, match="spread=-1"):
        line_sampled_idgi(SCORE, inputs(), spread=-1)
