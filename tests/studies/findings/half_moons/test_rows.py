"""Records side by side. Oracle: planted ones."""

import math

from planted_rows import planted

from studies.findings.half_moons.rows import Rows, gap_sizes, row_record, share_grown, written_gap
from studies.moons.training import Moons


def test_rows_are_paired_over_the_nets_that_both_have():
    found = [planted("IG", "a", gap=[1.0, 2.0]), planted("IG", "b", gap=[3.0]), planted("away", "b", gap=[4.0])]
    rows = Rows({str(i): record for i, record in enumerate(found)})
    assert rows.pooled("IG", "gap") == [1.0, 2.0, 3.0] and rows.pair("IG", "away", "gap") == ([3.0], [4.0])
    assert "away" in rows and "toward" not in rows and rows.nets == ["a", "b"]


def test_nets_and_points_in_words():
    records = {net: planted("IG", net, noise, change=[0.0] * 4) for net, noise in (("a", 0.1), ("b", 0.3))}
    assert Rows(records).described().startswith("2 half-moons nets (2-10-10-2, ReLU; noise 0.1 and 0.3), 4 test points")


def test_numbers_are_kept_short_and_written_short():
    assert row_record("IG", Moons(0.1, 1), gap=[1.23456])["gap"] == [1.235]
    assert written_gap(0.0004) == "0" and gap_sizes([1.0, 3.0, 8.0], [False, True, False]) == ["4.0", "3.0", "3.0"]


def test_the_share_that_grew():
    assert share_grown([1.0, 2.0, None], [1.0, 1.0, 1.0]) == 0.5 and math.isnan(share_grown([], []))
