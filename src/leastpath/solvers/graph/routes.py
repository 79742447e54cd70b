"""Routes: baselines and inputs join the graph as leaves, and each input gets its shortest route."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from leastpath._support.rows import norms
from leastpath.account.run import Budget
from leastpath.geometry.metric import Metric
from leastpath.geometry.path import Path
from leastpath.integral.pieces import Estimate, KnownSegments, Pieces, quadrature
from leastpath.result.status import Note, Outcome
from leastpath.score.score import BoundScore
from leastpath.solvers.graph import neighbors
from leastpath.solvers.graph.edges import EdgeTable, FirstEdges, Topology, Tree, flat, measure_edges, plain_lengths
from leastpath.solvers.solution import Solution

if TYPE_CHECKING:
    from leastpath.solvers.graph.solver import NeighborGraph

CUT_OFF = Note(
    Outcome.FELL_BACK,
    "every route over the graph meets points where the score or its gradient is NaN or infinite: the straight line "
    "was used; pass points where it is finite",
)


PIECES = 4  # of an edge of a baseline whose tree is kept
WHOLE = torch.tensor([[0.0, 1.0]], dtype=torch.float64)  # the span of an edge in one piece


@dataclass(frozen=True)
class Leaves:
    """Ends joined to the graph: each to its nearest points."""

    node: np.ndarray  # (ends,) the point that lies exactly there, or -1
    neighbor: np.ndarray  # (ends, k) points
    distance: np.ndarray  # (ends, k) Euclidean
    length: np.ndarray  # (ends, k) under the metric; 0 at `node`, inf at its others
    estimate: Estimate | None  # (ends · k) from point to end; zeros where an end is a point


@dataclass(frozen=True)
class Router:
    """Routes for examples that share one score, over a graph whose edges are known.

    Nodes are numbered in one pool: the graph's points, then the distinct baselines, then the inputs.
    """

    solver: NeighborGraph
    budget: Budget  # of the solver
    metric: Metric
    topology: Topology
    table: EdgeTable
    examples: Tensor  # (batch,) their numbers in the bound score
    trees: Mapping[bytes, Tree] = field(default_factory=dict)  # known before, by the baseline's bytes
    at_ends: Tensor | None = None  # (batch,) scores of the examples at their ends, if they are known

    @property
    def score(self) -> BoundScore:
        """The one that the budget counts for."""
        return self.budget.score

    def find_routes(self, start: Tensor, end: Tensor) -> Solution:
        """start, end (batch, *features) -> a route each."""
        n = len(self.topology.points)
        keys = row_keys(start)
        first = {key: b for b, key in reversed(list(enumerate(keys)))}  # an example for each distinct baseline
        number = {key: i for i, key in enumerate(first)}
        start_of = np.array([number[key] for key in keys])  # (batch,)
        pick = torch.tensor(list(first.values()))
        starts = start[pick.to(start.device)]
        roots = None if all(key in self.trees for key in first) else self.leaves(starts, self.examples[pick])
        tips = self.leaves(end, self.examples, self.at_ends)
        trees = [
            self.trees[key] if roots is None or key in self.trees else self.grow_tree(roots, i)
            for i, key in enumerate(first)
        ]
        routes: list[np.ndarray] = [np.empty(0)] * len(end)
        cut_off = np.zeros(len(end), dtype=bool)
        for i, tree in enumerate(trees):
            rows = np.flatnonzero(start_of == i)
            total = tree.distance[tips.neighbor[rows]] + tips.length[rows]  # (rows, k) over each neighbour of an input
            shortest = total.min(1)
            cut_off[rows] = ~np.isfinite(shortest)
            ends = end[torch.as_tensor(rows).to(end.device)]
            direct = self._direct(tips, rows, starts[i], ends, tree, shortest) | cut_off[rows]
            last = tips.neighbor[rows, total.argmin(1)]
            for b, route in zip(rows, self._from(tree, n + i, rows, n + len(number), tips, last, direct), strict=True):
                routes[b] = route
        return self._solution(starts, end, routes, trees, roots, tips, cut_off)

    def leaves(self, ends: Tensor, examples: Tensor, at_ends: Tensor | None = None) -> Leaves:
        """Join ends (ends, *features) to their nearest points, with the scores of `examples` (ends,).

        `at_ends` (ends,) are these scores there, if they are known.
        """
        points, places = self.topology.points, self.topology.places
        k = min(self.solver.n_neighbors, len(places))
        distance, near = neighbors.nearest_neighbors(
            self.topology.index, k, queries=flat(ends), method=self.solver.search
        )
        neighbor = places[near]
        node = np.where(distance[:, 0] == 0, neighbor[:, 0], -1)
        length = np.where((node >= 0)[:, None], np.inf, distance)
        length[node >= 0, 0] = 0.0
        apart = np.flatnonzero(np.repeat(node < 0, k))  # an end that is a point needs no edge
        estimate = None
        if len(apart):
            used, tail = map(torch.as_tensor, np.unique(neighbor.ravel()[apart], return_inverse=True))
            of = torch.as_tensor(np.repeat(np.arange(len(ends)), k)[apart])
            pool = torch.cat([points[used.to(points.device)], ends])  # not all points: these may be many
            pieces = Pieces.whole(pool, tail, len(used) + of, examples[of])
            scores = None
            if self.table.node_score is not None:
                if at_ends is None:
                    at_ends = self.score.values(ends.to(self.score.work_dtype), examples)
                node_score = self.table.node_score
                scores = torch.cat([node_score[used.to(node_score.device)].to(at_ends), at_ends])
            length.ravel()[apart], some = self._edges(pieces, scores)
            if some is not None and len(apart) == len(ends) * k:
                estimate = some
            elif some is not None:
                rows, n = torch.as_tensor(apart).to(some.length.device), len(ends) * k
                estimate = Estimate(*(part.new_zeros(n, *part.shape[1:]).index_copy_(0, rows, part) for part in some))
        return Leaves(node, neighbor, distance, length, estimate)

    def _edges(self, pieces: Pieces, scores: Tensor | None) -> tuple[np.ndarray, Estimate | None]:
        """Lengths of edges (edges,), and what was measured; `scores` at all points, if the metric needs gradients."""
        k, n_steps = self.solver.n_neighbors, self.solver.n_steps
        if scores is None or not self.metric.needs_gradient:
            return plain_lengths(self.score, self.metric, pieces, n_steps), None
        # Baselines join before inputs do, and must leave what the inputs need at least.
        more = self.budget.keeping((k + 1) * n_steps)
        estimate = measure_edges(self.score, pieces, self.metric, n_steps, scores, more)
        return estimate.length.cpu().double().numpy(), estimate

    def grow_tree(self, roots: Leaves, i: int) -> Tree:
        """The shortest-path tree of baseline i: one Dijkstra for any number of inputs."""
        finite = np.isfinite(roots.length[i])
        return self.table.tree(roots.neighbor[i][finite], roots.length[i][finite], int(roots.node[i]))

    def first_edges(self, roots: Leaves, i: int, start: Tensor) -> FirstEdges | None:
        """The edges of baseline i at `start`, in pieces; None if nothing is kept of edges."""
        if self.table.estimate is None:
            return None
        points, k = self.topology.points, roots.neighbor.shape[1]
        pool = torch.cat([points[torch.as_tensor(roots.neighbor[i]).to(points.device)], start[None]])
        edge, cuts = torch.arange(k).repeat_interleave(PIECES), torch.linspace(0, 1, PIECES + 1, dtype=torch.float64)
        t0, t1 = cuts[:-1].repeat(k), cuts[1:].repeat(k)
        pieces = Pieces(pool, edge, torch.full_like(edge, k), self.examples[i].expand(len(edge)), t0, t1)
        estimate = quadrature(self.score, pieces, self.metric, "gauss_legendre", self.solver.n_steps, strict=False)
        return FirstEdges(torch.as_tensor(roots.neighbor[i])[edge], torch.stack([t0, t1], 1), *estimate)

    def _direct(
        self, tips: Leaves, rows: np.ndarray, start: Tensor, end: Tensor, tree: Tree, shortest: np.ndarray
    ) -> np.ndarray:
        """(rows,) whether the baseline is among an input's neighbours, and their edge is shorter than `shortest`."""
        apart = norms(end.cpu().double() - start.cpu().double(), 1).numpy()
        near = (apart <= tips.distance[rows, -1]) & (tips.node[rows] < 0) & (tree.root < 0)
        if not near.any():
            return near
        owner = self.examples[torch.as_tensor(rows[near])]
        pool = torch.cat([start[None], end[torch.as_tensor(near).to(end.device)]])
        head = torch.arange(1, len(pool))
        scores = None
        if self.metric.needs_gradient:
            scores = self.score.values(pool.to(self.score.work_dtype), torch.cat([owner[:1], owner]))
        length, _ = self._edges(Pieces.whole(pool, torch.zeros_like(head), head, owner), scores)
        near[near] = length <= shortest[near]
        return near

    def _from(
        self, tree: Tree, start: int, rows: np.ndarray, inputs: int, tips: Leaves, last: np.ndarray, direct: np.ndarray
    ) -> list[np.ndarray]:
        """Routes from a baseline (node `start`) over points `last` (rows,) to the inputs (nodes `inputs + rows`)."""
        n = len(self.topology.points)
        over_points = np.flatnonzero(~direct)
        route, offsets = neighbors.routes(tree.before, n, last[over_points])
        route = np.where(route == n, start, route)
        first = offsets[:-1] + (tree.root >= 0)  # a point at the baseline is itself the first knot
        result = [np.array([start, inputs + b]) for b in rows.tolist()]
        for j, row in enumerate(over_points.tolist()):
            nodes, b = route[first[j] : offsets[j + 1]], rows[row]
            result[row] = nodes if tips.node[b] >= 0 else np.append(nodes, inputs + b)
        return result

    def _solution(
        self, starts: Tensor, end: Tensor, routes: list[np.ndarray], trees: Sequence[Tree], roots: Leaves | None,
        tips: Leaves, cut_off: np.ndarray,
    ) -> Solution:  # fmt: skip
        """Path, notes, and what is known of the route's segments; only points that a route visits stay."""
        offsets = np.concatenate([[0], np.cumsum([len(route) for route in routes])])
        used, compact = np.unique(np.concatenate(routes), return_inverse=True)
        n = len(self.topology.points)
        inner, outer = (torch.as_tensor(part).to(end.device) for part in (used[used < n], used[used >= n] - n))
        points = torch.cat([self.topology.points[inner], torch.cat([starts, end])[outer]])
        path = Path(points, torch.as_tensor(compact), torch.as_tensor(offsets))
        segments = path.segments()
        a, b = used[segments.tail.numpy()], used[segments.head.numpy()]
        low, high = np.minimum(a, b), np.maximum(a, b)
        over_edge = high < n
        crossed = np.zeros(len(low), dtype=bool)
        crossed[over_edge] = self.topology.is_bridge[self.topology.edge_rows(low[over_edge], high[over_edge])]
        bridges = np.bincount(segments.leg_example.numpy(), crossed[segments.leg_segment.numpy()], minlength=len(path))
        known = self._share_segments(used, low, high, trees, roots, tips)
        notes: list[tuple[Note, ...]] = [()] * len(path)
        for b in np.flatnonzero((bridges > 0) | cut_off | (self.table.left_out > 0)).tolist():
            notes[b] = self._notes(int(bridges[b]), bool(cut_off[b]), self.table.left_out)
        return Solution(path, tuple(notes), {}, known)

    def _notes(self, n_bridges: int, cut_off: bool, left_out: int) -> tuple[Note, ...]:
        notes, n = [], len(self.topology.points)
        if n_bridges:
            bridges = "a bridge" if n_bridges == 1 else f"{n_bridges} bridges"
            sentence = (
                f"the route crosses {bridges} between parts of the graph that n_neighbors does not connect: there "
                "are no points to choose from; raise n_neighbors or add points between"
            )
            notes.append(Note(Outcome.BRIDGED, sentence))
        if cut_off:
            notes.append(CUT_OFF)
        elif left_out:
            sentence = f"{left_out} of the graph's {n} points were left out, since the score is NaN or infinite there"
            notes.append(Note(Outcome.SOLVER_NOTE, sentence))
        return tuple(notes)

    def _share_segments(
        self, used: np.ndarray, low: np.ndarray, high: np.ndarray, trees: Sequence[Tree], roots: Leaves | None,
        tips: Leaves,
    ) -> KnownSegments | None:  # fmt: skip
        """Estimates of the segments (low, high): edges of the graph, of baselines' leaves and of inputs' leaves."""
        n = len(self.topology.points)
        first_input = n + len(trees)
        parts: list[tuple[np.ndarray, Estimate, Tensor]] = []

        def share(segments: np.ndarray, estimate: Estimate, rows: np.ndarray, span: Tensor = WHOLE) -> None:
            # On the device of the score: a table loaded from a file may be on another.
            index = torch.as_tensor(rows).to(estimate.length.device)
            found = Estimate(*(part[index].to(self.score.device) for part in estimate))
            parts.append((segments, found, span.expand(len(rows), 2)))

        if self.table.estimate is not None:
            inner = np.flatnonzero(high < n)
            share(inner, self.table.estimate, self.topology.edge_rows(low[inner], high[inner]))
        for i, tree in enumerate(trees if roots is None else ()):
            if tree.first is not None:
                outer = np.flatnonzero((high == n + i) & (low < n))
                of, rows = np.nonzero(low[outer][:, None] == tree.first.point.numpy())
                share(outer[of], tree.first.estimate, rows, tree.first.span[torch.as_tensor(rows)])
        for leaves, begin, stop in ((roots, n, first_input), (tips, first_input, first_input + len(tips.node))):
            if leaves is not None and leaves.estimate is not None:
                outer = np.flatnonzero((high >= begin) & (high < stop) & (low < n))
                leaf = high[outer] - begin
                slot = (leaves.neighbor[leaf] == low[outer][:, None]).argmax(1)
                share(outer, leaves.estimate, leaf * leaves.neighbor.shape[1] + slot)
        if not parts:
            return None
        where, found, spans = zip(*parts, strict=True)
        rows = np.concatenate(where)
        tail, head = (torch.as_tensor(np.searchsorted(used, ends[rows])) for ends in (low, high))
        group = torch.full_like(tail, int(self.score.groups[self.examples[0]]))
        return KnownSegments(tail, head, group, Estimate.join(found), torch.cat(spans))


def row_keys(rows: Tensor) -> list[bytes]:
    """Each row (rows, *features) as bytes, equal for equal rows."""
    return [row.tobytes() for row in (flat(rows) + 0.0)]  # + 0.0: minus zero is zero
