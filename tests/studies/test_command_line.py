"""The frame of a study's command."""

import sys

import pytest

from studies import command_line


def refuse(quick: bool = False) -> None:
    """Refuses."""
    raise ValueError("too quick" if quick else "too slow")


def test_a_mistake_is_one_sentence_and_a_traceback_is_shown_on_demand(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["study", "--quick"])
    with pytest.raises(SystemExit, match="1"):
        command_line.run(refuse)
    assert capsys.readouterr().err == "error: too quick\n"
    monkeypatch.setattr(sys, "argv", ["study", "--traceback"])
    with pytest.raises(ValueError, match="too slow"):
        command_line.run(refuse)
