"""What the page is told: headline and evidence in words, arrays of the right shapes, texts with gaps."""

import math

import pytest
import torch

from explorer_subjects import finished, picture_source, session_over, table_source, text_source
from leastpath.explorer.arrays import unpacked
from leastpath.explorer.findings import headline, removed_view


def test_headlines_say_what_removal_says():
    assert "lowers the probability by 0.41" in headline(0.41, True)
    assert "changes the score" in headline(0.41, False)
    assert "does not confirm" in headline(-0.1, True)
    assert "not measured" in headline(math.nan, True)


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
        assert unpacked(shown["values"]).shape == values
        assert unpacked(shown["walk"]["frames"]).shape == frames
        sums = unpacked(shown["walk"]["cumulative"])
        assert sums.shape == cumulative
        total = float(unpacked(shown["values"]).sum())
        assert float(sums[-1].sum()) == pytest.approx(total, abs=1e-4)
        assert shown["walk"]["attributed"][-1] == pytest.approx(total, abs=1e-4)
        assert shown["walk"]["scores"][-1] == pytest.approx(session.state()["score"], abs=1e-5)
        assert [row["name"] for row in shown["evidence"]][:2] == ["support", "completeness_gap"]
        assert set(shown["curves"]) == {fill["name"] for fill in session.state()["fills"]}


def test_a_rows_frames_end_at_its_cells():
    with session_over(table_source()) as session:
        shown = session.result(finished(session, "integrated_gradients"))
        frames, cells = unpacked(shown["walk"]["frames"]), unpacked(session.state()["input"])
        assert torch.allclose(frames[-1], cells, atol=1e-4)
        age = float(session.state()["features"][0]["text"])
        assert float(cells[0]) == pytest.approx(age, rel=1e-4)
        assert float(cells[1]) == pytest.approx(1.0)  # all of its category
        assert float(frames[0][1]) == pytest.approx(1 / 3, abs=1e-4)  # its frequency, at the mean


def test_texts_show_gaps():
    subject = text_source().subject(0)
    mask = subject.mask(torch.tensor([0, 0, 1, 0, 0, 0]))
    assert removed_view(subject, subject.inputs, mask, "[mask]")[1] == "a [mask] films"
