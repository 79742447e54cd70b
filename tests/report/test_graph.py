"""The picture of a graph."""

import pytest
import torch

import leastpath as lp
from helpers import flat_points, moons_net

pytest.importorskip("matplotlib")
from leastpath.evaluation import score_plane
from leastpath.report import plot_graph

SCORE = lp.Score(moons_net(), 1, "softmax")


def test_shows_edges_bridges_routes_and_lines(tmp_path):
    blobs = torch.cat([flat_points(40) * 0.1 - 1, flat_points(40, seed=1) * 0.1 + 1])
    graph = lp.NeighborGraph(blobs, 5).build(SCORE, lp.Conformal())
    result = lp.attribute(SCORE, torch.ones(2, 2), -1.0, method=graph)
    figure = plot_graph(graph, result, (0, 1), background=score_plane(SCORE, blobs))
    labels = {text.get_text() for text in figure.axes[0].get_legend().get_texts()}
    assert labels == {"neighbours", "bridges", "shortest route", "straight line", "baseline", "input"}
    figure.savefig(tmp_path / "graph.png")
    assert (tmp_path / "graph.png").stat().st_size > 10_000


def test_refuses_other_dimensions():
    score = lp.Score(lambda x: x.sum(1))
    graph = lp.NeighborGraph(flat_points(20, 3), 4).build(score, lp.Conformal())
    with pytest.raises(ValueError, match="expected two features"):
        plot_graph(graph, lp.attribute(score, torch.ones(1, 3), method=graph))
