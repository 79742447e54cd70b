"""Tables of two made-up prompts, against counts by hand."""

from studies.language.tables import (
    choose,
    of_half,
    rank_of_cause,
    summarize,
    write_fewer,
    write_gaps,
    write_paired,
    write_sorts,
    write_summary,
)


def found(half, first, gain, margin=1.0):
    values = {"IG, zeros": [1.0, 0.0], "left out, natural × 4": first}
    gains = {kind: {"IG, zeros": 0.0, "left out, natural × 4": gain} for kind in ("natural", "end of text", "deleted")}
    return {
        "sort": "facts", "half": half, "margin": margin, "words": ["the", "cat"], "causes": ["cat"], "values": values,
        "gains": gains, "gaps": {"zeros": -2.0},
    }  # fmt: skip


ALL = [
    found("development", [0.0, 1.0], 2.0),
    found("development", [1.0, 0.0], 1.0),
    found("reporting", [0.0, 1.0], 3.0, -1.0),
]


def test_counts_by_hand():
    half = of_half(ALL, "development")
    assert [rank_of_cause(one, "left out, natural × 4") for one in half] == [0, 1]
    table = summarize(half)
    assert table["left out, natural × 4"]["first"] == 0.5 and table["left out, natural × 4"]["mean"] == 1.5
    assert table["IG, zeros"]["first"] == 0.0 and choose(half) == "left out, natural × 4"


def test_prompts_whose_foil_is_preferred_are_left_out():
    assert not of_half(ALL, "reporting")


def test_tables_in_markdown():
    half = of_half(ALL, "development")
    assert "| 0.50 |" in write_summary(half) and "| zeros | 2.000 |" in write_gaps(half)
    assert "| facts (2) | 0 |" in write_sorts(half, ["IG, zeros"])


def test_gains_are_compared_prompt_by_prompt():
    """Gains of 2 and 1 beside 0 twice: ahead by 1.5, and two of the four sign flips are as extreme."""
    page = write_paired(of_half(ALL, "development"), "left out, natural × 4")
    assert page.count("+1.50 (p 1.000)") == 3  # .5 for each of three tests, after Holm
    assert write_paired(of_half(ALL, "development"), "unknown") == ""


def test_gaps_with_fewer_gradients_are_medians():
    some = [{"fewer": {"zeros": {"6": gap}}} for gap in (-3.0, 1.0, 2.0)]
    assert "| zeros | 2.000 |" in write_fewer([*some, {"fewer": {}}]) and write_fewer([{}]) == ""
