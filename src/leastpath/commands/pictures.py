"""Figures that a run keeps as files and shows in its report."""

from __future__ import annotations

from typing import TYPE_CHECKING

from leastpath.commands.run_folder import RunFolder
from leastpath.report import Report

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def show(report: Report, run: RunFolder, figure: Figure, name: str, caption: str, *, dpi: int = 120) -> None:
    """Write figures/<name>.png and put the same picture into the report."""
    report.image(run.save_figure(figure, name, dpi=dpi).read_bytes(), caption)
