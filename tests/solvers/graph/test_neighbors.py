"""Oracles: brute force for neighbours, Floyd-Warshall for distances, closest pairs for bridges."""

import itertools
import sys

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings
from scipy.sparse.csgraph import dijkstra
from scipy.spatial.distance import cdist

from leastpath.solvers.graph.neighbors import (
    Index,
    adjacency,
    bridge_edges,
    components,
    connected_edges,
    nearest_neighbors,
    neighbor_edges,
    routes,
    unique_edges,
)

EXACT = ["auto", "tree", "brute"]


def shortest_paths(n, edges, lengths, sources):
    """Distances and predecessors (sources, n), as routes are found: scipy's Dijkstra over our adjacency."""
    distances, before = dijkstra(adjacency(n, edges, lengths), indices=sources, return_predecessors=True)
    return distances, before.astype(np.int64)


def brute_force(points, k, queries=None):
    """k smallest distances of each row of the full matrix, own index excluded when there are no queries."""
    full = cdist(points if queries is None else queries, points)
    if queries is None:
        np.fill_diagonal(full, np.inf)
    return np.sort(full, axis=1)[:, :k]


def floyd_warshall(n, edges, lengths):
    distances = np.full((n, n), np.inf)
    np.fill_diagonal(distances, 0.0)
    for (i, j), length in zip(edges, lengths, strict=True):
        distances[i, j] = distances[j, i] = min(distances[i, j], length)
    for middle in range(n):
        distances = np.minimum(distances, distances[:, middle, None] + distances[None, middle])
    return distances


def euclidean(points, edges):
    return np.linalg.norm(points[edges[:, 0]] - points[edges[:, 1]], axis=1)


def clouds(seed, centers, size=20, d=2):
    rng = np.random.default_rng(seed)
    return np.concatenate([np.asarray(c, dtype=float) + 0.1 * rng.normal(size=(size, d)) for c in centers])


@st.composite
def point_sets(draw, max_n=40, max_d=12):
    """Small integer coordinates make duplicates, ties and collinear points; a scale and a shift make rounding."""
    n, d = draw(st.integers(2, max_n)), draw(st.integers(1, max_d))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    points = rng.integers(0, draw(st.integers(1, 4)), size=(n, d)) if draw(st.booleans()) else rng.normal(size=(n, d))
    return points * draw(st.sampled_from([1e-6, 1.0, 1e6])) + draw(st.sampled_from([0.0, 1.0, 1e3]))


@st.composite
def graphs(draw):
    n = draw(st.integers(1, 12))
    pairs = draw(st.lists(st.tuples(st.integers(0, n - 1), st.integers(0, n - 1)), max_size=40))
    edges = unique_edges(np.array(pairs, dtype=np.int64).reshape(-1, 2), n)
    lengths = draw(st.lists(st.sampled_from([0.0, 0.25, 1.0, 3.0, 1e-9]), min_size=len(edges), max_size=len(edges)))
    return n, edges, np.array(lengths, dtype=float)


# ---------------------------------------------------------------------------------------------- nearest neighbours


@pytest.mark.parametrize("method", EXACT)
@given(points=point_sets(), data=st.data())
@settings(max_examples=60, deadline=None)
def test_neighbors_against_brute_force(method, points, data):
    k = data.draw(st.integers(1, len(points) - 1))
    distances, indices = nearest_neighbors(points, k, method=method)
    assert distances.shape == indices.shape == (len(points), k)
    assert indices.dtype == np.int64
    np.testing.assert_allclose(distances, brute_force(points, k), rtol=1e-12, atol=0)
    assert (indices != np.arange(len(points))[:, None]).all()
    assert all(len(set(row)) == k for row in indices.tolist())
    np.testing.assert_allclose(cdist(points, points)[np.arange(len(points))[:, None], indices], distances, rtol=1e-12)


@pytest.mark.parametrize("method", EXACT)
@given(points=point_sets(), data=st.data())
@settings(max_examples=30, deadline=None)
def test_queries_against_brute_force(method, points, data):
    k = data.draw(st.integers(1, len(points)))
    queries = points[::-2] + 0.25
    distances, _ = nearest_neighbors(points, k, queries=queries, method=method)
    np.testing.assert_allclose(distances, brute_force(points, k, queries), rtol=1e-12, atol=0)


def test_a_query_that_is_a_point_finds_that_point():
    points = np.random.default_rng(0).normal(size=(50, 3))
    distances, indices = nearest_neighbors(points, 1, queries=points[7:9])
    assert indices.ravel().tolist() == [7, 8] and (distances == 0).all()


