"""The code that reproduces what is shown does so when it is run."""

import io

import pytest
import torch

import leastpath as lp
from explorer_subjects import (
    finished,
    picture_net,
    picture_source,
    session_over,
    table_frame,
    table_source,
    text_parts,
    text_source,
)
from leastpath.commands.explore_samples import sample_source
from leastpath.explorer.sources.tensors import TensorSource


def run_and_compared(session, space: dict, **about) -> None:
    """Run the code, and compare every result with what the session found."""
    keys = session.state(about)["results"]
    assert keys
    exec(session.code(about), space)
    for number, key in enumerate(keys, 1):
        found, mine = session.finding(key).result, space[f"result_{number}"]
        assert torch.allclose(mine.values, found.values, atol=1e-5), key
        if not mine.support.isnan().any():
            assert torch.allclose(mine.support.double(), found.support.double(), atol=1e-4), key


def given_to(kind: str) -> dict:
    """What the first comment of the code leaves to the user."""
    if kind == "image":
        return {
            "score": lp.Score(picture_net()),
            "inputs": torch.cat([picture_source().subject(i).inputs for i in (0, 1)]),
        }
    if kind == "table":
        return {"model": table_source()._score.model.model, "frame": table_frame()[:3], "background": table_frame()}
    return dict(zip(("model", "tokenizer"), text_parts(), strict=True))


@pytest.mark.slow
@pytest.mark.parametrize("source", [picture_source, table_source, text_source])
def test_the_code_of_every_method_gives_the_same_numbers(source, capsys):
    with session_over(source()) as session:
        for name in session.methods:
            finished(session, name, 0.5 if name == "elastic_band" else None, sample=1)
        run_and_compared(session, given_to(session.state()["kind"]), sample=1)
        assert "Attribution" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("source", "starts"),
    [(picture_source, ["black", "blur"]), (table_source, ["mean", "samples"]), (text_source, ["pad", "zero"])],
)
def test_the_code_of_several_baselines_gives_the_same_numbers(source, starts):
    with session_over(source()) as session:
        about = {"baseline": starts, "output": "log_softmax"}
        for name in ("integrated_gradients", "elastic_band"):
            finished(session, name, **about)
        run_and_compared(session, given_to(session.state()["kind"]), **about)


def test_the_code_of_tokens_that_are_tensors_gives_the_same_numbers():
    model = torch.nn.Sequential(torch.nn.Embedding(9, 4), torch.nn.Flatten(), torch.nn.Linear(12, 2)).eval()
    given = {"score": lp.Score(model, layer=model[0]), "inputs": torch.tensor([[1, 2, 3], [4, 5, 6]])}
    with session_over(TensorSource(**given)) as session:
        for name in ("integrated_gradients", "elastic_band", "occlusion"):
            finished(session, name, sample=1)
        run_and_compared(session, dict(given), sample=1)


def test_the_code_of_a_sample_gives_the_same_numbers():
    with session_over(sample_source("table")[0]) as session:
        about = {"sample": 3, "baseline": ["median"]}
        for name in ("integrated_gradients", "occlusion"):
            finished(session, name, **about)
        run_and_compared(session, {}, **about)


def test_the_code_of_added_files_reads_them(tmp_path, monkeypatch):
    image = pytest.importorskip("PIL.Image")
    monkeypatch.chdir(tmp_path)
    file = io.BytesIO()
    image.new("RGB", (10, 12), "teal").save(file, "png")
    name = 'it\'s "mine".png'
    (tmp_path / name).write_bytes(file.getvalue())
    with session_over(picture_source()) as session:
        about = session.add(name, file.getvalue())["about"]
        finished(session, "integrated_gradients", **about)
        run_and_compared(session, given_to("image"), **about)
    with session_over(sample_source("digits")[0]) as session:  # its recipe makes a subject
        about = session.add(name, file.getvalue())["about"]
        finished(session, "integrated_gradients", **about)
        run_and_compared(session, {}, **about)
    rows = b"job,age\ncook,30\npilot,41\n"
    (tmp_path / "rows.csv").write_bytes(rows)
    with session_over(table_source()) as session:
        session.add("rows.csv", rows)
        about = {"sample": len(session.source.samples) - 1}
        finished(session, "integrated_gradients", **about)
        run_and_compared(session, given_to("table"), **about)
