"""Table 2 by hand: ratios, paired tests, and the numbers that are expected."""

import json
from pathlib import Path

import pandas as pd
import pytest

from leastpath.evaluation.statistics import holm
from studies.expected import expected_numbers
from studies.voc.table2 import FILLS, PAPER, TITLES, at_a_glance, table2, verdicts


class Found:
    """The two attributes of a Comparison that the table reads."""

    def __init__(self, rows):
        self.per_example = pd.DataFrame(rows)
        self.higher_is_better = {name: True for name in self.per_example.columns if " " in name}


def found():
    rows = []
    for method, shift in (("integrated_gradients", 0.0), ("idgi", 0.5), ("geodesic_variational", 1.0)):
        for i in range(6):
            measures = {
                f"{m} {fill}": 1.0 + shift + 0.01 * i * (1 + shift)
                for m in ("comprehensiveness", "log_prob_ratio", "log_odds")
                for fill in ("grey", "black")
            }
            rows.append({"method": method, "name": f"image {i}", **measures})
    return Found(rows)


def test_ratios_and_paired_tests_are_those_of_the_same_images():
    table = table2(found(), ["integrated_gradients", "idgi", "geodesic_variational"])
    row = table[(table["method"] == "geodesic_variational") & (table["measure"] == "comprehensiveness")].iloc[0]
    assert row["mean"] == pytest.approx(2.05) and row["n"] == 6
    assert row["ratio"] == pytest.approx(2.05 / 1.025)
    assert row["paper_ratio"] == pytest.approx(
        PAPER["geodesic_variational"]["comprehensiveness"] / PAPER["integrated_gradients"]["comprehensiveness"]
    )
    assert row["difference_idgi"] == pytest.approx(0.5125) and row["p_idgi"] == pytest.approx(
        2 / 64
    )  # all 2⁶ sign flips
    words = verdicts(table, {"geodesic_variational": "G", "integrated_gradients": "IG", "idgi": "IDGI"})
    assert words.loc["G − IDGI", "AOC log-odds, black"] == "+0.513 (p = 0.031) *"


def test_holm_is_over_all_rows_and_columns_that_are_shown():
    table = table2(found(), ["integrated_gradients", "idgi", "geodesic_variational"])
    shown = table[table["measure"].isin(TITLES) & table["p_idgi"].notna()]
    assert len(shown) == 2 * len(TITLES) * len(FILLS)  # two methods against IDGI
    assert shown["holm_idgi"].tolist() == holm(shown["p_idgi"]).tolist()
    assert table.loc[table["measure"] == "log_odds", "holm_idgi"].isna().all()  # not shown, so it costs nothing


def test_marks_say_who_is_clear_of_ig_and_of_idgi():
    table = table2(found(), ["integrated_gradients", "idgi", "geodesic_variational"])
    titles = {"geodesic_variational": "G", "integrated_gradients": "IG", "idgi": "IDGI"}
    column = "AOC log-odds, black"
    assert at_a_glance(table, titles)[column].tolist() == ["1.00", "1.50", "2.00"]  # 2 / 64, eight times: not clear
    table["holm_integrated_gradients"], table["holm_idgi"] = 0.01, 0.2
    assert at_a_glance(table, titles).loc["G", column] == "2.00 +"
    table["holm_idgi"] = 0.01
    assert at_a_glance(table, titles).loc["G", column] == "2.00 ⊕"


@pytest.mark.parametrize(("measure", "ratio"), [("comprehensiveness", 1.29), ("log_prob_ratio", 1.15)])
def test_the_papers_ratios_are_those_of_its_table(measure, ratio):
    found = PAPER["geodesic_variational"][measure] / PAPER["integrated_gradients"][measure]
    assert found == pytest.approx(ratio, abs=0.005)


def test_expected_numbers_are_those_of_the_documentation():
    """The kept rows of the reported run, rounded. A new run that differs is a reason to look before they change."""
    docs = Path(__file__).parents[3] / "docs"
    rows = json.loads((docs / "_generated" / "findings.json").read_text(encoding="utf-8"))["voc"]["table 2"]["rows"]
    ratios = {(row["method"], row["measure"], row["fill"]): round(float(row["ratio"]), 2) for row in rows}
    expected = expected_numbers("voc")["measured"]["ratio_to_ig"]
    assert {row["method"] for row in rows} == expected.keys()
    for method, fills in expected.items():
        for fill in FILLS:
            assert [ratios[method, measure, fill] for measure in TITLES] == fills[fill]
