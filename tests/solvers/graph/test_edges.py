"""Edges: lengths and attributions against dense quadrature, trees against Bellman and Ford, look-ups by brute force."""

import numpy as np
import pytest
import torch

import leastpath as lp
from helpers import flat_points, mlp, moons_net
from leastpath.account.run import Bar
from leastpath.solvers.graph.edges import EdgeTable, Topology, _worst
from oracles import dense

METRICS = [lp.Conformal(), lp.RankOne(), lp.NoCancellation(), lp.Euclidean()]
POINTS = flat_points(120, seed=5)
X, BASE = flat_points(6), torch.full((1, 2), -1.5)
SCORE = lp.Score(moons_net(), 1, "log_softmax")


def explain(solver, score=SCORE, inputs=X, baselines=BASE, **rest):
    return lp.attribute(score, inputs, baselines, method=solver, **rest)


NET = mlp(2).double()
CLOUD = flat_points(12, seed=2, dtype=torch.float64)


def table_of(score: lp.Score, topology: Topology, metric: lp.Metric) -> EdgeTable:
    bound = score.bind(topology.points[:1])
    return EdgeTable.of(bound, 0, topology, metric, 8, lp.Run().budget(bound), Bar())


@pytest.mark.parametrize("metric", METRICS, ids=repr)
def test_lengths_and_attributions_against_dense_quadrature(metric):
    topology = Topology.of(CLOUD, 3, "auto")
    table = table_of(lp.Score(NET, 1), topology, metric)
    for row, (i, j) in enumerate(topology.edges):
        expected = dense(lambda x: NET(x)[:, 1], CLOUD[[i, j]], metric, 2000)
        assert table.length[row] == pytest.approx(expected.length, rel=0.02, abs=1e-4)
        if metric.needs_gradient:
            torch.testing.assert_close(table.estimate.attributions[row], expected.values, rtol=1e-2, atol=1e-3)
    if metric.needs_gradient:
        torch.testing.assert_close(table.node_score, NET(CLOUD)[:, 1].detach())


def test_a_tree_against_bellman_and_ford():
    """Relaxing every edge as often as there are points gives the distances; the route back adds up to them."""
    topology = Topology.of(CLOUD, 3, "auto")
    table = table_of(lp.Score(NET, 1), topology, lp.Conformal())
    roots, first = np.array([2, 7]), np.array([0.5, 0.1])
    tree = table.tree(roots, first, -1)
    distance = np.full(12, np.inf)
    distance[roots] = first
    for _ in range(12):
        for (i, j), length in zip(topology.edges, table.length, strict=True):
            distance[i], distance[j] = min(distance[i], distance[j] + length), min(distance[j], distance[i] + length)
    np.testing.assert_allclose(tree.distance, distance)
    for node in range(12):
        before = tree.before[node]
        last = first[roots == node][0] if before == 12 else table.length[topology.edge_rows(before, node)]
        assert tree.distance[node] == pytest.approx((0 if before == 12 else tree.distance[before]) + last)


def test_edges_are_found_in_either_direction():
    topology = Topology.of(POINTS, 6, "auto")
    a, b = topology.edges.T
    assert topology.edge_rows(a, b).tolist() == topology.edge_rows(b, a).tolist() == list(range(len(a)))


def test_the_worst_rows_of_each_example_against_sorting():
    generator = torch.Generator().manual_seed(0)
    badness, example = torch.rand(40, generator=generator), torch.randint(3, (40,), generator=generator)
    room = np.array([5.0, 0.0, np.inf])
    expected = []
    for number, most in enumerate(room):
        own = sorted((i for i in range(40) if example[i] == number), key=lambda i: -badness[i])
        expected += own[: int(min(most, 40))]
    assert _worst(badness, example, room).tolist() == sorted(expected)


def test_an_edge_without_a_score_is_endless():
    points = torch.tensor([[1.0, 0.0], [2.0, 0.0], [-1.0, 0.0]]).double()
    topology = Topology.of(points, 2, "auto")
    table = table_of(lp.Score(lambda x: x[:, 0].log()), topology, lp.Conformal())
    lengths = dict(zip(map(tuple, topology.edges.tolist()), table.length.tolist(), strict=True))
    assert lengths[0, 1] == pytest.approx(np.log(2), rel=1e-4)
    assert lengths[0, 2] == lengths[1, 2] == np.inf and table.left_out == 1


def test_steiner_points_cut_long_edges():
    sparse = torch.cat([POINTS[:40] * 0.1, POINTS[40:44] * 3])
    plain, cut = (Topology.of(sparse, 4, "auto", steiner) for steiner in (None, 2.0))
    assert len(cut.points) > len(plain.points) and torch.equal(cut.points[:44], sparse)

    def longest(t):
        a, b = (t.points[torch.as_tensor(t.edges[~t.is_bridge][:, i])] for i in (0, 1))
        return float((a - b).norm(dim=1).max())

    assert longest(cut) < longest(plain)
    assert torch.isfinite(explain(lp.NeighborGraph(sparse, 4, steiner=2.0)).length).all()


def test_edges_in_small_portions_are_the_same(monkeypatch):
    whole = explain(lp.NeighborGraph(POINTS, 8))
    monkeypatch.setattr("leastpath.solvers.graph.edges.EDGES_A_TICK", 7)
    portions = explain(lp.NeighborGraph(POINTS, 8))
    assert torch.equal(whole.path.route, portions.path.route)
    torch.testing.assert_close(whole.values, portions.values)


def test_edges_under_a_data_metric_against_fine_sums():
    """An edge that bridges empty ground must see that ground, not its ends."""
    data = torch.tensor([[0.0, 0.0], [0.1, 0.0], [1.0, 0.0], [1.1, 0.0]])
    metric = lp.DataDensity(data, bandwidth=0.2)
    graph = lp.NeighborGraph(data, 2, n_steps=5).build(lp.Score(lambda x: x.sum(1)), metric)
    for (i, j), length in zip(graph.topology.edges, graph.tables[-1].length, strict=True):
        t = (torch.arange(2000) + 0.5)[:, None] / 2000
        step = (data[j] - data[i]).expand(2000, 2)
        fine = metric.speed(torch.lerp(data[i], data[j], t), step, step).mean()
        assert length == pytest.approx(float(fine), rel=0.02)
