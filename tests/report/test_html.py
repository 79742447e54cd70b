"""The report: parsed back, it holds what was put in, and nothing from outside."""

import base64
import re
from html.parser import HTMLParser

import pytest

pytest.importorskip("matplotlib")
from leastpath.report import Report, bars


class Outline(HTMLParser):
    def __init__(self, page):
        super().__init__()
        self.open, self.words, self.links = [], [], []
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        if tag not in ("meta", "img", "br"):
            self.open.append(tag)
        self.links += [value for name, value in attrs if name in ("src", "href")]

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.words.append(data.strip())


def test_page_is_well_formed_and_self_contained(tmp_path):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"value": [0.123456, None], "n": [1, 2], "ok": [True, False]}, ["IG", "<b>"])
    report = Report("A & B", "Lead with `code`.")
    for title in ("One", "Two", "Two"):
        report.section(title).text("First.\n\nSecond < third.")
    report.section("Detail", level=3).table(frame, "Caption").table([{"a": 1}]).code("x < 1")
    report.figure(bars([1.0, -1.0]), "A figure").figure(bars([1.0]), format="svg", alt="bars")
    page = Outline(report.html())
    assert not page.open
    assert all(link.startswith(("#", "data:image/")) for link in page.links)
    assert {"A & B", "First.", "Second < third.", "IG", "<b>", "0.1235", "–", "yes", "x < 1", "Caption"} <= set(
        page.words
    )
    anchors = [link[1:] for link in page.links if link.startswith("#")]
    assert anchors == ["one", "two", "two-2"] and all(f'id="{anchor}"' in report.html() for anchor in anchors)
    png = next(link for link in page.links if "png" in link)
    assert base64.b64decode(png.split(",")[1]).startswith(b"\x89PNG")


def test_write_replaces_whole_files_and_leaves_no_others(tmp_path):
    file = tmp_path / "new" / "report.html"
    assert Report("first").write(file) == file
    assert Report("second").write(file).read_text(encoding="utf-8").count("second") == 2
    broken = Report("third")
    broken._parts.append(3)
    with pytest.raises(TypeError):
        broken.write(file)
    assert "second" in file.read_text(encoding="utf-8")
    assert [p.name for p in file.parent.iterdir()] == ["report.html"]


def test_numbers_are_short():
    pytest.importorskip("pandas")
    cells = re.findall(r"<td[^>]*>(.*?)</td>", Report("t").table({"a": [1234.5678, 1e9, float("inf"), 12]}).html())
    assert cells == ["1,235", "1,000,000,000", "infinite", "12"]


@pytest.mark.parametrize(
    "call, match",
    [
        (lambda: Report("t").section("s", level=1), "level=1 must be 2 or 3"),
        (lambda: Report("t").figure(bars([1.0]), format="gif"), "format='gif' is unknown"),
    ],
)
def test_errors_say_what_helps(call, match):
    with pytest.raises(ValueError, match=match):
        call()


def test_rows_in_bold_and_lists_of_terms():
    page = Report("t").table([{"method": "a", "n": 1}, {"method": "b", "n": 2}], bold=[1]).html()
    body = page.partition("<tbody>")[2]
    assert body.count("<strong>") == 2 and "<strong>b</strong>" in body and "<strong>2</strong>" in body
    assert (
        "<li><strong>a|b</strong>: one &lt; <code>two</code></li>" in Report("t").terms({"a|b": "one < `two`"}).html()
    )
    Outline(page)  # well-formed
