"""The server as the page meets it: state, work, results, removal, export; errors are sentences."""

import json
import urllib.request

import pytest
import torch

import leastpath as lp
from explorer_subjects import asked, picture_source, served, table_source, text_source
from leastpath.explorer.arrays import pack, unpack
from leastpath.explorer.server import Explorer
from leastpath.explorer.session import Session, session_of
from leastpath.explorer.sources.tensors import TensorSource

STATE = {
    "kind", "title", "sentence", "version", "offline", "samples", "sample", "shape", "input", "features", "channels",
    "classes", "target", "outputs", "output", "baselines", "baseline", "methods", "fills", "rank", "units", "score",
    "baseline_score", "results",
}  # fmt: skip
RESULT = {
    "key", "method", "label", "stiffness", "stopped", "headline", "trusted", "status", "evidence", "values", "units",
    "order", "walk", "sentence_walk", "curves", "tested",
}  # fmt: skip


@pytest.mark.parametrize("source", [picture_source, table_source, text_source])
def test_a_visit(source):
    with served(Session(source())) as client:
        state = client.get("/api/state").json()
        assert set(state) == STATE
        result = asked(client, "elastic_band", stiffness=2.0)
        assert set(result) == RESULT
        assert result["stiffness"] == 2.0
        assert client.get("/api/state").json()["results"] == [result["key"]]
        shape = state["shape"][1:] if state["kind"] == "image" else state["shape"]
        nothing = client.post("/api/remove", json={"removed": pack(torch.zeros(*shape, dtype=torch.uint8))}).json()
        assert nothing["score"] == pytest.approx(state["score"], abs=1e-5)
        assert "lp" in client.get("/api/code").json()["code"]
        export = client.get("/api/export.json")
        assert "attachment" in export.headers["content-disposition"]
        assert list(export.json()["results"]) == [result["key"]]


def test_any_number_of_channels():
    with served(Session(picture_source(channels=5))) as client:
        state = client.get("/api/state").json()
        assert state["channels"] == [f"channel {i}" for i in range(5)]
        assert unpack(state["input"]).shape == (12, 10, 3)
        assert unpack(asked(client, "integrated_gradients")["values"]).shape == (5, 12, 10)


def test_a_kept_result_is_loaded_with_its_walk(tmp_path):
    with served(Session(picture_source())) as client:
        shown = asked(client, "integrated_gradients")
        (tmp_path / "a.safetensors").write_bytes(client.get(f"/api/results/{shown['key']}.safetensors").content)
    result = lp.load(tmp_path / "a.safetensors")
    assert torch.equal(result.values[0], unpack(shown["values"]))
    with served(session_of(result)) as client:
        state = client.get("/api/state").json()
        assert state["offline"]
        assert client.get(f"/api/results/{state['results'][0]}").json() == shown
        refused = client.post("/api/explain", json={"method": "idgi"})
        assert (refused.status_code, "saved" in refused.json()["error"]) == (400, True)


@pytest.mark.parametrize(
    ("address", "content", "status"),
    [
        ("/api/choose", b"{", 400), ("/api/choose", b"[]", 400), ("/api/choose", b'{"sample": 99}', 400),
        ("/api/explain", b'{"method": "magic"}', 400), ("/api/explain", b'{"method": ["a"]}', 400),
        ("/api/remove", b'{"removed": 3}', 400), ("/api/remove", b'{"fill": []}', 400),
        ("/api/remove", b"[" * 100_000, 400),
        ("/api/upload?name=a.png", b"junk", 400), ("/api/tasks/none/stop", b"", 404),
    ],
)  # fmt: skip
def test_mistakes_are_sentences(address, content, status):
    with served(Session(picture_source())) as client:
        answer = client.post(address, content=content)
        assert answer.status_code == status
        assert "\n" not in answer.json()["error"]


def test_a_model_that_fails_is_a_sentence():
    def model(x):
        if len(x) > 5:
            raise RuntimeError("too many rows for me\nmore")
        return x.sum(1)

    with served(Session(TensorSource(lp.Score(model), torch.ones(1, 3)))) as client:
        task = client.post("/api/explain", json={"method": "integrated_gradients"}).json()["task"]
        while (status := client.get(f"/api/tasks/{task}").json())["state"] == "running":
            pass
        assert (status["state"], status["sentence"]) == ("failed", "too many rows for me")
        assert client.get("/api/state").status_code == 200


def test_the_page_and_its_files_are_served():
    with served(Session(table_source())) as client:
        assert client.get("/").headers["content-type"].startswith("text/html")
        assert client.get("/style.css").headers["content-type"].startswith("text/css")
        assert client.get("/nothing.js").status_code == 404
        pytest.importorskip("plotly")
        assert "Plotly" in client.get("/plotly.js").text[:100_000]


def test_an_explorer_listens_and_closes():
    with Explorer(Session(table_source())) as explorer:
        assert explorer.url.startswith("http://127.0.0.1:")
        with urllib.request.urlopen(f"{explorer.url}api/state", timeout=20) as answer:
            assert json.load(answer)["kind"] == "table"
        assert "iframe" in explorer._repr_html_()
        port = int(explorer.url.rstrip("/").rpartition(":")[2])
        other = Session(table_source())
        with pytest.raises(ValueError, match="cannot listen"):
            Explorer(other, port=-1)
        other.close()
    with pytest.raises(OSError):
        urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=2)


def test_explore_from_python():
    with lp.explore(lp.Score(lambda x: x.prod(1)), torch.ones(1, 2), names=["a", "b"], open=False) as explorer:
        assert explorer.session.state()["features"][0]["name"] == "a"
