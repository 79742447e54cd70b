"""leastpath explore: pictures, folders, rows, texts and saved results from the command line."""

import numpy as np
import pandas as pd
import pytest
import torch
from PIL import Image
from safetensors.torch import save_file
from torch import nn

import leastpath as lp
from explorer_subjects import finished, session_over, text_parts
from leastpath.commands import explore
from leastpath.commands.options import ExploreOptions


def run_explore(*inputs, **more):
    explore.run_explore(ExploreOptions(inputs=list(inputs), **more))


def source_of(*inputs, **more):
    return explore.source_of(ExploreOptions(inputs=list(inputs), **more))


class RowNet(nn.Sequential):
    def __init__(self):
        super().__init__(nn.Linear(4, 3), nn.Tanh(), nn.Linear(3, 2))


def picture_model():
    torch.manual_seed(0)
    return nn.Sequential(nn.AvgPool2d(4), nn.Flatten(), nn.Linear(48, 3)).eval()


@pytest.fixture
def opened(monkeypatch):
    """What the command would serve: its session and where."""
    seen = {}

    class Told:
        url = "http://here/"

        def __init__(self, session, host, port):
            seen.update(session=session, host=host, port=port)

        def open(self):
            seen["opened"] = True

        def wait(self):
            seen["session"].close()

    monkeypatch.setattr(explore, "Explorer", Told)
    return seen