def test_an_index_against_its_points():
    points, queries = np.random.default_rng(0).normal(size=(2, 200, 3))
    index = Index(points)
    for method in ("tree", "brute"):
        kept, plain = (nearest_neighbors(of, 5, queries=queries, method=method) for of in (index, points))
        for ours, theirs in zip(kept, plain, strict=True):
            np.testing.assert_array_equal(ours, theirs)
    assert index.tree is index.tree


def test_no_queries_give_no_rows():
    distances, indices = nearest_neighbors(np.eye(20), 3, queries=np.empty((0, 20)))
    assert distances.shape == indices.shape == (0, 3)


@pytest.mark.parametrize("method", EXACT)
def test_more_duplicates_than_neighbors_still_exclude_oneself(method):
    points = np.repeat([[0.0, 0.0], [1.0, 0.0]], 30, axis=0)
    distances, indices = nearest_neighbors(points, 5, method=method)
    assert (distances == 0).all()
    assert (indices != np.arange(60)[:, None]).all()
    assert ((indices < 30) == (np.arange(60) < 30)[:, None]).all()


def test_brute_force_survives_cancellation():
    """Pairs 1e-9 apart, far from the mean: matrix products alone cannot tell neighbours from strangers."""
    rng = np.random.default_rng(0)
    points = np.repeat(rng.normal(size=(10, 20)), 30, axis=0) * 1e3 + 1e-9 * rng.normal(size=(300, 20))
    distances, _ = nearest_neighbors(points, 5, method="brute")
    np.testing.assert_allclose(distances, brute_force(points, 5), rtol=1e-12)


def test_tree_and_brute_agree_in_general_position():
    points = np.random.default_rng(0).normal(size=(3000, 6))
    tree, brute = (nearest_neighbors(points, 15, method=method) for method in ("tree", "brute"))
    np.testing.assert_allclose(tree[0], brute[0], rtol=1e-12)
    np.testing.assert_array_equal(tree[1], brute[1])


def test_faiss_missing_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "faiss", None)
    with pytest.raises(ImportError, match=r"leastpath\[ann\]"):
        nearest_neighbors(np.zeros((4, 2)), 1, method="faiss")


@pytest.mark.parametrize("d", [3, 30])
def test_faiss_recall(d):
    pytest.importorskip("faiss")
    points = np.random.default_rng(0).normal(size=(3000, d)) + 1e3
    distances, indices = nearest_neighbors(points, 15, method="faiss", workers=1)
    truth = brute_force(points, 15)
    assert (distances <= truth[:, -1:] * (1 + 1e-12)).mean() > 0.98
    assert (indices != np.arange(3000)[:, None]).all()
    again = nearest_neighbors(points, 15, method="faiss", workers=1)[1]
    assert (indices == again).all()


def test_faiss_handles_duplicates_and_tiny_sets():
    pytest.importorskip("faiss")
    points = np.repeat(np.eye(4), 30, axis=0)
    assert (nearest_neighbors(points, 5, method="faiss")[1] != np.arange(120)[:, None]).all()
    assert nearest_neighbors(np.eye(3), 2, method="faiss")[1].tolist() == [[1, 2], [0, 2], [0, 1]]


# --------------------------------------------------------------------------------------------------------- edges


@given(points=point_sets(), data=st.data())
@settings(max_examples=60, deadline=None)
def test_edges_are_sorted_unique_and_without_loops(points, data):
    edges = neighbor_edges(points, data.draw(st.integers(1, len(points) - 1)))
    assert (edges[:, 0] < edges[:, 1]).all()
    assert edges.tolist() == sorted(map(list, set(map(tuple, edges.tolist()))))


def test_edges_are_the_union_of_neighborhoods():
    points = np.random.default_rng(0).normal(size=(80, 3))
    nearest = nearest_neighbors(points, 4)[1]
    expected = {tuple(sorted((i, int(j)))) for i in range(80) for j in nearest[i]}
    assert {tuple(e) for e in neighbor_edges(points, 4).tolist()} == expected


@given(seed=st.integers(0, 1000), n=st.integers(3, 60), d=st.integers(1, 12))
@settings(max_examples=40, deadline=None)
def test_permuting_points_in_general_position_changes_nothing(seed, n, d):
    rng = np.random.default_rng(seed)
    points, order = rng.normal(size=(n, d)), rng.permutation(n)
    k = min(3, n - 1)
    edges, is_bridge = connected_edges(points, neighbor_edges(points, k))
    moved, moved_bridge = connected_edges(points[order], neighbor_edges(points[order], k))
    assert {(*e, b) for e, b in zip(map(tuple, edges.tolist()), is_bridge.tolist(), strict=True)} == {
        (*sorted(e), b) for e, b in zip(order[moved].tolist(), moved_bridge.tolist(), strict=True)
    }


