"""What was measured, kept as JSON beside the pages: a new method joins without repeating hours."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from leastpath._support.files import write_atomically
from leastpath.methods import METHODS

FILES = Path("docs") / "_generated"


class Kept:
    """Measures of methods on examples, in one file that is written after each.

    Example:
        >>> kept = Kept(Path("no such file"))
        >>> kept.has("lrp", "0"), kept.methods
        (False, [])
    """

    def __init__(self, file: Path) -> None:
        self._file = file
        self._held: dict[str, Any] = json.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}

    @property
    def about(self) -> dict[str, Any]:
        """What is known of the referee itself."""
        return self._held.setdefault("about", {})

    @property
    def methods(self) -> list[str]:
        """Those that have measures."""
        return list(self._held.get("methods", {}))

    def rows(self, method: str) -> Mapping[str, dict[str, float]]:
        """The measures of a method, by example."""
        return self._held.get("methods", {}).get(method, {})

    def has(self, method: str, example: str) -> bool:
        """Whether an example is measured."""
        return example in self.rows(method)

    def add(self, method: str, example: str, measures: Mapping[str, float]) -> None:
        """Keep the measures of one example."""
        self._held.setdefault("methods", {}).setdefault(method, {})[example] = dict(measures)
        self.write()

    def write(self) -> None:
        """A line for each method."""
        self._file.parent.mkdir(parents=True, exist_ok=True)
        lines = [f"{json.dumps(m)}: {json.dumps(rows)}" for m, rows in self._held.get("methods", {}).items()]
        text = (
            f'{{"about": {json.dumps(self.about, ensure_ascii=False)},\n"methods": {{\n' + ",\n".join(lines) + "\n}}\n"
        )
        write_atomically(self._file, text.encode())


def names_of(methods: str | None, default: Sequence[str], controls: Sequence[str]) -> list[str]:
    """Names with commas between them, of methods or controls; None: the default.

    Example:
        >>> names_of("lrp,edges", (), ("edges",))
        ['lrp', 'edges']
    """
    named = list(default) if methods is None else [name.strip() for name in methods.split(",")]
    for name in named:
        if name not in controls:
            METHODS[name]  # an unknown one is answered by the names that are most like it
    return named
