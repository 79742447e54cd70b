"""Short paths in high dimension, with first-order gradients only.

1. Sample the straight line, and a little above and below it: on which side is the score flatter?
2. Gradient flows from both ends to that side: along them length is the change of score, which no path can beat.
3. Across the plateau: the knots between the flows are pushed the same way until the crossing is flat.
4. Without a plateau: descent of the sampled length itself, coarse to fine.

A few samples do not measure a length: the solution asks `attribute` to compare the path with the straight line.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Annotated

import torch
from torch import Tensor

from leastpath._support.checks import Count, Range, Settings, check_features, check_tensor
from leastpath._support.rows import norms, per_row
from leastpath.account.run import Run
from leastpath.geometry.metric import Euclidean, Metric
from leastpath.geometry.path import Path, without_repeats
from leastpath.integral.pieces import Estimate, KnownSegments
from leastpath.result.status import Note, Outcome
from leastpath.score.score import BoundScore
from leastpath.solvers.descent import plateau
from leastpath.solvers.descent.coarse_to_fine import refine_lines, shorten_by_force
from leastpath.solvers.descent.field import Field, PathSamples, line_estimates, segment_estimates
from leastpath.solvers.descent.flow import STEPS as FLOW_STEPS, Flow, flows
from leastpath.solvers.descent.plateau import Crossed, Crossing, cross_plateau, flatter_side
from leastpath.solvers.shorten import Hessian, Shortening
from leastpath.solvers.solution import LINE, Solution, Solved, Stop, join_blocks, paths_of, split_ends

SOLVER_SHARE = 0.5  # of the budget of `attribute`; the rest measures the path and the straight line
EXACT_FORCE_UP_TO = 20  # with so few there may be no plateau to cross, and the exact force is worth its gradients
LINE_SAMPLES = 16  # of the straight line, or a tenth of what may be spent if that is less
HOPELESS = 0.5  # of the line's sampled length: above it after a few rounds, the other side is tried
PATIENCE = 5
WARM_ROUNDS = 3  # of pushing a given path, which needs no flows
GOOD, BETTER = 0.2, 0.05  # of the line's sampled length: a path below it is good; BETTER for few features, or warm
NEAR, NEARER = 1.5, 1.02  # a path within this factor of its lower bound is good too; NEARER for few features
LEAST_GOAL = 1e-3  # of the line's sampled length: the least goal of a crossing
LOOK, SIDE, OTHER_SIDE, AGAIN, CHECK, CUT = range(2000, 8000, 1000)  # numbers of random draws
ENOUGH = "pass a large number for no limit, as in Descent(max_gradients=10_000)"
BLOCK_ELEMENTS = 2**27  # numbers held at once
HELD = 250  # of the size of an input, by one example


@dataclass(frozen=True, eq=False)
class Descent(Settings):
    """Minimise the length under the metric, for inputs of any size: the solver of shortest length.

    Caution: a short path is not by itself a true explanation. For a saturating score the shortest path leaves each
    end by a tiny step along the gradient and crosses where the score is flat. Its attributions hardly cancel, but they
    belong to the gradients at the two ends. Features that never mattered can get credit, and features that decide can
    get none. Look at `result.support`, and use `ElasticBand` or `StraightLine` to explain.

    Args:
        max_gradients: most gradients per example, without the final measurement; at most half of the budget of
            `attribute`.
        start_from: a first path, one for all examples or one for each. Its deviation from its own straight line is
            added to the new line, so a path between the same ends is used unchanged. See `warm`.
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
        >>> result = lp.attribute(score, torch.ones(1, 30), method=lp.Descent())
        >>> bool(result.length_ratio <= 1)
        True
    """

    max_gradients: Annotated[int, Range(least=1, hint=ENOUGH)] = 500
    start_from: Path | None = field(default=None, repr=False)
    resolution: Count | None = None
    hessian: Hessian = "finite_difference"
    n_knots: Annotated[int, Range(least=2)] = 12
    n_rounds: Count = 16

    @property
    def planned_gradients(self) -> int:
        """An example, about: two thirds of what it may spend."""
        return 2 * self.max_gradients // 3

    def warm(self, result: Solved, inputs: Tensor) -> WarmDescent:
        """A solver that starts each example from the path of the nearest input that is solved already.

        Args:
            result: of an earlier `attribute` call, with one baseline per input.
            inputs: (n, *features) what it explained.
        """
        path = paths_of(result)
        check_tensor("inputs", inputs)
        if len(path) != len(inputs):
            raise ValueError(
                f"the result has {len(path)} paths for {len(inputs)} inputs: pass the inputs that it explained"
            )
        return WarmDescent(self, inputs, path)

    def solve(self, score: BoundScore, metric: Metric, start: Tensor, end: Tensor, run: Run) -> Solution:
        """start, end (batch, *features) -> a polyline for each example."""
        if isinstance(metric, Euclidean):
            return Solution(Path.straight(start, end), stats={"sampled_ratio": torch.ones(len(start))})
        if self.resolution is not None and len(score.shape) < 2:
            shape = tuple(score.shape)
            raise ValueError(
                f"resolution={self.resolution} needs inputs of shape (…, height, width), got features {shape}"
            )
        if self.start_from is not None and len(self.start_from) not in (1, len(start)):
            given = len(self.start_from)
            raise ValueError(f"start_from has {given} paths for {len(start)} examples: pass one for all, or one each")
        budget = run.budget(score).share(SOLVER_SHARE).at_most(self.max_gradients)
        per_block, stop, parts = BLOCK_ELEMENTS // (HELD * score.n_features), Stop(run), []
        with run.bar("descent", float(budget.left().sum())) as bar:
            for examples, a, b in split_ends(start, end, per_block, score.work_dtype):
                block = Field(score, metric, stop, budget, examples, a, b, self.resolution, bar)
                parts.append((examples, _Solve(self, block).solution()))
        return replace(join_blocks(parts), never_longer=True)


@dataclass(frozen=True, eq=False)
class WarmDescent(Settings):
    """`Descent` that starts from the path of the nearest input that is solved already. Made by `Descent.warm`.

    It saves most for similar problems: frames of a film, slightly changed rows of a table, a slightly changed model.

    Args:
        solver: continues from there.
        inputs: (n, *features) that are solved.
        paths: of n examples.

    Example:
        >>> import torch, leastpath as lp
        >>> score = lp.Score(lambda x: torch.sigmoid(20 * x.mean(1) - 10))
        >>> x = torch.ones(1, 30)
        >>> first = lp.attribute(score, x, method=lp.Descent())
        >>> again = lp.attribute(score, 0.99 * x, method=lp.Descent().warm(first, x))
        >>> bool(again.stats["solver_gradients"] <= first.stats["solver_gradients"])
        True
    """

    solver: Descent
    inputs: Tensor = field(repr=False)
    paths: Path = field(repr=False)

    def solve(self, score: BoundScore, metric: Metric, start: Tensor, end: Tensor, run: Run) -> Solution:
        """start, end (batch, *features) -> a polyline for each example."""
        check_features("what is solved already", self.inputs.shape[1:], end.shape[1:])
        here, known = (part.flatten(1).cpu().double() for part in (end, self.inputs))
        nearest = torch.cdist(here, known).argmin(1)
        return replace(self.solver, start_from=self.paths.select(nearest)).solve(score, metric, start, end, run)


class _Solve:
    """The work on one block of examples: the best path so far of each, and its sampled length."""

    def __init__(self, settings: Descent, field: Field) -> None:
        self.settings, self.field = settings, field
        self.paths = list(torch.stack([field.start, field.end], 1))  # (knots, *features) each
        self.straight = torch.full_like(field.distance, torch.nan)  # sampled lengths
        self.length = self.straight.clone()
        self.bound = torch.zeros_like(self.length)  # change of score from end to end
        self.n_check = min(128, max(8, field.limit // 16))  # of a path that nothing is known of
        self.n_look = min(LINE_SAMPLES, max(4, field.limit // 10))
        self.look_cost = self.n_look + 2  # samples of the line and both ends
        self.seen: dict[int, tuple[Tensor, Estimate]] = {}  # segments of the best paths, and what samples say of them
        self.line: PathSamples | None = None  # of the straight lines

    def solution(self) -> Solution:
        with self.field.stop.catch():
            if not self.field.stop.caught:
                self._stages()
        ratio = torch.where(self.straight > 0, self.length / self.straight, 1)
        self.field.show(ratio)
        for b, path in enumerate(self.paths):
            path[0], path[-1] = self.field.start[b], self.field.end[b]
        path = Path.ragged(self.paths)
        notes = tuple(self._note(b) for b in range(len(path)))
        known, line = self._share_segments(path.offsets), self._share_lines()
        return Solution(path, notes, {"sampled_ratio": ratio.float().cpu()}, known, line=line)

    def _share_segments(self, first: Tensor) -> KnownSegments | None:
        """What was sampled of the best paths, whose knots begin at row `first` (batch + 1,) of all points."""
        rows = [row for row in self.seen if len(self.seen[row][0])]
        if not rows:
            return None
        tail = torch.cat([first[row] + self.seen[row][0] for row in rows])
        example = torch.cat([self.field.examples[row].expand(len(self.seen[row][0])) for row in rows])
        estimate = Estimate.join([self.seen[row][1] for row in rows])
        return KnownSegments(tail, tail + 1, self.field.score.groups[example], estimate)

    def _share_lines(self) -> KnownSegments | None:
        """What was sampled of the straight lines, in pieces that have some samples each."""
        if self.line is None:
            return None
        finite = torch.isfinite(self.line.speed).all(1).nonzero()[:, 0]
        span, estimate = line_estimates(self.line.take(finite))
        example = finite.cpu().repeat_interleave(len(span))
        groups = self.field.score.groups[self.field.examples[example]]
        return KnownSegments(2 * example, 2 * example + 1, groups, estimate, span.repeat(len(finite), 1))

    def _note(self, b: int) -> tuple[Note, ...]:
        straight, limit, least = len(self.paths[b]) <= 2, self.field.limit, self._least()
        if self.field.stop.caught:
            what = LINE if straight else "the best path so far is returned"
            return (self.field.stop.note(f"interrupted: {what}"),)
        if float(self.straight[b]) == torch.inf:
            sentence = "the gradient is NaN or infinite on the straight line, which was used"
            return (Note(Outcome.FELL_BACK, sentence),)
        if straight and least > limit:
            sentence = f"the solver may spend {limit} gradients and needs {least} to begin"
            return (Note(Outcome.FELL_BACK, f"{sentence}: {LINE}; raise max_gradients"),)
        if straight and float(self.field.distance[b]) > 0:
            sentence = f"found nothing shorter than the straight line in {self.field.spent[b]:.0f} gradients"
            return (Note(Outcome.SOLVER_NOTE, sentence),)
        return ()

    def _least(self) -> int:
        """Gradients for all stages but the last, with one round of pushing."""
        return self.look_cost + 2 * self.n_look + 2 * FLOW_STEPS + plateau.ROUND_COST + self.n_check

    def _stages(self) -> None:
        if self._least() > self.field.limit:
            return
        line = self._sample_lines()
        rows = (torch.isfinite(self.straight) & (self.straight > 0)).nonzero()[:, 0]
        rows = rows[~self._is_good(rows, 0, NEARER)]  # leaves out lines that are as short as any path can be
        cold = rows if self.settings.start_from is None else self._try_given(self.settings.start_from, line, rows)
        sign = flatter_side(self.field, line, cold)
        poor = self._over_plateau(cold, sign[cold], SIDE)
        poor = poor[self.field.affords(poor, self._least() - self.look_cost - 2 * self.n_look)]
        self._over_plateau(poor, -sign[poor], OTHER_SIDE)
        if not self.field.stop.caught:
            self._by_force(rows, cold)

    def _sample_lines(self) -> PathSamples:
        """PathSamples of the straight lines: the first paths, with which others are compared."""
        lines = torch.stack([self.field.start, self.field.end], 1)
        positions, weights = self.field.spread_out(lines, self.n_look, LOOK)
        everyone = torch.arange(len(lines), device=lines.device)
        samples = self.field.sample(lines, positions, everyone)
        self.straight = (samples.speed * weights).sum(1)
        self.length = self.straight.clone()
        value, gradient, _ = self.field.gradient(torch.cat([self.field.start, self.field.end]), everyone.repeat(2))
        self.at_ends = value.view(2, -1), gradient.unflatten(0, (2, -1))
        if self.field.metric.bounds_score:
            self.bound = torch.nan_to_num(self.at_ends[0].diff(dim=0)[0].abs(), posinf=0.0)
        self.line = samples
        return samples

    def _over_plateau(self, rows: Tensor, sign: Tensor, draw: int) -> Tensor:
        """Flows from both ends, then across the plateau. Returns the rows for which that side is hopeless."""
        if not len(rows) or self.field.stop.caught:
            return rows
        start, end, straight = self.field.start[rows], self.field.end[rows], self.straight[rows]
        value, gradient = (part[:, rows].flatten(0, 1) for part in self.at_ends)
        both = flows(
            self.field, torch.cat([start, end]), rows.repeat(2), sign.repeat(2), straight.repeat(2), (value, gradient)
        )
        (left, right), cost = both.trail.unflatten(0, (2, -1)), both.cost.view(2, -1).sum(0)
        cost = cost + both.values[:, -1].view(2, -1).diff(dim=0)[0].abs()
        t = (1 - torch.cos(torch.linspace(0, torch.pi, self.settings.n_knots, dtype=torch.float64))) / 2
        t = per_row(t.to(start)[None], start[:, None])
        away = left[:, -1] - start, right[:, -1] - end
        knots = torch.lerp(start[:, None], end[:, None], t) + (away[0] + away[1])[:, None]
        farthest = torch.maximum(norms(away[0], 1), norms(away[1], 1))
        push = torch.maximum(plateau.STEP * farthest, plateau.MIN_STEP * self.field.distance[rows])
        goal = torch.maximum(cost, LEAST_GOAL * straight)
        crossing = Crossing(left, knots, right.flip(1), sign, push, goal, HOPELESS * straight)
        middle = self._cross(rows, crossing, draw, self.settings.n_rounds, both)
        return rows[~(middle < HOPELESS * straight)]

    def _cross(self, rows: Tensor, crossing: Crossing, draw: int, rounds: int, trails: Flow | None = None) -> Tensor:
        """Push a crossing and keep it if it looks shorter than the path so far. Length of its middle (n,).

        `trails` (2 n,) are the flows that it begins and ends with, if it does.
        """
        straight = self.straight[rows]
        found = cross_plateau(self.field, rows, crossing, straight, rounds, PATIENCE, self.n_check, draw)
        seen = (found.length < self.length[rows]).nonzero()[:, 0]  # the others are not worth a check
        if self.field.stop.caught or found.samples is None:  # no more gradients: what the rounds saw is used
            self._keep(rows[seen], crossing.path[seen], found.length[seen])
        elif len(seen):
            known = [] if trails is None else [_of_trails(self.field.metric, trails, crossing.knots.shape[1], seen)]
            self._keep(rows[seen], crossing.path[seen], *self._sample_middle(rows[seen], found.pick(seen), known))
        return found.length

    def _sample_middle(
        self, rows: Tensor, found: Crossed, known: list[tuple[Tensor, PathSamples]]
    ) -> tuple[Tensor, PathSamples, Tensor]:
        """As `_sample_paths`, where the length of the rest is `known`: only the middle is sampled once more.

        The lengths are by these samples alone: those of the calmest round are too calm on average.
        """
        middle, crossing = found.crossing.middle, found.crossing
        n = min(self.n_check, max(self.n_check // 2, middle.shape[1] - 1))
        positions, weights = self.field.one_each(middle, n, CHECK)
        check = self.field.sample(middle, positions, rows)
        length = (check.speed * weights).sum(1)
        for _, samples in known:
            length = length + samples.speed.sum(1) / 2  # two samples a segment
        assert found.samples is not None
        first = crossing.left.shape[1] - 1
        where = [positions + first, found.positions + first, *(at.expand(len(rows), -1) for at, _ in known)]
        samples = PathSamples.join([check, found.samples, *(some for _, some in known)])
        return length, samples, torch.cat(where, 1)

    def _offer(self, rows: Tensor, paths: Tensor) -> None:
        if len(rows):
            self._keep(rows, paths, *self._sample_paths(rows, paths))

    def _sample_paths(self, rows: Tensor, paths: Tensor) -> tuple[Tensor, PathSamples, Tensor]:
        """Sampled lengths (n,) of paths, the samples, and where they are (n, samples)."""
        positions, weights = self.field.spread_out(paths, self.n_check, CHECK)
        samples = self.field.sample(paths, positions, rows)
        return (samples.speed * weights).sum(1), samples, positions

    def _keep(
        self, rows: Tensor, paths: Tensor, length: Tensor, samples: PathSamples | None = None,
        positions: Tensor | None = None,
    ) -> None:  # fmt: skip
        """Paths (n, knots, *features) of `rows` become the best so far if they look shorter.

        Their samples are kept for the integral, which need not look there again.
        """
        better = length < self.length[rows]
        self.length[rows[better]] = length[better]
        for i in better.nonzero()[:, 0].tolist():
            row, path = int(rows[i]), paths[i]
            self.paths[row] = without_repeats(path)
            self.seen.pop(row, None)
            if samples is not None and positions is not None:
                self.seen[row] = segment_estimates(path, samples.row(i), positions[i])
        self.field.show(self.length / self.straight)

    def _is_good(self, rows: Tensor, share: float, factor: float) -> Tensor:
        """(n,) whether paths look shorter than a share of the line, or than a factor of their lower bound."""
        enough = torch.maximum(share * self.straight[rows], factor * self.bound[rows])
        return self.length[rows] <= enough

    def _by_force(self, rows: Tensor, cold: Tensor) -> None:
        """Descent of the sampled length from paths that are not good, and from the lines of `cold` rows."""
        few = self.field.score.n_features <= EXACT_FORCE_UP_TO
        settings = Shortening(hessian=self.settings.hessian, resolution=self.settings.resolution)
        rows = rows[~self._is_good(rows, *((BETTER, NEARER) if few else (GOOD, NEAR)))]
        bent = torch.tensor([len(self.paths[row]) > 2 for row in rows.tolist()], dtype=torch.bool, device=rows.device)
        found = list(_stack_by_knots(rows[bent], [self.paths[row] for row in rows[bent].tolist()]))
        from_line = rows[torch.isin(rows, cold) if few else ~bent]
        for group, paths in refine_lines(self.field, from_line, settings, 2 * self.n_check, CUT):
            self._offer(group, paths)
        for group, paths in found:
            cost = settings.round_cost * settings.samples * (paths.shape[1] - 1) + self.n_check
            able = self.field.affords(group, cost)
            if able.any():
                self._offer(group[able], shorten_by_force(self.field, paths[able], group[able], settings, self.n_check))

    def _try_given(self, given: Path, line: PathSamples, rows: Tensor) -> Tensor:
        """Try the given paths and push them; returns the rows that still need all stages."""
        ends = self.field.start[rows], self.field.end[rows]
        paths = [without_repeats(path) for path in move_to_ends(given, self.field.examples[rows.cpu()], *ends)]
        for group, knots in _stack_by_knots(rows, paths):
            length, samples, positions = self._sample_paths(group, knots)
            self._keep(group, knots, length, samples, positions)
            near = (length < HOPELESS * self.straight[group]) & ~self._is_good(group, BETTER, NEAR)
            if near.any():
                above = samples.value.mean(1) > line.value[group].mean(1)
                self._push_on(group[near], knots[near], torch.where(above[near], 1.0, -1.0).to(length))
        few = self.field.score.n_features <= EXACT_FORCE_UP_TO
        cold = rows[~(self.length[rows] < (1 if few else HOPELESS) * self.straight[rows])]
        return cold[self.field.affords(cold, self._least() - self.look_cost)]

    def _push_on(self, rows: Tensor, knots: Tensor, sign: Tensor) -> None:
        """All inner knots of the paths (n, knots, *features) as one crossing, for a few rounds."""
        push = plateau.MIN_STEP * self.field.distance[rows]
        goal, hopeless = BETTER / plateau.CALM * self.straight[rows], self.straight[rows]
        crossing = Crossing(knots[:, :1], knots[:, 1:-1], knots[:, -1:], sign, push, goal, hopeless)
        self._cross(rows, crossing, AGAIN, min(WARM_ROUNDS, self.settings.n_rounds))


def _stack_by_knots(rows: Tensor, paths: list[Tensor]) -> Iterator[tuple[Tensor, Tensor]]:
    """Rows (n,) and their paths, stacked by number of knots: padding would change the result."""
    counts = torch.tensor([len(path) for path in paths], device=rows.device)
    for count in counts.unique().tolist():
        group = (counts == count).nonzero()[:, 0]
        yield rows[group], torch.stack([paths[i] for i in group.tolist()])


def _of_trails(metric: Metric, trails: Flow, n_knots: int, rows: Tensor) -> tuple[Tensor, PathSamples]:
    """What two flows (2 n,) saw at both ends of their segments, for `rows` (m,) of the crossings between them.

    The segments (samples,) as a path with `n_knots` between the flows numbers them, and the samples (m, samples).
    """
    numbers, seen = [], []
    for side in range(2):
        points, values, gradients = (
            part.unflatten(0, (2, -1))[side, rows] for part in (trails.trail, trails.values, trails.gradients)
        )
        if side:  # from the crossing to the end
            points, values, gradients = points.flip(1), values.flip(1), gradients.flip(1)
        segments = points.shape[1] - 1
        steps = points.diff(dim=1)
        for at in (slice(None, -1), slice(1, None)):
            where, gradient = points[:, at], gradients[:, at]
            speed = metric.speed(*(x.flatten(0, 1) for x in (where, gradient, steps))).view(steps.shape[:2])
            seen.append(PathSamples(where, steps, values[:, at], gradient, speed))
            numbers.append(torch.arange(segments).to(speed) + side * (points.shape[1] + n_knots))
    return torch.cat(numbers), PathSamples.join(seen)


def move_to_ends(given: Path, examples: Tensor, start: Tensor, end: Tensor) -> list[Tensor]:
    """The given paths moved to start and end (n, *features), with the same deviations: (knots, *features) each.

    `given` has one path for all or one for each example of the call, of which `examples` (n,) are meant.
    """
    check_features("start_from", given.points.shape[1:], start.shape[1:])
    which = examples if len(given) > 1 else torch.zeros_like(examples)
    return [_move_to_ends(given[int(k)].to(start), a, b) for k, a, b in zip(which, start, end, strict=True)]


def _move_to_ends(path: Tensor, start: Tensor, end: Tensor) -> Tensor:
    """One polyline (knots, *features), its deviation from its own line added to the line from start to end."""
    if torch.equal(path[0], start) and torch.equal(path[-1], end):
        return path
    chord = path[-1] - path[0]
    # A knot belongs to the nearest point of its line, so that knots next to an end stay next to it.
    along = ((path - path[0]) * chord).flatten(1).sum(1) / (chord**2).sum().clamp_min(torch.finfo(path.dtype).tiny)
    t = per_row(along.clamp(0, 1), path)
    moved = path + (1 - t) * (start - path[0]) + t * (end - path[-1])
    return torch.cat([start[None], moved[1:-1], end[None]])
