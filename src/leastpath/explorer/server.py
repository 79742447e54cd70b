"""The server: addresses and what they answer. All that it says comes from a session."""

from __future__ import annotations

import json
import mimetypes
import socket
import threading
import time
import webbrowser
from collections.abc import Awaitable, Callable
from typing import Any

from leastpath._support.optional import optional
from leastpath.explorer.arrays import as_json, in_plain_numbers
from leastpath.explorer.export import exported_page, page_file, plotly_source
from leastpath.explorer.safety import MOST_JSON, App, Gate, Guarded, TooLarge, limited_body
from leastpath.explorer.session import Unknown
from leastpath.explorer.uploads import MOST_BYTES

PATIENCE = 0.25  # seconds that a question about a job waits for news
NEED = "the explorer needs starlette, uvicorn and plotly"


def application(session: Any, gate: Gate) -> App:
    """The explorer of a session as an ASGI application, behind its gate."""
    optional("starlette", NEED, "explore")
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.routing import Route

    async def choose(request: Request) -> Any:
        return await _json(session.choose, await _read(request))

    async def upload(request: Request) -> Any:
        content = await limited_body(request, MOST_BYTES)
        return await _json(session.add, request.query_params.get("name", "file")[:200], content)

    async def explain(request: Request) -> Any:
        wanted = await _read(request)
        return await _json(lambda: {"job": session.explain(wanted.get("method"), wanted.get("stiffness")).name})

    async def remove(request: Request) -> Any:
        wanted = await _read(request)
        return await _json(session.remove, wanted.get("removed"), wanted.get("fill", "baseline"))

    async def result(request: Request) -> Any:
        key = request.path_params["key"]
        if key.endswith(".safetensors"):
            content = await _threaded(session.kept, key.removesuffix(".safetensors"))
            return _attachment(content, "application/octet-stream", "explanation.safetensors")
        return await _json(session.result, key)

    async def export_html(request: Request) -> Any:
        page = await _threaded(lambda: exported_page(session.bundle()))
        return _attachment(page.encode(), "text/html; charset=utf-8", "explanation.html")

    async def export_json(request: Request) -> Any:
        text = await _threaded(lambda: as_json(in_plain_numbers(session.bundle())))
        return _attachment(text.encode(), "application/json", "explanation.json")

    def get(path: str, answer: Callable[[Request], Awaitable[Any]]) -> Route:
        return Route(path, _answering(answer))

    def post(path: str, answer: Callable[[Request], Awaitable[Any]]) -> Route:
        return Route(path, _answering(answer), methods=["POST"])

    async def of_session(request: Request) -> Any:
        return await _json(session.state)

    async def code(request: Request) -> Any:
        return await _json(lambda: {"code": session.code()})

    async def job(request: Request) -> Any:
        return await _json(session.job, request.path_params["name"], request.query_params.get("seen"), PATIENCE)

    async def stop(request: Request) -> Any:
        return await _json(session.stop, request.path_params["name"])

    routes = [
        get("/api/state", of_session), post("/api/choose", choose), post("/api/upload", upload),
        post("/api/explain", explain), get("/api/jobs/{name}", job), post("/api/jobs/{name}/stop", stop),
        get("/api/results/{key}", result), post("/api/remove", remove), get("/api/export.html", export_html),
        get("/api/export.json", export_json), get("/api/code", code), get("/{name:path}", _page),
    ]  # fmt: skip
    return Guarded(Starlette(routes=routes), gate)


async def _page(request: Any) -> Any:
    from starlette.responses import Response

    name = request.path_params["name"] or "index.html"
    if name == "plotly.js":
        return Response((await _threaded(plotly_source)).encode(), media_type="text/javascript")
    try:
        content = page_file(name)
    except FileNotFoundError:
        return _sentence(f"there is no page {name[:80]!r}", 404)
    kind = mimetypes.guess_type(name)[0] or "application/octet-stream"
    return Response(content, media_type="text/javascript" if name.endswith(".js") else kind)


async def _read(request: Any) -> dict[str, Any]:
    """The JSON object that a request brings."""
    content = await limited_body(request, MOST_JSON)
    try:
        wanted = json.loads(content or b"{}")
    except (ValueError, RecursionError) as error:
        raise ValueError(f"the request is not JSON: {error}") from error
    if not isinstance(wanted, dict):
        raise ValueError("the request is not a JSON object")
    return wanted


