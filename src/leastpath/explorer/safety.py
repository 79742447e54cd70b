"""Safety: who may talk to the explorer, and what the page may do. All of it is in this file.

- The server listens on this machine only, unless the user names a host. Then every address begins with a token. (A
  cookie would be sent to every other port of that host.)
- Every request's Host must be a name of this server, so that no web page can reach it under a name of its own (DNS
  rebinding). An Origin, where a browser sends one, must be this server's.
- What a request brings is limited in size before it is read, and so is the time that it takes and the length of what is
  said about it; `connections.py` limits their number.
- The page may load nothing from elsewhere and run no inline code. In an exported file, which has no server, all is
  inline; data in it cannot end their own script element.
"""

from __future__ import annotations

import asyncio
import hmac
import ipaddress
import re
import secrets
import socket
from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import dataclass, field
from typing import Any

from leastpath.explorer.arrays import as_json

Scope = MutableMapping[str, Any]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

LOOPBACK = ("127.0.0.1", "localhost", "::1")  # what only this machine can reach
MOST_JSON = 100_000_000  # bytes of a request that is not an upload: a mask over a large picture, in base64
MOST_WORDS = 600  # letters of an error: what was sent must not be sent back
BODY_SECONDS = 60.0  # that a request may take to arrive, behind its header
HOST = re.compile(r"(?:\[(?P<six>[0-9a-f:.]+)\]|(?P<name>[a-z0-9._-]+))(?::\d{1,5})?")
EMPTY_STYLE = "'sha256-47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU='"  # plotly fills an empty style element by script
POLICY = "; ".join(
    (
        "default-src 'none'", "script-src 'self'", f"style-src 'self' {EMPTY_STYLE}", "style-src-attr 'unsafe-inline'",
        "img-src 'self' data: blob:", "font-src 'self'", "connect-src 'self'", "base-uri 'none'",
        "form-action 'none'", "frame-ancestors 'self' http://localhost:* http://127.0.0.1:*",
    )
)  # fmt: skip
HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}


@dataclass(frozen=True)
class Gate:
    """Who may come in.

    Args:
        host: what the server listens on.
        token: that every address begins with; empty where none does.
    """

    host: str = "127.0.0.1"
    token: str = ""
    names: frozenset[str] = field(default_factory=frozenset)

    @classmethod
    def of(cls, host: str) -> Gate:
        """A gate for a host. It asks for a token unless the host is this machine alone."""
        token = "" if host in LOOPBACK else secrets.token_urlsafe(24)
        return cls(host, token, frozenset({*LOOPBACK, host.lower(), socket.gethostname().lower()}))

    @property
    def root(self) -> str:
        """What the path of every address begins with."""
        return f"/{self.token}" if self.token else ""

    def knows(self, host: str) -> bool:
        """Whether a Host header names this server."""
        found = HOST.fullmatch(host.strip().lower())
        name = (found["six"] or found["name"]) if found else ""
        if name in self.names:
            return True
        # A wildcard address has many numbers. A number cannot be rebound, unlike a name.
        return self.host in ("0.0.0.0", "::") and _is_address(name)

    def accepts_origin(self, origin: str | None, host: str) -> bool:
        """Whether a request comes from the page itself: browsers that send an Origin must send this server's."""
        return origin is None or origin.lower() in (f"http://{host.lower()}", f"https://{host.lower()}")

    def inner_path(self, path: str) -> str | None:
        """A path without the token that it begins with; None where that is not the right one."""
        begin, given = self.root, path[: len(self.root)]
        is_right = hmac.compare_digest(given.encode(), begin.encode()) and path[len(begin) :].startswith("/")
        return path[len(begin) :] if is_right else None


class Guarded:
    """An application behind a gate: what is refused gets a sentence, and every answer gets the headers."""

    def __init__(self, app: App, gate: Gate) -> None:
        self._app, self._gate = app, gate

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        if scope["type"] == "http":
            await (self._refuse(scope) or self._app)(scope, receive, _with_headers(send))
        elif scope["type"] == "lifespan":  # web sockets are not spoken here
            await self._app(scope, receive, send)

    def _refuse(self, scope: Scope) -> App | None:
        """What is answered in place of the application, if anything is."""
        from starlette.requests import Request

        request = Request(scope)
        host, origin = request.headers.get("host", ""), request.headers.get("origin")
        if not self._gate.knows(host):
            return error_response("this server does not go by that name: open the address that it printed", 403)
        is_foreign = request.headers.get("sec-fetch-site") == "cross-site" and request.method != "GET"
        if is_foreign or not self._gate.accepts_origin(origin, host):
            return error_response("requests of other pages are refused", 403)
        path = self._gate.inner_path(scope["path"])
        if path is None:
            return error_response("this server needs its token: open the whole address that it printed", 401)
        scope["path"] = path
        return None


def error_response(sentence: str, status: int) -> Any:
    """What the page shows of a request that failed."""
    from starlette.responses import Response

    sentence = sentence if len(sentence) <= MOST_WORDS else f"{sentence[:MOST_WORDS]} …"
    return Response(as_json({"error": sentence}).encode(), status, media_type="application/json")


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _with_headers(send: Send) -> Send:
    async def send_more(message: MutableMapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            own = {name.lower() for name, _ in message.get("headers", [])}
            more = [(n.encode(), v.encode()) for n, v in HEADERS.items() if n.encode() not in own]
            message = {**message, "headers": [*message.get("headers", []), *more]}
        await send(message)

    return send_more


def in_script(json_text: str) -> str:
    """JSON that may stand in a script element of a page: it cannot end the element or begin a comment."""
    for character in "<>&\u2028\u2029":
        json_text = json_text.replace(character, f"\\u{ord(character):04x}")
    return json_text


class Refused(ValueError):
    """A request brings more than is allowed, or takes too long: a sentence, and the status of the answer."""

    def __init__(self, sentence: str, status: int) -> None:
        super().__init__(sentence)
        self.status = status


async def read_body(request: Any, most: int) -> bytes:
    """The body of a request, if it is not larger than `most` bytes. It stops reading where it is."""
    said = request.headers.get("content-length", "0")
    parts, size = [], int(said) if said.isdigit() else 0
    try:
        async with asyncio.timeout(BODY_SECONDS):
            if size <= most:
                size = 0
                async for part in request.stream():
                    size += len(part)
                    if size > most:
                        break
                    parts.append(part)
    except TimeoutError:
        raise Refused(
            f"the request took longer than {BODY_SECONDS:.0f} seconds to arrive: send it again", 408
        ) from None
    if size > most:
        raise Refused(f"the file is larger than {most / 1e6:.0f} MB: make it smaller", 413)
    return b"".join(parts)
