"""The photographs that several benchmarks explain."""

from __future__ import annotations

from pathlib import Path

from leastpath.features.images import PICTURES


def picture_files(folder: Path) -> list[Path]:
    """Its pictures, by name."""
    return sorted(file for file in folder.iterdir() if file.suffix.lower() in PICTURES)