async def _threaded(function: Callable[..., Any], *arguments: Any) -> Any:
    from starlette.concurrency import run_in_threadpool

    return await run_in_threadpool(function, *arguments)


async def _json(function: Callable[..., Any], *arguments: Any) -> Any:
    from starlette.responses import Response

    text = await _threaded(lambda: as_json(function(*arguments)))
    return Response(text.encode(), media_type="application/json")


def _attachment(content: bytes, kind: str, name: str) -> Any:
    from starlette.responses import Response

    return Response(content, media_type=kind, headers={"content-disposition": f'attachment; filename="{name}"'})


def _sentence(sentence: str, status: int) -> Any:
    from starlette.responses import Response

    return Response(as_json({"error": sentence}).encode(), status, media_type="application/json")


def _answering(answer: Callable[[Any], Awaitable[Any]]) -> Callable[[Any], Awaitable[Any]]:
    """What goes wrong becomes one sentence."""

    async def answering(request: Any) -> Any:
        try:
            return await answer(request)
        except Unknown as error:
            return _sentence(str(error), 404)
        except TooLarge as error:
            return _sentence(str(error), 413)
        except Exception as error:  # a user's model may raise anything
            words = str(error).strip().partition("\n")[0] or type(error).__name__
            return _sentence(words, 400 if isinstance(error, (ValueError, ImportError, OSError)) else 500)

    return answering


class Explorer:
    """A running explorer. `url` is its address; `close()` ends it. Shows itself in a notebook.

    Example:
        >>> import leastpath as lp, torch
        >>> with lp.explore(lp.Score(lambda x: x.prod(1)), torch.ones(1, 2), open=False) as explorer:  # doctest: +SKIP
        ...     explorer.url
        'http://127.0.0.1:40123/'
    """

    def __init__(self, session: Any, host: str = "127.0.0.1", port: int = 0) -> None:
        uvicorn: Any = optional("uvicorn", NEED, "explore")
        self.session, self._gate = session, Gate.of(host)
        self._socket = _listening(host, port)
        bound = self._socket.getsockname()[1]
        shown = {"0.0.0.0": socket.gethostname(), "::": socket.gethostname()}.get(host, host)
        name = f"[{shown}]" if ":" in shown else shown
        token = f"?token={self._gate.token}" if self._gate.token else ""
        self.url = f"http://{name}:{bound}/{token}"
        """The address of the page."""
        config = uvicorn.Config(application(session, self._gate), log_level="error", access_log=False, lifespan="off")
        self._server = uvicorn.Server(config)
        given = {"sockets": [self._socket]}
        self._thread = threading.Thread(target=self._server.run, kwargs=given, name="leastpath server", daemon=True)
        self._thread.start()
        while not self._server.started and self._thread.is_alive():
            time.sleep(0.01)

    def open(self) -> None:
        """Show the page in the browser. What it asks for first is begun while the browser starts."""
        self.session.begin()
        webbrowser.open(self.url)

    def wait(self) -> None:
        """Until somebody ends it with Ctrl-C."""
        try:
            while self._thread.is_alive():
                self._thread.join(0.5)
        except KeyboardInterrupt:
            self.close()

    def close(self) -> None:
        """End the server and its work."""
        self._server.should_exit = True
        self._thread.join(timeout=10)
        self._socket.close()
        self.session.close()

    def __enter__(self) -> Explorer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Explorer({self.url})"

    def _repr_html_(self) -> str:
        from html import escape

        address = escape(self.url, quote=True)
        link = f'<a href="{address}" target="_blank" rel="noreferrer">{address}</a>'
        return f'<p>{link}</p><iframe src="{address}" width="100%" height="900" style="border: 0"></iframe>'


def _listening(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    made = socket.socket(family, socket.SOCK_STREAM)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        made.bind((host, port))
    except (OSError, OverflowError) as error:
        made.close()
        reason = str(error).rstrip(".")
        raise ValueError(f"cannot listen on {host}, port {port}: {reason}. Port 0 takes any that is free") from error
    return made
