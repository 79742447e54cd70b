"""The command on a toy model: it goes on where it was, and writes what it found."""

import pytest

from leastpath.language.toy import toy_model
from studies.language import command
from studies.language.prompts import Case

pytest.importorskip("transformers")
CASES = [
    Case("facts", "the capital of France is", "Paris", "Rome", ("France",)),
    Case("facts", "the capital of Italy is", "Rome", "Paris", ("Italy",), "reporting"),
    Case("facts", "the capital of Italy is", "Paris", "Rome", ("Italy",), "reporting"),
]


def test_nothing_is_done_twice(tmp_path, monkeypatch):
    model, tokenizer = toy_model()
    page = command.run_study(model, tokenizer, CASES, tmp_path)
    assert "3 prompts" in page and (tmp_path / "language.md").read_text() == page
    monkeypatch.setattr(command, "study_case", None)
    assert command.run_study(model, tokenizer, CASES, tmp_path) == page
