"""Pictures and reports. Needs `leastpath[plot]`. Every picture is a matplotlib Figure outside of pyplot."""

from leastpath.report.barchart import bars
from leastpath.report.baselines import baselines_figure
from leastpath.report.graph import plot_graph
from leastpath.report.heat import heatmap, heatmaps
from leastpath.report.html import Report
from leastpath.report.paths import path_film, path_profile
from leastpath.report.tokens import text, text_html

__all__ = [
    "Report",
    "bars",
    "baselines_figure",
    "heatmap",
    "heatmaps",
    "path_film",
    "path_profile",
    "plot_graph",
    "text",
    "text_html",
]
