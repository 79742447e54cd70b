"""Neighbour graphs and shortest paths: indices and lengths only; no model, no gradient.

`nearest_neighbors` → `neighbor_edges` → `connected_edges` (bridges) → lengths, given by the caller → `adjacency`, which
Dijkstra reads → `routes`. Nothing holds a dense (n, n) matrix.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from leastpath._support.optional import import_optional

if TYPE_CHECKING:  # SciPy is imported where it is used: half a second that most who import the package do not need
    from scipy.sparse import csr_array
    from scipy.spatial import cKDTree

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Method = Literal["auto", "tree", "brute", "faiss"]

TREE_MAX_DIMENSION = 8  # measured, Gaussian points, k = 15: the tree wins up to 8 dimensions, brute force from 10
ALL_PAIRS_MAX_COMPONENTS = 30  # the paper's bridge for every pair of components: 435 bridges; above, see bridge_edges
NEAR_COMPONENTS = 8  # a little more than the number of neighbours of a cell in the plane
MINIMUM_RECALL = 0.99  # of an approximate index, on a sample of the rows; below, its search widens
_CHUNK_VALUES = 2**23  # float64 values in a temporary array: 64 MB
_SMALL_QUERIES = 2**10  # below, starting the threads of a tree's search takes longer than the search
_SMALL_PAIRS = 2**20  # below, starting the threads of a brute-force search takes longer than the distances
_SPARE = 4  # candidates beyond those asked for, so that rounding seldom decides which points are found


class Index:
    """Points (n, d) that are searched more than once: their tree is built once."""

    def __init__(self, points: ArrayLike) -> None:
        self.points: Floats = np.ascontiguousarray(points, dtype=np.float64)

    @cached_property
    def tree(self) -> cKDTree:
        """Built when it is first needed."""
        from scipy.spatial import cKDTree

        return cKDTree(self.points)


def nearest_neighbors(
    points: ArrayLike | Index, k: int, *, queries: ArrayLike | None = None, method: Method = "auto", workers: int = -1
) -> tuple[Floats, Integers]:
    """The k nearest points of each query, or of each point among the others.

    Args:
        points: (n, d) finite coordinates, or an `Index` of them, which is quicker from the second search on.
        k: neighbours of each row. Without `queries` a point is never its own neighbour (its exact duplicates are).
        queries: (m, d) where to search from; by default the points themselves.
        method: "tree" and "brute" are exact, and "auto" takes the faster of the two for the dimension. "faiss" is
            approximate: an HNSW graph that finds at least 99 % of the neighbours on a sample of rows, or exact search
            if it cannot. It is faster above about 20 dimensions or 200,000 points.
        workers: threads of "tree" and "faiss"; -1 takes all. An HNSW graph built by several threads can differ between
            runs; with `workers=1` it is always the same.

    Returns:
        Distances (m, k), ascending in each row, and indices (m, k) into `points`; equal distances by index.
    """
    index = points if isinstance(points, Index) else Index(points)
    points = index.points
    targets = points if queries is None else Index(queries).points
    if len(targets) == 0:
        return np.empty((0, k)), np.empty((0, k), dtype=np.int64)
    wanted = k + (queries is None)  # one more, because a point finds itself
    if method == "auto" and points.shape[1] > TREE_MAX_DIMENSION:
        small = len(points) * len(targets) <= _SMALL_PAIRS
        distances, indices = (_plain_search if small else _brute_search)(points, targets, wanted)
    elif method in ("auto", "tree"):
        found = index.tree.query(targets, wanted, workers=1 if len(targets) < _SMALL_QUERIES else workers)
        distances, indices = _sort_rows(*(part.reshape(len(targets), wanted) for part in found))  # (m,) if wanted = 1
    elif method == "brute":
        distances, indices = _brute_search(points, targets, wanted)
    else:
        distances, indices = _faiss_search(points, targets, wanted, workers)
    return _without_self(distances, indices) if queries is None else (distances, indices)


def _brute_search(points: Floats, queries: Floats, wanted: int) -> tuple[Floats, Integers]:
    """Exact search: matrix products find candidates, and rows where rounding may matter are searched again.

    ‖x‖² - 2x·y + ‖y‖² loses digits where points are close. A point that is not a candidate is no closer than the last
    candidate minus the rounding error. Where that is not enough, the row is computed from plain differences.
    """
    from sklearn.neighbors import NearestNeighbors  # slow to import, and only brute force needs it

    count = min(wanted + _SPARE, len(points))
    center = points.mean(axis=0)  # the rounding error grows with the distance from the origin
    centered, centered_queries = points - center, queries - center
    search = NearestNeighbors(n_neighbors=count, algorithm="brute").fit(centered)
    rough, candidates = search.kneighbors(centered_queries)  # chunked and threaded inside scikit-learn
    distances, indices = _nearest_candidates(points, queries, candidates.astype(np.int64, copy=False), wanted)
    if count == len(points):
        return distances, indices
    radius2 = max((centered**2).sum(axis=1).max(), (centered_queries**2).sum(axis=1).max(initial=0.0))
    rounding = 8 * (points.shape[1] + 4) * np.finfo(np.float64).eps * radius2
    last = distances[:, -1]
    doubtful = np.flatnonzero((last > 0) & (last**2 > rough[:, -1] ** 2 - 2 * rounding))  # nothing is closer than 0
    distances[doubtful], indices[doubtful] = _plain_search(points, queries[doubtful], wanted)
    return distances, indices


def _plain_search(points: Floats, queries: Floats, wanted: int) -> tuple[Floats, Integers]:
    """Exact search from plain differences, in chunks of queries."""
    from scipy.spatial.distance import cdist

    distances = np.empty((len(queries), wanted))
    indices = np.empty((len(queries), wanted), dtype=np.int64)
    step = max(1, _CHUNK_VALUES // len(points))
    for first in range(0, len(queries), step):
        rows = slice(first, first + step)
        block = cdist(queries[rows], points)  # (step, n)
        if wanted < len(points):
            nearest = np.argpartition(block, wanted - 1, axis=1)[:, :wanted]
        else:
            nearest = np.broadcast_to(np.arange(wanted), block.shape)
        distances[rows], indices[rows] = _sort_rows(np.take_along_axis(block, nearest, axis=1), nearest)
    return distances, indices


def _faiss_search(points: Floats, queries: Floats, wanted: int, workers: int) -> tuple[Floats, Integers]:
    """Approximate search; widens until a sample of rows finds `MINIMUM_RECALL` of its true neighbours."""
    faiss = import_optional("faiss", 'method="faiss" needs faiss-cpu (method="auto" is exact and does not)', "ann")
    center = points.mean(axis=0)
    scale = np.abs(points - center).max() or 1.0  # single precision cannot hold large or off-centre coordinates
    single, single_queries = (((a - center) / scale).astype(np.float32) for a in (points, queries))
    count = min(wanted + _SPARE, len(points))

    def search(rows: Any) -> tuple[Floats, Integers] | None:
        """Neighbours in double precision, or None where the index returned fewer than asked."""
        candidates = index.search(single_queries[rows], count)[1].astype(np.int64, copy=False)
        return None if (candidates < 0).any() else _nearest_candidates(points, queries[rows], candidates, wanted)

    threads = faiss.omp_get_max_threads()
    faiss.omp_set_num_threads(workers if workers > 0 else threads)
    try:
        index = faiss.IndexHNSWFlat(points.shape[1], 32)
        index.hnsw.efConstruction = 100
        index.add(single)
        sample = np.linspace(0, len(queries) - 1, min(len(queries), 200)).astype(np.int64)
        truth = _plain_search(points, queries[sample], wanted)[0]
        index.hnsw.efSearch = max(64, 2 * count)
        while index.hnsw.efSearch <= 1024:
            some = search(sample)
            if some is not None and (some[0] <= truth[:, -1:]).mean() >= MINIMUM_RECALL:
                result = search(slice(None))
                if result is not None:
                    return result
            index.hnsw.efSearch *= 2
    finally:
        faiss.omp_set_num_threads(threads)
    return _brute_search(points, queries, wanted)


def _nearest_candidates(points: Floats, queries: Floats, candidates: Integers, wanted: int) -> tuple[Floats, Integers]:
    """The `wanted` nearest of each row's (m, c) candidates, distances from plain differences."""
    distances = np.empty(candidates.shape)
    step = max(1, _CHUNK_VALUES // (candidates.shape[1] * points.shape[1]))
    for first in range(0, len(queries), step):
        rows = slice(first, first + step)
        difference = points[candidates[rows]] - queries[rows, None]  # (step, c, d)
        distances[rows] = np.sqrt(np.einsum("qcd,qcd->qc", difference, difference))
    distances, indices = _sort_rows(distances, candidates)
    return distances[:, :wanted].copy(), indices[:, :wanted].copy()


def _sort_rows(distances: Floats, indices: Integers) -> tuple[Floats, Integers]:
    """Each row by distance, ties by index, so that the order does not depend on the search method."""
    order = np.lexsort((indices, distances), axis=-1)
    return np.take_along_axis(distances, order, axis=1), np.take_along_axis(indices, order, axis=1)


def _without_self(distances: Floats, indices: Integers) -> tuple[Floats, Integers]:
    """Drop each row's own index. Among duplicates it may be missing: then the last is dropped."""
    itself = indices == np.arange(len(indices))[:, None]  # (n, k + 1)
    itself[~itself.any(axis=1), -1] = True
    shape = (len(indices), indices.shape[1] - 1)
    return distances[~itself].reshape(shape), indices[~itself].reshape(shape)


def neighbor_edges(points: Floats, k: int, *, method: Method = "auto") -> Integers:
    """The undirected edges (m, 2) between points (n, d) of which one is among the k nearest neighbours of the other.

    Exact duplicates are one place. Each is joined to the first of them by an edge, which has length zero under every
    metric, and the first one searches its k neighbours among the other places. Otherwise a point with more than k
    duplicates would have no other neighbours, and repeated rows would disconnect the graph.

    Edges have i < j, are sorted and unique. `method` is that of `nearest_neighbors`.
    """
    first, place = distinct_places(points)
    ties = np.column_stack([first[place], np.arange(len(points))])  # (n, 2); unique_edges drops (i, i)
    near = min(k, len(first) - 1)
    if near == 0:
        return unique_edges(ties, len(points))
    indices = nearest_neighbors(points[first], near, method=method)[1]
    links = np.column_stack([np.repeat(first, near), first[indices.ravel()]])
    return unique_edges(np.concatenate([links, ties]), len(points))


def distinct_places(points: Floats) -> tuple[Integers, Integers]:
    """The first point of each distinct place (p,), ascending, and the place of each point (n,)."""
    rows = np.ascontiguousarray(points + 0.0).view(f"V{8 * points.shape[1]}")  # + 0.0: minus zero is zero
    _, first, place = np.unique(rows.ravel(), return_index=True, return_inverse=True)
    order = np.argsort(first)
    return first[order], np.argsort(order)[place]


def unique_edges(pairs: Integers, n_nodes: int) -> Integers:
    """Pairs of nodes (p, 2) in any order as sorted unique edges (m, 2) with i < j; pairs (i, i) are dropped."""
    keys = np.unique(_edge_keys(pairs, n_nodes))
    edges = np.column_stack([keys // n_nodes, keys % n_nodes])
    return edges[edges[:, 0] < edges[:, 1]]


def _edge_keys(pairs: Integers, n_nodes: int) -> Integers:
    keys: Integers = pairs.min(axis=1) * n_nodes + pairs.max(axis=1)
    return keys


def connected_edges(
    points: Floats, edges: Integers, *, max_components: int = ALL_PAIRS_MAX_COMPONENTS
) -> tuple[Integers, NDArray[np.bool_]]:
    """The edges followed by the bridges that connect them (m + b, 2), and which are bridges (m + b,)."""
    bridges = bridge_edges(points, edges, max_components=max_components)
    is_bridge = np.arange(len(edges) + len(bridges)) >= len(edges)
    return np.concatenate([edges, bridges]), is_bridge


def bridge_edges(points: Floats, edges: Integers, *, max_components: int = ALL_PAIRS_MAX_COMPONENTS) -> Integers:
    """Bridges (b, 2) between the components of a graph, each between the closest points of two components.

    Up to `max_components` components every pair gets its bridge, as in the paper. With more, the number of pairs would
    grow with its square: each component is bridged to the nearest one and to the `NEAR_COMPONENTS` whose centroids are
    nearest. This at least halves the number of components, and is repeated until all pairs are few.
    """
    bridges = np.empty((0, 2), dtype=np.int64)
    while True:
        labels, count = components(len(points), np.concatenate([edges, bridges]))
        if count <= 1:
            return unique_edges(bridges, len(points))
        if count <= max_components:
            links = _closest_links(points, labels, np.column_stack(np.triu_indices(count, 1)))
        else:
            near = _closest_links(points, labels, _near_components(points, labels, count))
            links = np.concatenate([near, _foreign_links(points, labels, count)])
        bridges = np.concatenate([bridges, _shortest_links(points, labels, links)])


def components(n_nodes: int, edges: Integers) -> tuple[Integers, int]:
    """Component of each node (n,) and their number."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    graph = coo_array((np.ones(len(edges)), (edges[:, 0], edges[:, 1])), shape=(n_nodes, n_nodes))
    count, labels = connected_components(graph.tocsr(), directed=False)
    return labels.astype(np.int64), int(count)


def _near_components(points: Floats, labels: Integers, count: int) -> Integers:
    """Pairs (p, 2) of components, one of which has its centroid among the nearest of the other's."""
    sizes = np.bincount(labels, minlength=count)
    centroids = np.column_stack([np.bincount(labels, column, minlength=count) / sizes for column in points.T])
    near = min(NEAR_COMPONENTS, count - 1)
    partners = nearest_neighbors(centroids, near)[1]
    return unique_edges(np.column_stack([np.repeat(np.arange(count), near), partners.ravel()]), count)


def _closest_links(points: Floats, labels: Integers, pairs: Integers) -> Integers:
    """The link (p, 2) between the closest points of each pair (p, 2) of components, in no particular order."""
    sizes = np.bincount(labels)
    members = np.split(np.argsort(labels, kind="stable"), np.cumsum(sizes)[:-1])
    searching: dict[int, list[int]] = {}
    for pair in pairs.tolist():  # the smaller component searches the larger
        larger, smaller = sorted(pair, key=lambda component: (-sizes[component], component))
        searching.setdefault(larger, []).append(smaller)
    links = []
    for larger, others in searching.items():
        own, other = np.concatenate([members[k] for k in others]), members[larger]
        nearest = nearest_neighbors(points[other], 1, queries=points[own])[1][:, 0]
        # Reduced at once: all links together would be many times the points.
        links.append(_shortest_links(points, labels, np.column_stack([own, other[nearest]])))
    return np.concatenate(links)


def _foreign_links(points: Floats, labels: Integers, count: int) -> Integers:
    """Each point linked (n, 2) to its nearest point of another component, exactly, with 2 log₂(count) searches.

    Two different labels differ in at least one bit. For each bit, the points with a one search among the points with a
    zero, and the reverse. The best over all bits is the nearest point.
    """
    n = len(points)
    best, nearest = np.full(n, np.inf), np.full(n, -1, dtype=np.int64)
    for bit in range(int(count - 1).bit_length()):
        high = (labels >> bit) & 1 == 1
        ones, zeros = np.flatnonzero(high), np.flatnonzero(~high)
        for own, other in ((ones, zeros), (zeros, ones)):
            distances, found = nearest_neighbors(points[other], 1, queries=points[own])
            closer = distances[:, 0] < best[own]
            best[own[closer]] = distances[closer, 0]
            nearest[own[closer]] = other[found[closer, 0]]
    return np.column_stack([np.arange(n), nearest])


def _shortest_links(points: Floats, labels: Integers, links: Integers) -> Integers:
    """Of the links (l, 2) between each pair of components the shortest, equal ones by index: (b, 2), i < j."""
    links = np.sort(links, axis=1)
    distances = np.linalg.norm(points[links[:, 0]] - points[links[:, 1]], axis=1)
    pair = _edge_keys(labels[links], len(points))
    order = np.lexsort((links[:, 1], links[:, 0], distances, pair))
    first = np.unique(pair[order], return_index=True)[1]
    return links[order[first]]


def adjacency(n_nodes: int, edges: Integers, lengths: Floats) -> csr_array:
    """The symmetric (n, n) sparse matrix of undirected edges. Zero lengths are stored; infinite lengths are left out.

    By hand: sums and maxima of sparse matrices drop stored zeros, and points at one place would become unreachable.
    `dijkstra` accepts stored zeros, and takes the shortest of parallel edges.
    """
    from scipy.sparse import csr_array

    finite = np.isfinite(lengths)
    pairs, values = edges[finite], lengths[finite]
    if (values < 0).any():  # Dijkstra would walk in circles, and take all memory
        raise ValueError(f"edges have lengths down to {values.min():g}, expected none below 0: a metric's speed is one")
    rows, columns = np.concatenate([pairs[:, 0], pairs[:, 1]]), np.concatenate([pairs[:, 1], pairs[:, 0]])
    order = np.lexsort((columns, rows))
    starts = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=n_nodes))])
    data = np.concatenate([values, values])[order]
    index = np.int32 if max(n_nodes, len(data)) < 2**31 else np.int64  # csgraph works in int32 and would copy
    return csr_array((data, columns[order].astype(index), starts.astype(index)), shape=(n_nodes, n_nodes))


