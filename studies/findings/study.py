"""Study: one question that the findings page answers, from the computing of its numbers to the words around them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from studies.findings.config import Setting

Record = dict[str, Any]
"""What was measured, as JSON."""


@dataclass(frozen=True)
class Measurement:
    """A piece of work whose record is kept when it is done.

    Args:
        key: its name within the study.
        compute: does it. Its record must be JSON: numbers, strings, lists and dictionaries.
        reads: it only reads the files of another run, which may have grown: done anew every time.

    Example:
        >>> Measurement("noise=0.15", lambda: {"gap": 0.5}).compute()
        {'gap': 0.5}
    """

    key: str
    compute: Callable[[], Record]
    reads: bool = False


@dataclass(frozen=True)
class Study:
    """A question, the work that answers it, and the section that tells the answer.

    Args:
        name: as on the command line.
        title: of the section.
        measurements: the work. What the setting does not allow (no photographs, an extra that is not installed) is
            left out.
        section: the records of finished measurements, by key -> Markdown without the title. Every number in it comes
            from the records, and it must cope with records that are missing. No records at all: it is not called.

    Example:
        >>> from studies.findings.catalogue import STUDIES
        >>> STUDIES["moons"].title
        "Half-moons: the paper's Table 1"
    """

    name: str
    title: str
    measurements: Callable[[Setting], Iterable[Measurement]]
    section: Callable[[Mapping[str, Record]], str]
