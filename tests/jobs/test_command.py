"""`leastpath run job.toml`, as a shell would call it."""

import re
import sys

import pytest
from typer.testing import CliRunner

import toy_jobs
from leastpath import jobs
from leastpath.commands import cli
from leastpath.jobs.command import _choose_executor

pytest.importorskip("pyarrow")
pytest.importorskip("safetensors")
pytest.importorskip("matplotlib")

FILE = """
[data]
source = "toy_jobs:numbered"
settings = {{ n = 20 }}

[model]
factory = "beside:make"

[explain]
method = "{method}"
settings = {{ tolerance = 0.05 }}
target = "predicted"
output = "log_softmax"

[run]
out = "explanations"
shard_size = 8
"""


@pytest.fixture
def file(tmp_path, monkeypatch):
    monkeypatch.delitem(sys.modules, "beside", raising=False)  # of the folder of another test
    (tmp_path / "beside.py").write_text("from toy_jobs import model as make\n")
    path = tmp_path / "job.toml"
    path.write_text(FILE.format(method="integrated_gradients"))
    return path


def called(*words, allow="toy_jobs"):
    return CliRunner().invoke(cli.application(), ["run", *map(str, words), "--allow", allow])


def test_a_job_from_a_file_with_its_report(file):
    result = called(file)
    assert result.exit_code == 0, result.output
    assert "Explanations(20 of 20 rows in 3 shards)" in result.output
    found = jobs.open(file.parent / "explanations")
    assert found.finished and found.config["method"][1]["tolerance"] == 0.05
    assert "Distributions" in (file.parent / "explanations/report.html").read_text(encoding="utf-8")


def test_the_command_line_overrules_the_file(file, monkeypatch):
    result = called(file, "--out", file.parent / "other", "--no-report")
    assert result.exit_code == 0 and jobs.open(file.parent / "other").finished
    assert not (file.parent / "other/report.html").exists()


def test_a_job_that_is_not_finished_exits_with_130(file, monkeypatch):
    run = jobs.InProcess.run
    monkeypatch.setattr(jobs.InProcess, "run", lambda self, work, shards, stop: run(self, work, shards[:1], stop))
    result = called(file)
    assert result.exit_code == 130 and "8 of 20 rows are done" in result.output


def test_a_job_that_runs_out_of_time_exits_with_130_and_goes_on_later(file):
    result = called(file, "--max-seconds", "0.000001")
    assert result.exit_code == 130 and "stopped after" in result.output and "start the job again" in result.output
    assert called(file, "--max-seconds", "1000").exit_code == 0


def test_fail_fast_raises(file, monkeypatch):
    monkeypatch.setattr(toy_jobs, "numbered", lambda n: toy_jobs.Numbered(n, bad=(3,)))
    assert isinstance(called(file, "--fail-fast").exception, ValueError)


@pytest.mark.parametrize(
    ("given", "chosen"),
    [
        (({}, None, None, None), ("inline", {})),
        (({"executor": "processes", "workers": 3}, None, None, None), ("processes", {"workers": 3})),
        (({"executor": "processes", "workers": 3}, None, 2, None), ("processes", {"workers": 2})),
        (({"executor": "processes", "workers": 3}, "inline", None, None), ("inline", {})),
        (({}, None, 2, None), ("processes", {"workers": 2})),
        (({}, None, None, "auto"), ("ray", {"address": "auto"})),
        (({"executor": "ray", "num_gpus": 1}, "ray", None, "auto"), ("ray", {"num_gpus": 1, "address": "auto"})),
    ],
)
def test_which_executor(given, chosen):
    assert _choose_executor(*given) == chosen


@pytest.mark.parametrize(
    ("pattern", "replacement", "match"),
    [
        (r"\[run\]", "[runs]", r"has a table \[runs\]"),
        (r"factory = .*", "", "lacks 'factory' in its table .model."),
        (r"target =", "targets =", "has 'targets'"),
        (r"shard_size = 8", "shard_size = 0", "must be at least 1"),
        (r"shard_size = 8", "workers = 2", "does not take"),
        (r"\[data\]", "[data", "is not TOML"),
        ("beside:make", "beside:nothing", "cannot be imported"),
        ("integrated_gradients", "no_such", "no method is called 'no_such'"),
        ("tolerance", "tolerances", "has no setting 'tolerances'"),
        ('"predicted"', '"best"', "target='best' must be a whole number or one of"),
    ],
)
def test_mistakes_in_the_file_are_one_sentence(file, pattern, replacement, match):
    file.write_text(re.sub(pattern, replacement, file.read_text()))
    error = called(file).exception
    assert isinstance(error, ValueError) and re.search(match, str(error))
