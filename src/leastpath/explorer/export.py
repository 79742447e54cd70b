"""Export: the page and all that it shows in one file, which needs no server and no network."""

from __future__ import annotations

import re
from collections.abc import Mapping
from importlib.resources import files
from typing import Any

from leastpath._support.optional import import_optional
from leastpath.explorer.arrays import as_json
from leastpath.explorer.safety import in_script

STYLE = re.compile(r'<link\b[^>]*\brel="stylesheet"[^>]*\bhref="(?P<name>[^"]+)"[^>]*>')
SCRIPT = re.compile(r'<script\b(?P<before>[^>]*)\bsrc="(?P<name>[^"]+)"(?P<after>[^>]*)></script>')
OFFLINE_POLICY = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:"


def page_file(name: str) -> bytes:
    """A file of the page. FileNotFoundError where there is none, also for names that lead out of its folder."""
    parts = name.split("/")
    if any(part in ("", ".", "..") or "\\" in part for part in parts):
        raise FileNotFoundError(name)
    file = files("leastpath.explorer").joinpath("page", *parts)
    if not file.is_file():
        raise FileNotFoundError(name)
    return file.read_bytes()


def plotly_source() -> str:
    """plotly.js, as the plotly package ships it."""
    offline: Any = import_optional("plotly.offline", "the explorer draws with plotly", "explore")
    return str(offline.get_plotlyjs())


def bundle_of(session: Any) -> dict[str, Any]:
    """All that a session shows, for a page without a server."""
    state = {**session.state(), "offline": True}
    return {"state": state, "results": {key: session.result(key) for key in state["results"]}, "code": session.code()}


def export_page(bundle: Mapping[str, Any]) -> str:
    """index.html with its styles, scripts and numbers inline."""
    page = page_file("index.html").decode()
    page = STYLE.sub(lambda found: f"<style>{_source(found['name'])}</style>", page)
    late: list[str] = []

    def script(found: re.Match[str]) -> str:
        text = _inline(_source(found["name"]))
        if "defer" in found["before"] + found["after"] or "module" in found["before"] + found["after"]:
            late.append(f"<script>{text}</script>")  # inline scripts do not wait, so they go where the page is read
            return ""
        return f"<script>{text}</script>"

    page = SCRIPT.sub(script, page)
    data = f'<script type="application/json" id="bundle">{in_script(as_json(bundle))}</script>'
    policy = f'<meta http-equiv="Content-Security-Policy" content="{OFFLINE_POLICY}">'
    page = page.replace("<head>", f"<head>{policy}", 1)
    head, end, tail = page.rpartition("</body>")
    return f"{head}{data}{''.join(late)}{end}{tail}"


def _source(address: str) -> str:
    name = address.removeprefix("/").removeprefix("./")
    return plotly_source() if name == "plotly.js" else page_file(name).decode()


def _inline(script: str) -> str:
    """A script that does not end its own element. "<\\/" is the same as "</" in strings, where it occurs."""
    return script.replace("</script", "<\\/script").replace("<!--", "<\\!--")
