"""Figures that a run keeps as files and shows in its report, drawn once."""

from __future__ import annotations

import base64
import html
from typing import TYPE_CHECKING

from leastpath.commands.run_folder import RunFolder
from leastpath.report import Report

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def show(report: Report, run: RunFolder, figure: Figure, name: str, caption: str, *, dpi: int = 120) -> None:
    """Write figures/<name>.png and put that very picture into the report."""
    data = base64.b64encode(run.save_figure(figure, name, dpi=dpi).read_bytes()).decode("ascii")
    words = html.escape(caption, quote=True)
    image = f'<img alt="{words}" src="data:image/png;base64,{data}">'
    report.raw(f"<figure>{image}<figcaption>{words}</figcaption></figure>")
