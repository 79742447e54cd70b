"""Geodesics on a nearest-neighbour graph: the paper's method for low-dimensional inputs.

Points are the nodes, neighbours are joined by straight edges, and the metric gives their lengths. Baselines and inputs
join as leaves: routes run over the points, never over another input, so a batch gives what a loop gives.
"""

from __future__ import annotations

import io
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path as File
from typing import Annotated

import numpy as np
import torch
from torch import Tensor

from leastpath._support.checks import Count, Range, Settings, as_points, check_features, check_setting
from leastpath._support.files import check_readable, open_arrays, write_atomically
from leastpath.account.run import Bar, Budget, Run
from leastpath.geometry.metric import Euclidean, Metric
from leastpath.geometry.path import Path
from leastpath.integral.pieces import Estimate
from leastpath.result.status import Note, Outcome
from leastpath.score.calls import leave_untouched
from leastpath.score.score import BoundScore, Score
from leastpath.solvers.graph import neighbors
from leastpath.solvers.graph.edges import EdgeTable, FirstEdges, Topology, Tree
from leastpath.solvers.graph.generated import Generate, make_points
from leastpath.solvers.graph.routes import Router, row_keys
from leastpath.solvers.shorten import Shortening, shorten, shortest_of
from leastpath.solvers.solution import Solution, Stop, join_solutions, straight_with_note

LARGEST = 1e150  # squares of larger coordinates overflow
SOLVER_SHARE = 0.5  # of the budget; the rest measures the path and the straight line
REFINED_KNOTS = 33
REFINING = Shortening(rounds=60, samples=4)
BLOCK_ELEMENTS = 2**27  # numbers held at once while routes are shortened
HELD = 8 * (REFINED_KNOTS - 1) * REFINING.samples  # of the size of an input, by one example
INTERRUPTED = "interrupted before the graph was measured: the straight line was used"


