"""Tables that are put aside: a file of comma-separated values each, to sort and filter, and a link in their place."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Mapping
from pathlib import Path

from leastpath._support.files import write_atomically

TABLE = re.compile(r"(?:^\|.*\|\n?)+", re.M)
CELLS = re.compile(r"(?<!\\)\|")  # a bar in a cell is written \|


def put_aside(page: str, names: Mapping[str, str], folder: Path) -> str:
    """The page with every table written to a file of `folder`, and a link to it in the table's place.

    Args:
        page: Markdown with a section, `## title`, for each name.
        names: title of a section -> how its file is called.
        folder: of the files, which are written anew.

    Example:
        >>> put_aside("# Nothing to put aside\\n", {}, Path("docs"))
        '# Nothing to put aside\\n'
    """
    head, *sections = re.split(r"^## ", page, flags=re.M)
    return "## ".join([head, *(_without_tables(section, names, folder) for section in sections)])


def _without_tables(section: str, names: Mapping[str, str], folder: Path) -> str:
    name = names[section.partition("\n")[0]]
    count = 0

    def aside(table: re.Match[str]) -> str:
        nonlocal count
        count += 1
        file = f"{name}.csv" if count == 1 else f"{name}-{count}.csv"
        write_atomically(folder / file, comma_separated(table[0]).encode())
        return f"[{file}]({file})\n"

    return TABLE.sub(aside, section)


def cells_of(table: str) -> list[list[str]]:
    """Heads and rows of a Markdown table, as they read.

    Example:
        >>> cells_of("| who | \\\\|A\\\\| |\\n| :--- | ---: |\\n| IG | −0.5 |\\n")
        [['who', '|A|'], ['IG', '−0.5']]
    """
    lines = [[cell.strip().replace("\\|", "|") for cell in CELLS.split(line)[1:-1]] for line in table.splitlines()]
    return [lines[0], *lines[2:]]


def comma_separated(table: str) -> str:
    """A Markdown table as CSV, with minus signs and spaces that a spreadsheet takes for such.

    Example:
        >>> print(comma_separated("| who | gap |\\n| :--- | ---: |\\n| IG | −0.5 |\\n"), end="")
        who,gap
        IG,-0.5
    """
    written = io.StringIO()
    csv.writer(written, lineterminator="\n").writerows(cells_of(table))
    return written.getvalue().replace("−", "-").replace("\u00a0", " ")
