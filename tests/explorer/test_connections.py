"""Connections that say nothing: they end, in time and number, and the page goes on answering."""

import socket
import time
import urllib.request

import pytest

pytest.importorskip("uvicorn")

from explorer_subjects import table_source
from leastpath.explorer import connections
from leastpath.explorer.safety import HEADERS
from leastpath.explorer.server import Explorer
from leastpath.explorer.session import Session


@pytest.fixture
def explorer():
    with Explorer(Session(table_source())) as running:
        yield running


@pytest.fixture
def opened(explorer):
    """Connections that have said something, and end with the test."""
    made = []

    def connect(text: bytes = b"GET / HT") -> socket.socket:
        port = int(explorer.url.rstrip("/").rpartition(":")[2])
        made.append(socket.create_connection(("127.0.0.1", port), timeout=20))
        made[-1].sendall(text)
        return made[-1]

    yield connect
    for connection in made:
        connection.close()


def answers(explorer) -> bool:
    with urllib.request.urlopen(f"{explorer.url}style.css", timeout=20) as answer:
        return answer.status == 200


def is_closed(connection: socket.socket) -> bool:
    try:
        return connection.recv(1) == b""
    except ConnectionResetError:
        return True


def test_a_header_that_does_not_come_is_not_waited_for(explorer, opened, monkeypatch):
    monkeypatch.setattr(connections, "HEADER_SECONDS", 0.3)
    silent, slow = opened(b""), opened()
    began = time.monotonic()
    for _ in range(3):
        time.sleep(0.05)
        slow.sendall(b"x")  # a byte now and then is not enough
    assert is_closed(silent) and is_closed(slow)
    assert time.monotonic() - began < 15
    assert answers(explorer)


def test_a_connection_that_was_used_is_watched_again(explorer, opened, monkeypatch):
    monkeypatch.setattr(connections, "HEADER_SECONDS", 0.3)
    used = opened(b"GET /style.css HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
    assert used.recv(1_000_000).startswith(b"HTTP/1.1 200")
    used.sendall(b"GET / HT")
    while used.recv(1_000_000):  # the rest of the answer, and then the end
        pass


def test_more_connections_than_are_meant_end_the_oldest(explorer, opened, monkeypatch, capfd):
    monkeypatch.setattr(connections, "MOST_CONNECTIONS", 8)
    held = [opened() for _ in range(60)]
    assert answers(explorer)
    assert is_closed(held[0])
    explorer.close()
    assert capfd.readouterr().err == ""  # no traceback


@pytest.mark.parametrize(
    "request_", [b"\0\0\0\r\n\r\n", b"GET / HTTP/1.1\r\nHost: a b\r\nx\r\n\r\n", b"x" * 70_000 + b"\r\n"]
)
def test_what_is_no_request_gets_the_headers_too(opened, request_):
    """Oracle: the headers that every answer of the application has."""
    connection = opened(request_)
    answer = b"".join(iter(lambda: connection.recv(65536), b"")).decode()
    assert answer.startswith("HTTP/1.1 400")
    for name, value in HEADERS.items():
        assert f"{name}: {value}" in answer