def test_duplicated_points_change_no_distance():
    """Each point thirty times, k = 5: the places keep their neighbours, the copies lie at distance 0."""
    places = np.random.default_rng(0).normal(size=(40, 2))
    edges = neighbor_edges(places, 5)
    expected = shortest_paths(40, edges, euclidean(places, edges), [0])[0]
    points = np.tile(places, (30, 1))
    edges = neighbor_edges(points, 5)
    assert components(1200, edges)[1] == components(40, neighbor_edges(places, 5))[1]
    distances = shortest_paths(1200, edges, euclidean(points, edges), [0])[0]
    np.testing.assert_allclose(distances, np.tile(expected, (1, 30)), rtol=1e-12)


def test_identical_points_are_one_place():
    edges = neighbor_edges(np.ones((20, 3)), 15)
    assert edges.tolist() == [[0, j] for j in range(1, 20)]


def test_signed_zeros_are_one_place():
    assert neighbor_edges(np.array([[0.0, 1.0], [-0.0, 1.0], [5.0, 5.0]]), 1).tolist() == [[0, 1], [0, 2]]


def test_collinear_points_walk_the_line():
    points = np.linspace(0, 1, 50)[:, None] * np.array([[1.0, 2.0, -1.0]])
    edges = neighbor_edges(points, 2)
    distances = shortest_paths(50, edges, euclidean(points, edges), [0])[0][0]
    np.testing.assert_allclose(distances, np.linalg.norm(points, axis=1), atol=1e-12)


# -------------------------------------------------------------------------------------------------------- bridges


@pytest.mark.parametrize("d", [2, 15])
def test_bridges_join_the_closest_points_of_every_pair(d):
    centers = 10 * np.random.default_rng(1).normal(size=(4, d))
    points = clouds(0, centers, d=d)
    edges, is_bridge = connected_edges(points, neighbor_edges(points, 4))
    labels, count = components(80, edges[~is_bridge])
    full = cdist(points, points)
    expected = set()
    for a in range(count):
        for b in range(a + 1, count):
            block = np.where((labels[:, None] == a) & (labels[None] == b), full, np.inf)
            i, j = np.unravel_index(block.argmin(), block.shape)
            expected.add(tuple(sorted((int(i), int(j)))))
    assert count == 4
    assert {tuple(e) for e in edges[is_bridge].tolist()} == expected
    assert components(80, edges)[1] == 1


@given(points=point_sets(max_n=60), limit=st.integers(1, 8))
@settings(max_examples=80, deadline=None)
def test_bridges_connect_any_graph(points, limit):
    edges, is_bridge = connected_edges(points, neighbor_edges(points, 1), max_components=limit)
    assert components(len(points), edges)[1] == 1
    assert len({tuple(e) for e in edges.tolist()}) == len(edges)
    assert not is_bridge[: (~is_bridge).sum()].any()


def test_many_components_each_get_their_shortest_bridge():
    """Clumps along a rod: the rod is nearest to all of them, its centroid to few."""
    clumps = clouds(3, [(10.0 * i, 10.0 * j) for i in range(20) for j in range(3)], size=8)
    rod = np.column_stack([np.arange(-3.0, 500.0, 0.5), np.full(1006, -3.0)])
    points = np.concatenate([clumps, rod + 0.01 * np.random.default_rng(0).normal(size=rod.shape)])
    edges = neighbor_edges(points, 5)
    labels, count = components(len(points), edges)
    bridges = bridge_edges(points, edges)
    full = cdist(points, points)
    assert count == 61 and len(bridges) < count * (count - 1) / 4
    assert components(count, labels[bridges])[1] == 1
    found = {tuple(e) for e in bridges.tolist()}
    for component in range(count):
        block = np.where((labels[:, None] == component) & (labels[None] != component), full, np.inf)
        i, j = np.unravel_index(block.argmin(), block.shape)
        assert tuple(sorted((int(i), int(j)))) in found


def test_permuting_many_components_changes_nothing():
    points = clouds(3, 100 * np.random.default_rng(2).random(size=(60, 2)), size=8)
    order = np.random.default_rng(4).permutation(len(points))
    bridges = bridge_edges(points, neighbor_edges(points, 5))
    moved = bridge_edges(points[order], neighbor_edges(points[order], 5))
    assert set(map(tuple, bridges.tolist())) == set(map(tuple, np.sort(order[moved], axis=1).tolist()))


def test_bridges_of_many_clumps_do_not_lengthen_the_way_much():
    """A spanning tree of the clumps would: a graph of them has to have ways around."""
    centers = np.random.default_rng(5).random(size=(200, 2))
    points = np.repeat(centers, 8, axis=0) + 1e-5 * np.random.default_rng(6).normal(size=(1600, 2))
    edges, is_bridge = connected_edges(points, neighbor_edges(points, 5))
    assert is_bridge.sum() > 2 * 200
    distances = shortest_paths(1600, edges, euclidean(points, edges), [0])[0][0]
    straight = np.linalg.norm(points - points[0], axis=1)
    assert np.median(distances[8:] / straight[8:]) < 1.15


