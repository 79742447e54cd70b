"""The VOC study on a tiny folder: a killed run, resumed, ends like an uninterrupted one and computes nothing twice."""

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
from tiny_voc import TINY, tiny_backbone, tiny_voc

from studies.voc import explaining, report as voc_report
from studies.voc.data import open_voc
from studies.voc.experiment import run_voc

SCRIPT = """
import sys
from tiny_voc import TINY, tiny_backbone
from studies.voc.experiment import run_voc; from studies.voc.data import open_voc
import torch; torch.set_num_threads(1)
run_voc(open_voc(sys.argv[1]), TINY, sys.argv[2], backbone=tiny_backbone(), resume=True)
"""


@pytest.fixture(scope="module")
def devkit(tmp_path_factory):
    return tiny_voc(tmp_path_factory.mktemp("voc"))


@pytest.fixture(scope="module", autouse=True)
def one_picture():
    """Drawing is what takes the time here."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(voc_report, "PICTURES", 1)
        yield


@pytest.fixture(scope="module")
def whole(devkit, tmp_path_factory, one_picture):
    """An uninterrupted run."""
    return run_voc(open_voc(devkit), TINY, tmp_path_factory.mktemp("whole") / "out", backbone=tiny_backbone())


def readable(run_path):
    """All that a reader sees, but for what a clock says."""
    page = (run_path / "report.html").read_text()
    cut = page.index('<h2 id="cost">'), page.index('<h2 id="settings">')
    tables = [(run_path / name).read_text() for name in ("table2.csv", "localisation.csv")]
    tables.append((run_path / "table.md").read_text().partition("Cost of an image")[0])
    pictures = [file.read_bytes() for file in sorted((run_path / "figures").iterdir())]
    return page[: cut[0]] + page[cut[1] :], tables, pictures


def units(run_path):
    return {file: file.stat().st_mtime_ns for file in run_path.glob("*/units/*.safetensors")}


def test_report_has_the_paper_beside_ours(whole):
    page = (whole.path / "report.html").read_text()
    for words in ("AUC comprehensiveness", "AOC log-odds", "paper", "p against IDGI", "dark gain", "mean average"):
        assert words in page
    assert not re.search(r'(src|href)="(?!data:|#)', page)
    assert {f.name for f in whole.figures.iterdir()} == {
        "curves.png", "heatmaps_first.png", "heatmaps_dark_objects.png",
    }  # fmt: skip
    assert whole.store.read("head").record["mean_average_precision"] > 0.9


@pytest.mark.slow
def test_killed_and_resumed_is_an_uninterrupted_run(devkit, whole, tmp_path):
    out, tests = tmp_path / "out", Path(__file__).parents[2]
    found = os.pathsep.join([str(tests / "studies"), str(tests.parent), os.environ.get("PYTHONPATH", "")])
    words = [sys.executable, "-c", SCRIPT, str(devkit), str(out)]
    alone = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": found}
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "env": alone}
    process = subprocess.Popen(words, **quiet)
    while process.poll() is None and len(units(out)) < 8:  # somewhere among the methods
        time.sleep(0.002)
    process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    before = units(out)
    assert 0 < len(before) < len(units(whole.path)) and not (out / "report.html").exists()
    run = run_voc(open_voc(devkit), TINY, out, backbone=tiny_backbone(), resume=True)
    after = units(out)
    written_again = [file.name for file in before if after[file] != before[file]]
    assert len(written_again) <= 1  # a heat map whose measures were not finished when the plug was pulled
    assert all(name.startswith("map ") for name in written_again)
    assert readable(run.path) == readable(whole.path)


def test_methods_are_added_to_a_finished_run(devkit, whole, tmp_path):
    out = Path(shutil.copytree(whole.path, tmp_path / "out"))  # with its time stamps
    before = units(out)
    more = replace(TINY, methods=("integrated_gradients", "input_x_gradient"))
    after = units(run_voc(open_voc(devkit), more, out, backbone=tiny_backbone(), resume=True).path)
    assert [file.name for file in before if after[file] != before[file]] == ["explained.safetensors"]
    assert sum("input_x_gradient" in file.name for file in after) == 2 * TINY.images


@pytest.mark.filterwarnings("ignore:interrupted with")
def test_a_session_without_time_still_reports_all_that_is_there(devkit, whole, tmp_path, monkeypatch):
    monkeypatch.setattr(explaining, "BLOCK", 2)
    out = Path(shutil.copytree(whole.path, tmp_path / "out"))
    more = replace(TINY, methods=("integrated_gradients", "occlusion"))
    run = run_voc(open_voc(devkit), more, out, backbone=tiny_backbone(), resume=True, minutes=0.0)
    assert f"| Integrated Gradients | {TINY.images} |" in (run.path / "table.md").read_text()


def test_another_configuration_is_refused(devkit, whole):
    with pytest.raises(ValueError, match="steps is 6 there and 7 here"):
        run_voc(open_voc(devkit), replace(TINY, steps=7), whole.path, backbone=tiny_backbone(), resume=True)
    with pytest.raises(ValueError, match="continue it with --resume"):
        run_voc(open_voc(devkit), TINY, whole.path, backbone=tiny_backbone())


def test_a_backbone_of_one_size_says_which(devkit, tmp_path):
    backbone = tiny_backbone()
    backbone.size = 224
    with pytest.raises(ValueError, match="takes images of 224 pixels only: pass --size 224"):
        run_voc(open_voc(devkit), TINY, tmp_path / "out", backbone=backbone)


@pytest.mark.filterwarnings("ignore:interrupted with")
def test_when_time_is_up_the_report_says_so(devkit, tmp_path):
    run = run_voc(open_voc(devkit), TINY, tmp_path / "out", backbone=tiny_backbone(), minutes=0.0)
    assert "Unfinished" in (run.path / "report.html").read_text()
