"""`python -m studies.voc`: its options, and mistakes before any work."""

import pytest
from tiny_voc import tiny_voc
from typer.testing import CliRunner

from studies.command_line import application
from studies.voc.command import command
from studies.voc.methods import OWN


def test_help_names_the_options_and_the_studys_own_methods():
    page = CliRunner().invoke(application(command), ["--help"], env={"COLUMNS": "200"}).output
    assert all(word in page for word in ("--data", "--download", "--budget", "--resume", *OWN))


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--data", "nowhere"], "nowhere is no folder: pass --data VOCdevkit"),
        (["--data", "DEVKIT", "--methods", "magic"], "no method is called 'magic'"),
        (["--data", "DEVKIT", "--methods", "rivals,magic"], "no method is called 'magic'"),
    ],
)
def test_mistakes_are_sentences(tmp_path, words, sentence):
    words = [str(tiny_voc(tmp_path)) if word == "DEVKIT" else word for word in words]
    with pytest.raises(ValueError, match=sentence):
        CliRunner().invoke(application(command), words, catch_exceptions=False)
