"""Referee: removes features of some inputs at random, once, and judges any explanation of them by what the score did.

The tests are those of `chance.py`. Here is decided what is removed, what stands in for it, and what an order could know
of the input without knowing the model. docs/verdict.md says what a verdict means, and its measured rates of error.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from leastpath._support.checks import check_integer, check_tensor
from leastpath._support.rows import flat_rows
from leastpath.account.run import Run
from leastpath.features.groups import Groups, Kind, check_groups, default_groups, kind_of, label_groups, patches
from leastpath.features.images import edges_of
from leastpath.removal.chance import (
    Probe,
    Statistic,
    count_tail,
    cut_strata,
    draw_fields,
    is_decidable,
    move,
    p_worse,
    permute,
    rank_evenly,
)
from leastpath.removal.curves import (
    LARGE,
    SHARES,
    Order,
    Scale,
    judged_score,
    level_of,
    measure_curves,
    removal_scores,
)
from leastpath.removal.verdict import (
    ALPHA,
    CLEARLY,
    LEAST_UNITS,
    NO_ORDER,
    Evidence,
    Judgment,
    leave_untested,
    say,
    say_too_few,
)
from leastpath.result.status import Note, Outcome, Status
from leastpath.score.baselines import Several, blur_images
from leastpath.score.calls import leave_untouched, warn_of_training_mode
from leastpath.score.score import Baselines, BoundScore, Inputs, Score, bind_paths

Array = Tensor | np.ndarray
Nulls = tuple[Tensor, list[tuple[list[Tensor], Tensor]]]
LIMIT = 8.0  # of log-odds: what a saturated class does beyond is no evidence
SMALL = 64  # cells of a grid up to which random orders are enough; larger ones are photographs
MOST_UNITS = 1_024  # that are removed one by one; more are bundled
ORDER_SHARES = (0.1, 0.3, 0.5, 0.7, 0.9)
REMOVALS_OF_UNIT, FEWEST, MOST = 28, 600, 1_800  # per example, where a forward costs little
REMOVALS_OF_LARGE = 384  # where it does not
REMOVALS_OF_PHOTOGRAPH = 1_536  # three pairs for each of 256 patches; with about one a patch weights are noisiest
SET_SHARES = (0.1, 0.9)  # smallest and largest share that a random set removes
WIDTHS = (0.0, 1.0, 2.0)  # of random sets on a grid, in cells: scattered, small spots, large spots
CHANCE_ORDERS = 4  # random orders of a photograph, for the spread of chance alone
STRATA, STRATA_OF_LARGE = 8, 16  # units of which the input says about the same
FUTILE = 0.3  # a p-value after a third of the removals beyond which the others are not asked for
MOST_FILLS = 4
LATE = "support is not known: max_seconds left no time to test it; raise max_seconds"
NO_TIME = Note(Outcome.BUDGET_SPENT, LATE)


class Referee:
    """Removals of some inputs, by which any explanation of them is judged: made once, used for all.

    Example:
        >>> import leastpath as lp
        >>> weights = torch.linspace(-1, 1, 24)[torch.randperm(24, generator=torch.Generator().manual_seed(0))]
        >>> referee = Referee(lp.Score(lambda x: x @ weights), torch.ones(1, 24))
        >>> right, wrong = referee.judge(weights[None]), referee.judge(-weights[None])
        >>> right.status[0].outcomes, wrong.status[0].outcomes, int(wrong.n_forwards) < int(right.n_forwards)
        ((<Outcome.SUPPORTED: 'supported'>,), (<Outcome.UNSUPPORTED: 'unsupported'>,), True)
    """

    stops_early = True  #: where a third of the removals leaves no hope, the others are not asked for

    def __init__(
        self,
        score: Score,
        inputs: Inputs,
        baselines: Baselines | Several = None,
        *,
        groups: Groups = None,
        n_removals: int | None = None,
        draws: int = 499,
        seed: int = 0,
        progress: bool = False,
    ) -> None:
        """See `verdict` for the arguments."""
        what: object = score
        if not isinstance(what, Score):
            given = type(what).__name__
            raise ValueError(f"score is a {given}, expected a Score: verdict(lp.Score(model, target), inputs, values)")
        check_groups(groups)
        check_integer("n_removals", n_removals, 40, or_none=", or None for a default by kind of input")
        check_integer("draws", draws, 19, advice="fewer cannot give a p-value of .05")
        warn_of_training_mode(score.model)
        with leave_untouched(score.model, inputs):
            starts = baselines.of(inputs, score) if isinstance(baselines, Several) else baselines
            bound, start, _, m = bind_paths(score, inputs, starts)
        self._set_up(bound, inputs, start.unflatten(0, (-1, m)), groups, Run(seed, progress=progress))
        self.n_removals, self.draws = n_removals, draws

    @classmethod
    def of_problem(cls, bound: BoundScore, inputs: Inputs, starts: Tensor, groups: Groups, run: Run) -> Referee:
        """For a score that is bound already. Starts are (examples, baselines, *features)."""
        referee = cls.__new__(cls)
        referee._set_up(bound, inputs, starts, groups, run)
        referee.n_removals, referee.draws = None, 499
        if run.max_gradients is not None:  # a test costs at most half of what the explanation may: three forwards each
            referee.n_removals = max(40, min(referee.usual_removals, run.max_gradients * 3 // 2))
        return referee

    def _set_up(self, bound: BoundScore, inputs: Inputs, starts: Tensor, groups: Groups, run: Run) -> None:
        score, self.scale = judged_score(bound.score)  # type: ignore[arg-type]
        # Where memory ran out, batches are smaller by now: they need not be halved, and warned of, again.
        self.judged = replace(score, batch_size=bound.batch_size).bind(inputs)
        self.inputs, self.kind, self.run = inputs, kind_of(bound), run
        points, starts = self.judged.space.points().detach().cpu(), starts.detach().cpu()
        self.labels = label_groups(default_groups(self.kind) if groups is None else groups, points.float())
        units, grid = _find_units(groups, points, self.kind)
        self.cases = [
            Case.of(self.kind, point, own, units[b if len(units) > 1 else 0], grid, run.seed)
            for b, (point, own) in enumerate(zip(points, starts, strict=True))
        ]
        smooth = grid if grid is not None and grid[0] * grid[1] > SMALL else None
        self.n_baselines, self.removals = min(starts.shape[1], MOST_FILLS), [Removals(smooth) for _ in points]
        self.remover = Remover(self.judged, self.scale, self.cases, grid, self.n_baselines, self.removals)

    @property
    def usual_removals(self) -> int:
        """Per example, unless the user says otherwise."""
        if self.remover.is_photograph:
            return REMOVALS_OF_PHOTOGRAPH
        return REMOVALS_OF_LARGE if self.is_large else min(MOST, max(FEWEST, REMOVALS_OF_UNIT * len(self.cases[0])))

    @property
    def is_large(self) -> bool:
        """Whether a forward is dear."""
        return self.remover.is_photograph or self.kind == "tokens" or self.cases[0].point.numel() >= LARGE

    def take_removals(self, other: Referee) -> None:
        """Use what another referee of the same question has removed already."""
        self.removals[:] = other.removals
        for mine, theirs in zip(self.cases, other.cases, strict=True):
            mine.generator.set_state(theirs.generator.get_state())

    def show_units(self, values: Array | tuple[Array, ...], example: int = 0) -> tuple[Tensor, Tensor]:
        """(units,) the values that were ranked for an example, and the weights by removal, or zeros."""
        read, case = _read_values(self.judged, values, len(self.cases), self.kind), self.cases[example]
        known = self.removals[example]
        weights = known.probe.weights if known else torch.zeros(len(case), dtype=torch.float64)
        return case.sum_units(read[example]), weights

    def check_inputs(self, bound: BoundScore) -> None:
        """Refuse what was bound to other inputs than this referee's."""
        mine, others = self.judged.space.points(), bound.space.points()
        if mine.shape[1:] != others.shape[1:] or not torch.equal(mine, others[:: len(others) // max(1, len(mine))]):
            raise ValueError("support= is a Referee of other inputs: make one of these, lp.Referee(score, inputs, …)")

    def judge(self, values: Array | tuple[Array, ...]) -> Judgment:
        """The verdict on an explanation, shaped as `verdict` says. All of one referee's stand on the same removals."""
        read = _read_values(self.judged, values, len(self.cases), self.kind)
        if not torch.isfinite(read).all():
            raise ValueError(
                "values hold NaN or infinite numbers, which have no rank: drop these examples, or nan_to_num()"
            )
        with leave_untouched(self.judged.score.model, self.inputs):
            return self.judge_points(read)

    # ---- one explanation -------------------------------------------------------------------------------------------

    def judge_points(self, values: Tensor, line: Tensor | None = None, bent: Tensor | None = None) -> Judgment:
        """The verdict on values (examples, *features) over the explained points; NaN: there are none.

        With `line`, the straight line's values: whether they are clearly better where a path is `bent`.
        """
        before, values = self.judged.forwards_spent.copy(), values.detach().cpu()
        supports = self._measure_supports(values, self.remover.n_fills)
        support, of_line = supports[: self.n_baselines].mean(0), torch.full((len(values),), torch.nan).double()
        if line is not None:
            line, of_line = line.detach().cpu(), support.clone()
            if bent is not None and bent.any():
                of_line = torch.where(bent.cpu(), self._measure_supports(line, self.n_baselines).mean(0), support)
        strengths = [case.sum_units(row.double()) for case, row in zip(self.cases, values, strict=True)]
        known = [len(row) >= LEAST_UNITS and bool(torch.isfinite(row).all()) for row in strengths]
        self._remove(strengths, known)
        found, notes = [], []
        for b, (case, row) in enumerate(zip(self.cases, strengths, strict=True)):
            if not known[b] or not self.removals[b]:
                is_ordered = bool(torch.isfinite(support[b]))
                found.append((torch.nan, 1.0, 1.0) if is_ordered and not known[b] else (torch.nan,) * 3)
                notes.append(
                    NO_TIME if known[b] else say_too_few(len(row), float(support[b])) if is_ordered else NO_ORDER
                )
                continue
            rival = None
            if line is not None and bent is not None and bool(bent[b]) and torch.isfinite(line[b]).all():
                rival = case.sum_units(line[b].double())
            evidence = self._weigh(b, row, rival, float(support[b]), float(of_line[b]))
            found.append((evidence.spread, evidence.by_chance.p, evidence.by_input.p))
            notes.append(say(evidence, float(support[b]), torch.nan if rival is None else float(of_line[b])))
        chance, p_value, p_model = torch.tensor(found, dtype=torch.float64).reshape(-1, 3).unbind(1)
        spent = torch.as_tensor(self.judged.forwards_spent - before).long()
        fills = dict(zip(self.cases[0].fill_names, supports, strict=True)) if self.cases else {}
        return Judgment(support, chance, p_value, p_model, tuple(Status((n,)) for n in notes), spent, fills, of_line)

    def _measure_supports(self, values: Tensor, fills: int) -> Tensor:
        """(fills, examples) NaN where values are not finite, or rank one thing alone, which has no order."""
        order = Order.of(values.nan_to_num(), self.labels, "signed")
        shares = SHARES if self.n_removals is None or self.n_removals >= 200 else SHARES[::2]
        gains = measure_curves(self.judged, self.scale, order, self.remover.fills(fills), shares)[0][0]
        known = flat_rows(torch.isfinite(values)).all(1) & (order.sizes > 1)
        return torch.where(known, gains, torch.nan)

    def _weigh(self, b: int, values: Tensor, rival: Tensor | None, support: float, line: float) -> Evidence:
        """The evidence for and against the values (units,) of example b, and against a rival's, the line's."""
        case, probe = self.cases[b], self.removals[b].probe
        chance, blind = case.draw_nulls(self.draws)
        ranked = rank_evenly(values)
        by_chance = count_tail(Statistic.of(probe.weights), ranked, chance)
        tails = [count_tail(Statistic.of(probe.weights, says), ranked, null) for says, null in blind]
        by_input = max(tails, key=lambda tail: tail.p)
        is_worse = rival is not None and support < line - CLEARLY * abs(line)
        is_worse = is_worse and rival is not None and p_worse(probe, values, rival) <= ALPHA
        decidable = by_chance.p <= ALPHA or is_decidable(probe, chance, ALPHA)
        return Evidence(by_chance, by_input, probe.spread, decidable, case.grid is not None, is_worse)

    # ---- removals --------------------------------------------------------------------------------------------------

    def _remove(self, values: Sequence[Tensor], wanted: Sequence[bool]) -> None:
        """Ask the model for the removals that are still due: a third, and the others where that leaves hope.

        Stopping early cannot make an explanation pass: it only ends tests that would hardly have been passed.
        """
        whole = self.n_removals or self.usual_removals
        for due in (-(-whole // 3), whole) if self.is_large else (whole,):  # where forwards cost little, at once
            rows = [
                b for b, row in enumerate(self.removals)
                if wanted[b] and row.n_forwards < due and not self._is_hopeless(b, values[b])
            ]  # fmt: skip
            missing = max((due - self.removals[b].n_forwards for b in rows), default=0)
            if rows and self.run.clock.left() > 0:
                with self.run.bar("verdict", 1) as bar:
                    self.remover.ask(rows, missing)
                    bar.advance()

    def _is_hopeless(self, b: int, values: Tensor) -> bool:
        """Whether more removals would hardly help: others would have been found better than chance already."""
        if not self.removals[b] or not self.stops_early:
            return False
        null, probe = self.cases[b].draw_nulls(self.draws)[0], self.removals[b].probe
        is_far = count_tail(Statistic.of(probe.weights), rank_evenly(values), null).p > FUTILE
        return is_far and is_decidable(probe, null, ALPHA)


class Removals:
    """The removals of one example, as far as they were asked for; of cells of a photograph's grid, if there is one."""

    def __init__(self, grid: tuple[int, int] | None) -> None:
        self.grid, self.parts = grid, list[tuple[Tensor, Tensor, Tensor, Tensor]]()
        self.n_forwards = 0

    def __bool__(self) -> bool:
        return bool(self.parts)

    def add(self, signs: Tensor, differences: Tensor, half: Tensor, gains: Tensor, forwards: int) -> None:
        """More pairs, see `Probe.of`."""
        self.parts.append((signs, differences, half, gains))
        self.n_forwards += forwards
        self.__dict__.pop("probe", None)

    @cached_property
    def probe(self) -> Probe:
        """What they say together."""
        signs, differences, half, gains = (torch.cat(part) for part in zip(*self.parts, strict=True))
        return Probe.of(signs, differences, half, gains, self.grid)


@dataclass(frozen=True)
class Remover:
    """Asks the model what it says of examples without some of their units. Each is asked for as long as it matters."""

    judged: BoundScore
    scale: Scale
    cases: list[Case]
    grid: tuple[int, int] | None
    n_baselines: int
    removals: list[Removals]

    @property
    def is_photograph(self) -> bool:
        """Whether removals are sets on a grid."""
        return self.grid is not None and self.grid[0] * self.grid[1] > SMALL

    @property
    def n_fills(self) -> int:
        """How many things stand in for removed features, the baselines first."""
        return len(self.cases[0].fills) if self.cases else 0

    def fills(self, n: int) -> list[Tensor]:
        """The first fills of all examples, (examples, *features) each."""
        return [torch.stack([case.fills[k] for case in self.cases]).to(self.judged.device) for k in range(n)]

    def ask(self, rows: list[int], forwards: int) -> None:
        """About so many forwards more for each of some examples."""
        of_rows = torch.tensor(rows)
        most = max(len(case) for case in self.cases)
        labels = torch.stack([case.labels for case in self.cases])
        order = Order.of(torch.zeros(labels.shape), labels, "signed")
        fills = self.fills(self.n_fills)
        if self.is_photograph:
            self._ask_sets(of_rows, order, fills, max(2 * len(fills), -(-forwards // 2)))
        else:
            orders = max(2, -(-forwards // (2 * len(ORDER_SHARES) * len(fills))))
            self._ask_orders(of_rows, order, fills, orders, most)

    def _ask_orders(self, rows: Tensor, order: Order, fills: list[Tensor], orders: int, most: int) -> None:
        """Random orders: each loses its first and its last units, at five shares, by every fill."""
        drawn = order.rank_anew(self._draw(rows, lambda g: torch.rand(orders, most, generator=g)))
        differences, gains = self._lose_ends(drawn, fills, rows, ORDER_SHARES)
        for b in rows.tolist():
            places, n = drawn.places[:, b, None].cpu(), int(order.sizes[b])
            counts = drawn.first(ORDER_SHARES)[:, b, 1, None]  # (shares, 1)
            last = (places >= n - counts) & (places < n)
            signs = (places < counts).double() - last.double()  # (orders, shares, units)
            half = torch.arange(orders)[:, None].expand(-1, len(ORDER_SHARES)) % 2
            flat = signs.flatten(0, 1)[:, :n], differences[:, :, b].flatten(), half.flatten()
            self.removals[b].add(*flat, gains[:, b], 2 * differences[:, :, b].numel() * len(fills))

    def _lose_ends(
        self, drawn: Order, fills: list[Tensor], rows: Tensor, shares: Sequence[float]
    ) -> tuple[Tensor, Tensor]:
        """Level without the last − level without the first units, (orders, shares, examples), and the orders' gains."""
        spans = torch.cat([drawn.last(shares), drawn.first(shares)])
        spans[:, ~torch.isin(torch.arange(len(self.cases)), rows)] = -1
        scores = removal_scores(self.judged, drawn, spans, fills)
        last, first = scores.chunk(2, 2)
        gains = (level_of(last, self.scale) - level_of(first, self.scale))[:, : self.n_baselines].mean((1, 2))
        return (self._level(last) - self._level(first)).mean(1), gains

    def _level(self, scores: Tensor) -> Tensor:
        return scores.clamp(-LIMIT, LIMIT) if self.scale == "log_odds" else scores

    def _ask_sets(self, rows: Tensor, order: Order, fills: list[Tensor], pairs: int) -> None:
        """Random sets on a grid, each against its complement: scattered cells, small and large spots in turn.

        Single scattered patches hardly move a net that sees objects; spots do. A pair costs two forwards, by one fill.
        """
        every, grid = torch.arange(pairs), self.grid or (1, 1)
        kind = every // len(fills) % len(WIDTHS)

        def draw(generator: torch.Generator) -> Tensor:
            share = torch.rand(pairs, generator=generator) * (SET_SHARES[1] - SET_SHARES[0]) + SET_SHARES[0]
            smooth = torch.stack([draw_fields(pairs, grid, width, generator) for width in WIDTHS])[kind, every]
            return (smooth.argsort(1).argsort(1) >= (share * smooth.shape[1]).round()[:, None]).float()

        sets = self._draw(rows, draw).int()  # (pairs, examples, units) 0: removed first
        both = torch.tensor([[0, 1], [1, 2]])[:, None].repeat(1, len(self.cases), 1)
        both[:, ~torch.isin(torch.arange(len(self.cases)), rows)] = -1
        differences = torch.empty(pairs, len(self.cases), dtype=torch.float64)
        for k, fill in enumerate(fills):
            some = replace(order, places=sets[k :: len(fills)], has_equals=False)
            first, last = self._level(removal_scores(self.judged, some, both, [fill])[:, 0]).unbind(1)
            differences[k :: len(fills)] = last - first
        half = every // (len(fills) * len(WIDTHS)) % 2
        gains = torch.zeros(0, len(self.cases), dtype=torch.float64)
        if not self.removals[int(rows[0])]:
            few = order.rank_anew(self._draw(rows, lambda g: torch.rand(CHANCE_ORDERS, sets.shape[-1], generator=g)))
            gains = self._lose_ends(few, fills[: self.n_baselines], rows, ORDER_SHARES[::2])[1]
        for b in rows.tolist():
            self.removals[b].add(1.0 - 2.0 * sets[:, b].double(), differences[:, b], half, gains[:, b], 2 * pairs)

    def _draw(self, rows: Tensor, draw: Callable[[torch.Generator], Tensor]) -> Tensor:
        """Numbers (draws, units) of the examples' own generators: (draws, examples, units), zeros for other rows."""
        chosen = set(rows.tolist())
        drawn = {b: draw(self.cases[b].generator) for b in chosen}
        none = torch.zeros_like(drawn[min(chosen)])
        return torch.stack([drawn.get(b, none) for b in range(len(self.cases))], 1)


def verdict(
    score: Score,
    inputs: Inputs,
    values: Array | tuple[Array, ...],
    baselines: Baselines | Several = None,
    *,
    groups: Groups = None,
    n_removals: int | None = None,
    draws: int = 499,
    seed: int = 0,
    progress: bool = False,
) -> Judgment:
    """Judge explanations that any library made: two permutation tests for each input, on removals of its features.

    Values are ranked by sign and size: first what speaks for the class, last what speaks against it. Where the score is
    of a class, its log-odds within ±8 are judged, and else the score itself. It is the test that results of `attribute`
    carry. A row's verdict does not depend on the others of its batch. For several explanations of the same inputs, a
    `Referee` asks the model only once.

    Args:
        score: the model and the number that was explained.
        inputs: (batch, *features), or a tuple of such tensors.
        values: the explanation, a tensor or an array shaped like what was explained; for images also
            (batch, height, width), for tokens also (batch, length).
        baselines: as in `attribute`. They stand in for removed features (at most four of them), together with
            images: the mean color and a blurred copy of the image;
            tokens: the mean token, and other tokens of the same text;
            tables and series: the points halfway and three quarters of the way to the baseline.
            Three baselines or more stand in alone.
        groups: what is removed together (see `attribute`). None: images by patches of a grid of at most 16 × 16,
            tokens whole, series by time steps, and else single features. A whole number: about so many superpixels.
        n_removals: inputs without some of their features that the model is asked about, per example. None: 1,536 for
            photographs, 384 for tokens and other large inputs, where the last two thirds are left out if the first
            leaves no hope; 600 to 1,800 for small ones. More give more power.

    Rarely needed:
        draws: orders that explanations are compared with; they cost no forwards.
        seed: of removals and draws. The same seed gives the same verdict.
        progress: show a progress bar.

    Example:
        >>> import leastpath as lp
        >>> weights = torch.linspace(-1, 1, 24)[torch.randperm(24, generator=torch.Generator().manual_seed(0))]
        >>> score, inputs = lp.Score(lambda x: x @ weights), torch.ones(1, 24)
        >>> found = verdict(score, inputs, inputs * weights)
        >>> found.status[0].outcomes, float(found.p_value)
        ((<Outcome.SUPPORTED: 'supported'>,), 0.002)
    """
    referee = Referee(
        score, inputs, baselines, groups=groups, n_removals=n_removals, draws=draws, seed=seed, progress=progress
    )
    return referee.judge(values)


def judge_result(
    bound: BoundScore, inputs: Inputs, starts: Tensor, groups: Groups, run: Run, full: bool, values: Tensor,
    line: Tensor | None, bent: Tensor | None,
) -> Judgment:  # fmt: skip
    """The verdict on what a method found, by removals of its own. It never raises: the explanation stands without."""
    if run.clock.left() <= 0:
        return leave_untested(len(values), NO_TIME)
    try:
        referee = Referee.of_problem(bound, inputs, starts, None if isinstance(groups, int) else groups, run)
        if full:
            referee.n_removals = 4 * (referee.n_removals or referee.usual_removals)
        return referee.judge_points(values, line, bent)
    except KeyboardInterrupt:
        return _leave_unknown(len(values), Outcome.INTERRUPTED, "the test was interrupted")
    except Exception as error:  # the model may refuse inputs that lack features as it likes
        return _leave_unknown(len(values), Outcome.UNSUPPORTED, str(error).partition("\n")[0] or type(error).__name__)


def _leave_unknown(examples: int, outcome: Outcome, why: str) -> Judgment:
    return leave_untested(examples, Note(outcome, f"support is not known: {why}"))


# ---- one example ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Case:
    """One example without its model: what is removed together, what stands in for it, what the input alone says."""

    kind: Kind
    point: Tensor  # (*shape), on the CPU as all below
    start: Tensor  # (*shape) the mean baseline
    fills: Tensor  # (fills, *shape), the baselines first
    fill_names: tuple[str, ...]
    labels: Tensor  # (*shape) the unit of each feature, 0, 1, … without gaps; −1: never removed
    grid: tuple[int, int] | None  # of the units, row by row
    seed: int  # of the call

    @classmethod
    def of(
        cls, kind: Kind, point: Tensor, starts: Tensor, labels: Tensor, grid: tuple[int, int] | None, seed: int
    ) -> Case:
        """From an example (*shape), its baselines (baselines, *shape), and the numbers of its units."""
        start = starts.mean(0)
        n = int(labels.max()) + 1
        if grid is None and kind != "tokens" and n >= LEAST_UNITS:
            labels = _renumber(labels, point - start)
        labels = torch.where(labels >= 0, labels * MOST_UNITS // n, -1) if n > MOST_UNITS else labels
        fills, names = _choose_fills(kind, point, starts[:MOST_FILLS], labels)
        return cls(kind, point, start, fills, names, labels, grid, seed)

    def __len__(self) -> int:
        return self._n_units

    @cached_property
    def _n_units(self) -> int:
        return int(self.labels.max()) + 1

    def sum_units(self, over: Tensor) -> Tensor:
        """Sums over units of numbers (*shape)."""
        return _sum_units(over, self.labels)

    @cached_property
    def own_seed(self) -> int:
        """A seed that differs between inputs, but not with their place in a batch, nor with the columns' order."""
        content = zlib.crc32(self.point.flatten().sort().values.float().numpy().tobytes())
        return int((self.seed * 1_000_003 + content) % 2**62)

    @cached_property
    def generator(self) -> torch.Generator:
        """Of the removals."""
        return torch.Generator().manual_seed(self.own_seed)

    @cached_property
    def _nulls(self) -> dict[int, Nulls]:
        return {}

    def draw_nulls(self, draws: int) -> Nulls:
        """Moves of units (draws, units) by chance; and of each test against the input, with what it is blind to."""
        if draws not in self._nulls:
            generator, n = torch.Generator().manual_seed(self.own_seed + 1), len(self)
            tests, size = _ask_input(self)
            chance = permute(n, draws, generator) if self.grid is None else move(self.grid, draws, generator)
            inside = [
                chance if strata is None else permute(n, draws, generator, cut_strata(strata, size, generator))
                for _, strata in tests
            ]
            self._nulls[draws] = chance, [(says, null) for (says, _), null in zip(tests, inside, strict=True)]
        return self._nulls[draws]


# ---- what the input says without the model -------------------------------------------------------------------------


def _ask_input(case: Case) -> tuple[list[tuple[list[Tensor], Tensor | None]], int]:
    """The tests against what the input says, and the size of strata.

    Each test is what its statistic is blind to, and what its strata are cut by, (units,) each; without strata the map
    is moved.
    """
    away = [case.sum_units((case.point - fill).abs()) for fill in case.fills]
    if case.grid is None:
        difference = case.point - case.start
        size, signed = case.sum_units(difference.abs()), case.sum_units(difference)
        if case.kind == "tokens":
            return [([size, torch.arange(len(size)).double()], size)], STRATA
        return [([size], size), ([signed], signed)], STRATA
    centre = _distance_from_centre(case.grid)
    if len(case) <= SMALL:
        level, mean = case.sum_units(case.point), torch.stack(away).mean(0)
        return [([level, mean, blur_images(level.view(case.grid), 1.0).flatten(), centre], None), ([], mean)], STRATA
    edges = case.sum_units(edges_of(case.point))
    smoothed = blur_images(edges.view(case.grid), 1.0).flatten()
    ranks = rank_evenly(edges) + torch.stack([rank_evenly(one) for one in away]).mean(0)
    return [([edges, smoothed, _contrast(case), *away, centre], None), ([], ranks)], STRATA_OF_LARGE


def _distance_from_centre(grid: tuple[int, int]) -> Tensor:
    down, right = (torch.arange(side).double() - (side - 1) / 2 for side in grid)
    return (down[:, None] ** 2 + right**2).flatten()


def _contrast(case: Case) -> Tensor:
    """The standard deviation inside each unit, mean over channels."""
    channels = zip(case.point, case.labels, strict=True)
    return torch.stack([_deviation(image, labels, len(case)) for image, labels in channels]).mean(0)


def _deviation(image: Tensor, labels: Tensor, n: int) -> Tensor:
    size, total, square = (_sum_units(part, labels, n) for part in (torch.ones_like(image), image, image.square()))
    return (square / size - (total / size).square()).clamp_min(0).sqrt()


def _sum_units(over: Tensor, labels: Tensor, n: int | None = None) -> Tensor:
    inside = labels >= 0
    n = int(labels.max()) + 1 if n is None else n
    return torch.zeros(n, dtype=torch.float64).index_add_(0, labels[inside], over[inside].double())


# ---- from a batch to its cases -------------------------------------------------------------------------------------


def _read_values(bound: BoundScore, values: Any, batch: int, kind: Kind) -> Tensor:
    """The explanation as numbers over the explained points: (batch, *shape) in float64 on the CPU."""
    is_array = [isinstance(p, np.ndarray) and p.dtype.kind in "biuf" for p in _as_parts(values)]
    parts = [torch.as_tensor(p) if read else p for p, read in zip(_as_parts(values), is_array, strict=True)]
    for part in parts:
        check_tensor("values", part)
    shape = tuple(bound.shape)
    explained = [tuple(part.shape[1:]) for part in _as_parts(bound.space.split(bound.space.points()))]
    given = parts[0].detach().cpu().double()
    fitting = {"image": [(1, *shape[1:]), shape[1:]], "tokens": [(*shape[:-1], 1), shape[:-1]]}.get(kind, [])
    if [tuple(part.shape) for part in parts] == [(batch, *one) for one in explained]:
        given = torch.cat([part.detach().cpu().double().reshape(batch, -1) for part in parts], 1)
    elif len(parts) == 1 and tuple(given.shape) in [(batch, *one) for one in fitting]:
        whole = given.reshape(batch, *fitting[0])
        given = whole.expand(batch, *shape)
    else:
        got, due = (
            ", ".join(map(str, side)) for side in ([tuple(p.shape) for p in parts], [(batch, *e) for e in explained])
        )
        also = f" or without channels {(batch, *shape[1:])}" if kind == "image" else ""
        raise ValueError(f"values have shape {got}, what was explained {due}: expected one number per feature{also}")
    return given.reshape(batch, *shape)


def _find_units(groups: Groups, points: Tensor, kind: Kind) -> tuple[Tensor, tuple[int, int] | None]:
    """Labels (1 or batch, *shape) without gaps, −1 for what is never removed; and the grid on which the units lie."""
    chosen: Groups = default_groups(kind) if groups is None else groups
    shape, grid = points.shape[1:], None
    if kind == "image" and chosen in ("values", "pixels") and shape[1:].numel() > MOST_UNITS:
        chosen = "patches"  # too many to be told apart one by one
    labels = label_groups(chosen, points.float())
    if labels is None:
        labels = torch.arange(shape.numel()).reshape(1, *shape)
    labels = torch.stack([_close_gaps(one) for one in labels.cpu()])
    if kind == "image" and isinstance(chosen, str):
        cells = patches(*shape[1:])[0]
        grids = {"patches": (len(cells[:, 0].unique()), len(cells[0].unique())), "pixels": (shape[1], shape[2])}
        grid = grids.get("pixels" if shape[0] == 1 and chosen == "values" else chosen)
    elif kind == "series" and chosen == "steps":
        grid = (1, int(labels.max()) + 1)
    return labels, grid


def _close_gaps(labels: Tensor) -> Tensor:
    numbers = torch.unique(labels, return_inverse=True)[1] - len(labels[labels < 0].unique())
    return torch.where(labels >= 0, numbers, -1)


def _renumber(labels: Tensor, difference: Tensor) -> Tensor:
    """Units numbered by what the input says of them: so no verdict depends on how a table numbers its columns."""
    signed, size = _sum_units(difference, labels), _sum_units(difference.abs(), labels)
    by_size = size.argsort(stable=True)
    order = by_size[signed[by_size].argsort(stable=True)]
    return torch.where(labels >= 0, order.argsort()[labels.clamp_min(0)], -1)


def _choose_fills(kind: Kind, point: Tensor, starts: Tensor, labels: Tensor) -> tuple[Tensor, tuple[str, ...]]:
    """What stands in for removed features: (fills, *shape), at least three, the baselines first; and their names."""
    names = ("baseline",) if len(starts) == 1 else tuple(f"baseline {k + 1}" for k in range(len(starts)))
    start = starts.mean(0)
    if kind == "image":
        mean = point.mean((1, 2), keepdim=True).expand_as(point)
        blurred = blur_images(point, max(1.0, min(point.shape[1:]) / 16))
        return torch.stack([*starts, mean, blurred]), (*names, "mean", "blur")
    if len(starts) > 2:
        return starts, names
    if kind == "tokens":
        free = (labels >= 0).any(-1)
        mean = torch.where(free[:, None], point[free].mean(0), point)
        other = point.clone()
        other[free] = point[free].roll(max(1, int(free.sum()) // 2), 0)
        return torch.stack([*starts, mean, other]), (*names, "mean token", "other tokens")
    return torch.stack([*starts, (point + start) / 2, (point + 3 * start) / 4]), (*names, "halfway", "three quarters")


def _as_parts(given: Any) -> tuple[Any, ...]:
    return given if isinstance(given, tuple) else (given,)
