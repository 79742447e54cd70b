"""The exported file: one file, nothing from elsewhere, and names that cannot leave their script element."""

import json
import re
from html.parser import HTMLParser

import pytest

from explorer_subjects import finished, picture_source, session_over
from leastpath.explorer.export import bundle_of, export_page, page_file
from leastpath.explorer.tasks import Unknown


class Page(HTMLParser):
    """Scripts with their content, and all addresses."""

    def __init__(self, text):
        super().__init__()
        self.scripts, self.addresses = [], []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        given = dict(attributes)
        self.addresses += [given[name] for name in ("src", "href") if given.get(name)]
        if tag == "script":
            self.scripts.append([given, ""])

    def handle_data(self, data):
        if self.scripts and self.cdata_elem == "script":
            self.scripts[-1][1] += data


def test_everything_is_in_one_file():
    pytest.importorskip("plotly")
    evil = "</script><script>alert(1)</script>"
    with session_over(picture_source(titles=[evil, "b"], classes=[evil] * 4)) as session:
        key = finished(session, "integrated_gradients")
        page = Page(export_page(bundle_of(session)))
        assert [a for a in page.addresses if not a.startswith(("data:", "#"))] == []  # "#": a place in the page itself
        data = [text for given, text in page.scripts if given.get("id") == "bundle"]
        bundle = json.loads(data[0])
        assert bundle["state"]["offline"] is True
        assert bundle["state"]["title"] == evil
        assert bundle["results"][key] == json.loads(json.dumps(session.result(key)))
        assert not any("alert(1)" in text for given, text in page.scripts if given.get("id") != "bundle")


def test_the_bundle_comes_before_the_scripts_that_read_it():
    with session_over(picture_source()) as session:
        text = export_page(bundle_of(session))
    page = Page(text)
    ids = [given.get("id") for given, _ in page.scripts]
    assert "bundle" in ids
    assert re.search(r"<meta http-equiv=\"Content-Security-Policy\"", text)


def test_only_files_of_the_page_are_read():
    assert page_file("index.html").startswith(b"<!doctype html>")
    for name in ("", "..", "../export.py", "app//x", "nothing.js", "app"):
        with pytest.raises(Unknown, match="no page"):
            page_file(name)
