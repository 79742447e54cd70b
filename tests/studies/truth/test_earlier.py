"""The page keeps what an earlier run measured."""

import copy

import pytest
from tiny_truth import tiny_results

from studies.truth.candidates import CANDIDATES
from studies.truth.earlier import read_rows, with_earlier, with_rows, write_rows


def later():
    """A run that measured another net, for one method only."""
    told = copy.deepcopy(tiny_results())
    told["nets"] = {"other": told["nets"]["tiny"] | {"title": "Other net"}}
    told["summaries"]["reporting"] = {"other": {"ig": told["summaries"]["reporting"]["tiny"]["ig"] | {"n": 3}}}
    told["tests"] = [test | {"net": "other"} for test in told["tests"][:1]]
    return told


def test_nets_of_both_runs_are_there():
    joined = with_earlier(later(), tiny_results())
    assert list(joined["nets"]) == ["tiny", "other"]
    assert joined["summaries"]["reporting"]["other"]["ig"]["n"] == 3
    assert joined["summaries"]["reporting"]["tiny"] == tiny_results()["summaries"]["reporting"]["tiny"]


def test_the_later_run_is_believed_where_both_measured():
    new = copy.deepcopy(tiny_results())
    new["summaries"]["reporting"]["tiny"] = {"descent": new["summaries"]["reporting"]["tiny"]["descent"] | {"n": 60}}
    new["tests"] = [test | {"difference": 0.125, "n": 60} for test in new["tests"][:1]]
    joined = with_earlier(new, tiny_results())
    of = joined["summaries"]["reporting"]["tiny"]
    assert (of["descent"]["n"], of["ig"]["n"]) == (60, 9) and list(of) == ["ig", "descent"]  # in the candidates' order
    assert [test["difference"] for test in joined["tests"]] == [0.125, -0.25, 0.0]


def test_a_run_that_has_seen_fewer_examples_changes_nothing():
    new = copy.deepcopy(tiny_results())
    for of in new["summaries"]["reporting"]["tiny"].values():
        of |= {"n": 4, "gain": 0.0}
    new["tests"] = [test | {"difference": 0.125, "n": 4} for test in new["tests"]]
    joined = with_earlier(new, tiny_results())
    assert joined["summaries"] == tiny_results()["summaries"]
    assert [test["difference"] for test in joined["tests"]] == [0.25, -0.25, 0.0]


def test_corrections_count_the_cells_of_both():
    joined = with_earlier(later(), tiny_results())
    # Four cells of Descent against IG by hand: 4 × .01, then the same again (3 × .01 < .04), 2 × .02 = .04, .9.
    assert [test["p"] for test in joined["tests"]] == pytest.approx([0.04, 0.04, 0.9, 0.04])


def test_gates_that_were_not_tried_again_stay():
    new = later()
    new["gates"]["reporting"] = {"ig": {"told from control": 1.0}}
    assert with_earlier(new, tiny_results())["gates"]["reporting"] == {
        "ig": {"mark among the first": 0.75, "told from control": 1.0},
        "descent": {"mark among the first": 0.5},
    }


def test_a_choice_needs_all_nets_of_its_sort():
    old, new = tiny_results(), later()
    old["choices"], new["choices"] = {"digits": {"name": "band"}}, {"digits": {"name": "line"}}
    assert with_earlier(new, old)["choices"]["digits"]["name"] == "band"
    new["nets"] |= old["nets"]
    new["summaries"]["reporting"] |= old["summaries"]["reporting"]
    assert with_earlier(new, old)["choices"]["digits"]["name"] == "line"


def test_examples_of_the_run_that_has_more_of_them_are_kept():
    old, new = tiny_results(), tiny_results()
    old["examples"] = {"tiny": {"ig": {"0": 1.0, "1": 1.0}, "descent": {"0": 1.0}}}
    new["examples"] = {"tiny": {"ig": {"0": 2.0}, "descent": {"0": 2.0}}}
    assert with_earlier(new, old)["examples"] == {"tiny": {"ig": {"0": 1.0, "1": 1.0}, "descent": {"0": 2.0}}}


def test_a_kept_row_is_read_as_it_was_written(tmp_path):
    rows = [
        {"net": "tiny", "half": "reporting", "method": "ig", "row": 3, "digest": CANDIDATES["ig"].digest, "gain": 0.25},
        {"net": "tiny", "half": "reporting", "method": "ig", "row": 4, "digest": "of other settings", "gain": 0.5},
    ]
    (tmp_path / "truth.csv").write_text(write_rows(rows), newline="")
    assert read_rows(tmp_path / "truth.csv", CANDIDATES) == rows[:1]


def test_a_run_that_measured_an_example_again_is_believed():
    old = [{"net": "tiny", "half": "reporting", "method": "ig", "row": row, "gain": 0.0} for row in (3, 4)]
    new = [old[0] | {"gain": 1.0}]
    assert [row["gain"] for row in with_rows(new, old, ["tiny"])] == [1.0, 0.0]
