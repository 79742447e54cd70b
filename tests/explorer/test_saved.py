"""Saved results: every kind is shown, examples can be chosen, and nothing else."""

from dataclasses import replace

import pytest
import torch

import leastpath as lp
from explorer_subjects import finished, picture_net, served, session_over, table_source
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
        state = session.choose({"change": {"sample": b}})
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
        lambda: session.choose({"change": {"target": 1}}),
        lambda: session.state({"sample": 5}),
        lambda: session.start({"method": "idgi"}),
        lambda: session.answers["remove"]({}),
        lambda: session.add("a", b"b"),
    ):
        with pytest.raises(ValueError, match="saved result without its model"):
            refused()
    with pytest.raises(Unknown):
        session.stop("x")


def page_of(**wrong) -> dict:
    """What the page of a session keeps, with a part of it spoilt."""
    with session_over(table_source()) as session:
        key = finished(session, "integrated_gradients")
        page = {"state": session.state(), "result": session.result(key)}
    for name, (key, value) in wrong.items():
        page[name] = {k: v for k, v in page[name].items() if k != key} | ({} if value is None else {key: value})
    return page


@pytest.mark.parametrize(
    "page",
    [
        {}, [], "page", {"state": 3, "result": []}, {"state": {}, "result": {}}, {"state": {"kind": "image"}},
        {"state": ("title", None)}, {"state": ("kind", "film")}, {"state": ("samples", 3)}, {"result": ("key", None)},
        {"result": ("values", {})}, {"result": ("values", 3.0)}, {"result": ("curves", [])},
    ],
)  # fmt: skip
def test_crafted_pages_are_refused_with_a_sentence(images, page):
    if isinstance(page, dict) and any(isinstance(part, tuple) for part in page.values()):
        page = page_of(**page)
    with pytest.raises(ValueError, match=r"a\.safetensors cannot be read as a saved result"):
        SavedSession(replace(images, stats={"explorer": page}), "a.safetensors")


@pytest.mark.parametrize(
    "wrong", [{"values": torch.zeros(2)}, {"values": torch.zeros(())}, {"values": torch.zeros(0, 3)}, {"status": ()}]
)
def test_crafted_results_are_a_sentence_and_never_an_error_of_the_server(images, wrong):
    try:
        session = SavedSession(replace(images, **wrong), "a.safetensors")
    except ValueError as error:
        assert "a.safetensors" in str(error)
        return
    with served(session) as client:
        for key in client.get("/api/state").json()["results"]:
            assert client.get(f"/api/results/{key}").status_code in (200, 400)


def test_several_inputs_are_refused():
    result = lp.attribute(
        lp.Score(lambda a, b: (a * b).sum(1)), (torch.ones(1, 2), torch.ones(1, 2)), method=lp.StraightLine()
    )
    with pytest.raises(ValueError, match="several inputs"):
        SavedSession(result)
