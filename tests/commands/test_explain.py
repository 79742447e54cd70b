"""leastpath explain: from file to report, for pictures and tables; evidence is what attribute() gives."""

import json
import re
import warnings

import numpy as np
import pandas as pd
import pytest
import torch
from PIL import Image
from safetensors.torch import save_file
from torch import nn

import leastpath as lp
from helpers import Interrupting, left_untouched, seeded
from leastpath.commands import arguments, explain
from leastpath.commands.explain import image_question, read_labels, read_table, run_explain, table_question
from leastpath.commands.run_folder import RunFolder
from leastpath.evaluation.support import symmetric_relevance_gain
from leastpath.images import read_image
from leastpath.methods import METHODS, register


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A picture, a table, and models of both."""
    place = tmp_path_factory.mktemp("explain")
    pixels = np.random.default_rng(0).integers(0, 255, (20, 30, 3)).astype(np.uint8)
    Image.fromarray(pixels).save(place / "picture.png")
    numbers = np.random.default_rng(1).normal(size=(12, 3)).round(3)
    table = pd.DataFrame(numbers, columns=["age", "hours", "weight"])
    table["name"] = "somebody"
    table.to_csv(place / "table.csv", index=False)
    torch.manual_seed(0)
    row_net = nn.Sequential(nn.Linear(3, 6), nn.Tanh(), nn.Linear(6, 2)).eval()
    picture_net = nn.Sequential(
        nn.Conv2d(3, 4, 5, stride=4), nn.Tanh(), nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(16, 5)
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # TorchScript is deprecated
        torch.jit.script(row_net).save(str(place / "row.pt"))
        torch.jit.script(picture_net.eval()).save(str(place / "picture.pt"))
        torch.export.save(torch.export.export(row_net, (torch.zeros(1, 3),)), place / "one_row.pt2")
    (place / "labels.txt").write_text("cat\ndog\ncow\nhen\nowl\n")
    return place


def run_row(folder, out, **more):
    settings = {"model": folder / "row.pt", "row": 7, "drop": ["name"], "solver": "descent", "max_gradients": 300}
    return run_explain(folder / "table.csv", out, trust_model=True, **(settings | more))


def test_another_method_beside_integrated_gradients(folder, tmp_path, monkeypatch):
    """Any name of the table, a user's own too. Oracle: the method called directly."""
    monkeypatch.setattr(METHODS, "_methods", dict(METHODS._methods))
    register(METHODS["random"], "my_random", title="My numbers")
    run = run_row(folder, tmp_path / "out", solver=None, method="my_random")
    question = table_question(
        read_table(folder / "table.csv", ["name"]), 7, explain.load_model(folder / "row.pt", trust=True)
    )
    expected = METHODS["my_random"](question.score, question.inputs, question.baselines)
    assert torch.equal(run.store.read("geodesic").arrays["values"], expected.values)
    page = (run.path / "report.html").read_text()
    assert "My numbers" in page and "has no path" in page and ">nan<" not in page
    with pytest.raises(ValueError, match="--method my_random replaces it: pass one of the two"):
        run_row(folder, tmp_path / "both", method="my_random")
    with pytest.raises(ValueError, match="no method is called 'magic'"):
        run_row(folder, tmp_path / "none", solver=None, method="magic")


def test_a_picture_becomes_a_self_contained_report(folder, tmp_path):
    run = run_explain(
        folder / "picture.png", tmp_path / "out", model=folder / "picture.pt", size=16, labels=folder / "labels.txt",
        solver="descent", max_gradients=200, trust_model=True,
    )  # fmt: skip
    page = (run.path / "report.html").read_text()
    assert page.count("data:image/png;base64") == 2
    assert not re.search(r'(src|href)="(?!data:|#)', page)  # nothing outside the file
    assert "Integrated Gradients" in page and "Geodesic IG (Descent)" in page and "certificate" in page
    assert {file.name for file in run.figures.iterdir()} == {"attributions.png", "masking.png"}
    top = int(explain.load_model(folder / "picture.pt", trust=True)(read_image(folder / "picture.png", 16)).argmax())
    assert f"class {top} ({['cat', 'dog', 'cow', 'hen', 'owl'][top]})" in page


def test_a_row_is_explained_as_attribute_explains_it(folder, tmp_path):
    run = run_row(folder, tmp_path / "out", target=1)
    table = read_table(folder / "table.csv", ["name"])
    points = torch.tensor(table.to_numpy(np.float32))
    score = lp.Score(explain.load_model(folder / "row.pt", trust=True), 1, "log_softmax")
    expected = lp.attribute(
        score, points[7:8], points.mean(0, keepdim=True), solver=lp.StraightLine(), max_gradients=300
    )
    unit = run.store.read("straight")
    torch.testing.assert_close(unit.arrays["values"], expected.values)
    assert unit.record["completeness_gap"] == pytest.approx(float(expected.completeness_gap[0]), abs=1e-6)
    page = (run.path / "report.html").read_text()
    assert "row 7" in page and "log_softmax of class 1" in page