@dataclass(frozen=True, eq=False)
class NeighborGraph(Settings):
    """Shortest routes over a nearest-neighbour graph of given or generated points.

    Where a route measures longer than the straight line, the line takes its place, and the status says so.

    Args:
        points: (n, *features) nodes of the graph, e.g. training data. Inputs and baselines join by themselves.
        n_neighbors: neighbours that each point, input and baseline is joined to.
        generate: instead of `points`, make some for each example between its ends: "line" (around the straight line),
            "sobol" (evenly in the box around both ends) or "adaptive" (around the line, denser where the score is
            steep).
        refine: shorten each route afterwards under the same metric, so that the graph's zig-zag does not count.

    Rarely needed:
        n_points: how many to generate, per example.
        spread: how far generated points are from the line, or the box goes beyond the ends, as a share of the
            distance between the ends.
        steiner: add points along edges longer than this many times the median edge. None: add none.
        n_steps: gradients per edge.
        search: "auto" (exact), "tree", "brute" (both exact) or "faiss" (approximate; needs `leastpath[ann]`).

    Example:
        >>> import torch, leastpath as lp
        >>> score = lp.Score(lambda x: torch.sigmoid(20 * x[:, 0] - 10))
        >>> points = torch.rand(200, 2, generator=torch.Generator().manual_seed(0))
        >>> result = lp.attribute(score, torch.ones(1, 2), method=lp.NeighborGraph(points, n_neighbors=10))
        >>> bool(result.certificate >= 1)
        True
    """

    points: Tensor | None = field(default=None, repr=False)
    n_neighbors: Count = 15
    generate: Generate | None = None
    refine: bool = False
    n_points: Count = 200
    spread: Annotated[float, Range(above=0, hint="a share of the distance between the ends")] = 0.25
    steiner: Annotated[float, Range(above=1, hint="a multiple of the median edge")] | None = None
    n_steps: Count = 3
    search: neighbors.Method = "auto"

    def __post_init__(self) -> None:
        super().__post_init__()
        if (self.points is None) == (self.generate is None):
            raise ValueError('give either points or generate: NeighborGraph(inputs), or NeighborGraph(generate="line")')
        if self.points is not None:
            object.__setattr__(self, "points", _as_nodes(self.points))
        n = self.n_points if self.points is None else len(self.points)
        if self.n_neighbors >= n:
            given = f"n_neighbors={self.n_neighbors} for {n} points"
            raise ValueError(f"{given}, expected 1 to {n - 1}: pass fewer neighbours or more points")

    def __repr__(self) -> str:
        """The settings in use: points, or how they are made."""
        unused = {"points"} | (set() if self.points is None else {"generate", "n_points", "spread"})
        parts = [] if self.points is None else [f"{len(self.points)} points"]
        parts += [f"{f.name}={getattr(self, f.name)!r}" for f in fields(self) if f.name not in unused]
        return f"{type(self).__name__}({', '.join(parts)})"

    def build(self, score: Score, metric: Metric, baselines: Tensor | None = None, *, progress: bool = False) -> Graph:
        """Compute all edges once, for every target of the score. The graph is a solver that knows its edges.

        Args:
            score: with the targets that will be needed: an int, or a tensor with all of them.
            metric: what edges are measured in.
            baselines: (n, *features) whose shortest-path trees are kept too, so that one more input is instant.
            progress: show a progress bar.
        """
        if self.points is None:
            raise ValueError("points are generated for each example, so there is no graph to build: pass points")
        graph = Graph(self, self._topology(self.points), {}, repr(metric)).with_targets(
            score, metric, progress=progress
        )
        return graph if baselines is None else graph.with_trees(score, metric, baselines)

    def solve(self, score: BoundScore, metric: Metric, start: Tensor, end: Tensor, run: Run) -> Solution:
        """start, end (batch, *features) -> a route for each example."""
        if self.points is not None:
            check_features("the graph", self.points.shape[1:], start.shape[1:])
            common, groups = self._topology(self.points.to(start)), score.groups
            units = [(groups == g).nonzero()[:, 0] for g in torch.unique(groups).tolist()]
        else:
            common, units = None, list(torch.arange(len(start)).split(1))
        budget, parts, stop = run.budget(score).share(SOLVER_SHARE), [], Stop(run)
        with run.bar("edges", len(units) * len(common.edges) if common else len(units)) as bar:
            for examples in units:
                ends = start[examples.to(start.device)], end[examples.to(end.device)]
                if not stop.caught:
                    with stop.catch():
                        parts.append((examples, self._find_routes(budget, metric, common, examples, ends, run, bar)))
                        bar.advance(0 if common else 1)
                if stop.caught:
                    parts.append((examples, straight_with_note(*ends, stop.note(INTERRUPTED))))
        routes = replace(join_solutions(parts), never_longer=True)
        return shorten_routes(routes, budget, metric, run) if self.refine and not stop.caught else routes

    def _find_routes(
        self, budget: Budget, metric: Metric, common: Topology | None, examples: Tensor, ends: tuple[Tensor, Tensor],
        run: Run, bar: Bar,
    ) -> Solution:  # fmt: skip
        """Points, unless they are given, edges for one score, and routes for all examples that share it.

        The straight line, where the budget is too small.
        """
        score, topology = budget.score, common
        remedy = "pass fewer points, or build the graph once with NeighborGraph(points).build(score, metric)"
        if topology is None:
            n = self.n_points * self.n_neighbors // 2  # at least, estimated before there are points
            cost = self._cost(metric, n) + (self.n_points - self.n_points // 2) * (self.generate == "adaptive")
            note = _too_expensive(f"a graph of at least {n} edges", cost, budget, examples, run, remedy)
            if note is not None:
                return straight_with_note(*ends, note)
            assert self.generate is not None
            between = int(examples), ends[0][0], ends[1][0]
            topology = self._topology(make_points(self.generate, self.n_points, self.spread, score, *between, run))
        n = len(topology.edges)
        cost = self._cost(metric, n / len(examples))
        note = _too_expensive(f"a graph of {n} edges", cost, budget, examples, run, remedy)
        if note is not None:
            return straight_with_note(*ends, note)
        for_edges = budget.keeping(2 * self.n_neighbors * self.n_steps).pool(examples)  # the rest is for the leaves
        quiet = Bar() if common is None else bar
        table = EdgeTable.of(score, int(examples[0]), topology, metric, self.n_steps, for_edges, quiet)
        score.split_cost(examples)
        return Router(self, budget, metric, topology, table, examples).find_routes(*ends)

    def _cost(self, metric: Metric, edges: float) -> float:
        """Gradients an example that pays for some edges, and for joining both of its ends to the graph."""
        return self.n_steps * (edges + 2 * self.n_neighbors) if metric.needs_gradient else 0

    def _topology(self, points: Tensor) -> Topology:
        return Topology.of(points, self.n_neighbors, self.search, self.steiner)


@dataclass(frozen=True, eq=False)
class EnhancedIG:
    """Enhanced IG (Jha et al. 2020): shortest routes by Euclidean length, without the model.

    Lengths in the result are still measured in the metric that `attribute` is given.

    Args:
        points: (n, *features) nodes of the graph.
        n_neighbors: neighbours that each point, input and baseline is joined to.

    Example:
        >>> import torch, leastpath as lp
        >>> points = torch.rand(50, 2, generator=torch.Generator().manual_seed(0))
        >>> score = lp.Score(lambda x: x.prod(1))
        >>> lp.attribute(score, torch.ones(1, 2), method=lp.EnhancedIG(points, 5)).values.shape
        torch.Size([1, 2])
    """

    points: Tensor = field(repr=False)
    n_neighbors: int = 15
    search: neighbors.Method = "auto"

    def __post_init__(self) -> None:
        checked = NeighborGraph(self.points, self.n_neighbors, search=self.search)
        object.__setattr__(self, "points", checked.points)

    def solve(self, score: BoundScore, metric: Metric, start: Tensor, end: Tensor, run: Run) -> Solution:
        """start, end (batch, *features) -> a route for each example."""
        graph = NeighborGraph(self.points, self.n_neighbors, search=self.search)
        return replace(graph.solve(score, Euclidean(), start, end, run), known=None, never_longer=False)


def shorten_routes(routes: Solution, budget: Budget, metric: Metric, run: Run) -> Solution:
    """For each example the shortest of three: the route, the shortened route and the straight line."""
    batch, score, stop = len(routes.path), budget.score, Stop(run)
    with stop.catch():
        blocks = torch.arange(batch).split(max(1, BLOCK_ELEMENTS // (HELD * score.n_features)))
        short = []
        with run.bar("shortening", REFINING.rounds * len(blocks)) as bar:
            for examples in blocks:
                points = routes.path.select(examples).resample(REFINED_KNOTS).points
                knots = points.unflatten(0, (len(examples), REFINED_KNOTS))
                short.append(shorten(score, metric, knots, examples, budget, run, REFINING, bar).to(knots.dtype))
        smooth, line = Path.polyline(torch.cat(short)), Path.straight(routes.path.start, routes.path.end)
        which, _ = shortest_of(score, metric, [routes.path, smooth, line], run)
    if stop.caught:
        note = stop.note("interrupted while the route was shortened: the route itself is returned")
        return replace(routes, notes=tuple((*notes, note) for notes in routes.notes or ((),) * batch))
    # A note on bridges is about the route only; a note on the graph is kept for the other paths too.
    remarks = tuple(tuple(n for n in notes if n.outcome is Outcome.SOLVER_NOTE) for notes in routes.notes or ())
    parts = []
    for choice, solution in enumerate((routes, Solution(smooth, remarks or None), Solution(line, remarks or None))):
        rows = (which == choice).nonzero()[:, 0]
        if len(rows):
            notes = solution.notes and tuple(solution.notes[i] for i in rows.tolist())
            parts.append((rows, replace(solution, path=solution.path.select(rows), notes=notes)))
    return replace(join_solutions(parts), never_longer=True)


@dataclass(frozen=True, eq=False)
class Graph:
    """A built graph: a solver that knows its edges. Made by `NeighborGraph.build`, kept with `save` and `load`.

    Example:
        >>> import torch, leastpath as lp
        >>> score = lp.Score(lambda x: torch.sigmoid(20 * x[:, 0] - 10))
        >>> points = torch.rand(200, 2, generator=torch.Generator().manual_seed(0))
        >>> graph = lp.NeighborGraph(points, n_neighbors=10).build(score, lp.Conformal())
        >>> lp.attribute(score, torch.ones(1, 2), method=graph).values.shape
        torch.Size([1, 2])
    """

    solver: NeighborGraph
    topology: Topology = field(repr=False)
    tables: Mapping[int, EdgeTable] = field(repr=False)  # by target; -1 if the score has no index
    metric: str = ""
    trees: Mapping[tuple[int, bytes], Tree] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        check_setting("solver", self.solver, NeighborGraph)

    def solve(self, score: BoundScore, metric: Metric, start: Tensor, end: Tensor, run: Run) -> Solution:
        """start, end (batch, *features) -> a route for each example, over edges that are known already."""
        self._check_metric(metric)
        topology = self.topology.matching(start)
        labels = score.group_labels
        missing = sorted(set(labels.values()) - set(self.tables))
        if missing:
            raise ValueError(
                f"the graph was built for targets {sorted(self.tables)}, not for {missing}: build it with "
                f"lp.Score(model, torch.tensor({sorted({*self.tables, *missing})}), …), or use graph.with_targets"
            )
        ends = 1 if self.trees else 2
        cost = ends * self.solver.n_neighbors * self.solver.n_steps if metric.needs_gradient else 0
        budget, remedy = run.budget(score).share(SOLVER_SHARE), "or build the graph with fewer neighbours"
        note = _too_expensive("joining an example to the graph", cost, budget, torch.arange(len(start)), run, remedy)
        if note is not None:
            return straight_with_note(start, end, note)
        parts, groups = [], score.groups
        for group, label in labels.items():
            examples = (groups == group).nonzero()[:, 0]
            rows = examples.to(start.device)
            at_ends = self._scores_at_ends(score, examples, label, topology.points, end[rows])
            trees = {key: tree for (of, key), tree in self.trees.items() if of == label}
            router = Router(self.solver, budget, metric, topology, self.tables[label], examples, trees, at_ends)
            parts.append((examples, router.find_routes(start[rows], end[rows])))
        routes = replace(join_solutions(parts), never_longer=True)
        return shorten_routes(routes, budget, metric, run) if self.solver.refine else routes

    def _check_metric(self, metric: Metric) -> None:
        if repr(metric) != self.metric:
            raise ValueError(
                f"the graph was built for {self.metric}, got {metric!r}: build it again, or pass metric={self.metric}"
            )

    def _scores_at_ends(
        self, score: BoundScore, examples: Tensor, label: int, points: Tensor, ends: Tensor
    ) -> Tensor | None:
        """The scores (n,) of `examples` (n,) at their ends, in one model call with those of a few points.

        Raise if these points have other scores than when the graph was built. None if it was built without scores.
        """
        known = self.tables[label].node_score
        if known is None:
            return None
        rows = torch.linspace(0, len(points) - 1, min(8, len(points))).long()
        some = torch.cat([points[rows.to(points.device)], ends]).to(score.work_dtype)
        found = score.values(some, torch.cat([examples[:1].expand(len(rows)), examples]), strict=False)
        self._check_same_score(rows, found[: len(rows)].cpu(), known)
        at_ends = found[len(rows) :]
        return at_ends if bool(torch.isfinite(at_ends).all()) else score.values(ends.to(score.work_dtype), examples)

    @staticmethod
    def _check_same_score(rows: Tensor, now: Tensor, known: Tensor) -> None:
        """Raise if the scores `now` (n,) at points `rows` (n,) are not those that are known of all points."""
        then = known.to(now)[rows]
        if torch.equal(now, then):  # the usual case
            return
        scale = torch.where(torch.isfinite(then), then, 0).abs().max()
        other = ~torch.isclose(now, then, rtol=1e-2, atol=float(1e-3 * scale + 1e-6), equal_nan=True)
        if other.any():
            worst = int(torch.where(other, (now - then).abs().nan_to_num(torch.inf), -1).argmax())
            raise ValueError(
                f"the graph was built for another score: point {int(rows[worst])} had {float(then[worst]):.4g} then, "
                f"has {float(now[worst]):.4g} now. Build it for this model and output, "
                "NeighborGraph(points).build(score, metric)"
            )

    def with_targets(self, score: Score, metric: Metric, *, progress: bool = False) -> Graph:
        """The same graph with the edges of further targets, and with their trees of the baselines that it knows.

        Points, neighbours, bridges and the index are those of the graph, and targets that it knows are not measured
        again. Under a metric that does not ask the model, all targets share one table of lengths.

        Example:
            >>> import torch, leastpath as lp
            >>> model = torch.nn.Sequential(torch.nn.Linear(2, 8), torch.nn.Tanh(), torch.nn.Linear(8, 3)).eval()
            >>> points, metric = torch.rand(50, 2), lp.Conformal()
            >>> graph = lp.NeighborGraph(points, 5).build(lp.Score(model, 0, "log_softmax"), metric)
            >>> sorted(graph.with_targets(lp.Score(model, 2, "log_softmax"), metric).tables)
            [0, 2]
        """
        self._check_metric(metric)
        tables, points = dict(self.tables), self.topology.points
        new = {label: single for label, single in _single_targets(score).items() if label not in tables}
        bar = Run(progress=progress).bar("edges", len(new) * len(self.topology.edges))
        with leave_untouched(score.model, points), bar as shown:
            for label, single in new.items():
                if tables and not metric.needs_gradient:
                    tables[label] = next(iter(tables.values()))
                    continue
                bound = single.bind(points[:1])
                unlimited = Run().budget(bound)
                tables[label] = EdgeTable.of(bound, 0, self.topology, metric, self.solver.n_steps, unlimited, shown)
        graph, keys = replace(self, tables=tables), {key: None for _, key in self.trees}  # each baseline once
        if not keys or not new:
            return graph
        rows = torch.as_tensor(np.stack([np.frombuffer(key) for key in keys]))
        return graph.with_trees(score, metric, rows.reshape(-1, *points.shape[1:]).to(points))

    def with_trees(self, score: Score, metric: Metric, baselines: Tensor) -> Graph:
        """The same graph with the shortest-path trees of some baselines (n, *features), for the targets of the score.

        Trees that the graph has already are not grown again.
        """
        self._check_metric(metric)
        trees, keys = dict(self.trees), row_keys(baselines)
        examples = torch.arange(len(baselines))
        topology = self.topology.matching(baselines)
        for label, single in _single_targets(score).items():
            if all((label, key) in trees for key in keys):
                continue
            with leave_untouched(score.model, baselines):
                unlimited = Run().budget(single.bind(baselines))
                router = Router(self.solver, unlimited, metric, topology, self.tables[label], examples)
                leaves = router.leaves(baselines, examples)
                for i, key in enumerate(keys):
                    trees[label, key] = replace(
                        router.grow_tree(leaves, i), first=router.first_edges(leaves, i, baselines[i])
                    )
        return replace(self, trees=trees)

    def save(self, file: str | File) -> None:
        """Write everything to one .npz file (no pickle)."""
        arrays: dict[str, np.ndarray] = {
            "points": self.topology.points.cpu().numpy(),
            "edges": self.topology.edges,
            "is_bridge": self.topology.is_bridge,
            "metric": np.array(self.metric),
            "settings": np.array([self.solver.n_neighbors, self.solver.n_steps, int(self.solver.refine)]),
            "search": np.array(self.solver.search),
            "targets": np.array(sorted(self.tables)),
        }
        for target, table in self.tables.items():
            arrays[f"{target}/length"] = table.length
            if table.node_score is not None:
                arrays[f"{target}/node_score"] = table.node_score.cpu().numpy()
            for i, part in enumerate(table.estimate or ()):
                arrays[f"{target}/estimate/{i}"] = part.cpu().numpy()
        for i, ((target, key), tree) in enumerate(self.trees.items()):
            arrays[f"tree/{i}/of"] = np.array([target, tree.root])
            arrays[f"tree/{i}/key"] = np.frombuffer(key, dtype=np.uint8)
            arrays[f"tree/{i}/distance"], arrays[f"tree/{i}/before"] = tree.distance, tree.before
            for j, part in enumerate(tree.first or ()):
                arrays[f"tree/{i}/first/{j}"] = part.cpu().numpy()
        stream = io.BytesIO()
        np.savez_compressed(stream, allow_pickle=False, **arrays)
        write_atomically(file, stream.getvalue())

    @classmethod
    def load(cls, file: str | File) -> Graph:
        """Read what `save` wrote."""
        with check_readable(file, "a graph", "Graph.save"), open_arrays(file) as arrays:
            k, n_steps, refine = arrays["settings"].tolist()
            search: neighbors.Method = str(arrays["search"])  # type: ignore[assignment]
            points = torch.as_tensor(arrays["points"])
            _check_rows(arrays)
            topology = Topology.with_edges(points, arrays["edges"], arrays["is_bridge"])
            tables = {target: _read_table(arrays, target, topology) for target in arrays["targets"].tolist()}
            trees = {}
            for i in range(sum(name.endswith("/of") for name in arrays)):
                target, root = arrays[f"tree/{i}/of"].tolist()
                names = [name for j in range(6) if (name := f"tree/{i}/first/{j}") in arrays]  # older files have none
                first = FirstEdges(*(torch.as_tensor(arrays[name]) for name in names)) if names else None
                tree = Tree(arrays[f"tree/{i}/distance"], arrays[f"tree/{i}/before"], root, first)
                trees[(target, arrays[f"tree/{i}/key"].tobytes())] = tree
            solver = NeighborGraph(points, k, refine=bool(refine), n_steps=n_steps, search=search)
            return cls(solver, topology, tables, str(arrays["metric"]), trees)


def _check_rows(arrays: Mapping[str, np.ndarray]) -> None:
    """Raise ValueError unless every array has a row for each point, or for each edge, of which it speaks."""
    of_edges = ("is_bridge", "length", *(f"estimate/{i}" for i in range(4)))
    rows = dict.fromkeys(of_edges, "edges") | dict.fromkeys(("node_score", "distance", "before"), "points")
    for name, array in arrays.items():
        what = rows.get(re.sub(r"^(tree/)?-?\d+/", "", name))
        if what and array.shape[:1] != arrays[what].shape[:1]:
            raise ValueError(f"{name} has shape {array.shape}, expected one for each of {len(arrays[what])} {what}")


def _read_table(arrays: Mapping[str, np.ndarray], target: int, topology: Topology) -> EdgeTable:
    def tensor(name: str) -> Tensor | None:
        return torch.as_tensor(arrays[f"{target}/{name}"]) if f"{target}/{name}" in arrays else None

    parts = [part for i in range(4) if (part := tensor(f"estimate/{i}")) is not None]
    length = arrays[f"{target}/length"]
    return EdgeTable(length, Estimate(*parts) if parts else None, tensor("node_score"), topology.adjacency(length))


def _too_expensive(what: str, cost: float, budget: Budget, examples: Tensor, run: Run, remedy: str) -> Note | None:
    """A note if `examples` (n,) cannot pay `cost` gradients each for something; None if they can."""
    left, spent = budget.least_left(examples), float(budget.spent(examples).max())
    if cost <= left:
        return None
    sentence = (
        f"{what} takes {spent + cost:.0f} gradients per example, and of max_gradients={run.max_gradients} the solver "
        f"may spend {spent + left:.0f}: the straight line was used; raise it, {remedy}"
    )
    return Note(Outcome.FELL_BACK, sentence)


def _as_nodes(given: object) -> Tensor:
    if isinstance(given, Tensor) and (given.ndim < 2 or not len(given)):
        raise ValueError(
            f"points have shape {tuple(given.shape)}, expected at least two, (n, *features): "
            'NeighborGraph(train_inputs), or NeighborGraph(generate="adaptive")'
        )
    points = as_points("points", given)
    if float(points.abs().max()) > LARGEST:
        raise ValueError(f"points hold values above {LARGEST:g}, whose distances overflow: scale them down")
    return points


def _single_targets(score: Score) -> dict[int, Score]:
    """The score once for each of its targets; -1 if it has no index."""
    if score.layer is not None or score.additional_forward_args:
        raise ValueError("a graph is built for one score: layer and additional_forward_args differ by example")
    if not isinstance(score.target, Tensor):
        return {score.target if isinstance(score.target, int) else -1: score}
    return {label: replace(score, target=label) for label in torch.unique(score.target).tolist()}
