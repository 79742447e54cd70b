"""The server: addresses and what they answer. All that it says comes from a session."""

from __future__ import annotations

import json
import mimetypes
import os
import socket
import sys
import threading
import time
import webbrowser
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from html import escape
from typing import Any

from leastpath._support.optional import import_optional
from leastpath.explorer.arrays import as_json, in_plain_numbers
from leastpath.explorer.export import bundle_of, export_page, page_file, plotly_source
from leastpath.explorer.safety import MOST_JSON, App, Gate, Guarded, Refused, error_response, read_body
from leastpath.explorer.tasks import Unknown
from leastpath.explorer.uploads import MOST_BYTES
from leastpath.score.failures import reason_of

PATIENCE = 0.25  # seconds that a question about a task waits for news
ELSEWHERE = (  # what JupyterHub and Binder, Colab, Kaggle, Codespaces, VS Code's servers and SSH set
    "JUPYTERHUB_SERVICE_PREFIX", "COLAB_RELEASE_TAG", "KAGGLE_KERNEL_RUN_TYPE", "CODESPACES", "VSCODE_AGENT_FOLDER",
    "SSH_CONNECTION",
)  # fmt: skip
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
        page = export_page(bundle_of(session, _about(request)), session.page)
        return _File(page.encode(), "text/html; charset=utf-8", "explanation.html")

    def export_json(request: Any) -> _File:
        text = as_json(in_plain_numbers(bundle_of(session, _about(request))))
        return _File(text.encode(), "application/json", "explanation.json")

    def task(request: Any) -> dict[str, Any]:
        return session.task(request.path_params["name"], request.query_params.get("seen"), PATIENCE)

    def answer(name: str) -> Route:
        return post(f"/api/{name}", lambda request, wanted: session.answers[name](wanted))

    def upload(request: Any, content: bytes) -> dict[str, Any]:
        return session.add(request.query_params.get("name", "file")[:200], content, _about(request))

    routes = [
        get("/api/state", lambda request: session.state(_about(request))),
        post("/api/upload", upload, lambda request: read_body(request, MOST_BYTES)),
        post("/api/explain", lambda request, wanted: {"task": session.start(wanted).name}),
        get("/api/tasks/{name}", task),
        post("/api/tasks/{name}/stop", lambda request, _: session.stop(request.path_params["name"])),
        post("/api/tasks/{name}/leave", lambda request, _: session.leave(request.path_params["name"])),
        get("/api/results/{key}", result),
        *map(answer, session.answers),
        get("/api/export.html", export_html),
        get("/api/export.json", export_json),
        get("/api/code", lambda request: {"code": session.code(_about(request))}),
        get("/{name:path}", lambda request: _page(request.path_params["name"] or session.page)),
    ]
    return Guarded(Starlette(routes=routes), gate)


def _page(name: str) -> _File:
    if name == "plotly.js":
        return _File(plotly_source().encode(), "text/javascript")
    kind = mimetypes.guess_type(name)[0] or "application/octet-stream"
    return _File(page_file(name), "text/javascript" if name.endswith(".js") else kind)


async def _read_json(request: Any) -> dict[str, Any]:
    """The JSON object that a request brings."""
    return _object_in(await read_body(request, MOST_JSON))


def _about(request: Any) -> dict[str, Any]:
    """What an address is about, as JSON behind its question mark: a link can say it, too."""
    return _object_in(request.query_params.get("about", ""))


def _object_in(content: str | bytes) -> dict[str, Any]:
    try:
        wanted = json.loads(content or "{}")
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
        except Refused as error:
            return error_response(str(error), error.status)
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
        from leastpath.explorer.connections import LimitedProtocol

        self.session, self._gate = session, Gate.of(host)
        self._socket = _listen(host, port)
        bound = self._socket.getsockname()[1]
        shown = {"0.0.0.0": socket.gethostname(), "::": socket.gethostname()}.get(host, host)
        name = f"[{shown}]" if ":" in shown else shown
        self.url = f"http://{name}:{bound}{self._gate.root}/"
        """The address of the page."""
        settings = {"ws": "none", "lifespan": "off", "access_log": False, "server_header": False}
        app = application(session, self._gate)
        config = uvicorn.Config(app, http=LimitedProtocol, log_level="critical", **settings)
        self._server = uvicorn.Server(config)
        self._ended = threading.Event()  # an interrupted join takes a thread that works on for one that ended
        threading.Thread(target=self._serve, name="leastpath server", daemon=True).start()
        while not self._server.started and not self._ended.is_set():
            time.sleep(0.01)

    def _serve(self) -> None:
        try:
            self._server.run(sockets=[self._socket])
        finally:
            self._socket.close()  # by its owner: nobody closes it while it is listened to
            self._ended.set()

    def open(self) -> None:
        """Show the page in the browser. What it asks for first is begun while the browser starts."""
        self.session.start_first()
        webbrowser.open(self.url)

    def wait(self) -> None:
        """Until somebody ends it with Ctrl-C."""
        with suppress(KeyboardInterrupt):
            while not self._ended.wait(0.5):
                pass
        with suppress(KeyboardInterrupt):  # one who presses it again does not want to wait
            self.close()

    def close(self) -> None:
        """End the server and its work."""
        self._server.should_exit = True
        self.session.close()
        self._ended.wait(timeout=10)

    def __enter__(self) -> Explorer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Explorer({self.url})"

    def _repr_html_(self) -> str:
        return self.frame(offline=runs_elsewhere())

    def frame(self, offline: bool = False) -> str:
        """HTML that shows the page in place.

        Args:
            offline: the page itself, with its first explanation, which is waited for, and without a server: for
                notebooks whose browser cannot reach this machine's 127.0.0.1.
        """
        size = 'width="100%" height="900" style="border: 0"'
        if offline:
            self.session.finish_first()
            page = escape(export_page(bundle_of(self.session), self.session.page), quote=True)
            return f'<iframe srcdoc="{page}" sandbox="allow-scripts allow-downloads" {size}></iframe>'
        address = escape(self.url, quote=True)
        link = f'<a href="{address}" target="_blank" rel="noreferrer">{address}</a>'
        return f'<p>{link}</p><iframe src="{address}" {size}></iframe>'


def runs_elsewhere() -> bool:
    """Whether a notebook's kernel seems to run on another machine than its browser."""
    return "google.colab" in sys.modules or any(os.environ.get(name) for name in ELSEWHERE)


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
