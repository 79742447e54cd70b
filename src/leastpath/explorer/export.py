"""Export: the page and all that it shows in one file, which needs no server and no network."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from importlib.resources import files
from typing import Any

from leastpath._support.optional import import_optional
from leastpath.explorer.arrays import as_json
from leastpath.explorer.safety import in_script
from leastpath.explorer.tasks import EMPTY, Unknown

STYLE = re.compile(r'<link\b[^>]*\brel="stylesheet"[^>]*\bhref="(?P<name>[^"]+)"[^>]*>')
SCRIPT = re.compile(r'<script\b(?P<before>[^>]*)\bsrc="(?P<name>[^"]+)"(?P<after>[^>]*)></script>')
MAP_STYLE = re.compile(r'if\(!document\.getElementById\("[0-9a-f]{64}"\)\)')
OFFLINE_POLICY = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:"


def page_file(name: str) -> bytes:
    """A file of the page; Unknown where there is none. A name is looked up, and never leads to another folder."""
    known = _page_files()
    if name not in known:
        raise Unknown(f"there is no page {name[:80]!r}")
    return known[name].read_bytes()


@lru_cache(maxsize=1)
def _page_files() -> dict[str, Any]:
    page = files("leastpath.explorer") / "page"
    app = {f"app/{file.name}": file for file in (page / "app").iterdir()}
    return {file.name: file for file in page.iterdir() if file.is_file()} | app


@lru_cache(maxsize=1)
def plotly_source() -> str:
    """plotly.js, as the plotly package ships it, without the style of maps: the page has none, and refuses it."""
    offline: Any = import_optional("plotly.offline", "the explorer draws with plotly", "explore")
    return MAP_STYLE.sub("if(false)", str(offline.get_plotlyjs()))


def bundle_of(session: Any, about: Mapping[str, Any] = EMPTY) -> dict[str, Any]:
    """All that a session shows of what a page is about, for a page without a server."""
    state = {**session.state(about), "offline": True}
    results = {key: session.result(key) for key in state["results"]}
    return {"state": state, "results": results, "code": session.code(about)}


def export_page(bundle: Mapping[str, Any], name: str = "index.html") -> str:
    """A page with its styles, scripts and numbers inline."""
    page = page_file(name).decode()
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
