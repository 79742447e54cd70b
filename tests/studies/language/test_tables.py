"""Tables of two made-up prompts, against counts by hand."""

from studies.language.tables import choose, of_half, rank_of_cause, summarize, write_gaps, write_sorts, write_summary


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
