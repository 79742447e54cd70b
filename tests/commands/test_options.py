"""Commands as typer reads them against the settings that the functions get."""

import inspect
from dataclasses import fields
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from leastpath.commands import options
from leastpath.commands.options import CompareOptions, ExplainOptions, ExploreOptions, JudgeOptions, make_command


@pytest.mark.parametrize("settings", [ExplainOptions, ExploreOptions, CompareOptions])
def test_the_command_takes_what_the_function_takes(settings, monkeypatch):
    command = make_command(settings, "leastpath.commands.options", "taken")
    parameters = inspect.signature(command).parameters
    assert set(parameters) == {field.name for field in fields(settings)}
    given = {} if settings is ExploreOptions else {"source": "."}
    seen = []
    monkeypatch.setattr(options, "taken", seen.append, raising=False)
    command(**{p.name: p.default for p in parameters.values() if p.default is not p.empty}, **given)
    assert seen == [settings(**given)]


@pytest.mark.parametrize(
    ("settings", "missing", "there"),
    [
        (ExploreOptions, {"inputs": [Path("nothing.png")]}, {}),
        (ExploreOptions, {"labels": Path("nothing.txt")}, {}),
        (ExplainOptions, {"source": "nothing.png"}, {"source": "no file", "model_dir": Path("smollm2")}),
        (
            JudgeOptions,
            {"values": Path("."), "source": Path("nothing.png")},
            {"values": Path("."), "source": Path(".")},
        ),
        (CompareOptions, {"source": Path("."), "model": Path("nothing.pth")}, {"source": Path(".")}),
    ],
)
def test_a_missing_file_is_told_before_anything_is_loaded(settings, missing, there):
    command = make_command(settings, "leastpath.no_such_module", "run")
    with pytest.raises(ValueError, match="is not there"):
        command(**missing)
    with pytest.raises(ModuleNotFoundError):
        command(**there)


@pytest.mark.parametrize("settings", [ExplainOptions, JudgeOptions, CompareOptions])
def test_seeds_beyond_what_computers_count_are_refused_before_anything_is_loaded(settings):
    """Oracle: typer's own reading of the range; nothing of the command runs."""
    app = typer.Typer()
    app.command()(make_command(settings, "leastpath.no_such_module", "run"))
    told = CliRunner().invoke(app, ["x.npy", "y.csv", "--seed", str(10**30)][settings is not JudgeOptions :])
    assert told.exit_code == 2 and "9223372036854775807" in told.output
