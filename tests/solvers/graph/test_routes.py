"""Routes: ends join as leaves and take the shortest way, against brute force over every way there is."""

import itertools

import pytest
import torch

import leastpath as lp
from helpers import flat_points, moons_net
from leastpath import Outcome
from leastpath.solvers.graph.routes import row_keys
from oracles import dense

METRICS = [lp.Conformal(), lp.RankOne(), lp.NoCancellation(), lp.Euclidean()]
POINTS = flat_points(120, seed=5)
X, BASE = flat_points(6), torch.full((1, 2), -1.5)
SCORE = lp.Score(moons_net(), 1, "log_softmax")


def explain(solver, score=SCORE, inputs=X, baselines=BASE, **rest):
    return lp.attribute(score, inputs, baselines, method=solver, **rest)


def route_length(nodes, metric):
    """Length of the polyline through nodes (n, 2), by brute force."""
    return dense(lambda x: moons_net(torch.float64)(x).log_softmax(1)[:, 1], nodes, metric, 2000).length


@pytest.mark.parametrize("metric", METRICS, ids=repr)
def test_shortest_route_against_brute_force(metric):
    """Six points, all joined to all: no route over one or two of them is shorter."""
    points, end = flat_points(6, seed=3), flat_points(1, seed=4)
    result = explain(lp.NeighborGraph(points, 5, n_steps=40), inputs=end, metric=metric)
    paths = (
        torch.cat([BASE, points[list(middle)], end])
        for size in (1, 2)
        for middle in itertools.permutations(range(6), size)
    )
    best = min(route_length(nodes, metric) for nodes in paths)
    assert float(result.length) <= best * 1.01


def test_inputs_that_are_points_end_there():
    """An input among the points is that node: no extra knot, and the baseline likewise."""
    result = explain(lp.NeighborGraph(POINTS, 8), inputs=POINTS[:4], baselines=POINTS[7:8])
    for b in range(4):
        knots = result.path[b]
        assert torch.equal(knots[0], POINTS[7]) and torch.equal(knots[-1], POINTS[b])
        assert len(torch.unique(knots, dim=0)) == len(knots)
    itself = explain(lp.NeighborGraph(POINTS, 8), inputs=POINTS[7:8], baselines=POINTS[7:8])
    assert not itself.values.any() and Outcome.FLAT in itself.status[0]


def test_a_near_baseline_is_itself_a_neighbour():
    result = explain(lp.NeighborGraph(POINTS, 8, n_steps=8), inputs=BASE + 1e-3)
    assert len(result.path[0]) == 2


def test_bridges_are_reported_with_number_and_remedy():
    blobs = torch.cat([POINTS[:40] * 0.05 - 1.5, POINTS[40:80] * 0.05 + 1.0])
    result = explain(lp.NeighborGraph(blobs, 5), inputs=torch.full((1, 2), 1.0))
    assert Outcome.BRIDGED in result.status[0]
    assert "a bridge" in result.status[0].value and "raise n_neighbors" in result.status[0].value
    connected = explain(lp.NeighborGraph(POINTS, 15))
    assert not any(Outcome.BRIDGED in s for s in connected.status)


def test_ends_that_are_cut_off_get_the_marked_straight_line():
    """No point has a score; one of two examples of a batch lies among points that have one."""
    score = lp.Score(lambda x: (1 - x[:, 0].abs()).sqrt() + x[:, 1])
    points = torch.cat([0.3 * POINTS[:40].clamp(-2, 2), POINTS[:40] + torch.tensor([9.0, 0.0])])
    x, base = torch.tensor([[0.5, 0.2], [0.9, 0.0]]), torch.tensor([[0.0, 0.0], [0.9, 0.5]])
    apart = lp.NeighborGraph(points[40:], 5)
    result = explain(apart, score, x, base)
    assert result.path.is_straight.all() and all(Outcome.FELL_BACK in s for s in result.status)
    assert "straight line was used" in result.status[0].value
    within = lp.NeighborGraph(points, 5).solve(score.bind(x), lp.Conformal(), base, x, lp.Run())
    assert [note.outcome for note in within.notes[0]] == [Outcome.SOLVER_NOTE] and not within.path.is_straight[0]


def test_euclidean_routes_against_every_simple_route():
    """Seven points with two neighbours each: the shortest of all routes over their edges, in closed form."""
    points, end = flat_points(7, seed=8), flat_points(1, seed=9)
    graph = lp.NeighborGraph(points, 2).build(SCORE, lp.Euclidean())
    route = graph.solve(SCORE.bind(end), lp.Euclidean(), BASE, end, lp.Run()).path[0]
    edges = {frozenset(edge) for edge in graph.topology.edges.tolist()}
    near = [set((points - x).norm(dim=1).argsort()[:2].tolist()) for x in (BASE, end)]
    lengths = []
    for size in range(1, 8):
        for nodes in itertools.permutations(range(7), size):
            joined = nodes[0] in near[0] and nodes[-1] in near[1]
            if joined and all(frozenset(step) in edges for step in itertools.pairwise(nodes)):
                knots = torch.cat([BASE, points[list(nodes)], end])
                lengths.append(float(knots.diff(dim=0).norm(dim=1).sum()))
    assert float(route.diff(dim=0).norm(dim=1).sum()) == pytest.approx(min(lengths), rel=1e-5)


def test_equal_rows_have_equal_keys():
    keys = row_keys(torch.tensor([[0.0, 1.0], [-0.0, 1.0], [1.0, 0.0]]))
    assert keys[0] == keys[1] != keys[2]


def test_baselines_that_are_equal_share_their_edges():
    """Six inputs of one baseline pay for its leaves once."""
    score = lp.Score(moons_net(), 1, "softmax")
    graph = lp.NeighborGraph(POINTS, 8).build(score, lp.Conformal())
    one = explain(graph, score).stats["solver_gradients"].sum()
    apart = explain(graph, score, baselines=BASE + 1e-3 * flat_points(6, seed=3)).stats["solver_gradients"].sum()
    assert int(apart) - int(one) >= 5 * 8 * 3
