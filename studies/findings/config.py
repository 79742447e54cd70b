"""What the studies may use, and how much they look at: config.toml has the sizes."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from leastpath._support.store import Store

SIZES: Mapping[str, Mapping[str, tuple[int, int]]] = tomllib.loads(
    (Path(__file__).parent / "config.toml").read_text(encoding="utf-8")
)
"""Study -> name -> size in a complete run, and with --quick."""


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
        truth: folder of a finished `python -m studies.truth`.

    Example:
        >>> Setting(Store("results", {})).of("sign.points")  # doctest: +SKIP
        100
    """

    store: Store
    quick: bool = False
    photographs: Path | None = None
    sentences: Path | None = None
    moons: Path | None = None
    voc: Path | None = None
    solvers: Path | None = None
    truth: Path | None = None

    def of(self, size: str) -> int:
        """A size of config.toml, as "study.name": that of a complete run, or of a quick one."""
        study, _, name = size.partition(".")
        complete, quick = SIZES[study][name]
        return quick if self.quick else complete
