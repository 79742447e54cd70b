"""Units of work and their measures. Oracles: linear scores, sets of rows, and areas counted by hand."""

import pytest
import torch
from tiny_truth import SOME, tiny

import leastpath as lp
from studies.findings.shortcut import MARK
from studies.truth.problem import Problem
from studies.truth.references import occlusion
from studies.truth.work import measured, on_object, pieces


def test_halves_share_no_example_and_new_nets_are_only_reported():
    net, fresh = tiny()[0], tiny("fresh", reporting_only=True)[0]
    rows = {half: {r for p in pieces([net], [SOME["ig"]]) if p.half == half for r in p.rows} for half in net.examples}
    assert not rows["development"] & rows["reporting"] and len(rows["reporting"]) == 12
    assert {piece.half for piece in pieces([fresh], [SOME["ig"]])} == {"reporting"}
    # What is not a main row is only looked at in development, unless it is named.
    assert {piece.half for piece in pieces([net], [SOME["line"]])} == {"development"}


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
