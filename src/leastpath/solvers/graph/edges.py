"""Edges: which points are joined, and how long a score makes each edge."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch
from torch import Tensor

from leastpath._support.checks import check_features
from leastpath.account.run import Bar, Budget
from leastpath.geometry.metric import Metric, compares_features, length, speed_of
from leastpath.integral.pieces import Estimate, Pieces, chords, quadrature, rule_nodes
from leastpath.score.score import BoundScore
from leastpath.solvers.graph import neighbors

if TYPE_CHECKING:
    from scipy.sparse import csr_array

RULE = "gauss_legendre"
RESIDUAL_LIMIT = 0.05  # of its length: an edge with a larger residual gets more gradients before routes are chosen
MORE_STEPS = 4  # times as many
KEPT_ELEMENTS = 2**27  # edge attributions kept; with more, only lengths are kept and routes are integrated again
EDGES_A_TICK = 2**15  # edges between two updates of the progress bar


@dataclass(frozen=True, eq=False)
class Topology:
    """Nodes and edges, before any model has seen them."""

    points: Tensor  # (n, *features)
    edges: np.ndarray  # (m, 2) int64, i < j
    is_bridge: np.ndarray  # (m,) bool
    edge_keys: np.ndarray  # (m,) sorted keys of the edges, for finding them
    edge_order: np.ndarray  # (m,) their rows in that order
    places: np.ndarray  # (p,) the first point of each distinct place: leaves are joined to these

    @classmethod
    def of(cls, points: Tensor, n_neighbors: int, search: neighbors.Method, steiner: float | None = None) -> Topology:
        """The bridged neighbour graph of points (n, *features), with Steiner points where asked for."""
        edges = neighbors.neighbor_edges(flat(points), n_neighbors, method=search)
        if steiner is not None and len(edges):
            extra = _steiner_points(flat(points), edges, steiner)
            points = torch.cat([points, torch.as_tensor(extra).to(points).reshape(-1, *points.shape[1:])])
            edges = neighbors.neighbor_edges(flat(points), n_neighbors, method=search)
        return cls.with_edges(points, *neighbors.connected_edges(flat(points), edges))

    @classmethod
    def with_edges(cls, points: Tensor, edges: np.ndarray, is_bridge: np.ndarray) -> Topology:
        """From edges (m, 2) and which of them are bridges (m,)."""
        keys = edges[:, 0] * len(points) + edges[:, 1]
        order = np.argsort(keys, kind="stable")
        places, _ = neighbors.distinct_places(flat(points))
        return cls(points, edges, is_bridge, keys[order], order, places)

    def matching(self, like: Tensor) -> Topology:
        """The same graph with its points in the dtype and on the device of `like`."""
        check_features("the graph", self.points.shape[1:], like.shape[1:])
        points = self.points.to(like)
        return self if points is self.points else replace(self, points=points)

    @cached_property
    def index(self) -> neighbors.Index:
        """The places, for the search of leaves; kept, so that one more input takes no work that grows with them."""
        return neighbors.Index(flat(self.points[torch.as_tensor(self.places).to(self.points.device)]))

    def edge_rows(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        """Row of the edge between nodes a and b, (legs,) each, in either direction."""
        wanted = np.minimum(a, b) * len(self.points) + np.maximum(a, b)
        return self.edge_order[np.searchsorted(self.edge_keys, wanted)]

    def adjacency(self, length: np.ndarray) -> csr_array:
        """Edge lengths (m,) as the (n, n) matrix that Dijkstra reads."""
        return neighbors.adjacency(len(self.points), self.edges, length)


class FirstEdges(NamedTuple):
    """The edges of one baseline in pieces. Each route begins with one, so what they need is spent when a tree grows."""

    point: Tensor  # (pieces,) from where an edge leads to the baseline
    span: Tensor  # (pieces, 2) float64
    attributions: Tensor  # these four as of `Estimate`
    length: Tensor
    low: Tensor
    high: Tensor

    @property
    def estimate(self) -> Estimate:
        return Estimate(*self[2:])


@dataclass(frozen=True)
class Tree:
    """Shortest paths from one baseline to every point."""

    distance: np.ndarray  # (n,) float64
    before: np.ndarray  # (n,) int64 the point before; n stands for the baseline itself
    root: int  # the point that lies exactly at the baseline, or -1
    first: FirstEdges | None = None  # None: they were not kept


@dataclass(frozen=True)
class EdgeTable:
    """What one score says of every edge: lengths for Dijkstra, and gradients summed for attributions."""

    length: np.ndarray  # (m,) float64; inf where the score or its gradient is not finite on an edge
    estimate: Estimate | None  # None if the metric needs no gradient, or if it would not fit in memory
    node_score: Tensor | None  # (n,) the score at the points; None if the metric does not look at the model
    adjacency: csr_array  # (n, n) the same lengths, as Dijkstra reads them

    @classmethod
    def of(
        cls, score: BoundScore, example: int, topology: Topology, metric: Metric, n_steps: int, budget: Budget, bar: Bar
    ) -> EdgeTable:
        """Measure every edge with the score of `example`; `budget` is that of `measure_edges`."""
        tail, head = torch.as_tensor(topology.edges).unbind(1)
        pieces = Pieces.whole(topology.points, tail, head, torch.full_like(tail, example))
        node_score = None
        if metric.needs_gradient or compares_features(metric):
            as_example = torch.full((len(topology.points),), example)
            node_score = score.values(topology.points.to(score.work_dtype), as_example, strict=False)
        if not metric.needs_gradient:
            bar.advance(len(tail))
            length = plain_lengths(score, metric, pieces, n_steps)
            return cls(length, None, node_score, topology.adjacency(length))
        assert node_score is not None
        keep = len(tail) * score.n_features <= KEPT_ELEMENTS
        lengths, estimates = [], []
        for rows in torch.arange(len(tail)).split(max(1, min(EDGES_A_TICK, KEPT_ELEMENTS // score.n_features))):
            estimate = measure_edges(score, pieces.take(rows), metric, n_steps, node_score, budget)
            lengths.append(estimate.length.cpu().double().numpy())
            estimates += [estimate] if keep else []
            bar.advance(len(rows))
        length = np.concatenate(lengths)
        return cls(length, Estimate.join(estimates) if keep else None, node_score, topology.adjacency(length))

    @cached_property
    def left_out(self) -> int:
        """How many points are not used, because the score is NaN or infinite there."""
        return 0 if self.node_score is None else int((~torch.isfinite(self.node_score)).sum())

    def tree(self, neighbor: np.ndarray, length: np.ndarray, root: int) -> Tree:
        """Shortest paths from a baseline that edges of `length` (k,) join to points `neighbor` (k,): one Dijkstra."""
        from scipy.sparse import csr_array
        from scipy.sparse.csgraph import dijkstra

        a, n = self.adjacency, self.adjacency.shape[0]
        data, columns = np.concatenate([a.data, length]), np.concatenate([a.indices, neighbor.astype(a.indices.dtype)])
        rows = np.append(a.indptr, a.indptr[-1] + len(neighbor)).astype(a.indptr.dtype)
        extended = csr_array((data, columns, rows), shape=(n + 1, n + 1))  # the baseline is one more row
        distance, before = dijkstra(extended, directed=True, indices=n, return_predecessors=True)
        return Tree(distance[:n], before[:n].astype(np.int64), root)


def measure_edges(
    score: BoundScore, pieces: Pieces, metric: Metric, n_steps: int, at_points: Tensor, budget: Budget
) -> Estimate:
    """Whole segments with `n_steps` gradients each, and more where the residual says that these were too few.

    `at_points` are the scores at `pieces.points`. `budget` limits only the additional gradients; the worst segments
    come first. Where the score or its gradient is not finite on a segment, its length is infinite.
    """
    f0, f1 = (at_points[_on(end, at_points)] for end in (pieces.tail, pieces.head))
    estimate = quadrature(score, pieces, metric, RULE, n_steps, strict=False)
    change = (f1 - f0).abs()
    residual = (estimate.attributions.reshape(len(pieces), -1).sum(1) - (f1 - f0)).abs()
    noise = 64 * score.eps * torch.maximum(f0.abs(), f1.abs())
    poor = residual > RESIDUAL_LIMIT * torch.maximum(estimate.length, change) + noise
    rows = poor.cpu().nonzero()[:, 0]
    if len(rows):
        room = np.floor(budget.left().numpy() / (MORE_STEPS * n_steps))
        rows = rows[_worst(residual[_on(rows, residual)], pieces.example[rows], room)]
    if len(rows):
        better = quadrature(score, pieces.take(rows), metric, RULE, MORE_STEPS * n_steps, strict=False)
        for old, new in zip(estimate, better, strict=True):
            old[_on(rows, old)] = new
    length = torch.maximum(estimate.length, change) if metric.bounds_score else estimate.length
    # A sum is finite only if all its terms are: gradients, and the score at the ends and between them.
    everything = estimate.attributions.reshape(len(pieces), -1).sum(1) + length + change + estimate.low + estimate.high
    return estimate._replace(length=torch.where(torch.isfinite(everything), length, torch.inf))


def _worst(badness: Tensor, example: Tensor, room: np.ndarray) -> Tensor:
    """Which rows (rows,) are among the worst of their example, as many as it has room (batch,) for; in order."""
    owner = example.numpy()
    order = np.lexsort((-badness.cpu().double().numpy(), owner))
    first = np.searchsorted(owner[order], owner[order])
    return torch.as_tensor(np.sort(order[np.arange(len(order)) - first < room[owner[order]]]))


def plain_lengths(score: BoundScore, metric: Metric, pieces: Pieces, n_steps: int) -> np.ndarray:
    """Lengths (pieces,) of whole segments under a metric that needs no gradient; inf where they are not finite."""
    if compares_features(metric):
        found = chords(score, pieces, metric, n_steps, strict=False)
        return torch.where(torch.isfinite(found), found, torch.inf).cpu().double().numpy()
    start, end = pieces.ends(score.work_dtype)
    step = end - start
    nodes, weights = rule_nodes(RULE, n_steps, start)
    # One node after the other, to save memory.
    speeds = [speed_of(metric, torch.lerp(start, end, float(t)), torch.zeros_like(step), step) for t in nodes]
    return length(torch.stack(speeds, 1), weights).cpu().double().numpy()


def flat(points: Tensor) -> np.ndarray:
    """(n, *features) -> (n, d) float64."""
    return points.detach().reshape(len(points), -1).cpu().double().numpy()


def _on(index: Tensor, like: Tensor) -> Tensor:
    return index.to(like.device)


def _steiner_points(points: np.ndarray, edges: np.ndarray, multiple: float) -> np.ndarray:
    """Points (s, d) that cut every edge longer than `multiple` medians into pieces no longer than that."""
    a, b = points[edges[:, 0]], points[edges[:, 1]]
    sizes = np.linalg.norm(b - a, axis=1)
    limit = multiple * np.median(sizes[sizes > 0]) if (sizes > 0).any() else np.inf
    pieces = np.ceil(sizes / limit).astype(int)
    cut = pieces > 1
    if not cut.any():
        return np.empty((0, points.shape[1]))
    counts = pieces[cut] - 1
    number = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts) + 1
    t = (number / np.repeat(pieces[cut], counts))[:, None]
    return np.repeat(a[cut], counts, axis=0) * (1 - t) + np.repeat(b[cut], counts, axis=0) * t
