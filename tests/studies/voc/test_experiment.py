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
import torch
from tiny_voc import tiny_backbone, tiny_voc

import leastpath as lp
from helpers import Interrupting
from leastpath._support.fingerprint import digest
from leastpath._support.store import Store
from leastpath.methods import METHODS
from studies.voc import experiment as voc
from studies.voc import report as voc_report
from studies.voc.data import open_voc
from studies.voc.experiment import VocConfig, chosen_images, contenders, masking_measures, run_voc
from studies.voc.model import Training

CONFIG = VocConfig(
    images=4, size=16, output="softmax", methods=("integrated_gradients", "idgi", "geodesic_descent", "random"),
    steps=6, budget=120, training=Training(lr=0.02, max_epochs=60),
)  # fmt: skip

SCRIPT = """
import sys; sys.path.insert(0, sys.argv[1])
from test_voc import CONFIG; from tiny_voc import tiny_backbone
from studies.voc.experiment import run_voc; from studies.voc.data import open_voc
import torch; torch.set_num_threads(1)
run_voc(open_voc(sys.argv[2]), CONFIG, sys.argv[3], backbone=tiny_backbone(), resume=True)
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
    return run_voc(open_voc(devkit), CONFIG, tmp_path_factory.mktemp("whole") / "out", backbone=tiny_backbone())


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
    out, here = tmp_path / "out", Path(__file__).parent
    words = [
        sys.executable,
        "-c",
        SCRIPT.replace("sys.argv[1]", f"{str(here)!r}); sys.path.insert(0, {str(here.parent)!r}"),
    ]
    words += ["-", str(devkit), str(out)]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "env": os.environ | {"OMP_NUM_THREADS": "1"}}
    process = subprocess.Popen(words, **quiet)
    while process.poll() is None and len(units(out)) < 8:  # somewhere among the methods
        time.sleep(0.002)
    process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    before = units(out)
    assert 0 < len(before) < len(units(whole.path)) and not (out / "report.html").exists()
    run = run_voc(open_voc(devkit), CONFIG, out, backbone=tiny_backbone(), resume=True)
    after = units(out)
    written_again = [file.name for file in before if after[file] != before[file]]
    assert len(written_again) <= 1  # a heat map whose measures were not finished when the plug was pulled
    assert all(name.startswith("map ") for name in written_again)
    assert readable(run.path) == readable(whole.path)


def test_methods_are_added_to_a_finished_run(devkit, whole, tmp_path):
    out = Path(shutil.copytree(whole.path, tmp_path / "out"))  # with its time stamps
    before = units(out)
    more = replace(CONFIG, methods=("integrated_gradients", "input_x_gradient"))
    after = units(run_voc(open_voc(devkit), more, out, backbone=tiny_backbone(), resume=True).path)
    assert [file.name for file in before if after[file] != before[file]] == ["explained.safetensors"]
    assert sum("input_x_gradient" in file.name for file in after) == 2 * CONFIG.images


def test_half_a_heat_map_is_not_kept(tmp_path):
    image, store = torch.rand(1, 3, 4, 4), Store(tmp_path, {})
    method = METHODS["guided_ig"]
    keeping = voc.Keeping("guided_ig", method.defaults, method, store, {digest(image[0]): "a picture"})
    with pytest.raises(KeyboardInterrupt):
        keeping(lp.Score(Interrupting(lambda x: x.flatten(1).prod(1), at=6)), image, None, 0)
    assert not list(store)


@pytest.mark.filterwarnings("ignore:interrupted with")
def test_a_session_without_time_still_reports_all_that_is_there(devkit, whole, tmp_path, monkeypatch):
    monkeypatch.setattr(voc, "BLOCK", 2)
    out = Path(shutil.copytree(whole.path, tmp_path / "out"))
    more = replace(CONFIG, methods=("integrated_gradients", "occlusion"))
    run = run_voc(open_voc(devkit), more, out, backbone=tiny_backbone(), resume=True, minutes=0.0)
    assert f"| Integrated Gradients | {CONFIG.images} |" in (run.path / "table.md").read_text()


def test_another_configuration_is_refused(devkit, whole):
    with pytest.raises(ValueError, match="steps is 6 there and 7 here"):
        run_voc(open_voc(devkit), replace(CONFIG, steps=7), whole.path, backbone=tiny_backbone(), resume=True)
    with pytest.raises(ValueError, match="go on with it by --resume"):
        run_voc(open_voc(devkit), CONFIG, whole.path, backbone=tiny_backbone())


def test_images_are_chosen_by_seed_and_skipped_ones_are_others():
    names = [f"{i:03d}" for i in range(30)]
    first = chosen_images(names, VocConfig(images=10))
    rest = chosen_images(names, VocConfig(images=20, skip=10))
    assert sorted(first + rest) == names
    assert first != chosen_images(names, VocConfig(images=10, seed=1))
    with pytest.raises(ValueError, match=r"more than the 30 .* --images 25"):
        chosen_images(names, VocConfig(images=26, skip=5))


def test_masking_fills_with_both_colours():
    measures = masking_measures((0.4, 0.5, 0.6))
    assert [m.name for m in measures][:2] == ["comprehensiveness grey", "log_prob_ratio grey"] and len(measures) == 6
    fill = voc.ColorFill((0.4, 0.5, 0.6))(torch.zeros(2, 3, 4, 4))
    assert fill.shape == (2, 3, 4, 4) and fill[1, :, 2, 2].tolist() == pytest.approx([0.4, 0.5, 0.6])


def test_settings_follow_the_budget():
    config = VocConfig(steps=7, budget=90)
    found = contenders(config)
    assert found["integrated_gradients"].defaults["n_steps"] == 7
    assert found["geodesic_descent"].defaults["solver"].max_gradients == 45
    assert found["geodesic_variational"].defaults["max_gradients"] == 90
    assert found["occlusion"].defaults["window"] == 16


def test_the_authors_settings_of_the_variational_solver_whatever_the_budget():
    full = contenders(VocConfig(methods=("geodesic_variational_full",), budget=90))["geodesic_variational_full"]
    settings = full.defaults
    assert (settings["n_iterations"], settings["n_points"], settings["max_gradients"]) == (1000, 50, None)
    assert full.name == "geodesic_variational_full"


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"output": "logits"}, "output='logits' is unknown: use one of log_softmax"),
        ({"baseline": "pink"}, "baseline='pink' is unknown: use one of black, white, grey"),
        ({"backbone": "alexnet"}, "backbone='alexnet' is unknown"),
        ({"images": 0}, "images=0 must be at least 1"),
        ({"methods": ("magic",)}, "no method is called 'magic'"),
    ],
)
def test_mistakes_are_found_before_the_work(given, sentence):
    with pytest.raises(ValueError, match=sentence):
        VocConfig(**given)


def test_a_backbone_of_one_size_says_which(devkit, tmp_path):
    backbone = tiny_backbone()
    backbone.size = 224
    with pytest.raises(ValueError, match="takes images of 224 pixels only: pass --size 224"):
        run_voc(open_voc(devkit), CONFIG, tmp_path / "out", backbone=backbone)


@pytest.mark.filterwarnings("ignore:interrupted with")
def test_when_time_is_up_the_report_says_so(devkit, tmp_path):
    run = run_voc(open_voc(devkit), CONFIG, tmp_path / "out", backbone=tiny_backbone(), minutes=0.0)
    assert "Unfinished" in (run.path / "report.html").read_text()
