"""Saved results: every kind is shown, examples can be chosen, and nothing else."""

import pytest
import torch

import leastpath as lp
from explorer_subjects import picture_net
from leastpath.explorer.arrays import as_json, unpack
from leastpath.explorer.export import bundle_of
from leastpath.explorer.saved import SavedSession
from leastpath.explorer.tasks import Unknown


@pytest.fixture
def images():
    score = lp.Score(picture_net(), 1, "softmax")
    return lp.attribute(score, torch.rand(2, 3, 12, 10), method=lp.StraightLine(), support=True)


def test_pictures_are_shown_one_by_one(images, tmp_path):
    session = SavedSession(lp.load(images.save(tmp_path / "a.safetensors")), "a.safetensors")
    for b in range(2):
        state = session.choose({"sample": b})
        shown = session.result(state["results"][0])
        assert torch.equal(unpack(shown["values"]), images.values[b])
        assert shown["status"] == images.status[b].value
        assert shown["evidence"][0]["value"] == pytest.approx(float(images.support[b]))
        assert shown["headline"].split(":")[0].lower() == images.status[b].outcomes[0].value
        frames = unpack(shown["walk"]["frames"])
        assert torch.equal(frames[-1], unpack(state["input"]))
        assert not frames[0].any()  # black
    as_json(bundle_of(session))
    assert "lp.load('a.safetensors')" in session.code()


def test_rows_tokens_and_results_without_path_are_shown():
    rows = lp.methods.METHODS["random"](lp.Score(lambda x: x.prod(1)), torch.ones(1, 3))
    assert SavedSession(rows).state()["kind"] == "table"
    model = torch.nn.Sequential(torch.nn.Embedding(5, 3), torch.nn.Flatten(), torch.nn.Linear(6, 1)).eval()
    tokens = lp.attribute(
        lp.Score(model, layer=model[0]), torch.tensor([[1, 2]]), method=lp.StraightLine(), support=False
    )
    session = SavedSession(tokens)
    assert session.state()["kind"] == "text"
    assert unpack(session.result("saved-0")["walk"]["frames"])[20].tolist() == pytest.approx([0.5, 0.5])
    assert SavedSession(rows).result("saved-0")["walk"] is None


def test_what_needs_a_model_is_refused(images):
    session = SavedSession(images)
    for refused in (
        lambda: session.choose({"target": 1}),
        lambda: session.choose({"sample": 5}),
        lambda: session.start("idgi"),
        lambda: session.remove({}, "mean"),
        lambda: session.add("a", b"b"),
    ):
        with pytest.raises(ValueError, match="saved result without its model"):
            refused()
    with pytest.raises(Unknown):
        session.stop("x")


def test_several_inputs_are_refused():
    result = lp.attribute(
        lp.Score(lambda a, b: (a * b).sum(1)), (torch.ones(1, 2), torch.ones(1, 2)), method=lp.StraightLine()
    )
    with pytest.raises(ValueError, match="several inputs"):
        SavedSession(result)
