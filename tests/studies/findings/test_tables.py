"""What the page says of finished runs. Oracle: files with planted numbers."""

import csv
import json

import pytest

from leastpath._support.store import Store
from studies.findings.catalogue import STUDIES
from studies.findings.config import Setting


def records(name, setting):
    return {unit.key: unit.compute() for unit in STUDIES[name].measurements(setting)}


def method(purity, paper=None, **more):
    row = {"auc_purity": purity, "standard_error": 0.01, "paper": paper, "cancellation_mean": 1.5}
    return row | {"cancellation_median": 0.25, "against_ig": {"difference": 0.1, "p_value": 0.004}} | more


@pytest.fixture
def moons(tmp_path):
    methods = {
        "integrated_gradients": method(0.49, 0.487, against_ig=None),
        "geodesic_graph": method(0.56, 0.531, cancellation_mean=0.08),
        "occlusion": method(0.43, 0.52),
        "ideal": method(0.53, against_ig=None, cancellation_mean=0.0),
    }
    summary = {"noises": [0.1, 0.2], "seeds": [1, 2, 3], "methods": methods}
    (tmp_path / "summary.json").write_text(json.dumps(summary))
    return tmp_path


def test_table_1_beside_the_papers(moons, tmp_path):
    section = STUDIES["moons"].section(records("moons", Setting(Store(tmp_path / "s", {}), moons=moons)))
    assert "Over 6 networks" in section and "0.560 ± 0.010 AUC-purity (paper 0.531)" in section
    assert "*above* it" in section  # .56 > .53
    assert "three standard errors from the printed number: Occlusion 0.430 (paper 0.520)" in section
    assert "| Geodesic IG (graph) | 0.531 | 0.560 ± 0.010 | +0.100 (0.004) | 0.080 | 0.25 |" in section


def voc(folder, geodesic_p):
    heads = ["fill", "measure", "method", "n", "mean", "ratio", "paper_ratio"]
    heads += [f"{what}_{rival}" for rival in ("integrated_gradients", "idgi") for what in ("difference", "p")]
    with (folder / "table2.csv").open("w", newline="") as stream:
        table = csv.writer(stream)
        table.writerow(heads)
        for fill in ("grey", "black"):
            for measure in ("comprehensiveness", "log_prob_ratio"):
                table.writerow([fill, measure, "integrated_gradients", 100, 0.2, 1.0, 1.0, "", "", -0.1, 0.01])
                table.writerow([fill, measure, "geodesic_descent", 100, 0.3, 1.5, "", 0.1, 0.001, 0.1, geodesic_p])
    (folder / "config.json").write_text('{"output": "softmax"}')
    return folder


@pytest.mark.parametrize("p, sentence", [(0.01, "all four columns: geodesic_descent"), (0.2, "No geodesic")])
def test_table_2_says_who_is_clearly_ahead(tmp_path, p, sentence):
    setting = Setting(Store(tmp_path / "s", {}), voc=voc(tmp_path, p))
    section = STUDIES["voc"].section(records("voc", setting))
    assert sentence in section and "by descent, grey: × 1.50 and 1.50 over IG (clear)" in section
    assert "| Geodesic IG (descent) | 1.50 (0.001) | 1.50 (0.001) | 1.50 (0.001) | 1.50 (0.001) |" in section


def test_objects_and_dark_pixels(tmp_path):
    voc(tmp_path, 0.2)
    lines = ["method,name,inside,gain,pointing,dark_gain"]
    lines += [f"integrated_gradients,{i},.4,{1 + i / 10},{i % 2},0.4" for i in range(4)]
    lines += [f"geodesic_descent,{i},.4,{2 + i / 10},1,{'nan' if i else 0.9}" for i in range(4)]
    (tmp_path / "localisation.csv").write_text("\n".join(lines))
    section = STUDIES["objects"].section(records("objects", Setting(Store(tmp_path / "s", {}), voc=tmp_path)))
    assert "its dark pixels get: IG 0.40, Geodesic IG (descent) 0.90" in section and "On 4 VOC images" in section
    assert "| Integrated Gradients | 1.1 | – | 50% | 0.40 | – |" in section
    assert "| Geodesic IG (descent) | 2.1 | +1.0 (p 0.1) | 100% | 0.90 | – |" in section  # one dark image is no test


def test_paths_on_photographs(tmp_path):
    file = tmp_path / "solvers.jsonl"
    common = {"size": 128, "output": "softmax", "reached": True}
    rows = []
    for name in "ab":
        of = common | {"image": name}
        rows.append(
            of | {"method": "straight", "ratio": 1.0, "cancellation": 100.0, "gradients": 50, "solver_gradients": 0}
        )
        short = {"method": "descent", "ratio": 0.01, "cancellation": 1.0, "gradients": 300, "solver_gradients": 100}
        long = {
            "method": "variational 50x",
            "ratio": 0.2,
            "cancellation": 9.0,
            "gradients": 9000,
            "solver_gradients": 2500,
        }
        rows += [of | short, of | long]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows) + '{"size": 128, "out')  # killed while writing
    section = STUDIES["paths"].section(records("paths", Setting(Store(tmp_path / "s", {}), solvers=file)))
    assert "With 2,500 gradients `Variational` (softmax, 128 pixels) ends at 0.20" in section
    assert "on the same 2 images at 0.010 with 1/25 of the gradients; shorter on 2 of 2" in section
    assert "| 128, softmax, descent | 2 | 0.010 | 0.010 | 0.010 | 0.010 | 100 | 200 | 2 |" in section


def test_a_folder_of_something_else(tmp_path):
    with pytest.raises(ValueError, match=r"give the folder of a finished `python -m studies\.moons`"):
        records("moons", Setting(Store(tmp_path / "s", {}), moons=tmp_path))