def test_masking_curves_start_at_the_input_and_end_at_the_baseline(folder, tmp_path):
    unit = run_row(folder, tmp_path / "out").store.read("geodesic")
    deletion, insertion = unit.arrays["deletion"], unit.arrays["insertion"]
    torch.testing.assert_close(deletion[0], insertion[-1])
    torch.testing.assert_close(deletion[-1], insertion[0])


def test_resuming_computes_nothing_again(folder, tmp_path, monkeypatch):
    run = run_row(folder, tmp_path / "out")
    before = (run.path / "report.html").read_text()
    monkeypatch.setattr(explain, "attribute", None)
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


@pytest.mark.parametrize(("at", "kept"), [(5, []), (25, ["straight"])])
def test_half_a_result_is_not_kept(tmp_path, at, kept):
    bent = Interrupting(lambda x: torch.sigmoid(8 * (x[:, :1] - x[:, 1:2] ** 2)), at)
    names = [str(i) for i in range(30)]
    question = explain.Question(lp.Score(bent), torch.ones(1, 30), torch.zeros(1, 30), "a score", [], names)
    run = RunFolder.open(tmp_path / "out", "explain", {})
    with pytest.raises(KeyboardInterrupt):  # the solver catches Ctrl-C and returns what it has
        explain.answers(question, run, lp.Descent(), None, 0)
    assert list(run.store) == kept


def test_a_program_exported_for_one_row_is_run_row_by_row(folder, tmp_path):
    run = run_row(folder, tmp_path / "out", model=folder / "one_row.pt2", max_gradients=100)
    other = run_row(folder, tmp_path / "other", max_gradients=100)
    for key in ("straight", "geodesic"):
        torch.testing.assert_close(run.store.read(key).arrays["values"], other.store.read(key).arrays["values"])


def test_a_model_with_one_output_needs_no_target(folder):
    table = read_table(folder / "table.csv", ["name"])
    question = table_question(table, 0, nn.Linear(3, 1).eval(), baseline="zero")
    assert question.score.target is None and question.explained == "the model's output"
    with pytest.raises(ValueError, match="has one output, which needs no target"):
        table_question(table, 0, nn.Linear(3, 1).eval(), target=2)


@pytest.mark.filterwarnings("ignore:the model is in training mode")
def test_a_model_in_training_mode_is_left_as_it_was(folder):
    """Asking already runs the model: it reads the classes, tries a batch of two, and looks for a baseline."""
    table = read_table(folder / "table.csv", ["name"])
    net = seeded(lambda: nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Dropout(), nn.Linear(4, 2))).train()
    net[1].weight.grad = torch.ones(4)
    with left_untouched(net), pytest.raises(ValueError, match=r"does not take rows .*more than 1 value per channel"):
        table_question(table, 0, net)
    dropping = seeded(lambda: nn.Sequential(nn.Linear(3, 4), nn.Dropout(), nn.Linear(4, 2))).train()
    with left_untouched(dropping):
        question = table_question(table, 0, dropping, baseline="max_entropy")
    assert question.score.model.training  # so that explaining warns of it
    picture_net = seeded(
        lambda: nn.Sequential(nn.Conv2d(3, 4, 5), nn.BatchNorm2d(4), nn.Dropout(), nn.Flatten(), nn.Linear(576, 5))
    ).train()
    with left_untouched(picture_net):
        image_question(folder / "picture.png", picture_net, size=16)


def test_an_output_that_cannot_be_read_is_not_called_a_wrong_size(folder):
    table = read_table(folder / "table.csv", ["name"])
    with pytest.raises(ValueError, match="the model returned dict, expected a tensor"):
        table_question(table, 0, lambda x: {"scores": x})
    with pytest.raises(ValueError, match=r"the model returns \(1, 3, 1\) for one input, expected \(1, classes\)"):
        table_question(table, 0, lambda x: x[..., None])


@pytest.mark.parametrize("baseline", ["mean", "samples", "max_entropy"])
def test_baselines_of_tables_stay_within_the_table(folder, baseline):
    table = read_table(folder / "table.csv", ["name"])
    question = table_question(table, 0, nn.Linear(3, 2).eval(), baseline=baseline)
    points = torch.as_tensor(table.to_numpy(dtype="float32", copy=True))
    known = (points / points.std(0))[torch.isfinite(points).all(1)]  # ranges of their own, which are not 0 and 1
    assert (known.amin(0) - 1e-4 <= question.baselines).all() and (question.baselines <= known.amax(0) + 1e-4).all()


