"""The leaderboard. Oracle: made-up results, whose cells are written by hand."""

import json

import pytest
from tiny_truth import tiny_results

from studies.referees import leaderboard
from studies.referees.kept import Kept
from studies.referees.leaderboard import IN_TRUTH, board, gains_of_sort, page_of
from studies.truth.candidates import CANDIDATES


def cells(page, title):
    return next(line.strip("| ").split(" | ") for line in page.splitlines() if line.startswith(f"| {title} |"))


def results(tmp_path):
    told = tiny_results()
    told["summaries"]["reporting"]["other"] = {"ig": told["summaries"]["reporting"]["tiny"]["ig"] | {"gain": 0.875}}
    told["nets"]["other"] = told["nets"]["tiny"]
    told["examples"] = {"tiny": {"ig": {"0": 0.25, "1": 0.5}}, "other": {"ig": {"0": 0.875, "1": 0.875}}}
    (tmp_path / "truth.json").write_text(json.dumps(told))
    units = {"integrated_gradients": {"weighted": 0.0, "conflicting": 0.4}, "random": {"weighted": 1.0}}
    tris = {"|x|": {"linear": 0.5, "xor": 0.25}}
    (tmp_path / "referee_units.json").write_text(json.dumps({"units": units, "tris": tris}))
    kept = Kept(tmp_path / "referee_idsds.json")
    for at, agreement in enumerate((0.5, 0.7)):
        kept.add("lrp", str(at), {"agreement": agreement, "seconds": 1.0})
    return told


def test_cells_are_means_with_intervals_and_controls_stand_last(tmp_path):
    told = results(tmp_path)
    page = page_of(board(tmp_path))
    # (.375 + .875) / 2; of the two examples of one net the variance of the mean is .125², of the other 0.
    assert cells(page, "Integrated Gradients")[2] == "0.62 ± 0.12" and cells(page, "Integrated Gradients")[6] == "1"
    assert gains_of_sort(told, "digits")["geodesic_descent"].covers == " (1/2)"
    assert cells(page, "LRP")[9] == "0.60 ± 0.20" and cells(page, "LRP")[1] == "–"
    assert "| \\|x − baseline\\|, no model | – | – | – | – | – | – | 0.38 |" in page
    assert page.index("| LRP |") < page.index("| random values |")
    assert {name for names in IN_TRUTH.values() for name in names} <= set(CANDIDATES)


def test_a_method_that_is_named_is_measured_first(tmp_path, monkeypatch, capsys):
    results(tmp_path)
    asked = []
    monkeypatch.setattr(leaderboard, "units_command", lambda *given: asked.append(given))
    leaderboard.command(method="idgi", results=tmp_path, save=tmp_path)
    assert asked == [("idgi", 40, tmp_path, tmp_path)]
    assert (tmp_path / "leaderboard.md").read_text(encoding="utf-8") in capsys.readouterr().out
    # Descent was seen on one of two nets: it is named on the page, and its row is in the file alone.
    page, rows = ((tmp_path / name).read_text(encoding="utf-8") for name in ("leaderboard.md", "leaderboard.csv"))
    assert "nets only: Geodesic IG (descent) (" in page and "| Geodesic IG (descent) |" not in page
    assert "\nGeodesic IG (descent)," in rows and "\nLRP," in rows


@pytest.mark.parametrize("file", ["truth.json", "referee_units.json"])
def test_a_referee_that_is_missing_is_left_out(tmp_path, file):
    results(tmp_path)
    (tmp_path / file).unlink()
    assert "| LRP |" in page_of(board(tmp_path))
