"""Short paths in high dimension, with first-order gradients only.

1. Look at the straight line, and a little above and below it: on which side is the score flatter?
2. Gradient flows from both ends to that side: along them length is the change of score, which no path can beat.
3. Across the plateau: the knots between the flows are pushed the same way until the crossing is flat.
4. Where there is no plateau, descent of the sampled length itself, coarse to fine.

A few samples do not measure a length: the solution asks `attribute` to compare the path with the straight line.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import get_args

import torch
from torch import Tensor

from leastpath._support.checks import check_integer
from leastpath._support.rows import norms, per_row
from leastpath.bound import BoundScore
from leastpath.metric import Euclidean, Metric
from leastpath.path import Path
from leastpath.run import Run
from leastpath.solution import Solution, Solved, joined
from leastpath.solvers.descent import plateau
from leastpath.solvers.descent.carried import carried_over
from leastpath.solvers.descent.coarse_to_fine import force_shortened, refined_lines
from leastpath.solvers.descent.field import Field, Samples
from leastpath.solvers.descent.flow import STEPS as FLOW_STEPS
from leastpath.solvers.descent.flow import flows
from leastpath.solvers.descent.plateau import Crossing, crossed, flatter_side
from leastpath.solvers.shorten import Hessian, Shortening
from leastpath.status import Note, Outcome

SOLVER_SHARE = 0.5  # of the budget of `attribute`; the rest measures the path and the straight line
FEW_FEATURES = 20  # up to here there may be no plateau to cross, and the true force is worth its gradients
LINE_SAMPLES = 16  # of the straight line, or a tenth of what may be spent if that is less
HOPELESS = 0.5  # of the line's sampled length: above it after a few rounds, the other side is tried
PATIENCE = 5
WARM_ROUNDS = 3  # of pushing a given path, whose ends need no flows any more
GOOD, BETTER = 0.2, 0.05  # of the line's sampled length: a path below it is good; BETTER for few features, or warm
NEAR, NEARER = 1.5, 1.02  # as is one that is within this factor of its lower bound; NEARER for few features
LEAST_GOAL = 1e-3  # of the line's sampled length: shorter flows than that do not make the crossing's goal finer
LOOK, SIDE, OTHER_SIDE, AGAIN, CHECK, CUT = range(2000, 8000, 1000)  # numbers of random draws
BLOCK_ELEMENTS = 2**27  # numbers held at once
HELD = 250  # of the size of an input, by one example


@dataclass(frozen=True, eq=False)
class Descent:
    """Minimise the length under the metric, for inputs of any size: the solver of shortest length.

    Caution: a short path is not by itself a true explanation. For a saturating score the shortest path leaves each
    end by a tiny step along the gradient and crosses where the score is flat. Its attributions hardly cancel, but they
    belong to the gradients at the two ends. Features that never mattered can get credit, and features that decide can
    get none. Look at `result.support`, and use `ElasticBand` or `StraightLine` to explain.

    Args:
        max_gradients: most gradients an example, without the final measurement. Also kept to half of the budget of
            `attribute`.
        start_from: a path to begin with, one for all examples or one for each: its deviation from its own straight
            line is added to the line asked for, so a path between the same ends is taken as it is. See `warm`.
        resolution: for inputs (…, height, width): paths deviate from the line only by what a grid of this many cells
            a side can show, interpolated. None: by anything.

    Rarely needed:
        hessian: how the force of the last stage is found: "finite_difference" of gradients, which also sees the kinks
            of ReLU nets, or "double_backward", which is exact on smooth nets and takes 3 gradients instead of 2.
        n_knots: between the two flows.
        n_rounds: of pushing them.

    Example:
        >>> import torch, leastpath as lp
        >>> score = lp.Score(lambda x: torch.sigmoid(20 * x.mean(1) - 10))
        >>> result = lp.attribute(score, torch.ones(1, 30), solver=lp.Descent())
        >>> bool(result.length_ratio <= 1)
        True
    """

    max_gradients: int = 500
    start_from: Path | None = field(default=None, repr=False)
    resolution: int | None = None
    hessian: Hessian = "finite_difference"
    n_knots: int = 12
    n_rounds: int = 16

    def __post_init__(self) -> None:
        enough = "pass a large one where there is no limit, as in Descent(max_gradients=10_000)"
        check_integer("max_gradients", self.max_gradients, 1, advice=enough)
        check_integer("resolution", self.resolution, 1, or_none=", or None for full resolution")
        check_integer("n_knots", self.n_knots, 2)
        check_integer("n_rounds", self.n_rounds, 1)
        if self.hessian not in get_args(Hessian):
            raise ValueError(f"hessian={self.hessian!r} is unknown: use one of {list(get_args(Hessian))}")

    def warm(self, result: Solved, inputs: Tensor) -> WarmDescent:
        """A solver that begins each example with the path of the nearest of some inputs that are solved already.

        Args:
            result: of an earlier `attribute` call, with one baseline an input.
            inputs: (n, *features) what it explained.
        """
        if result.path is None or len(result.path) != len(inputs):
            n = 0 if result.path is None else len(result.path)
            raise ValueError(f"the result has {n} paths for {len(inputs)} inputs: pass the inputs that it explained")
        return WarmDescent(self, inputs, result.path)

    def solve(self, score: BoundScore, metric: Metric, start: Tensor, end: Tensor, run: Run) -> Solution:
        """start, end (batch, *features) -> a polyline for each example."""
        if isinstance(metric, Euclidean):
            return Solution(Path.straight(start, end), stats={"sampled_ratio": torch.ones(len(start))})
        if self.resolution is not None and len(score.shape) < 2:
            raise ValueError(
                f"resolution={self.resolution} needs inputs of shape (…, height, width), got features of shape "
                f"{tuple(score.shape)}: pass resolution=None"
            )
        if self.start_from is not None and len(self.start_from) not in (1, len(start)):
            raise ValueError(
                f"start_from has {len(self.start_from)} paths for {len(start)} examples: pass one for all, or one each"
            )
        budget = run.budget(score).share(SOLVER_SHARE).at_most(self.max_gradients)
        per_block = max(1, BLOCK_ELEMENTS // (HELD * score.n_features))
        parts, interrupted = [], False
        with run.bar("descent", float(budget.left().sum())) as bar:
            a, b = (x.to(score.work_dtype) for x in (start, end))
            for examples in torch.arange(len(start)).split(per_block):
                rows = examples.to(start.device)
                here = Field(score, metric, run, budget, examples, a[rows], b[rows], self.resolution, bar)
                here.interrupted = interrupted
                parts.append((examples, _Solve(self, here).solution()))
                interrupted = here.interrupted
        stats = {name: torch.cat([part.stats[name] for _, part in parts]) for name in parts[0][1].stats}
        return replace(joined(parts), stats=stats, never_longer=True)


@dataclass(frozen=True, eq=False)
class WarmDescent:
    """`Descent` that begins with the path of the nearest input that is solved already. Made by `Descent.warm`.

    The closer the inputs, the more of the path carries over: frames of a film, slightly changed rows of a table, the
    same inputs with a slightly changed model.

    Args:
        solver: what goes on from there.
        inputs: (n, *features) that are solved.
        paths: of n examples.

    Example:
        >>> import torch, leastpath as lp
        >>> score = lp.Score(lambda x: torch.sigmoid(20 * x.mean(1) - 10))
        >>> x = torch.ones(1, 30)
        >>> first = lp.attribute(score, x, solver=lp.Descent())
        >>> again = lp.attribute(score, 0.99 * x, solver=lp.Descent().warm(first, x))
        >>> bool(again.stats["solver_gradients"] <= first.stats["solver_gradients"])
        True
    """

    solver: Descent
    inputs: Tensor = field(repr=False)
    paths: Path = field(repr=False)

    def solve(self, score: BoundScore, metric: Metric, start: Tensor, end: Tensor, run: Run) -> Solution:
        """start, end (batch, *features) -> a polyline for each example."""
        if self.inputs.shape[1:] != end.shape[1:]:
            raise ValueError(
                f"the solved inputs have shape {tuple(self.inputs.shape)}, these {tuple(end.shape)}: "
                "expected the same features"
            )
        known = self.inputs.flatten(1).to(end.device, torch.float64)
        nearest = torch.cdist(end.flatten(1).double(), known).argmin(1).cpu()
        return replace(self.solver, start_from=self.paths.select(nearest)).solve(score, metric, start, end, run)


class _Solve:
    """One block of examples on its way: the best path so far of each, and its sampled length."""

    def __init__(self, settings: Descent, here: Field) -> None:
        self.settings, self.field = settings, here
        batch = len(here.start)
        self.paths = list(torch.stack([here.start, here.end], 1))  # (knots, *features) each
        self.straight = here.start.new_full((batch,), torch.nan)  # sampled lengths
        self.length = self.straight.clone()
        self.bound = torch.zeros_like(self.length)  # change of score from end to end
        self.n_check = min(128, max(8, here.limit // 16))
        self.n_look = min(LINE_SAMPLES, max(4, here.limit // 10))
        self.look_cost = self.n_look + 2  # both ends are looked at too

    def solution(self) -> Solution:
        try:
            if not self.field.interrupted:
                self._stages()
        except KeyboardInterrupt:
            self.field.interrupted = True
        ratio = torch.where(self.straight > 0, self.length / self.straight, 1)
        self.field.show(ratio)
        for b, path in enumerate(self.paths):
            path[0], path[-1] = self.field.start[b], self.field.end[b]
        counts = torch.tensor([0, *(len(path) for path in self.paths)])
        path = Path(torch.cat(self.paths), torch.arange(int(counts.sum())), counts.cumsum(0))
        notes = tuple(self._note(b) for b in range(len(path)))
        return Solution(path, notes, {"sampled_ratio": ratio.float().cpu()})

    def _note(self, b: int) -> tuple[Note, ...]:
        straight = len(self.paths[b]) <= 2
        if self.field.interrupted:
            what = "the straight line was used" if straight else "the best path so far is returned"
            return (Note(Outcome.INTERRUPTED, f"interrupted: {what}"),)
        if float(self.straight[b]) == torch.inf:
            sentence = "the gradient is NaN or infinite on the straight line, which was used"
            return (Note(Outcome.FELL_BACK, sentence),)
        if straight and self._least() > self.field.limit:
            sentence = (
                f"the solver may spend {self.field.limit} gradients and needs {self._least()} to begin: the straight "
                "line was used; raise max_gradients"
            )
            return (Note(Outcome.FELL_BACK, sentence),)
        if straight and float(self.field.distance[b]) > 0:
            sentence = f"found nothing shorter than the straight line in {self.field.spent[b]:.0f} gradients"
            return (Note(Outcome.SOLVER_NOTE, sentence),)
        return ()

    def _least(self) -> int:
        """Gradients for all stages but the last, with one round of pushing."""
        return self.look_cost + 2 * self.n_look + 2 * FLOW_STEPS + plateau.ROUND_COST + self.n_check

    # ---- the stages ----------------------------------------------------------------------------------------------

    def _stages(self) -> None:
        if self._least() > self.field.limit:
            return
        line = self._looked()
        rows = (torch.isfinite(self.straight) & (self.straight > 0)).nonzero()[:, 0]
        rows = rows[~self._is_good(rows, 0, NEARER)]  # a line that is as short as any path can be
        cold = rows if self.settings.start_from is None else self._warmed(self.settings.start_from, line, rows)
        sign = flatter_side(self.field, line, cold)
        poor = self._over_plateau(cold, sign[cold], SIDE)
        poor = poor[self.field.affords(poor, self._least() - self.look_cost - 2 * self.n_look)]
        self._over_plateau(poor, -sign[poor], OTHER_SIDE)
        if not self.field.interrupted:
            self._by_force(rows, cold)

    def _looked(self) -> Samples:
        """Samples of the straight lines, which are the first paths and what others are compared with."""
        lines = torch.stack([self.field.start, self.field.end], 1)
        positions, weights = self.field.spread_out(lines, self.n_look, LOOK)
        everyone = torch.arange(len(lines), device=lines.device)
        samples = self.field.sample(lines, positions, everyone)
        self.straight = (samples.speed * weights).sum(1)
        self.length = self.straight.clone()
        if self.field.metric.bounds_score:
            value, _, _ = self.field.gradient(torch.cat([self.field.start, self.field.end]), everyone.repeat(2))
            self.bound = torch.nan_to_num(value.view(2, -1).diff(dim=0)[0].abs(), posinf=0.0)
        return samples

    def _over_plateau(self, rows: Tensor, sign: Tensor, draw: int) -> Tensor:
        """Flows from both ends, then across. Returns the rows for which that side is hopeless."""
        if not len(rows) or self.field.interrupted:
            return rows
        start, end, straight = self.field.start[rows], self.field.end[rows], self.straight[rows]
        both = flows(self.field, torch.cat([start, end]), rows.repeat(2), sign.repeat(2), straight.repeat(2))
        (left, right), cost = both.trail.unflatten(0, (2, -1)), both.cost.view(2, -1).sum(0)
        cost = cost + both.value.view(2, -1).diff(dim=0)[0].abs()
        t = (1 - torch.cos(torch.linspace(0, torch.pi, self.settings.n_knots, dtype=torch.float64))) / 2
        t = per_row(t.to(start)[None], start[:, None])
        away = left[:, -1] - start, right[:, -1] - end
        knots = torch.lerp(start[:, None], end[:, None], t) + (away[0] + away[1])[:, None]
        farthest = torch.maximum(norms(away[0], 1), norms(away[1], 1))
        push = torch.maximum(plateau.STEP * farthest, plateau.MIN_STEP * self.field.distance[rows])
        goal = torch.maximum(cost, LEAST_GOAL * straight)
        way = Crossing(left, knots, right.flip(1), sign, push, goal, HOPELESS * straight)
        middle = self._cross(rows, way, draw, self.settings.n_rounds)
        return rows[~(middle < HOPELESS * straight)]

    def _cross(self, rows: Tensor, way: Crossing, draw: int, rounds: int) -> Tensor:
        """Push a crossing and keep it where it looks shorter than what there was. Length of its middle (n,)."""
        spare, straight = self.n_check, self.straight[rows]
        way, middle = crossed(self.field, rows, way, straight, rounds, PATIENCE, spare, draw)
        seen = middle < self.length[rows]  # the others are not worth a check
        if self.field.interrupted:  # no more gradients: what the rounds saw of the middle must do
            self._keep(rows[seen], way.path[seen], middle[seen])
        else:
            self._offer(rows[seen], way.path[seen])
        return middle

    def _offer(self, rows: Tensor, paths: Tensor) -> None:
        if len(rows):
            self._keep(rows, paths, self.field.length(paths, self.n_check, rows, CHECK))

    def _keep(self, rows: Tensor, paths: Tensor, length: Tensor) -> None:
        """Paths (n, knots, *features) of `rows` become the best so far where they look shorter."""
        better = length < self.length[rows]
        self.length[rows[better]] = length[better]
        for row, path in zip(rows[better].tolist(), paths[better], strict=True):
            self.paths[row] = _distinct(path)
        self.field.show(self.length / self.straight)

    def _is_good(self, rows: Tensor, share: float, factor: float) -> Tensor:
        """(n,) whether the paths look shorter than that share of the line, or within a factor of the shortest possible.

        No path is shorter than the change of score from end to end.
        """
        enough = torch.maximum(share * self.straight[rows], factor * self.bound[rows])
        return self.length[rows] <= enough

    def _by_force(self, rows: Tensor, cold: Tensor) -> None:
        """Descent of the sampled length, where the path so far is not good: from it, and from the line where that
        may lead elsewhere. `cold` are the rows that did not begin with a given path."""
        few = self.field.score.n_features <= FEW_FEATURES
        how = Shortening(hessian=self.settings.hessian, resolution=self.settings.resolution)
        rows = rows[~self._is_good(rows, *((BETTER, NEARER) if few else (GOOD, NEAR)))]
        bent = torch.tensor([len(self.paths[row]) > 2 for row in rows.tolist()], dtype=torch.bool, device=rows.device)
        found = list(_stacked(rows[bent], [self.paths[row] for row in rows[bent].tolist()]))
        from_line = rows[torch.isin(rows, cold) if few else ~bent]
        for group, paths in refined_lines(self.field, from_line, how, 2 * self.n_check, CUT):
            self._offer(group, paths)
        for group, paths in found:
            cost = how.round_cost * how.samples * (paths.shape[1] - 1) + self.n_check
            able = self.field.affords(group, cost)
            if able.any():
                self._offer(group[able], force_shortened(self.field, paths[able], group[able], how, self.n_check))

    # ---- a path to begin with ------------------------------------------------------------------------------------

    def _warmed(self, given: Path, line: Samples, rows: Tensor) -> Tensor:
        """Try the given paths and push them on; returns the rows that need the whole work all the same."""
        ends = self.field.start[rows], self.field.end[rows]
        paths = [_distinct(path) for path in carried_over(given, self.field.examples[rows.cpu()], *ends)]
        for group, knots in _stacked(rows, paths):
            positions, weights = self.field.spread_out(knots, self.n_check, CHECK)
            samples = self.field.sample(knots, positions, group)
            length = (samples.speed * weights).sum(1)
            self._keep(group, knots, length)
            near = (length < HOPELESS * self.straight[group]) & ~self._is_good(group, BETTER, NEAR)
            if near.any():
                above = samples.value.mean(1) > line.value[group].mean(1)
                self._push_on(group[near], knots[near], torch.where(above[near], 1.0, -1.0).to(length))
        few = self.field.score.n_features <= FEW_FEATURES
        cold = rows[~(self.length[rows] < (1 if few else HOPELESS) * self.straight[rows])]
        return cold[self.field.affords(cold, self._least() - self.look_cost)]

    def _push_on(self, rows: Tensor, knots: Tensor, sign: Tensor) -> None:
        """All inner knots of the paths (n, knots, *features) as one crossing, for a few rounds."""
        push = plateau.MIN_STEP * self.field.distance[rows]
        goal, hopeless = BETTER / plateau.CALM * self.straight[rows], self.straight[rows]
        way = Crossing(knots[:, :1], knots[:, 1:-1], knots[:, -1:], sign, push, goal, hopeless)
        self._cross(rows, way, AGAIN, min(WARM_ROUNDS, self.settings.n_rounds))


def _stacked(rows: Tensor, paths: list[Tensor]) -> Iterator[tuple[Tensor, Tensor]]:
    """Rows (n,) and their paths, stacked where these have equally many knots: padding would change the work."""
    counts = torch.tensor([len(path) for path in paths], device=rows.device)
    for count in counts.unique().tolist():
        group = (counts == count).nonzero()[:, 0]
        yield rows[group], torch.stack([paths[i] for i in group.tolist()])


def _distinct(path: Tensor) -> Tensor:
    """A polyline (knots, *features) without knots that repeat the one before; it keeps two ends in any case."""
    new = norms(path.diff(dim=0), 1) > 0
    new[-1:] |= ~new.any()
    return path[torch.cat([new.new_ones(1), new])]
