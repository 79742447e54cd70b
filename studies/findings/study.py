"""Study: one question that the findings page answers, from the computing of its numbers to the words around them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from leastpath._support.store import Store

Record = dict[str, Any]
"""What a unit of work found, as JSON."""


@dataclass(frozen=True)
class Setting:
    """What a study may use.

    Args:
        store: keeps what is finished; trained networks too, under keys that begin with "net ".
        quick: look at little, to see that everything runs.
        photographs: a folder of pictures for EfficientNet-lite0; None: studies of photographs are left out.
        sentences: a file of lines `sentence<TAB>0 or 1`; None: the study of text is left out.
        moons: folder of a finished `python -m studies.moons`.
        voc: folder of a finished `python -m studies.voc`.
        solvers: results file of `benchmarks/solvers.py`.

    Example:
        >>> Setting(Store("results", {})).of(200, quick=10)  # doctest: +SKIP
        200
    """

    store: Store
    quick: bool = False
    photographs: Path | None = None
    sentences: Path | None = None
    moons: Path | None = None
    voc: Path | None = None
    solvers: Path | None = None

    def of(self, full: int, quick: int) -> int:
        """How many: of a complete run, or of a quick one."""
        return quick if self.quick else full


@dataclass(frozen=True)
class Unit:
    """A piece of work that is kept when it is done.

    Args:
        key: its name within the study.
        compute: does it. Its record must be JSON: numbers, strings, lists and dictionaries.
        reads: it only reads the files of another run, which may have grown: done anew every time.

    Example:
        >>> Unit("noise=0.15", lambda: {"gap": 0.5}).compute()
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
        units: the work; what the setting does not allow (no photographs, an extra that is not installed) is left out.
        section: the records of finished units, by key -> Markdown without the title. Every number in it comes from
            the records, and it must cope with records that are missing. No records at all: it is not called.

    Example:
        >>> from studies.findings import STUDIES
        >>> STUDIES["moons"].title
        "Half-moons: the paper's Table 1"
    """

    name: str
    title: str
    units: Callable[[Setting], Iterable[Unit]]
    section: Callable[[Mapping[str, Record]], str]
