"""From kept units to numbers. Oracles: means and medians by hand, all sign flips, and ranks."""

from dataclasses import replace

import pytest
import torch
from tiny_truth import SOME, tiny

from leastpath._support.store import Store
from studies.truth import results
from studies.truth.results import evidence, examples, gates, summary
from studies.truth.work import Piece

NET = tiny()[0]


def keep(store, name, gains, strengths, candidate=None):
    """Two examples as a finished piece keeps them."""
    piece = Piece(NET, candidate or SOME[name], "reporting", range(12, 14))
    made = {"change": [-2.0, 0.0], "gradients": [50, 50], "length_ratio": [1.0, 1.0], "seconds": 4.0}
    store.write(piece.explained, made)
    store.write(piece.measured, piece.about | {"gain": gains, "total": [3.0, 3.0]}, {"strengths": strengths})


def test_kept_units_become_numbers_and_old_settings_are_left_out(tmp_path):
    store = Store(tmp_path, {})
    keep(store, "ig", {"black": [0.2, 0.4], "blur": [0.6, None]}, torch.tensor([[1.0, 2.0, 3.0], [3.0, 2.0, 1.0]]))
    keep(store, "occlusion", {"black": [0.1, 0.1]}, torch.tensor([[1.0, 4.0, 9.0], [1.0, 4.0, -9.0]]))
    keep(store, "line", {"black": [0.9, 0.9]}, torch.ones(2, 3), replace(SOME["line"], tolerance=0.5))
    found = examples(store, {NET.name: NET}, SOME)
    assert [(row["method"], row["row"]) for row in found] == [
        ("ig", 12), ("ig", 13), ("occlusion", 12), ("occlusion", 13)
    ]  # fmt: skip
    assert [row["gain"] for row in found[:2]] == pytest.approx([0.4, 0.4])
    assert [row["ratio"] for row in found[:2]] == [1.5, None]  # Σ|A| / |Δf|, and Δf = 0
    assert [row["leave-one-out"] for row in found[:2]] == pytest.approx([1, -1])  # the same order, and its reverse
    told = summary(found[:2])
    assert told["gains"] == {"black": 0.3, "blur": 0.6} and told["worst"] == 0.3
    assert (told["n"], told["gain"], told["ratio"], told["seconds"]) == (2, 0.4, 1.5, 2.0)


def test_tests_against_all_sign_flips():
    rows = [
        {"net": "tiny", "half": "reporting", "method": method, "row": i, "gain": i / 10 + more,
         "gain black": i / 10 + more}
        for method, more in (("ig", 0.0), ("descent", 0.25)) for i in range(10)
    ]  # fmt: skip
    found = results.tests(rows)
    assert [(one["method"], one["rival"], one["measure"]) for one in found] == [
        ("descent", "ig", "gain"), ("descent", "ig", "gain black")
    ]  # fmt: skip
    for one in found:
        # Higher in all of ten examples: 2 of the 1024 flips are as extreme; Holm doubles it for two cells.
        assert one["raw_p"] == 2 / 1024 and one["p"] == round(4 / 1024, 6)
        assert one["difference"] == 0.25 and one["clear"]


def test_gates_and_evidence():
    nets = {
        "planted": replace(NET, name="planted", gate="marks"),
        "control": replace(NET, name="control", gate="control"),
    }
    both = {"half": "development", "method": "ig", "gain black": 0.5, "random weights": 0.25}
    rows = [
        both | {"net": "planted", "row": 0, "mark rank": 1, "mark share": 0.9, "mark sum": 1.0, "mark effect": 2.0},
        both | {"net": "planted", "row": 1, "mark rank": 4, "mark share": 0.3, "mark sum": 2.0, "mark effect": 9.0},
        both | {"net": "control", "row": 0, "mark rank": 9, "mark share": 0.5, "mark sum": 0.0, "mark effect": 0.0},
    ]
    # One rank of two in the first three; the same order; 0.9 is above 0.5 and 0.3 is not; a correlation of 1/4.
    expected = {"mark among the first": 0.5, "mark follows removal": 1.0, "told from control": 0.5,
                "changed by random weights": 0.75}  # fmt: skip
    assert gates(rows, nets) == pytest.approx(expected)
    found = evidence(rows, nets, "development", "digits")["ig"]
    assert found.gains == {("planted", "black"): {0: 0.5, 1: 0.5}} and found.gates == pytest.approx(expected)
    assert evidence(rows, nets, "reporting", "digits") == {}
