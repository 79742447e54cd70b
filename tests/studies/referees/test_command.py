"""The command. Oracle: its own kept results, which are not measured twice."""

import json

import pytest

from studies.referees import command as module
from studies.referees.command import command, judge_units, write_page
from studies.referees.tris import train_net


def test_what_is_known_is_kept_and_a_new_method_joins(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(module, "train_net", lambda scenario: train_net(scenario, n=200, epochs=1))
    command(methods="integrated_gradients", examples=4, out=tmp_path)
    first = json.loads((tmp_path / "referees.json").read_text(encoding="utf-8"))
    assert set(first["units"]) == {"integrated_gradients"} and {"edges", "|x|"} < set(first["tris"])
    command(methods="input_x_gradient", examples=4, out=tmp_path, save=tmp_path)
    both = json.loads((tmp_path / "referees.json").read_text(encoding="utf-8"))
    assert both["units"]["integrated_gradients"] == first["units"]["integrated_gradients"]
    page = (tmp_path / "referees.md").read_text(encoding="utf-8")
    assert "Input × Gradient" in page and "{" not in page and page in capsys.readouterr().out
    with pytest.raises(ValueError, match="holds results of 4 examples, not 5"):
        command(methods="saliency", examples=5, out=tmp_path)


def test_controls_stand_at_the_bottom():
    told = {}
    judge_units(told, ["random", "integrated_gradients"], 4)
    tris = {name: dict.fromkeys(module.SIGNALS, 0.5) for name in ("edges", "integrated_gradients", "|x|")}
    page = write_page({"examples": 4, "units": told, "tris": tris, "accuracy": dict.fromkeys(module.SIGNALS, 0.9)})
    assert page.index("| Integrated Gradients") < page.index("| Random")
    assert page.rindex("edges, no model") > page.rindex("Integrated Gradients |")
