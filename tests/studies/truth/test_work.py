"""Units of work and their measures. Oracles: linear scores, sets of rows, and areas counted by hand."""

from dataclasses import replace

import pytest
import torch
from tiny_truth import SOME, tiny

import leastpath as lp
from leastpath.evaluation.support import symmetric_relevance_gain
from studies.findings.shortcut import MARK
from studies.truth.problem import Problem
from studies.truth.references import occlusion
from studies.truth.work import gains_of, measured, on_object, pieces


def test_halves_share_no_example_and_new_nets_are_only_reported():
    net, fresh = tiny()[0], tiny("fresh", reporting_only=True)[0]
    rows = {half: {r for p in pieces([net], [SOME["ig"]]) if p.half == half for r in p.rows} for half in net.examples}
    assert not rows["development"] & rows["reporting"] and len(rows["reporting"]) == 12
    assert {piece.half for piece in pieces([fresh], [SOME["ig"]])} == {"reporting"}
    # What is not a main row is only looked at in development, unless it is named.
    assert {piece.half for piece in pieces([net], [SOME["line"]])} == {"development"}


def test_nets_take_turns_and_a_problem_serves_all_candidates():
    """Oracle: the order written out. 12 examples of a net in blocks of 6, then the next net."""
    nets, methods = [tiny()[0], tiny("second")[0]], [SOME["ig"], SOME["idgi"]]
    found = [(p.net.name, p.candidate.name, p.rows[0]) for p in pieces(nets, methods, ["reporting"])]
    assert found == [(net, m, row) for net in ("tiny", "second") for row in (12, 18) for m in ("ig", "idgi")]
    long = replace(nets[0], examples={"development": 0, "reporting": 30})
    turns = [(p.net.name, p.rows[0]) for p in pieces([long, nets[1]], methods[:1], ["reporting"])]
    assert turns == [("tiny", 0), ("tiny", 6), ("second", 12), ("second", 18), *(("tiny", row) for row in (12, 18, 24))]


def test_gains_of_all_fills_are_those_of_each():
    """Oracle: `symmetric_relevance_gain`, fill by fill."""
    problem = tiny()[0].open(None, None).problem(range(3))
    values = torch.rand(3, 1, 6, 6, generator=torch.Generator().manual_seed(0))
    found = gains_of(problem, values)
    for name, fill in problem.fills.items():
        expected = symmetric_relevance_gain(
            problem.score(problem.output), problem.inputs, values, problem.baselines[:, 0], fill=fill,
            groups=problem.labels, shares=problem.shares, rank=problem.rank,
        )  # fmt: skip
        assert found[name] == pytest.approx(expected.tolist(), abs=1e-6)


def test_groups_are_removed_together_and_some_features_never():
    problem = Problem(
        lambda output: lp.Score(lambda x: x.sum(1)), "raw", torch.ones(1, 4), torch.zeros(1, 1, 4), {"zero": 0.0},
        torch.tensor([[0, 0, 1, -1]]),
    )  # fmt: skip
    values, _, _ = occlusion(problem, problem.baselines)
    assert values.tolist() == [[1.0, 1.0, 1.0, 0.0]]
    record, strengths = measured(problem, values)
    # Seven shares remove one group each, the others both.
    assert strengths.tolist() == [[2.0, 1.0]] and record["gain"]["zero"] == [pytest.approx(7 / 9, abs=1e-5)]


def test_objects():
    values = torch.zeros(2, 3, 2, 2)
    values[:, :, 0, 0] = -1.0
    masks = torch.zeros(2, 1, 2, 2, dtype=torch.bool)
    masks[0, 0, 0] = True
    assert on_object(values, masks).tolist()[0] == 2.0 and torch.isnan(on_object(values, masks)[1])


def test_marks():
    # The score is a sum over patches, so removing the mark costs its part of the sum: 3 of 4 in magnitude.
    parts = torch.tensor([[[[3.0, -1.0], [0.0, 0.0]]]])
    weights = parts.repeat_interleave(MARK, 2).repeat_interleave(MARK, 3) / MARK**2
    images, marks = torch.ones_like(weights), weights > 0
    problem = Problem(
        lambda output: lp.Score(lambda x: (x * weights).sum((1, 2, 3))), "raw", images, torch.zeros_like(images)[None],
        {"zero": 0.0}, None, marks=marks, unmarked=images * ~marks,
    )  # fmt: skip
    record, _ = measured(problem, weights)
    assert record["mark rank"] == [1]
    for name, expected in {"mark share": 0.75, "mark sum": 3.0, "mark effect": 3.0}.items():
        assert record[name] == [pytest.approx(expected, rel=1e-5)]
