"""Models from files: what is saved is what is loaded, and no file runs code when it is opened."""

import io
import json
import pickle
import sys
import warnings
import zipfile
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from torch import nn

import leastpath as lp
from leastpath.commands.model_files import check_program, load_model


class Small(nn.Module):
    """Imported by its path in these tests."""

    def __init__(self, width: int = 8) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(4, width), nn.Dropout(0.5), nn.ReLU(), nn.Linear(width, 3))

    def forward(self, x):
        return self.layers(x)


@pytest.fixture(scope="module")
def model():
    return Small().eval()


@pytest.fixture(scope="module")
def program(model, tmp_path_factory):
    file = tmp_path_factory.mktemp("pt2") / "model.pt2"
    batch = torch.export.Dim("batch", min=1, max=4096)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.export.save(torch.export.export(model, (torch.rand(2, 4),), dynamic_shapes=({0: batch},)), file)
    return file


def saved(model, program, kind, folder):
    if kind == "export":
        return program, {}
    if kind == "script":
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # TorchScript is deprecated; files of it are around
            torch.jit.script(model).save(str(folder / "model.pt"))
        return folder / "model.pt", {}
    save_file(model.state_dict(), folder / "model.safetensors")
    return folder / "model.safetensors", {"model_class": "small_net_of_a_test:Small", "arguments": '{"width": 8}'}


@pytest.mark.parametrize("kind", ["export", "script", "safetensors"])
def test_a_saved_model_explains_like_the_model_itself(model, program, tmp_path, monkeypatch, kind):
    (tmp_path / "small_net_of_a_test.py").write_text(Path(__file__).read_text())
    monkeypatch.chdir(tmp_path)  # a class is found in the folder that the command runs in
    path = list(sys.path)
    file, more = saved(model, program, kind, tmp_path)
    loaded, inputs = load_model(file, **more), torch.rand(5, 4)
    assert sys.path == path
    torch.testing.assert_close(loaded(inputs), model(inputs))
    expected, found = (lp.attribute(lp.Score(m, 1), inputs, solver=lp.StraightLine()).values for m in (model, loaded))
    torch.testing.assert_close(found, expected)


class Evil:
    def __reduce__(self):
        return exec, ("raise SystemExit('ran code')",)


@pytest.mark.parametrize("name", ["model.pt", "model.pth", "model.pt2", "model.bin"])
@pytest.mark.parametrize("content", ["torch", "pickle"])
def test_a_pickled_model_is_refused_unopened(tmp_path, name, content):
    file = tmp_path / name
    torch.save(Evil(), file) if content == "torch" else file.write_bytes(pickle.dumps(Evil()))
    with pytest.raises(ValueError, match=r"pickle|no exported program"):
        load_model(file)


def tampered(program, change):
    """The program with its parts changed: change(name, content) -> content, or None to leave it."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(program) as source, zipfile.ZipFile(buffer, "w") as target:
        for name in source.namelist():
            content = source.read(name)
            target.writestr(name, change(name, content) or content)
    return buffer


def pickled(thing):
    buffer = io.BytesIO()
    torch.save(thing, buffer)
    return buffer.getvalue()


def with_json(ending, change):
    def of(name, content):
        if not name.endswith(ending):
            return None
        part = json.loads(content)
        change(part)
        return json.dumps(part).encode()

    return of


def set_expression(part):
    sizes = part["graph_module"]["graph"]["tensor_values"]["x"]["sizes"]
    sizes[0]["as_expr"]["expr_str"] = "__import__('os').getcwd()"


def set_hidden_expression(part):
    sizes = part["graph_module"]["graph"]["tensor_values"]["x"]["sizes"]
    sizes[0]["as_expr"]["expr_str"] = "Mul('exec(chr(49))', 2)"


def set_target(part):
    part["graph_module"]["graph"]["nodes"][0]["target"] = "torch.hub.load"


def set_use_pickle(part):
    next(iter(part["config"].values()))["use_pickle"] = True


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda name, _: pickled(Evil()) if "sample_inputs" in name else None, "a pickle of more than tensors"),
        (with_json("weights_config.json", set_use_pickle), "points to a pickle"),
        (with_json("models/model.json", set_expression), "more than arithmetic"),
        (with_json("models/model.json", set_hidden_expression), "more than arithmetic"),
        (with_json("models/model.json", set_target), "calls torch.hub.load"),
        (lambda name, _: b"{" if name.endswith("models/model.json") else None, "is no JSON"),
    ],
)
def test_a_program_that_could_run_code_is_refused(program, tmp_path, change, sentence):
    file = tmp_path / "evil.pt2"
    file.write_bytes(tampered(program, change).getvalue())
    with pytest.raises(ValueError, match=sentence):
        load_model(file)


@pytest.mark.parametrize(
    ("name", "sentence"),
    [("model/data/aotinductor/model/a.so", "compiled code"), ("MODEL/models/model.json", "two files of one name")],
)
def test_a_program_with_parts_too_many_is_refused(program, name, sentence):
    buffer = tampered(program, lambda *_: None)
    with zipfile.ZipFile(buffer) as archive:
        prefix = archive.namelist()[0].split("/")[0]
    with zipfile.ZipFile(buffer, "a") as archive:
        archive.writestr(name.replace("MODEL", prefix.upper()), b"{}")
    with pytest.raises(ValueError, match=sentence):
        check_program(buffer.getvalue(), "evil.pt2")


def test_the_untouched_program_is_accepted(program):
    check_program(program.read_bytes(), "model.pt2")


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({}, "holds weights only: add --model-class"),
        ({"model_class": "json"}, "names no class: write package.module:Class"),
        ({"model_class": "json:Nothing"}, "cannot be imported"),
        ({"model_class": "json:JSONDecoder"}, "expected a torch.nn.Module"),
        ({"model_class": "torch.nn:Linear", "arguments": "{"}, "is no JSON"),
        ({"model_class": "torch.nn:Linear", "arguments": "[1]"}, "is no JSON object"),
        (
            {"model_class": "torch.nn:Linear", "arguments": '{"in_features": 2, "out_features": 2}'},
            "holds no weights of",
        ),
    ],
)
def test_weights_need_the_class_they_belong_to(model, tmp_path, given, sentence):
    save_file(model.state_dict(), tmp_path / "w.safetensors")
    with pytest.raises(ValueError, match=sentence):
        load_model(tmp_path / "w.safetensors", **given)


def test_broken_files_are_refused(tmp_path, program):
    with pytest.raises(ValueError, match="is no file"):
        load_model(tmp_path / "nowhere.pt2")
    (tmp_path / "cut.pt2").write_bytes(program.read_bytes()[:500])
    with pytest.raises(ValueError, match="no exported program"):
        load_model(tmp_path / "cut.pt2")
