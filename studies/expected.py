"""The numbers that a study is expected to find: the paper's, and those that we measured."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any


def expected_numbers(study: str) -> dict[str, Any]:
    """What expected.toml in the study's folder holds.

    Example:
        >>> expected_numbers("moons")["paper"]["auc_purity"]["geodesic_graph"]
        0.531
    """
    return tomllib.loads((Path(__file__).parent / study / "expected.toml").read_text(encoding="utf-8"))
