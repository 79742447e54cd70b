"""The server: addresses and what they answer. All that it says comes from a session."""

from __future__ import annotations

import json
import mimetypes
import socket
import threading
import time
import webbrowser
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from leastpath._support.optional import import_optional
from leastpath.explorer.arrays import as_json, in_plain_numbers
from leastpath.explorer.export import bundle_of, export_page, page_file, plotly_source
from leastpath.explorer.safety import MOST_JSON, App, Gate, Guarded, TooLarge, error_response, read_body
from leastpath.explorer.tasks import Unknown
from leastpath.explorer.uploads import MOST_BYTES
from leastpath.score.failures import reason_of

PATIENCE = 0.25  # seconds that a question about a task waits for news
NEED = "the explorer needs starlette, uvicorn and plotly"


@dataclass(frozen=True)
class _File:
    """An answer that is not JSON: a file of the page, or with a name one that the browser keeps."""

    content: bytes
    kind: str
    name: str | None = None


def application(session: Any, gate: Gate) -> App:
    """The explorer of a session as an ASGI application, behind its gate."""
    import_optional("starlette", NEED, "explore")
    from starlette.applications import Starlette
    from starlette.routing import Route

    def get(path: str, answer: Callable[[Any], Any]) -> Route:
        return Route(path, _endpoint(answer))

    def post(path: str, answer: Callable[..., Any], read: Callable[[Any], Awaitable[Any]] = _read_json) -> Route:
        return Route(path, _endpoint(answer, read), methods=["POST"])

    def result(request: Any) -> Any:
        key = request.path_params["key"]
        if not key.endswith(".safetensors"):
            return session.result(key)
        content = session.save(key.removesuffix(".safetensors"))
        return _File(content, "application/octet-stream", "explanation.safetensors")

    def export_html(request: Any) -> _File:
        return _File(export_page(bundle_of(session)).encode(), "text/html; charset=utf-8", "explanation.html")

    def export_json(request: Any) -> _File:
        text = as_json(in_plain_numbers(bundle_of(session)))
        return _File(text.encode(), "application/json", "explanation.json")

    def explain(request: Any, wanted: dict[str, Any]) -> dict[str, str]:
        return {"task": session.start(wanted.get("method"), wanted.get("stiffness")).name}

    def task(request: Any) -> dict[str, Any]:
        return session.task(request.path_params["name"], request.query_params.get("seen"), PATIENCE)

    routes = [
        get("/api/state", lambda request: session.state()),
        post("/api/choose", lambda request, wanted: session.choose(wanted)),
        post(
            "/api/upload",
            lambda request, content: session.add(request.query_params.get("name", "file")[:200], content),
            lambda request: read_body(request, MOST_BYTES),
        ),
        post("/api/explain", explain),
        get("/api/tasks/{name}", task),
        post("/api/tasks/{name}/stop", lambda request, _: session.stop(request.path_params["name"])),
        get("/api/results/{key}", result),
        post("/api/remove", lambda request, it: session.remove(it.get("removed"), it.get("fill", "baseline"))),
        get("/api/export.html", export_html),
        get("/api/export.json", export_json),
        get("/api/code", lambda request: {"code": session.code()}),
        get("/{name:path}", lambda request: _page(request.path_params["name"] or "index.html")),
    ]
    return Guarded(Starlette(routes=routes), gate)


def _page(name: str) -> _File:
    if name == "plotly.js":
        return _File(plotly_source().encode(), "text/javascript")
    try:
        content = page_file(name)
    except FileNotFoundError:
        raise Unknown(f"there is no page {name[:80]!r}") from None
    kind = mimetypes.guess_type(name)[0] or "application/octet-stream"
    return _File(content, "text/javascript" if name.endswith(".js") else kind)


async def _read_json(request: Any) -> dict[str, Any]:
    """The JSON object that a request brings."""
    content = await read_body(request, MOST_JSON)
    try:
        wanted = json.loads(content or b"{}")
    except (ValueError, RecursionError) as error:
        raise ValueError(f"the request is not JSON: {error}") from error
    if not isinstance(wanted, dict):
        raise ValueError("the request is not a JSON object")
    return wanted


def _endpoint(
    answer: Callable[..., Any], read: Callable[[Any], Awaitable[Any]] | None = None
) -> Callable[[Any], Awaitable[Any]]:
    """What is read of a request goes to `answer`, in a thread. What goes wrong becomes one sentence."""
    from starlette.concurrency import run_in_threadpool
    from starlette.responses import Response

    def respond(*given: Any) -> Any:
        found = answer(*given)
        if not isinstance(found, _File):
            return Response(as_json(found).encode(), media_type="application/json")
        kept = {"content-disposition": f'attachment; filename="{found.name}"'} if found.name else None
        return Response(found.content, media_type=found.kind, headers=kept)

    async def endpoint(request: Any) -> Any:
        try:
            given = () if read is None else (await read(request),)
            return await run_in_threadpool(respond, request, *given)
        except Unknown as error:
            return error_response(str(error), 404)
        except TooLarge as error:
            return error_response(str(error), 413)
        except Exception as error:  # a user's model may raise anything
            return error_response(
                reason_of(error), 400 if isinstance(error, (ValueError, ImportError, OSError)) else 500
            )

    return endpoint


class Explorer:
    """A running explorer. `url` is its address; `close()` ends it. Shows itself in a notebook.

    Example:
        >>> import leastpath as lp, torch
        >>> with lp.explore(lp.Score(lambda x: x.prod(1)), torch.ones(1, 2), open=False) as explorer:  # doctest: +SKIP
        ...     explorer.url
        'http://127.0.0.1:40123/'
    """

    def __init__(self, session: Any, host: str = "127.0.0.1", port: int = 0) -> None:
        uvicorn: Any = import_optional("uvicorn", NEED, "explore")
        self.session, self._gate = session, Gate.of(host)
        self._socket = _listen(host, port)
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
        self.session.start_first()
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


def _listen(host: str, port: int) -> socket.socket:
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
