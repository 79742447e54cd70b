"""The measured part of the page. Oracle: numbers that are put in come out, and words by hand stay."""

import csv
import io

import pytest

from studies.verdict.page import BEGIN, END, draw_rates, write_csv, write_page

CELL = {
    "n": 200,
    "supported": 190,
    "better than chance": 6,
    "undecided": 4,
    "unsupported": 0,
    "low": 0.91,
    "high": 0.97,
}
POWER = {"n": 4, "supported": 1, "better than chance": 3}
TOLD = {
    "verdicts": {"wine": {"ig": CELL, "random": CELL | {"supported": 4, "undecided": 0}}},
    "four random": {"wine": {"n": 200, "trust": 3}},
    "band": {"wine": {"n": 200, "supported": 180, "unsupported": 7, "though better than chance": 1}},
    "power": {"photographs": {"96": {"context": POWER}, "192": {"context": POWER | {"supported": 3}}}},
}


def test_numbers_are_written_between_the_marks_and_nowhere_else():
    page = write_page(TOLD, f"# By hand\n\n{BEGIN}\nold\n{END}\n\nmore by hand\n")
    assert page.startswith("# By hand") and page.endswith("more by hand\n") and "old" not in page
    assert "| **IG** | .950 |" in page and "| random | .020 |" in page and "| **elastic band** | .900 |" in page
    assert "| four random maps, one trusted | .015 |" in page and "| *of these undecided* | .020 |" in page
    assert write_page(TOLD, page) == page


def test_the_csv_has_every_count():
    rows = list(csv.DictReader(io.StringIO(write_csv(TOLD))))
    assert [row["supported"] for row in rows] == ["190", "4", "3", "180", "1", "3"]
    assert [row["p_value <= .05"] for row in rows] == ["196", "10", "", "", "3", "3"]
    assert rows[0]["undecided"] == "4" and rows[3]["unsupported though p_value <= .05"] == "1"
    assert [row["removals"] for row in rows[-2:]] == ["96", "192"]


def test_a_page_without_marks_is_refused():
    with pytest.raises(ValueError, match="no place for what is measured"):
        write_page(TOLD, "# By hand")


def test_the_picture_names_every_kind_and_net():
    (ax,) = draw_rates(TOLD).axes
    assert [label.get_text() for label in ax.get_yticklabels()] == ["IG", "random"]
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["wine"]
    assert draw_rates({"verdicts": {}}) is None
