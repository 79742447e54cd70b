"""The server as the page meets it: state, work, results, removal, export; errors are sentences."""

import html
import json
import signal
import subprocess
import sys
import time
import urllib.request

import pytest
import torch

import leastpath as lp
from explorer_subjects import asked, picture_source, served, table_source, text_source
from leastpath.explorer import server
from leastpath.explorer.arrays import pack, unpack
from leastpath.explorer.server import Explorer
from leastpath.explorer.session import Session, session_of
from leastpath.explorer.sources.tensors import TensorSource

STATE = {
    "kind", "title", "sentence", "version", "offline", "samples", "sample", "shape", "input", "features", "channels",
    "classes", "target", "outputs", "output", "baselines", "baseline", "methods", "fills", "rank", "units", "score",
    "baseline_score", "results", "about", "opening",
}  # fmt: skip
RESULT = {
    "key", "method", "label", "stiffness", "stopped", "headline", "trusted", "status", "evidence", "values", "units",
    "order", "walk", "sentence_walk", "curves", "tested", "verdicts",
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
        ("/api/choose", b"{", 400), ("/api/choose", b"[]", 400), ("/api/choose", b'{"change": {"sample": 99}}', 400),
        ("/api/choose", b'{"about": []}', 400),
        ("/api/explain", b'{"method": "magic"}', 400), ("/api/explain", b'{"method": ["a"]}', 400),
        ("/api/remove", b'{"removed": 3}', 400), ("/api/remove", b'{"fill": []}', 400),
        ("/api/remove", b"[" * 100_000, 400),
        ("/api/remove", b'{"removed": {"dtype": [], "shape": [1], "data": ""}}', 400),
        ("/api/remove", b'{"removed": {"dtype": {}, "shape": [1], "data": ""}}', 400),
        ("/api/remove", b'{"removed": {"dtype": "uint16", "shape": [12, 10], "data": ""}}', 400),
        ("/api/upload?name=a.png&about=[]", b"junk", 400), ("/api/upload?name=a.png", b"junk", 400),
        ("/api/tasks/none/stop", b"", 404),
    ],
)  # fmt: skip
def test_mistakes_are_sentences(address, content, status):
    with served(Session(picture_source())) as client:
        answer = client.post(address, content=content)
        assert answer.status_code == status
        assert "\n" not in answer.json()["error"]


def test_two_tabs_do_not_mix():
    """Oracle: a session of its own for each of them."""
    with served(Session(picture_source())) as client:
        first, second = {"sample": 0}, {"sample": 1, "baseline": ["white"], "output": "log_softmax"}
        states = [client.post("/api/choose", json={"about": {}, "change": one}).json() for one in (first, second)]
        shown = [asked(client, "integrated_gradients", about=state["about"]) for state in reversed(states)][::-1]
        for about, state, result in zip((first, second), states, shown, strict=True):
            with served(Session(picture_source())) as alone:
                own = asked(alone, "integrated_gradients", about=about)
            assert (result["key"], result["values"]) == (own["key"], own["values"])
            exported = client.get("/api/export.json", params={"about": json.dumps(state["about"])}).json()
            assert exported["state"]["title"] == f"example {about['sample']}"
            assert list(exported["results"]) == [result["key"]]
            kept = client.get(f"/api/results/{result['key']}.safetensors").content
            assert f"example {about['sample']}".encode() in kept


@pytest.mark.parametrize(
    ("name", "content"),
    [("a.csv", b"job,age\ncook," + b"9" * 400), ("a.csv", b"job,age\ncook,inf"), ("a.csv", b"job,age\nking,50"),
     ("a.csv", b"job,age\ncook,\n"), ("a.csv", b"\xff\xfe"), ("a.csv", b"")],
)  # fmt: skip
def test_a_refused_row_is_a_sentence_and_leaves_nothing_behind(name, content):
    with served(Session(table_source())) as client:
        answer = client.post(f"/api/upload?name={name}", content=content)
        assert answer.status_code == 400 and answer.json()["error"]
        assert len(client.get("/api/state").json()["samples"]) == 3


def test_a_row_that_the_model_refuses_leaves_nothing_behind():
    source = table_source()
    inner = source._score.model.model

    def fails(x):
        if bool((x[:, 0] > 500).any()):
            raise RuntimeError("too old for me")
        return inner(x)

    source._score.model.model = fails
    with served(Session(source)) as client:
        answer = client.post("/api/upload?name=a.csv", content=b"job,age\ncook,30\ncook,9000")
        assert answer.status_code == 400 and "too old for me" in answer.json()["error"]
        assert len(client.get("/api/state").json()["samples"]) == 3


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


SLOW = """
import os, signal, threading, time, torch
import leastpath as lp
from leastpath.explorer.server import Explorer
from leastpath.explorer.session import session_of

signal.signal(signal.SIGINT, signal.default_int_handler)  # tests in a shell's background inherit that it is ignored

def model(x):
    if threading.current_thread().name == "leastpath explorer":
        os.write(1, b"working\\n")  # one write a line: print's two of one thread may enclose those of the other
        time.sleep(0.05)
    return x.prod(1)

explorer = Explorer(session_of(lp.Score(model), torch.ones(1, 2)))
explorer.session.start_first()
os.write(1, b"begun\\n")
explorer.wait()
print("ended")
"""


def test_ctrl_c_while_it_computes_is_quiet():
    """Oracle: standard error. An interrupted join took the server's thread for ended, and its socket was closed."""
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen([sys.executable, "-c", SLOW], **pipes) as child:
        try:
            awaited = {"begun\n", "working\n"}
            while awaited:
                awaited.discard(next(iter(child.stdout.readline, "")))
            time.sleep(1)  # until it waits
            child.send_signal(signal.SIGINT)
            said, errors = child.communicate(timeout=200)
        finally:
            child.kill()
    assert (child.returncode, errors, said.splitlines()[-1]) == (0, "", "ended")


def test_a_notebook_of_another_machine_shows_the_page_without_a_server(monkeypatch):
    pytest.importorskip("plotly")
    for name in server.ELSEWHERE:
        monkeypatch.delenv(name, raising=False)
    with Explorer(Session(table_source(), ["integrated_gradients"])) as explorer:
        assert explorer.url in explorer._repr_html_()
        monkeypatch.setenv("JUPYTERHUB_SERVICE_PREFIX", "/user/ann/")
        frame = explorer._repr_html_()
        assert "127.0.0.1" not in frame.partition("srcdoc=")[0] and explorer.url not in frame
        page = html.unescape(frame.partition('srcdoc="')[2].partition('" sandbox')[0])
        bundle = json.loads(page.partition('id="bundle">')[2].partition("</script>")[0])
        assert bundle["state"]["offline"] and list(bundle["results"]) == explorer.session.state()["results"] != []


def test_explore_from_python():
    with lp.explore(lp.Score(lambda x: x.prod(1)), torch.ones(1, 2), names=["a", "b"], open=False) as explorer:
        assert explorer.session.state()["features"][0]["name"] == "a"
