"""The run folder: what it keeps, and what it refuses."""

import base64
import json
import re

import pytest
from matplotlib.figure import Figure

from leastpath.commands.run_folder import RunFolder, default_folder, environment
from leastpath.report import Report
from leastpath.report.canvas import new_figure


def test_folder_holds_configuration_environment_and_store(tmp_path):
    run = RunFolder.open(tmp_path / "a" / "run", "moons", {"seeds": (1, 2)})
    assert json.loads((run.path / "config.json").read_text()) == {"command": "moons", "seeds": [1, 2]}
    (session,) = json.loads((run.path / "environment.json").read_text())
    assert session["versions"]["torch"] == environment()["versions"]["torch"]
    assert run.store.config["seeds"] == [1, 2]


def test_resume_finds_what_was_finished_and_notes_the_session(tmp_path):
    RunFolder.open(tmp_path / "run", "moons", {"n": 1}).store.write("unit", {"value": 0.5})
    again = RunFolder.open(tmp_path / "run", "moons", {"n": 1}, resume=True)
    assert again.store.read("unit").record == {"value": 0.5}
    assert len(json.loads((again.path / "environment.json").read_text())) == 2


def test_resume_of_nothing_starts(tmp_path):
    assert len(RunFolder.open(tmp_path / "run", "moons", {}, resume=True).store) == 0


def test_a_killed_start_leaves_an_empty_folder_that_is_taken(tmp_path):
    (tmp_path / "run").mkdir()
    RunFolder.open(tmp_path / "run", "moons", {})


def test_same_settings_without_resume_are_refused(tmp_path):
    RunFolder.open(tmp_path / "run", "moons", {"n": 1})
    with pytest.raises(ValueError, match="--resume"):
        RunFolder.open(tmp_path / "run", "moons", {"n": 1})


@pytest.mark.parametrize("resume", [False, True])
def test_another_run_is_refused_by_its_differences(tmp_path, resume):
    RunFolder.open(tmp_path / "run", "moons", {"n": 1, "m": 1})
    with pytest.raises(ValueError, match=r"another run: n is 1 there and 2 here\."):
        RunFolder.open(tmp_path / "run", "moons", {"n": 2, "m": 1}, resume=resume)
    with pytest.raises(ValueError, match='command is "moons" there and "voc" here'):
        RunFolder.open(tmp_path / "run", "voc", {"n": 1, "m": 1}, resume=resume)


def test_a_folder_of_something_else_is_refused_and_left_alone(tmp_path):
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "cat.jpg").write_bytes(b"cat")
    with pytest.raises(ValueError, match="is not the folder of an earlier run"):
        RunFolder.open(tmp_path / "photos", "moons", {}, resume=True)
    assert [p.name for p in (tmp_path / "photos").iterdir()] == ["cat.jpg"]


def test_figures_and_texts_are_written_whole(tmp_path):
    run = RunFolder.open(tmp_path / "run", "moons", {})
    figure = Figure(figsize=(1, 1))
    assert run.save_figure(figure, "empty").read_bytes().startswith(b"\x89PNG")
    assert run.write("report.html", "Σ").read_text(encoding="utf-8") == "Σ"
    assert not list(run.path.rglob("*.tmp"))


def test_default_folder_counts_on_and_resumes_the_last(tmp_path):
    assert default_folder("moons", resume=True, under=tmp_path).name == "moons"
    (tmp_path / "moons").mkdir()
    (tmp_path / "moons-quick").mkdir()
    assert default_folder("moons", resume=False, under=tmp_path).name == "moons-2"
    (tmp_path / "moons-2").mkdir()
    assert default_folder("moons", resume=True, under=tmp_path).name == "moons-2"
    assert default_folder("moons", resume=False, under=tmp_path).name == "moons-3"


def test_the_report_holds_the_very_file(tmp_path):
    run = RunFolder.open(tmp_path / "run", "test", {})
    report = Report("Title")
    run.show(report, new_figure(1, 1), "empty", 'a < b, "quoted"', dpi=50)
    page = report.html()
    data = re.search(r"base64,([^\"]+)", page)[1]
    assert base64.b64decode(data) == (run.figures / "empty.png").read_bytes()
    assert "a &lt; b, &quot;quoted&quot;" in page
