"""Report: text, tables and figures in one HTML file that needs no other file and no network."""

from __future__ import annotations

import base64
import html
import io
import re
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from leastpath._support.checks import check_setting, show_value, write_number
from leastpath._support.files import write_atomically
from leastpath._support.optional import import_optional

if TYPE_CHECKING:
    from matplotlib.figure import Figure

STYLE = """
:root { color-scheme: light dark; --ink: #1b1f24; --soft: #57606a; --line: #d0d7de; --ground: #fff; --band: #f6f8fa; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e6edf3; --soft: #9da7b1; --line: #3d444d; --ground: #0d1117; --band: #161b22; } }
body { margin: 0 auto; padding: 2rem 1.25rem 4rem; max-width: 74rem; background: var(--ground); color: var(--ink);
  font: 16px/1.55 system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; }
h1 { font-size: 1.75rem; margin: 0 0 .25rem; overflow-wrap: anywhere; }
h2 { font-size: 1.3rem; margin: 2.5rem 0 .5rem; }
h3 { font-size: 1.1rem; } p { max-width: 48rem; } .lead, figcaption, caption { color: var(--soft); }
nav { margin: 1.25rem 0; padding: .5rem 1rem; background: var(--band); border-radius: 6px; }
nav ul { margin: 0; padding-left: 1.1rem; } a { color: #0969da; } code, pre { font-family: ui-monospace, monospace; }
pre { padding: .75rem 1rem; overflow-x: auto; background: var(--band); border-radius: 6px; font-size: .875rem; }
figure { margin: 1.25rem 0; } figure img, figure svg { max-width: 100%; height: auto; background: #fff; }
figcaption, caption { font-size: .9rem; text-align: left; padding: .35rem 0; } .table { overflow-x: auto; }
caption { max-width: calc(100vw - 2.5rem); }
@media (max-width: 44rem) { /* a wide picture is rather moved sideways than made too small to see */
  figure { overflow-x: auto; } figure img { max-width: none; width: min(var(--width, 100%), 52rem); min-width: 0; } }
table { border-collapse: collapse; font-size: .9rem; font-variant-numeric: tabular-nums; }
th, td { padding: .3rem .7rem; border-bottom: 1px solid var(--line); text-align: right; }
th { font-weight: 600; } tbody th, td.words { text-align: left; } thead th { border-bottom-width: 2px; }
tbody tr:hover { background: var(--band); } .leastpath-text span { padding: .1em .15em; border-radius: 3px; }
"""