@pytest.fixture
def here(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    nets = {"nets:pictures": picture_model, "nets:texts": text_parts}
    monkeypatch.setattr("leastpath.commands.model_files.import_by_name", nets.__getitem__)
    (tmp_path / "photos").mkdir()
    for name in ("b.png", "a.jpg"):
        Image.fromarray(np.zeros((20, 30, 3), np.uint8)).save(tmp_path / "photos" / name)
    (tmp_path / "photos" / "note.txt").write_text("no picture")
    frame = pd.DataFrame({"id": range(6), "age": [1.0, 2, 3, 4, 5, None], "job": list("xyzxyz")})
    frame.to_csv(tmp_path / "table.csv", index=False)
    return tmp_path


def test_a_folder_of_pictures(here, opened, capsys):
    run_explore(here / "photos", factory="nets:pictures", size=16, target=2, host="127.0.0.1", port=7)
    state = opened["session"].state()
    assert [sample["name"] for sample in state["samples"]] == ["a.jpg", "b.png"]
    assert (state["target"], opened["port"], opened["opened"]) == (2, 7, True)
    assert "http://here/" in capsys.readouterr().out
    assert "read_image" in opened["session"].code()


def assert_code_runs(source, method: str) -> None:
    """The code of the last sample gives the numbers that are shown."""
    with session_over(source) as session:
        about = {"sample": len(source.samples) - 1}
        found, space = session.finding(finished(session, method, **about)), {}
        exec(session.code(about), space)
        assert torch.allclose(space["result_1"].values, found.result.values, atol=1e-5)


def test_a_broken_picture_does_not_spoil_its_folder(here, capsys):
    (here / "photos" / "aa.png").write_bytes(b"no picture")
    source = source_of(here / "photos", factory="nets:pictures", size=16)
    assert source.samples == ["a.jpg", "b.png"]
    assert "Left out: " in capsys.readouterr().out
    assert_code_runs(source, "integrated_gradients")
    with pytest.raises(ValueError, match="cannot be read as a picture"):
        run_explore(here / "photos" / "aa.png", factory="nets:pictures", size=16)


def test_rows_of_a_table(here, opened):
    torch.manual_seed(0)
    save_file(RowNet().state_dict(), here / "net.safetensors")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("leastpath.commands.model_files.import_by_name", lambda name: RowNet)
        run_explore(
            here / "table.csv", model=here / "net.safetensors", model_class="nets:RowNet", row=[2, 0], drop=["id"],
            no_open=True,
        )  # fmt: skip
    state = opened["session"].state()
    assert [sample["name"] for sample in state["samples"]] == ["row 2", "row 0"]
    assert [feature["name"] for feature in state["features"]] == ["age", "job"]
    assert "opened" not in opened


@pytest.mark.parametrize("name", ["table.csv", "table.tsv", "TABLE.TSV.gz"])
@pytest.mark.parametrize("added", [False, True])
def test_the_code_of_a_table_reads_its_file_and_gives_the_same_numbers(here, monkeypatch, name, added):
    torch.manual_seed(0)
    save_file(RowNet().state_dict(), here / "net.safetensors")
    frame = pd.read_csv(here / "table.csv")
    frame.to_csv(here / name, index=False, sep="\t" if "tsv" in name.lower() else ",", compression="infer")
    (here / "more.csv").write_text("job,age\nz,9\ny,2.5\n")
    monkeypatch.setattr("leastpath.commands.model_files.import_by_name", lambda name: RowNet)
    net = {"model": here / "net.safetensors", "model_class": "nets:RowNet"}
    row = 5 if name == "table.tsv" else 2  # with an empty cell, or without
    source = source_of(here / name, row=[row], drop=["id"], **net)
    with session_over(source) as session:
        first = session.add("more.csv", (here / "more.csv").read_bytes())["sample"] if added else -1
        about = {"sample": first + 1}
        finding = session.finding(finished(session, "integrated_gradients", **about))
        space = {}
        exec(session.code(about), space)
        shown = finding.question.subject.by_feature(finding.result.values)[0]
        assert torch.allclose(space["subject"].by_feature(space["result_1"].values)[0], shown, atol=1e-5)


def test_texts(here, opened):
    run_explore(text=["a good films"], factory="nets:texts")
    assert opened["session"].state()["kind"] == "text"


def test_a_hugging_face_folder(here, opened):
    model, tokenizer = text_parts()
    model.save_pretrained(here / "hf")
    tokenizer.save_pretrained(here / "hf")
    run_explore(text=["bad film"], model=here / "hf")
    assert opened["session"].state()["classes"][0]["label"] in ("yes", "no")
    assert_code_runs(source_of(text=["bad film"], model=here / "hf"), "occlusion")


def test_a_saved_result(here, opened):
    result = lp.attribute(lp.Score(lambda x: x.prod(1)), torch.ones(1, 2), method=lp.StraightLine())
    run_explore(result.save(here / "result.safetensors"))
    assert opened["session"].state()["title"] == "result.safetensors"


def test_a_sample_when_nothing_is_given(here, opened, capsys):
    run_explore(sample="digits", methods="idgi, elastic_band")
    state = opened["session"].state()
    assert [method["name"] for method in state["methods"]] == ["idgi", "elastic_band"]
    assert "scikit-learn" in state["sentence"]
    assert "scikit-learn" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"inputs": ["table.csv"]}, "needs its model"),
        ({"inputs": ["photos"], "row": [1]}, "--row is for tables"),
        ({"inputs": ["table.csv"], "factory": "nets:pictures", "row": [6]}, "--row 6"),
        ({"inputs": ["table.csv"], "factory": "nets:pictures", "drop": ["x"]}, "--drop 'x'"),
        ({"inputs": ["nothing.csv"], "factory": "nets:pictures"}, "is not there"),
        ({"inputs": ["photos/note.txt"], "factory": "nets:pictures"}, "cannot be read"),
        ({"text": ["a"]}, "needs --model FOLDER"),
        ({"text": ["a"], "model": "photos"}, "Hugging Face"),
        ({"text": ["a"], "inputs": ["photos"]}, "together"),
        ({"text": ["a"], "factory": "nets:pictures"}, "must make"),
        ({"inputs": ["photos"], "model": "table.csv", "factory": "y"}, "one of the two"),
        ({"sample": "nothing"}, "no sample"),
    ],
)
def test_mistakes_are_sentences(here, opened, given, words):
    given = dict(given)
    if "inputs" in given:
        given["inputs"] = [here / name for name in given["inputs"]]
    if "model" in given:
        given["model"] = here / given["model"]
    with pytest.raises(ValueError, match=words):
        run_explore(*given.pop("inputs", []), **given)


def test_a_prompt_and_its_model(opened, tmp_path):
    pytest.importorskip("transformers")
    from leastpath.language.toy import toy_model

    for part in toy_model():
        part.save_pretrained(tmp_path / "model")
    run_explore(prompt="the capital of France is", model_dir=tmp_path / "model", continuation="Paris", contrast="Rome")
    session = opened["session"]
    assert session.state()["about"]["contrast"] == "Rome"
    space = {}
    exec(session.code(), space)
    assert space["explained"].answer.split() == ["Paris", "rather", "than", "Rome"]
    (tmp_path / "file").write_text("")
    for wrong in ({"prompt": "a"}, {"model_dir": tmp_path}, {"prompt": "a", "model_dir": tmp_path / "file"}):
        with pytest.raises(ValueError, match="--model-dir"):
            run_explore(**wrong)
