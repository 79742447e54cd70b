"""Models from files: what is saved is what is loaded, and a program is opened only if it is trusted."""

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
from leastpath.commands.model_files import load_model


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
        return program, {"trust": True}
    if kind == "script":
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # TorchScript is deprecated; files of it are around
            torch.jit.script(model).save(str(folder / "model.pt"))
        return folder / "model.pt", {"trust": True}
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
    expected, found = (lp.attribute(lp.Score(m, 1), inputs, method=lp.StraightLine()).values for m in (model, loaded))
    torch.testing.assert_close(found, expected)


class Evil:
    def __reduce__(self):
        return exec, ("raise SystemExit('ran code')",)


@pytest.mark.parametrize("name", ["model.pt", "model.pth", "model.pt2", "model.bin"])
@pytest.mark.parametrize("content", ["torch", "pickle"])
def test_a_pickled_model_is_refused_unopened(tmp_path, name, content):
    file = tmp_path / name
    torch.save(Evil(), file) if content == "torch" else file.write_bytes(pickle.dumps(Evil()))
    with pytest.raises(ValueError, match="can run any code when it is opened"):
        load_model(file)


@pytest.mark.parametrize("kind", ["export", "script"])
def test_a_program_is_opened_only_where_its_source_is_trusted(model, program, tmp_path, kind):
    file, _ = saved(model, program, kind, tmp_path)
    with pytest.raises(ValueError, match="can run any code when it is opened: add --trust-model"):
        load_model(file)


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({}, "holds weights only: add --model-class"),
        ({"model_class": "json"}, "--model-class 'json' is not an import path"),
        ({"model_class": "json:Nothing"}, "cannot be imported"),
        ({"model_class": "json:JSONDecoder"}, "expected a torch.nn.Module"),
        ({"model_class": "torch.nn:Linear", "arguments": "{"}, "is not JSON"),
        ({"model_class": "torch.nn:Linear", "arguments": "[1]"}, "is not a JSON object"),
        (
            {"model_class": "torch.nn:Linear", "arguments": '{"in_features": 2, "out_features": 2}'},
            "do not fit torch.nn:Linear",
        ),
    ],
)
def test_weights_need_the_class_they_belong_to(model, tmp_path, given, sentence):
    save_file(model.state_dict(), tmp_path / "w.safetensors")
    with pytest.raises(ValueError, match=sentence):
        load_model(tmp_path / "w.safetensors", **given)


def test_broken_files_are_refused(tmp_path, program):
    with pytest.raises(ValueError, match="is not a file"):
        load_model(tmp_path / "nowhere.pt2")
    (tmp_path / "cut.pt2").write_bytes(program.read_bytes()[:500])
    with pytest.raises(ValueError, match="cannot be read as an exported program"):
        load_model(tmp_path / "cut.pt2", trust=True)


@pytest.mark.parametrize("name", ["model.pt2", "model.pt", "weights.pth"])
def test_an_archive_that_would_fill_the_memory_is_refused(tmp_path, name, monkeypatch):
    monkeypatch.setattr("leastpath._support.files.ALWAYS_ALLOWED", 2**16)
    with zipfile.ZipFile(tmp_path / name, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("archive/constants.pkl", bytes(2**22))
    for more in ({"trust": True}, {"model_class": "torch.nn:Identity"}):
        with pytest.raises(ValueError, match="would unpack to 4,194,304, which looks like an attack"):
            load_model(tmp_path / name, **more)


def test_a_pickle_is_refused_even_where_its_source_is_trusted(tmp_path):
    torch.save(Evil(), tmp_path / "model.pt")
    with pytest.raises(ValueError, match="can run any code when it is opened"):
        load_model(tmp_path / "model.pt", trust=True)
    with pytest.raises(ValueError, match="holds more than tensors"):
        load_model(tmp_path / "model.pt", "torch.nn:Identity")


def test_saved_weights_without_their_class_are_told_so(tmp_path):
    torch.save(nn.Linear(2, 2).state_dict(), tmp_path / "weights.pth")
    with pytest.raises(ValueError, match=r"weights.pth holds weights only: add --model-class package.module:Class"):
        load_model(tmp_path / "weights.pth")