class Report:
    """One self-contained HTML page, built from top to bottom. Each method returns the report, so calls can be chained.

    Args:
        title: of the page.
        lead: a sentence below it.

    Example:
        >>> from leastpath.report import Report, bars
        >>> report = Report("Wine", "What the classifier looks at.")
        >>> report = report.section("One glass").figure(bars([0.4, -0.1]), "Two features.")
        >>> "<h2" in report.html()
        True
    """

    def __init__(self, title: str, lead: str = "") -> None:
        self.title, self.lead = title, lead
        self._parts: list[str] = []
        self._sections: list[tuple[str, str]] = []  # id, title

    def section(self, title: str, *, level: Literal[2, 3] = 2) -> Report:
        """Begin a section; those of level 2 are listed at the top of the page."""
        check_setting("title", title, str)
        if level not in (2, 3):
            raise ValueError(f"level={level} must be 2 or 3: the title of the report is 1")
        anchor = self._anchor(title)
        if level == 2:
            self._sections.append((anchor, title))
        return self.raw(f'<h{level} id="{anchor}">{html.escape(title)}</h{level}>')

    def text(self, words: str) -> Report:
        """Plain text; an empty line begins a paragraph, and `backticks` mark code."""
        check_setting("words", words, str)
        paragraphs = [p.strip() for p in re.split(r"\n\s*\n", words) if p.strip()]
        return self.raw("\n".join(f"<p>{_with_code(paragraph)}</p>" for paragraph in paragraphs))

    def code(self, words: str) -> Report:
        """Text as it is, in a fixed-width font: settings, commands, logs."""
        return self.raw(f"<pre>{html.escape(words)}</pre>")

    def terms(self, words: Mapping[str, str]) -> Report:
        """A list of terms, each with what it means: the columns of a table, for instance."""
        items = (f"<li><strong>{html.escape(term)}</strong>: {_with_code(said)}</li>" for term, said in words.items())
        return self.raw(f"<ul>{''.join(items)}</ul>")

    def table(
        self, table: Any, caption: str = "", *, digits: int = 4, index: bool | None = None, bold: Collection[int] = ()
    ) -> Report:
        """A table.

        Args:
            table: a pandas DataFrame, or what makes one: a mapping of columns, a list of mappings.
            caption: above the table.
            digits: significant digits of numbers that are not integers.
            index: whether to show the rows' labels; by default if they are not just 0, 1, 2, ….
            bold: the numbers of rows in bold, from 0.
        """
        pandas = import_optional("pandas", "tables in a report need pandas", "eval")
        try:
            frame = table.to_frame() if isinstance(table, pandas.Series) else pandas.DataFrame(table)
        except (TypeError, ValueError) as error:
            wanted = "expected a data frame, a mapping of columns or a list of mappings"
            raise ValueError(f"table is {show_value(table)}, {wanted} ({error})") from error
        named = not isinstance(frame.index, pandas.RangeIndex) if index is None else index
        known = frame.astype(object).where(frame.notna(), None)
        cells = known.map(lambda value: _cell(value, digits))
        rows = cells.to_html(border=0, index=named, justify="right", na_rep="–")
        rows = re.sub(r"<td>(?=[^<&\d–−+-])", '<td class="words">', rows)
        rows = _with_bold_rows(rows, bold)
        if caption:
            above = f"<caption>{_with_code(caption)}</caption>"  # by a function: a backslash in it means itself
            rows = re.sub(r"<table[^>]*>", lambda table: table[0] + above, rows, count=1)
        return self.raw(f'<div class="table">{rows}</div>')

    def figure(
        self,
        figure: Figure,
        caption: str = "",
        *,
        alt: str = "",
        format: Literal["png", "svg"] = "png",
        dpi: float = 120,
    ) -> Report:
        """A matplotlib figure, inside the file. "svg" stays sharp; "png" is smaller for pictures with many points."""
        check_setting("format", format, Literal["png", "svg"])
        if not hasattr(figure, "savefig"):
            raise ValueError(f"figure is a {type(figure).__name__}, expected a figure of matplotlib")
        buffer = io.BytesIO()
        figure.savefig(buffer, format=format, dpi=dpi)
        # An SVG is an image too: the clip paths of several SVGs in one page would have the same names.
        return self.image(buffer.getvalue(), caption, alt=alt, kind="image/png" if format == "png" else "image/svg+xml")

    def image(self, content: bytes, caption: str = "", *, alt: str = "", kind: str = "image/png") -> Report:
        """A finished picture, as the bytes of its file."""
        data = base64.b64encode(content).decode("ascii")
        described = html.escape(alt or caption or "figure", quote=True)
        below = f"<figcaption>{_with_code(caption)}</figcaption>" if caption else ""
        width = f' style="--width: {_width(content)}px"' if kind == "image/png" else ""
        return self.raw(f'<figure><img alt="{described}"{width} src="data:{kind};base64,{data}">{below}</figure>')

    def raw(self, piece: str) -> Report:
        """A piece of HTML as it is, such as one of `text_html`. Escape text that users wrote first."""
        self._parts.append(piece)
        return self

    def html(self) -> str:
        """The whole page."""
        lead = f'<p class="lead">{_with_code(self.lead)}</p>' if self.lead else ""
        links = "".join(f'<li><a href="#{anchor}">{html.escape(title)}</a></li>' for anchor, title in self._sections)
        contents = f"<nav><ul>{links}</ul></nav>" if len(self._sections) > 2 else ""
        body = "\n".join(self._parts)
        return (
            '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
            '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
            f"<title>{html.escape(self.title)}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n"
            f"<h1>{html.escape(self.title)}</h1>\n{lead}\n{contents}\n{body}\n</body>\n</html>\n"
        )

    def write(self, path: str | Path) -> Path:
        """Write the page. A reader sees the old file or the new one, never a part. Returns the path."""
        path = Path(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        return write_atomically(path, self.html().encode())

    def _anchor(self, title: str) -> str:
        """A name for links, made from the title, with a number where another section has the same."""
        base = re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-") or "section"
        taken = sum(f'id="{base}"' in part or f'id="{base}-' in part for part in self._parts)
        return base if not taken else f"{base}-{taken + 1}"


def _with_bold_rows(table: str, bold: Collection[int]) -> str:
    """Rows of a table's body in bold. The first part is what stands before the body's first row."""
    head, *rows = re.split(r"(?<=<tbody>)|(?<=</tr>)(?=\s*<tr>)", table)
    while rows and "<tbody>" not in head:
        head += rows.pop(0)
    for i in bold:
        rows[i] = re.sub(r"(<t[dh][^>]*>)(.*?)(</t[dh]>)", r"\1<strong>\2</strong>\3", rows[i])
    return head + "".join(rows)


def _width(png: bytes) -> int:
    """Pixels, as the file's header says."""
    return int.from_bytes(png[16:20])


def _with_code(words: str) -> str:
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", html.escape(words, quote=False))


def _cell(value: Any, digits: int) -> str:
    """A value as text: floats are shortened, and a missing value is a dash."""
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):  # NumPy's float64 is one
        return write_number(value, digits)
    return str(value)
