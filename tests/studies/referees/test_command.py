"""The command. Oracle: its own kept results, which are not measured twice."""

import json

import pytest

from studies.referees import command as module
from studies.referees.blucher import PUBLISHED
from studies.referees.command import command, judge_units, write_page
from studies.referees.kept import Kept
from studies.referees.tris import train_net


def test_what_is_known_is_kept_and_a_new_method_joins(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(module, "train_net", lambda scenario: train_net(scenario, n=200, epochs=1))
    command(methods="integrated_gradients", examples=4, out=tmp_path)
    first = json.loads((tmp_path / "referee_units.json").read_text(encoding="utf-8"))
    assert set(first["units"]) == {"integrated_gradients"} and {"edges", "|x|"} < set(first["tris"])
    command(methods="input_x_gradient", examples=4, out=tmp_path, save=tmp_path)
    both = json.loads((tmp_path / "referee_units.json").read_text(encoding="utf-8"))
    assert both["units"]["integrated_gradients"] == first["units"]["integrated_gradients"]
    page = (tmp_path / "referees.md").read_text(encoding="utf-8")
    assert "Input × Gradient" in page and "{" not in page and page in capsys.readouterr().out
    with pytest.raises(ValueError, match="holds results of 4 examples, not 5"):
        command(methods="saliency", examples=5, out=tmp_path)


def test_controls_stand_at_the_bottom(tmp_path):
    told = {}
    judge_units(told, ["random", "integrated_gradients"], 4)
    tris = {name: dict.fromkeys(module.SIGNALS, 0.5) for name in ("edges", "integrated_gradients", "|x|")}
    page = write_page(
        {"examples": 4, "units": told, "tris": tris, "accuracy": dict.fromkeys(module.SIGNALS, 0.9)},
        Kept(tmp_path / "none"),
        Kept(tmp_path / "none"),
    )
    assert page.index("| Integrated Gradients") < page.index("| Random")
    assert page.rindex("edges, no model") > page.rindex("Integrated Gradients |")


def test_referees_of_photographs_are_on_the_page_when_they_are_kept(tmp_path):
    """Oracle: the numbers kept."""
    flipped, deleted = Kept(tmp_path / "flipped.json"), Kept(tmp_path / "deleted.json")
    for name, (gain, _) in PUBLISHED.items():
        flipped.add(name, "20", {"mean, 25": gain, "seconds": 1.0})
    for at, agreement in enumerate((0.5, 0.7)):
        deleted.add("lrp", str(at), {"agreement": agreement, "seconds": 1.0})
    words = [f"{which} {what}" for which in ("before", "after") for what in ("whole", "lacking")]
    deleted.about.update(dict.fromkeys(words, 0.9), seconds=60.0, tuned=700, epochs=2)
    page = write_page({"examples": 4, "units": {}, "tris": {}, "accuracy": {}}, flipped, deleted)
    assert "their order: **1.00**, from 1 images. That is too few" in page
    assert "| LRP | 1 | 0.36 | 0.36 | 0.37 |" in page
    assert "| LRP | 2 | 0.60 | ± 0.20 |" in page and "in 60 s of CPU" in page