@pytest.mark.parametrize("baseline", ["black", "white", "mean", "blur", "uniform", "0.25"])
def test_baselines_of_pictures(folder, baseline):
    net = explain.load_model(folder / "picture.pt", trust=True)
    question = image_question(folder / "picture.png", net, size=16, baseline=baseline)
    assert question.baselines.shape[-3:] == (3, 16, 16)
    if baseline == "0.25":
        assert (question.baselines == 0.25).all()


def test_several_baselines_with_commas(folder):
    net = explain.load_model(folder / "picture.pt", trust=True)
    question = image_question(folder / "picture.png", net, size=16, baseline="black, mean,0.25")
    single = [image_question(folder / "picture.png", net, size=16, baseline=b) for b in ("black", "mean", "0.25")]
    assert torch.equal(question.baselines, torch.stack([one.baselines for one in single], 1))
    table = read_table(folder / "table.csv", ["name"])
    row = table_question(table, 0, nn.Linear(3, 2).eval(), baseline="mean,samples")
    assert row.baselines.shape == (1, 6, 3)
    with pytest.raises(ValueError, match="--baseline 'grey' is unknown"):
        image_question(folder / "picture.png", net, size=16, baseline="black,grey")


@pytest.mark.parametrize("method", [None, "occlusion"])
def test_support_comes_first_and_is_known_of_every_method(folder, tmp_path, method):
    """Also of the straight line, and of methods without a path. Oracle: the public measure."""
    run = run_row(folder, tmp_path / "out", solver=None if method else "descent", method=method, baseline="mean,zero")
    question = table_question(
        read_table(folder / "table.csv", ["name"]),
        7,
        explain.load_model(folder / "row.pt", trust=True),
        baseline="mean",
    )
    for key in ("straight", "geodesic"):
        assert np.isfinite(run.store.read(key).record["support"])
    page = (run.path / "report.html").read_text()
    assert page.index("line support") < page.index("completeness gap") and "0 is a random order" in page
    run = run_row(folder, tmp_path / "one", solver=None, method="occlusion")
    unit = run.store.read("geodesic")
    gain = symmetric_relevance_gain(question.score, question.inputs, unit.arrays["values"], question.baselines)
    turned = -1 if unit.record["score_change"] < 0 else 1
    assert unit.record["support"] == pytest.approx(turned * float(gain[0]), abs=1e-5)


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
        ({"solver": "magic"}, "'magic' is unknown: use one of descent"),
    ],
)
def test_mistakes_are_answered_with_what_to_do(folder, tmp_path, given, sentence):
    with pytest.raises(ValueError, match=sentence):
        run_row(folder, tmp_path / "out", **given)
    assert not (tmp_path / "out").exists()


def test_pictures_have_their_own_mistakes(folder, tmp_path):
    with pytest.raises(ValueError, match="is not a file"):
        run_explain(tmp_path / "nothing.jpg", tmp_path / "out")
    with pytest.raises(ValueError, match="--row is for tables"):
        run_explain(folder / "picture.png", tmp_path / "out", row=1)
    with pytest.raises(ValueError, match="cannot be read as a picture"):
        run_explain(folder / "labels.txt", tmp_path / "out", model=folder / "picture.pt", trust_model=True)
    with pytest.raises(ValueError, match="does not take pictures of 3"):
        run_explain(folder / "picture.png", tmp_path / "out", model=folder / "picture.pt", size=3, trust_model=True)


def test_a_row_with_a_hole_is_refused():
    table = pd.DataFrame({"a": [1.0, np.nan], "b": [0.0, 1.0]})
    with pytest.raises(ValueError, match="row 1 has no finite number in a: fill it first"):
        table_question(table, 1, nn.Linear(2, 2).eval())


def test_labels_come_as_lines_or_json(tmp_path):
    (tmp_path / "a.txt").write_text("cat\n\ndog\n")
    (tmp_path / "b.json").write_text(json.dumps(["cat", "dog"]))
    (tmp_path / "c.json").write_text(json.dumps({"0": ["n0", "cat"], "1": ["n1", "dog"]}))
    for name in ("a.txt", "b.json", "c.json"):
        assert read_labels(tmp_path / name) == ["cat", "dog"]
    (tmp_path / "d.json").write_text("{")
    with pytest.raises(ValueError, match="is not JSON"):
        read_labels(tmp_path / "d.json")


def test_the_command_writes_and_names_its_report(folder, tmp_path):
    typer = pytest.importorskip("typer")
    from typer.testing import CliRunner

    app = typer.Typer()
    app.command()(arguments.explain)
    words = ["table.csv", "--model", "row.pt", "--trust-model", "--row", "3", "--drop", "name", "--max-gradients", "60"]
    words = [str(folder / w) if (folder / w).is_file() else w for w in words]
    result = CliRunner().invoke(app, [*words, "--solver", "straight", "--out", str(tmp_path / "out")])
    assert result.exit_code == 0, result.output
    assert (tmp_path / "out" / "report.html").is_file()