def test_a_connected_graph_needs_no_bridge():
    points = np.random.default_rng(0).normal(size=(50, 2))
    assert bridge_edges(points, neighbor_edges(points, 15)).shape == (0, 2)


def test_points_without_edges_are_bridged():
    assert bridge_edges(np.array([[0.0], [1.0], [3.0]]), np.empty((0, 2), dtype=np.int64)).tolist() == [
        [0, 1],
        [0, 2],
        [1, 2],
    ]


# ------------------------------------------------------------------------------------------------- shortest paths


@given(graph=graphs())
@settings(max_examples=200, deadline=None)
def test_shortest_paths_against_floyd_warshall(graph):
    n, edges, lengths = graph
    distances, predecessors = shortest_paths(n, edges, lengths, np.arange(n))
    np.testing.assert_allclose(distances, floyd_warshall(n, edges, lengths), rtol=1e-12)
    assert predecessors.shape == (n, n) and predecessors.dtype == np.int64


@given(graph=graphs())
@settings(max_examples=200, deadline=None)
def test_routes_add_up_to_the_distance(graph):
    n, edges, lengths = graph
    weight = {
        frozenset(e): min(w for f, w in zip(edges.tolist(), lengths, strict=True) if {*f} == {*e})
        for e in edges.tolist()
    }
    for source, (distances, before) in enumerate(zip(*shortest_paths(n, edges, lengths, np.arange(n)), strict=True)):
        targets = np.flatnonzero(np.isfinite(distances))[::-1]
        route, offsets = routes(before, source, targets)
        alone = [routes(before, source, [target])[0] for target in targets]  # a batch gives what a loop gives
        np.testing.assert_array_equal(route, np.concatenate(alone))
        for row, target in enumerate(targets):
            nodes = route[offsets[row] : offsets[row + 1]].tolist()
            assert nodes[0] == source and nodes[-1] == target
            total = sum(weight[frozenset(step)] for step in itertools.pairwise(nodes))
            assert total == pytest.approx(distances[target], rel=1e-12)


def test_zero_lengths_are_edges():
    """Coincident points, and a chain of nothing but zeros."""
    distances, predecessors = shortest_paths(4, np.array([[0, 1], [1, 2], [2, 3]]), np.zeros(3), [0])
    assert distances.tolist() == [[0, 0, 0, 0]]
    assert routes(predecessors[0], 0, [3])[0].tolist() == [0, 1, 2, 3]
    assert adjacency(4, np.array([[0, 1]]), np.zeros(1)).nnz == 2


def test_parallel_edges_take_the_shorter():
    assert shortest_paths(2, np.array([[0, 1], [1, 0]]), np.array([3.0, 1.0]), [1])[0].tolist() == [[1, 0]]


def test_route_of_the_source_is_itself():
    predecessors = shortest_paths(2, np.array([[0, 1]]), np.ones(1), [0])[1][0]
    route, offsets = routes(predecessors, 0, [0, 1, 0])
    assert route.tolist() == [0, 0, 1, 0] and offsets.tolist() == [0, 1, 3, 4]
    route, offsets = routes(predecessors, 0, [])
    assert route.tolist() == [] and offsets.tolist() == [0]


def test_an_infinite_length_is_no_edge():
    distances = shortest_paths(3, np.array([[0, 1], [1, 2]]), np.array([1.0, np.inf]), [0])[0][0]
    assert distances.tolist() == [0.0, 1.0, np.inf]


def test_a_long_chain():
    n = 3000
    edges = np.column_stack([np.arange(n - 1), np.arange(1, n)])
    _, predecessors = shortest_paths(n, edges, np.ones(n - 1), [0])
    route, offsets = routes(predecessors[0], 0, [n - 1, 5])
    assert route.tolist() == [*range(n), *range(6)] and offsets.tolist() == [0, n, n + 6]


def test_a_length_below_zero_is_refused():
    """Dijkstra would walk in circles: a file with such lengths took all memory and ended the process."""
    with pytest.raises(ValueError, match="lengths down to -1, expected none below 0"):
        adjacency(2, np.array([[0, 1]]), np.array([-1.0]))


@pytest.mark.parametrize("targets", [[1], [1, 0]])
def test_routes_that_go_in_circles_are_refused(targets):
    with pytest.raises(ValueError, match="routes go in circles"):
        routes(np.array([1, 0, 0]), 2, targets)
