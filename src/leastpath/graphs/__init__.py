"""Graphs: neighbours and shortest paths (`neighbors`), edges measured by a score (`edges`), routes (`routes`)."""
