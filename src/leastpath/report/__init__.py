"""Pictures and reports. Needs `leastpath[plot]`."""

from leastpath.report.graph import plot_graph

__all__ = ["plot_graph"]
