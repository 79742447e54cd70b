"""Numbers of the VOC report by hand: localisation, paired tests, ratios."""

import pandas as pd
import pytest
import torch

from studies.voc.report import PAPER, Place, darkest, located, table2, verdicts


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
    assert row["paper_ratio"] == pytest.approx(PAPER["geodesic_variational"][0] / PAPER["integrated_gradients"][0])
    assert row["difference_idgi"] == pytest.approx(0.5125) and row["p_idgi"] == pytest.approx(
        2 / 64
    )  # all 2⁶ sign flips
    words = verdicts(table, {"geodesic_variational": "G", "integrated_gradients": "IG", "idgi": "IDGI"})
    assert words.loc["G − IDGI", "AOC log-odds, black"] == "+0.513 (p = 0.031) *"


def test_the_papers_ratios_are_those_of_its_table():
    for place, ratio in ((0, 1.29), (1, 1.15)):
        assert PAPER["geodesic_variational"][place] / PAPER["integrated_gradients"][place] == pytest.approx(
            ratio, abs=0.005
        )


def place(luminance=1.0, inside=None):
    inside = torch.zeros(10, 10, dtype=torch.bool) if inside is None else inside
    return Place("a", 0, inside, torch.ones(10, 10, dtype=torch.bool), torch.full((10, 10), luminance))


def test_uniform_attributions_have_gain_one():
    inside = torch.zeros(10, 10, dtype=torch.bool)
    inside[:5] = True
    there = located(torch.ones(10, 10), place(0.1, inside))
    assert there["inside"] == pytest.approx(0.5) and there["gain"] == pytest.approx(1)
    assert there["dark_gain"] == pytest.approx(1)  # the whole object is dark


def test_attributions_on_bright_pixels_only_have_no_dark_gain():
    inside = torch.ones(10, 10, dtype=torch.bool)
    image = torch.full((10, 10), 0.9)
    image[:5] = 0.05
    where = Place("a", 0, inside, inside, image)
    magnitude = (image > 0.5).float()
    assert located(magnitude, where)["dark_gain"] == 0
    assert torch.isnan(torch.tensor(located(magnitude, place(0.9, inside))["dark_gain"]))  # nothing dark: not defined


def test_seams_do_not_count():
    inside = torch.zeros(10, 10, dtype=torch.bool)
    inside[0] = True
    known = torch.ones(10, 10, dtype=torch.bool)
    known[1] = False
    magnitude = torch.ones(10, 10)
    magnitude[1] = 1000
    there = located(magnitude, Place("a", 0, inside, known, torch.ones(10, 10)))
    assert there["inside"] == pytest.approx(1 / 9) and there["pointing"] in (0.0, 1.0)


def test_darkest_objects_come_first():
    inside = torch.ones(10, 10, dtype=torch.bool)
    dark, bright, none = place(0.1, inside), place(0.8, inside), Place("c", 0, None, None, torch.zeros(10, 10))
    assert darkest([bright, none, dark]) == [dark, bright]
