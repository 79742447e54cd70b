"""`python -m studies.moons`: its options, its mistakes and what it keeps for the documentation."""

import sys

import pytest
from tiny_moons import TINY
from typer.testing import CliRunner

from studies import command_line
from studies.command_line import application
from studies.moons import command as module
from studies.moons.command import command


def test_saved_for_documentation(run, tmp_path):
    module._save(run, tmp_path / "docs")
    names = {p.name for p in (tmp_path / "docs").iterdir()}
    assert {"moons_summary.json", "moons_maps.png"} <= names and len(names) == 7


def test_help_explains_its_options():
    page = CliRunner().invoke(application(command), ["--help"]).output
    for word in ("--quick", "--resume", "--out", "--jobs"):
        assert word in page


def test_a_mistake_is_one_sentence(monkeypatch, capsys, tmp_path):
    (tmp_path / "taken").write_text("")
    monkeypatch.setattr(sys, "argv", ["studies.moons", "--out", str(tmp_path / "taken")])
    with pytest.raises(SystemExit) as left:
        command_line.run(command)
    assert left.value.code == 1
    said = capsys.readouterr().err
    assert said.startswith("error: ") and "not the folder of an earlier run" in said and "Traceback" not in said


def test_traceback_on_demand(monkeypatch, tmp_path):
    (tmp_path / "taken").write_text("")
    monkeypatch.setattr(sys, "argv", ["studies.moons", "--traceback", "--out", str(tmp_path / "taken")])
    with pytest.raises(ValueError, match="not the folder of an earlier run"):
        command_line.run(command)


@pytest.mark.parametrize(("words", "sentence"), [
    (["--methods", "ig"], "no method is called 'ig'"),
    (["--seeds", "a,b"], "expected whole numbers separated by commas"),
])  # fmt: skip
def test_what_it_does_not_know_is_refused(words, sentence):
    with pytest.raises(ValueError, match=sentence):
        CliRunner().invoke(application(command), words, catch_exceptions=False)


def test_the_table_is_printed_with_what_was_expected(run, capsys):
    module._print_results(run, TINY)
    shown = capsys.readouterr().out
    assert "Integrated Gradients" in shown and "no numbers of a run with these settings" in shown
    assert "report.html" in shown
