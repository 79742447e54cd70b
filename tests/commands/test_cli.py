"""The frame of the command line."""

import builtins
import os
import subprocess
import sys

import pytest
from typer.testing import CliRunner

import leastpath
from leastpath.commands import cli
from leastpath.methods import METHODS


def output_of(*words: str) -> str:
    result = CliRunner().invoke(cli.application(), list(words))
    assert result.exit_code == 0, result.output
    return result.output


def test_help_names_every_command():
    page = output_of("--help")
    for word in ("explain", "run", "solvers", "methods", "--import", "--resume", "report.html"):
        assert word in page


@pytest.mark.parametrize("words", [["--help"], ["explain", "--help"], ["run", "--help"], ["--version"]])
def test_help_pages_import_no_torch(words):
    code = (
        "import sys; from typer.testing import CliRunner; from leastpath.commands import cli\n"
        f"result = CliRunner().invoke(cli.application(), {words!r})\n"
        "assert result.exit_code == 0 and result.output, result.output\n"
        "assert not {'torch', 'numpy', 'scipy'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize(("given", "expected"), [(None, "passive"), ("active", "active")])
def test_idle_threads_sleep_unless_the_user_says_otherwise(monkeypatch, given, expected):
    monkeypatch.setenv("OMP_WAIT_POLICY", given or "")  # also where there is none, so that it is put back
    if given is None:
        monkeypatch.delenv("OMP_WAIT_POLICY")
    seen = []
    monkeypatch.setattr(cli, "reporting_mistakes", lambda _: seen.append(os.environ["OMP_WAIT_POLICY"]))
    cli.main()
    assert seen == [expected]


def test_version():
    assert output_of("--version").strip() == leastpath.__version__


def test_solvers_lists_all_that_are_exported():
    page = output_of("solvers")
    for name in ("StraightLine", "NeighborGraph", "Descent", "Variational", "Hamiltonian", "GeodesicODE", "GuidedIG"):
        assert name in page
    assert "Solution" not in page


def test_methods_lists_the_table():
    page = output_of("methods")
    assert all(name in page for name in METHODS)
    assert "METHODS[name]" in page  # brackets are no markup here


def test_a_module_of_ones_own_adds_methods(monkeypatch, tmp_path):
    """As a user has it: a file in the folder where the command is called."""
    monkeypatch.setattr(METHODS, "_things", dict(METHODS._things))
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my_methods_of_test_cli.py").write_text(
        'from leastpath.methods import METHODS, register\nregister(METHODS["random"], "dice", title="Dice")\n'
    )
    assert "Dice" in output_of("--import", "my_methods_of_test_cli", "methods")
    with pytest.raises(ImportError, match="not_a_module"):
        CliRunner().invoke(cli.application(), ["--import", "not_a_module", "methods"], catch_exceptions=False)


def test_a_mistake_is_one_sentence(monkeypatch, capsys, tmp_path):
    monkeypatch.setattr(sys, "argv", ["leastpath", "explain", str(tmp_path / "nowhere.png")])
    with pytest.raises(SystemExit) as left:
        cli.main()
    assert left.value.code == 1
    said = capsys.readouterr().err
    assert said.startswith("error: ") and "is not there" in said and "Traceback" not in said


def test_traceback_on_demand(monkeypatch, tmp_path):
    monkeypatch.setattr(sys, "argv", ["leastpath", "--traceback", "explain", str(tmp_path / "nowhere.png")])
    with pytest.raises(ValueError, match="is not there"):
        cli.main()


def test_without_typer_the_command_says_what_to_install(monkeypatch):
    really = builtins.__import__

    def without(name, *rest, **more):
        if name == "typer":
            raise ImportError(name)
        return really(name, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(SystemExit, match=r"pip install 'leastpath\[cli\]'"):
        cli.main()


def test_a_file_that_is_not_there_is_one_sentence(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["leastpath", "run", "nowhere.toml"])
    with pytest.raises(SystemExit, match="1"):
        cli.main()
    said = capsys.readouterr().err
    assert "nowhere.toml" in said and "Traceback" not in said
