"""The measured part of the page. Oracle: numbers that are put in come out, and words by hand stay."""

import pytest

from studies.verdict.page import BEGIN, END, draw_rates, write_page

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
    "power": {"photographs": {"96": {"both": POWER}, "192": {"both": POWER | {"supported": 3}}}},
}


def test_numbers_are_written_between_the_marks_and_nowhere_else():
    page = write_page(TOLD, f"# By hand\n\n{BEGIN}\nold\n{END}\n\nmore by hand\n")
    assert page.startswith("# By hand") and page.endswith("more by hand\n") and "old" not in page
    assert "| **IG** | .950 (.980) |" in page and "| random | .020 (.050) |" in page
    assert "wine 3 of 200" in page and "7 unsupported, 1 of them though better than chance" in page
    assert "| staircases + windows | .25 (.75) | .75 (.75) |" in page and "Undecided: wine 4 of 200" in page
    assert write_page(TOLD, page) == page


def test_a_page_without_marks_is_refused():
    with pytest.raises(ValueError, match="no place for what is measured"):
        write_page(TOLD, "# By hand")


def test_the_picture_names_every_kind_and_net():
    (ax,) = draw_rates(TOLD).axes
    assert [label.get_text() for label in ax.get_yticklabels()] == ["IG", "random"]
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["wine"]
    assert draw_rates({"verdicts": {}}) is None
