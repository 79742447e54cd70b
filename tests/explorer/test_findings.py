"""What the page is told: headline and evidence in words, arrays of the right shapes, texts with gaps."""

import math
from dataclasses import replace

import pytest
import torch

from explorer_subjects import finished, picture_source, session_over, table_source, text_source
from leastpath import Note, Outcome, Status
from leastpath.explorer.arrays import unpack
from leastpath.explorer.findings import correct_verdict, evidence, removed_view


def test_numbers_are_written_as_people_write_them():
    with session_over(table_source()) as session:
        result = session.finding(finished(session, "integrated_gradients")).result
    figures = {
        "certificate": 1804.2, "completeness_gap": -0.003142, "length": math.inf, "n_gradients": 12345,
    }  # fmt: skip
    changed = replace(result, **{name: torch.tensor([value]) for name, value in figures.items()})
    said = {one["name"]: one["text"] for one in evidence(changed, 1234.56)}
    assert [said[name] for name in figures] == ["1,800", "−0.00314", "infinite", "12,345"]
    assert said["seconds"] == "1,234.6"


@pytest.mark.parametrize(
    ("source", "values", "frames", "cumulative"),
    [
        (picture_source, (3, 12, 10), (41, 12, 10, 3), (41, 12, 10)),
        (table_source, (2,), (41, 2), (41, 2)),
        (text_source, (6,), (41, 6), (41, 6)),
    ],
)
def test_results_have_the_shapes_of_the_contract(source, values, frames, cumulative):
    with session_over(source()) as session:
        shown = session.result(finished(session, "integrated_gradients"))
        assert unpack(shown["values"]).shape == values
        assert unpack(shown["walk"]["frames"]).shape == frames
        sums = unpack(shown["walk"]["cumulative"])
        assert sums.shape == cumulative
        total = float(unpack(shown["values"]).sum())
        assert float(sums[-1].sum()) == pytest.approx(total, abs=1e-4)
        assert shown["walk"]["attributed"][-1] == pytest.approx(total, abs=1e-4)
        assert shown["walk"]["scores"][-1] == pytest.approx(session.state()["score"], abs=1e-5)
        assert [row["name"] for row in shown["evidence"]][:3] == ["support", "p_value", "p_model"]
        assert set(shown["curves"]) == set(session.question({})[1].curve_fills)
        assert set(shown["curves"]) <= {fill["name"] for fill in session.state()["fills"]}


def test_a_rows_frames_end_at_its_cells():
    with session_over(table_source()) as session:
        shown = session.result(finished(session, "integrated_gradients"))
        frames, cells = unpack(shown["walk"]["frames"]), unpack(session.state()["input"])
        assert torch.allclose(frames[-1], cells, atol=1e-4)
        age = float(session.state()["features"][0]["text"])
        assert float(cells[0]) == pytest.approx(age, rel=1e-4)
        assert float(cells[1]) == pytest.approx(1.0)  # all of its category
        assert float(frames[0][1]) == pytest.approx(1 / 3, abs=1e-4)  # its frequency, at the mean


def test_texts_show_gaps():
    subject = text_source().subject(0)
    mask = subject.mask(torch.tensor([0, 0, 1, 0, 0, 0]))
    assert removed_view(subject, subject.inputs, mask, "[mask]")[1] == "a [mask] films"


def test_a_verdict_counts_how_many_methods_were_tried():
    """Oracle: Holm's correction of the p-values of all findings of one question."""
    with session_over(picture_source()) as session:
        first = finished(session, "integrated_gradients")
        finding = session.finding(first)
        assert correct_verdict(finding, [finding]) == {}
        good = replace(finding.result, p_value=torch.tensor([0.002]), p_model=torch.tensor([0.04]))
        good = replace(good, status=(Status((Note(Outcome.SUPPORTED, "support 0.3"),)),))
        mine, other = replace(finding, result=good), replace(finding, result=good)
        said = correct_verdict(mine, [mine, other])
        assert said["trusted"] is False and "p 0.08 after correction for 2 methods tried" in said["headline"]
        sure = replace(mine, result=replace(good, p_model=torch.tensor([0.002])))
        said = correct_verdict(sure, [sure, other])
        assert "trusted" not in said and "p 0.004 after correction for 2 methods" in said["headline"]
        finished(session, "idgi")
        shown = session.result(first)  # one more was tried, and the verdict of each comes along
        assert len(shown["verdicts"]) == 2
        assert shown["verdicts"][first] == {"headline": shown["headline"], "trusted": shown["trusted"]}