def routes(predecessors: Integers, source: int, targets: ArrayLike) -> tuple[Integers, Integers]:
    """The nodes from the source to each target, one route after the other: route (total,) and offsets (t + 1,).

    `predecessors` (n,) are those of one source, from Dijkstra. Route b is `route[offsets[b]:offsets[b + 1]]`, source
    first, target last; for the source itself it is that single node. All targets can be reached: the graph has bridges.
    """
    ends, longest = np.asarray(targets, dtype=np.int64).ravel(), len(predecessors) + 1
    circles = ValueError("routes go in circles: this graph is not as it was built. Build it anew")
    if len(ends) == 1:  # one more input: plain steps back are quicker than arrays of one number
        back = [int(ends[0])]
        while back[-1] != source:
            back.append(int(predecessors[back[-1]]))
            if len(back) > longest:
                raise circles
        return np.array(back[::-1]), np.array([0, len(back)])
    rows, nodes = np.arange(len(ends)), ends
    steps = [(rows, nodes)]  # from every target back to the source
    while (going := nodes != source).any():
        rows, nodes = rows[going], predecessors[nodes[going]]
        steps.append((rows, nodes))
        if len(steps) > longest:
            raise circles
    rows, nodes = (np.concatenate(part) for part in zip(*reversed(steps), strict=True))
    offsets = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=len(ends)))])
    return nodes[np.argsort(rows, kind="stable")], offsets
