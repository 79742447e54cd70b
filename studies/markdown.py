"""Tables in Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def markdown_table(heads: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A table whose first column is aligned to the left, all others to the right.

    Example:
        >>> print(markdown_table(["method", "gap"], [["IG", 1.5]]))
        | method | gap |
        | :--- | ---: |
        | IG | 1.5 |
        <BLANKLINE>
    """
    lines = [list(heads), [":---", *["---:"] * (len(heads) - 1)], *rows]
    return "".join("| " + " | ".join(str(cell).replace("|", "\\|") for cell in line) + " |\n" for line in lines)
