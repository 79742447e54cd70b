"""Who may come in: names, origins, tokens, sizes; and data that cannot leave their script element."""

import json
from types import SimpleNamespace
from urllib.parse import quote

import pytest

from explorer_subjects import served, table_source
from leastpath.explorer import safety, server as server_module
from leastpath.explorer.safety import MOST_WORDS, Gate, in_script
from leastpath.explorer.server import application
from leastpath.explorer.session import Session

HOSTS = [
    "evil.example", "localhost.evil.example", "10.0.0.1", "", "127.0.0.1.nip.io:80", "127.0.0.1:8801@evil.example",
    "[::1].evil.example", "[::1]:80:90", "127.0.0.1:", "localhost/evil.example", "[::1", "127.0.0.1:99x",
]  # fmt: skip


@pytest.fixture
def client():
    with served(Session(table_source())) as made:
        yield made


@pytest.mark.parametrize("host", ["127.0.0.1:9", "localhost", "LOCALHOST:80", "[::1]:80"])
def test_names_of_this_machine_are_known(client, host):
    assert client.get("/api/state", headers={"host": host}).status_code == 200


@pytest.mark.parametrize("host", HOSTS)
def test_other_names_are_refused(client, host):
    answer = client.get("/api/state", headers={"host": host})
    assert answer.status_code == 403
    assert "name" in answer.json()["error"]


@pytest.mark.parametrize(
    "origin", ["http://evil.example", "null", "http://127.0.0.1:81", "file://", "http://localhost", "http://["]
)
def test_other_origins_are_refused_for_every_address(client, origin):
    for answer in (
        client.get("/api/state", headers={"origin": origin}),
        client.post("/api/choose", json={}, headers={"origin": origin}),
        client.get("/", headers={"origin": origin}),
    ):
        assert answer.status_code == 403


def test_the_pages_own_origin_is_fine(client):
    headers = {"host": "127.0.0.1:80", "origin": "http://127.0.0.1:80"}
    assert client.post("/api/choose", json={}, headers=headers).status_code == 200


def test_other_sites_cannot_post_without_an_origin(client):
    headers = {"sec-fetch-site": "cross-site"}
    assert client.post("/api/choose", json={}, headers=headers).status_code == 403


def test_a_host_needs_its_token_in_every_address():
    from starlette.testclient import TestClient

    session, gate = Session(table_source()), Gate.of("0.0.0.0")
    app = application(session, gate)
    assert len(gate.token) >= 24 and gate.root == f"/{gate.token}"
    visitor = TestClient(app, base_url="http://10.1.2.3:80", follow_redirects=False)
    for path in ("/", "/api/state", f"/?token={gate.token}", f"/{gate.token}", "/wrong/", f"{gate.root}x/", "/é/"):
        assert visitor.get(path).status_code == 401
    assert visitor.get(f"{gate.root}/").status_code == 200
    welcome = visitor.get(f"{gate.root}/api/state")
    assert welcome.json()["kind"] == "table"
    # A cookie would go to every other port of the host, and two explorers there would log each other out.
    assert "set-cookie" not in welcome.headers and not visitor.cookies
    assert visitor.get(f"{gate.root}/api/state", headers={"host": "evil.example"}).status_code == 403
    session.close()


def test_a_named_host_is_known_by_its_name():
    gate = Gate.of("server.example")
    assert gate.knows("server.example:8000")
    assert not gate.knows("10.0.0.1")


def test_the_page_may_load_nothing_from_elsewhere(client):
    for address in ("/", "/api/state", "/nothing", "/style.css"):
        policy = client.get(address).headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "script-src 'self';" in policy
        assert "http:" not in policy.partition("frame-ancestors")[0]
    assert client.get("/").headers["x-content-type-options"] == "nosniff"
    assert "access-control-allow-origin" not in client.get("/api/state").headers


def test_no_error_sends_back_what_was_sent(client):
    """Oracle: the length of the answer, whatever the length of the question."""
    long = "x" * 200_000
    for wanted in ({"method": long}, {"method": [long]}, {"about": {"output": long}}, {"about": {long: 1}}, long):
        answer = client.post("/api/explain", json=wanted)
        assert answer.status_code == 400 and len(answer.json()["error"]) <= MOST_WORDS + 2
    assert len(client.get(f"/api/results/{long[:60_000]}").content) < 1000


def test_a_body_that_does_not_come_is_not_waited_for(monkeypatch):
    import asyncio

    monkeypatch.setattr(safety, "BODY_SECONDS", 0.05)

    async def slow():
        yield b"{"
        await asyncio.sleep(30)

    request = SimpleNamespace(headers={}, stream=slow)
    with pytest.raises(safety.Refused, match="took longer than") as refused:
        asyncio.run(safety.read_body(request, 100))
    assert refused.value.status == 408


def test_too_large_requests_are_refused(client, monkeypatch):
    monkeypatch.setattr(server_module, "MOST_BYTES", 100)
    answer = client.post("/api/upload?name=a.csv", content=b"x" * 101)
    assert answer.status_code == 413
    assert "larger" in answer.json()["error"]
    monkeypatch.setattr(server_module, "MOST_JSON", 100)
    assert client.post("/api/choose", content=iter([b"x" * 60, b"x" * 60])).status_code == 413  # without a length


@pytest.mark.parametrize(
    "name",
    [
        "../safety.py",
        "x" * 256,
        "app/" + "y" * 5000,
        "\0",
        "..%2fsafety.py",
        "app/../../safety.py",
        "/etc/passwd",
        "a\\..\\b",
    ],
)
def test_no_address_leads_out_of_the_page(client, name):
    answer = client.get(f"/{quote(name, safe='/%')}")
    assert answer.status_code == 404
    assert "leastpath/explorer" not in answer.text  # no path of this machine


def test_data_cannot_end_their_script():
    names = {"name": "</script><script>alert(1)</script>", "b": "<!-- &\u2028"}
    text = in_script(json.dumps(names, ensure_ascii=False))
    assert not set("<>&\u2028") & set(text)
    assert json.loads(text) == names
