"""Who may come in: names, origins, tokens, sizes; and data that cannot leave their script element."""

import json

import pytest

from explorer_subjects import served, table_source
from leastpath.explorer import server as server_module
from leastpath.explorer.safety import COOKIE, Gate, in_script
from leastpath.explorer.server import application
from leastpath.explorer.session import Session


@pytest.fixture
def client():
    with served(Session(table_source())) as made:
        yield made


@pytest.mark.parametrize("host", ["127.0.0.1:9", "localhost", "LOCALHOST:80", "[::1]:80"])
def test_names_of_this_machine_are_known(client, host):
    assert client.get("/api/state", headers={"host": host}).status_code == 200


@pytest.mark.parametrize("host", ["evil.example", "localhost.evil.example", "10.0.0.1", "", "127.0.0.1.nip.io:80"])
def test_other_names_are_refused(client, host):
    answer = client.get("/api/state", headers={"host": host})
    assert answer.status_code == 403
    assert "name" in answer.json()["error"]


@pytest.mark.parametrize(
    "origin", ["http://evil.example", "null", "http://127.0.0.1:81", "file://", "http://localhost"]
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


def test_a_host_needs_its_token():
    from starlette.testclient import TestClient

    session, gate = Session(table_source()), Gate.of("0.0.0.0")
    app = application(session, gate)
    assert len(gate.token) >= 24
    visitor = TestClient(app, base_url="http://10.1.2.3:80", follow_redirects=False)
    assert visitor.get("/").status_code == 401
    assert visitor.get("/?token=wrong").status_code == 401
    assert visitor.get("/api/state", headers={"cookie": f"{COOKIE}=wrong"}).status_code == 401
    welcome = visitor.get(f"/?token={gate.token}")
    assert (welcome.status_code, welcome.headers["location"]) == (303, "/")
    assert {"HttpOnly", "SameSite=Strict"} <= set(welcome.headers["set-cookie"].split("; "))
    assert visitor.get("/api/state").status_code == 200  # with the cookie
    assert visitor.get("/api/state", headers={"host": "evil.example"}).status_code == 403
    assert TestClient(app, base_url="http://10.1.2.3:80").get("/api/state").status_code == 401
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


def test_too_large_requests_are_refused(client, monkeypatch):
    monkeypatch.setattr(server_module, "MOST_BYTES", 100)
    answer = client.post("/api/upload?name=a.csv", content=b"x" * 101)
    assert answer.status_code == 413
    assert "larger" in answer.json()["error"]
    monkeypatch.setattr(server_module, "MOST_JSON", 100)
    assert client.post("/api/choose", content=iter([b"x" * 60, b"x" * 60])).status_code == 413  # without a length


@pytest.mark.parametrize("name", ["../safety.py", "..%2fsafety.py", "app/../../safety.py", "/etc/passwd", "a\\..\\b"])
def test_no_address_leads_out_of_the_page(client, name):
    assert client.get(f"/{name}").status_code == 404


def test_data_cannot_end_their_script():
    names = {"name": "</script><script>alert(1)</script>", "b": "<!-- &\u2028"}
    text = in_script(json.dumps(names, ensure_ascii=False))
    assert not set("<>&\u2028") & set(text)
    assert json.loads(text) == names
