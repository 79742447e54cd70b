"""Judge: the verdict on anybody's explanation of one input. Better than chance? Better than what the input alone says?

The tests are those of `chance.py`. Here is decided what is removed, what stands in for it, and what an order could know
of the input without knowing the model. docs/verdict.md says what a verdict means, and its measured rates of error.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from leastpath._support.checks import check_integer, check_tensor, seed_of, write_number
from leastpath.account.run import Run
from leastpath.features.groups import Groups, Kind, check_groups, default_groups, kind_of, label_groups, patches
from leastpath.removal.chance import (
    LEAST_UNITS,
    SHARES,
    Probe,
    Statistic,
    Tail,
    count_tail,
    cut_strata,
    is_decidable,
    move,
    order_differences,
    permute,
    probe_orders,
    probe_sets,
    rank_evenly,
)  # fmt: skip
from leastpath.removal.curves import LARGE, Order, Scale
from leastpath.removal.fills import Filling
from leastpath.removal.support import judged_score
from leastpath.result.status import Note, Outcome, Status
from leastpath.score.baselines import Several, blur_images
from leastpath.score.calls import leave_untouched, warn_of_training_mode
from leastpath.score.score import Baselines, BoundScore, Inputs, Score, bind_paths, rows_of, with_marks

Array = Tensor | np.ndarray
ALPHA = 0.05
OTHERS = 3  # rows of the batch that stand in for a table's removed features
SMALL = 64  # cells of a grid up to which random orders are enough; larger ones are photographs
ORDERS, ORDERS_OF_LARGE = 200, 20  # random orders of the probe, where a forward costs nothing and where it does
SETS = 384  # removals of a photograph
STRATA, STRATA_OF_LARGE = 8, 16  # units of which the input says about the same


@dataclass(frozen=True)
class Judgment:
    """What `verdict` found: numbers (batch,) in float64 on the CPU, and a status for each example.

    `status[i].outcomes[0]` is SUPPORTED (both p-values are at most .05; only this one is `ok`), BETTER_THAN_CHANCE (the
    first alone), UNDECIDED (not even an ideal explanation would have passed) or UNSUPPORTED.
    """

    support: Tensor  #: symmetric relevance gain in log-odds (or in units of the score), mean over fills; chance is 0
    chance: Tensor  #: its standard deviation over random orders
    p_value: Tensor  #: of "no better than chance"
    p_model: Tensor  #: of "no better than what the input shows without the model"
    status: tuple[Status, ...]
    n_forwards: Tensor  #: model evaluations for each example, whole numbers


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
    of a class, its log-odds within ±8 are judged, and else the score itself. A row's verdict does not depend on the
    others of its batch, except where these stand in for removed features (tables and tokens, from four rows on).

    Args:
        score: the model and the number that was explained.
        inputs: (batch, *features), or a tuple of such tensors.
        values: the explanation, a tensor or an array shaped like what was explained; for images also
            (batch, height, width), for tokens also (batch, length).
        baselines: as in `attribute`. They stand in for removed features, together with
            images: the mean colour and a blurred copy of the image;
            tables, series and tokens: three other rows of the batch where it has at least four; else the point halfway
            to the baseline and, beyond it, the mirrored input (tokens: the mean token). Three baselines or more stand
            in alone.
        groups: what is removed together (see `attribute`). None: images by patches of a grid of at most 16 × 16,
            tokens whole, series by time steps, and else single features. A whole number: about so many superpixels.
        n_removals: inputs without some of their features that the model is asked about, per example. None: 384 for
            photographs, 600 for tokens and other large inputs, 2,000 per fill for small ones. More give more power.

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
    what: object = score
    if not isinstance(what, Score):
        given = type(what).__name__
        raise ValueError(f"score is a {given}, expected a Score: verdict(lp.Score(model, target), inputs, values)")
    check_groups(groups)
    check_integer("n_removals", n_removals, 100, or_none=", or None for a default by kind of input")
    check_integer("draws", draws, 19, advice="fewer cannot give a p-value of .05")
    run = Run(seed_of(seed), progress=progress)
    warn_of_training_mode(score.model)
    with leave_untouched(score.model, inputs), run.bar("verdict", len(_as_parts(inputs)[0])) as bar:
        starts = baselines.of(inputs, score) if isinstance(baselines, Several) else baselines
        found = []
        for case in _split_cases(score, inputs, values, starts, groups, run.seed):
            found.append(_judge(case, n_removals, draws))
            bar.advance()
    support, chance, p_value, p_model, notes, forwards = zip(*found, strict=True)
    return Judgment(
        torch.tensor(support, dtype=torch.float64),
        torch.tensor(chance, dtype=torch.float64),
        torch.tensor(p_value, dtype=torch.float64),
        torch.tensor(p_model, dtype=torch.float64),
        tuple(Status((note,)) for note in notes),
        torch.tensor(forwards),
    )


# ---- one example ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Case:
    """One example: its score, what is removed together and what stands in for it, and what is judged."""

    judged: BoundScore  # bound to this example alone
    scale: Scale
    kind: Kind
    point: Tensor  # (*shape), on the CPU as all below
    start: Tensor  # (*shape) the mean baseline
    fills: Tensor  # (fills, *shape)
    labels: Tensor  # (*shape) the unit of each feature, 0, 1, … without gaps; −1: never removed
    grid: tuple[int, int] | None  # of the units, row by row
    values: Tensor  # (units,)
    generator: torch.Generator

    def sum_units(self, over: Tensor) -> Tensor:
        """Sums over units of numbers (*shape)."""
        return _sum_units(over, self.labels)

    @property
    def fillings(self) -> list[Filling]:
        """What stands in for removed features, for the engine."""
        return [fill[None].to(self.judged.device) for fill in self.fills]

    def order(self, values: Tensor) -> Order:
        """The order of units by draws of values (draws, units), the largest first."""
        return Order.of(self.point[None], self.labels[None], "signed").rank_anew(values[:, None])


def _judge(case: Case, n_removals: int | None, draws: int) -> tuple[float, float, float, float, Note, int]:
    """Support, chance, both p-values, what is to be said, and the forwards that it took."""
    n, spent = len(case.values), case.judged.forwards_spent
    if n < LEAST_UNITS:
        few = f"there is no verdict on {n} feature{'s' * (n != 1)}: at least {LEAST_UNITS} are needed"
        return np.nan, np.nan, 1.0, 1.0, Note(Outcome.UNDECIDED, few), 0
    probe, support = _probe(case, n_removals), _measure_support(case)
    by_chance, by_input, null = _count_tails(case, probe, draws)
    note = _say(support, probe, by_chance, by_input, case.grid is not None, is_decidable(probe, null, ALPHA))
    return support, probe.spread, by_chance.p, by_input.p, note, int(spent.sum())


def _measure_support(case: Case) -> float:
    """The gain of the explanation. Ties are broken both ways round, so that equal values have a gain of exactly 0."""
    values, n = case.values, len(case.values)
    keys = torch.randperm(n, generator=case.generator)
    dense = torch.unique(values, return_inverse=True)[1] * n
    broken = torch.stack([dense + keys, dense - keys]) if len(values.unique()) < n else dense[None]
    return float(order_differences(case.judged, case.scale, case.order(broken), case.fillings).mean())


def _probe(case: Case, n_removals: int | None) -> Probe:
    order, fills = case.order(case.values[None]), case.fillings
    if case.grid is not None and len(case.values) > SMALL:
        pairs = (n_removals or SETS) // 2
        return probe_sets(case.judged, case.scale, order, fills, case.grid, pairs, case.generator)
    large = case.kind == "tokens" or case.point.numel() >= LARGE
    orders = ORDERS_OF_LARGE if large else ORDERS
    if n_removals is not None:
        orders = max(2, n_removals // (2 * len(SHARES) * len(fills)))
    return probe_orders(case.judged, case.scale, order, fills, orders, case.generator)


def _count_tails(case: Case, probe: Probe, draws: int) -> tuple[Tail, Tail, Tensor]:
    """Against chance, against what the input alone says (the worse of two), and the null of chance."""
    n, ranked, plain, generator = (
        len(case.values),
        rank_evenly(case.values),
        Statistic.of(probe.weights),
        case.generator,
    )
    says, strata, size = _ask_input(case)
    null = permute(n, draws, generator) if case.grid is None else move(case.grid, draws, generator)
    inside = [permute(n, draws, generator, cut_strata(one, size, generator)) for one in strata]
    blind = count_tail(Statistic.of(probe.weights, says), ranked, inside[0] if case.grid is None else null)
    others = [count_tail(plain, ranked, one) for one in (inside[1:] if case.grid is None else inside)]
    return count_tail(plain, ranked, null), max([blind, *others], key=lambda tail: tail.p), null


def _say(support: float, probe: Probe, by_chance: Tail, by_input: Tail, moved: bool, decidable: bool) -> Note:
    """The outcome, in words with its numbers."""
    what = f"support {write_number(support, 2)}, chance ±{write_number(probe.spread, 2)}"
    orders = f"{by_chance.draws} {'copies of the map that were moved elsewhere' if moved else 'random orders'}"
    better = f"{what}: better than {by_chance.beaten} of {orders}"
    blind = f"than {by_input.beaten} of {by_input.draws} that know the input but not the model"
    if by_chance.p <= ALPHA and by_input.p <= ALPHA:
        return Note(Outcome.SUPPORTED, f"{better}, and {blind}")
    if by_chance.p <= ALPHA:
        return Note(Outcome.BETTER_THAN_CHANCE, f"{better}, but only {blind}; the input alone may show as much")
    if decidable:
        remedy = "try another method, baseline or output"
        return Note(Outcome.UNSUPPORTED, f"{what}: better than only {by_chance.beaten} of {orders}; {remedy}")
    why = "not even an ideal explanation would stand out, as there are too few features or the score hardly moves"
    return Note(Outcome.UNDECIDED, f"{what}: {why}; try more n_removals, finer groups or another baseline")


# ---- what the input says without the model -------------------------------------------------------------------------


def _ask_input(case: Case) -> tuple[list[Tensor], list[Tensor], int]:
    """What the blind statistic is blind to, what the strata are cut by (each (units,)), and the size of strata."""
    away = [case.sum_units((case.point - fill).abs()) for fill in case.fills]
    if case.grid is None:
        difference = case.point - case.start
        size, signed = case.sum_units(difference.abs()), case.sum_units(difference)
        if case.kind == "tokens":
            return [size, torch.arange(len(size)).double()], [size], STRATA
        return [size], [size, signed], STRATA
    centre = _distance_from_centre(case.grid)
    if len(case.values) <= SMALL:
        level, mean = case.sum_units(case.point), torch.stack(away).mean(0)
        return [level, mean, blur_images(level.view(case.grid), 1.0).flatten(), centre], [mean], STRATA
    edges = case.sum_units(_edges(case.point))
    smoothed = blur_images(edges.view(case.grid), 1.0).flatten()
    ranks = rank_evenly(edges) + torch.stack([rank_evenly(one) for one in away]).mean(0)
    return [edges, smoothed, _contrast(case), *away, centre], [ranks], STRATA_OF_LARGE


def _distance_from_centre(grid: tuple[int, int]) -> Tensor:
    down, right = (torch.arange(side).double() - (side - 1) / 2 for side in grid)
    return (down[:, None] ** 2 + right**2).flatten()


def _edges(image: Tensor) -> Tensor:
    """How steep the grey image is at each pixel, the same in all channels."""
    grey = torch.nn.functional.pad(image.mean(0)[None, None], (1, 1, 1, 1), mode="replicate")[0, 0]
    right, down = grey[1:-1, 2:] - grey[1:-1, :-2], grey[2:, 1:-1] - grey[:-2, 1:-1]
    return torch.hypot(right, down).expand_as(image)


def _contrast(case: Case) -> Tensor:
    """The standard deviation inside each unit, mean over channels."""
    channels = zip(case.point, case.labels, strict=True)
    return torch.stack([_deviation(image, labels, len(case.values)) for image, labels in channels]).mean(0)


def _deviation(image: Tensor, labels: Tensor, n: int) -> Tensor:
    size, total, square = (_sum_units(part, labels, n) for part in (torch.ones_like(image), image, image.square()))
    return (square / size - (total / size).square()).clamp_min(0).sqrt()


def _sum_units(over: Tensor, labels: Tensor, n: int | None = None) -> Tensor:
    inside = labels >= 0
    n = int(labels.max()) + 1 if n is None else n
    return torch.zeros(n, dtype=torch.float64).index_add_(0, labels[inside], over[inside].double())


# ---- from a batch to its cases -------------------------------------------------------------------------------------


def _split_cases(
    score: Score, inputs: Inputs, values: Any, baselines: Baselines, groups: Groups, seed: int
) -> Iterator[Case]:
    """The examples of a batch, each with a score, fills and random numbers of its own: a batch is a loop."""
    judged, scale = judged_score(score)
    bound, start, end, m = bind_paths(judged, inputs, baselines)
    kind, points = kind_of(bound), end[::m].detach().cpu().double()
    starts, read = start.detach().cpu().double().unflatten(0, (-1, m)), _read_values(bound, values, len(points), kind)
    labels, grid = _find_units(groups, points, kind)
    marked = with_marks(judged, inputs)
    for row, (point, own) in enumerate(zip(points, starts, strict=True)):
        alone, one, _ = rows_of(marked, inputs, None, [row])
        generator = _seed_generator(point, seed)
        units = labels[row if len(labels) > 1 else 0]
        if grid is None and kind != "tokens":
            units = _renumber(units, point - own.mean(0))
        fills = _choose_fills(kind, points, row, own, generator)
        strengths = _sum_units(read[row], units)
        bound_alone = alone.bind(one)
        yield Case(bound_alone, scale, kind, point, own.mean(0), fills, units, grid, strengths, generator)


def _read_values(bound: BoundScore, values: Any, batch: int, kind: Kind) -> Tensor:
    """The explanation as numbers over the explained points: (batch, *shape) in float64 on the CPU."""
    parts = [torch.as_tensor(p) if isinstance(p, np.ndarray) else p for p in _as_parts(values)]
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
    if not torch.isfinite(given).all():
        raise ValueError(
            "values hold NaN or infinite numbers, which have no rank: drop these examples, or nan_to_num()"
        )
    return given.reshape(batch, *shape)


def _find_units(groups: Groups, points: Tensor, kind: Kind) -> tuple[Tensor, tuple[int, int] | None]:
    """Labels (1 or batch, *shape) without gaps, −1 for what is never removed; and the grid on which the units lie."""
    chosen: Groups = default_groups(kind) if groups is None else groups
    labels = label_groups(chosen, points.float())
    shape, grid = points.shape[1:], None
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


def _seed_generator(point: Tensor, seed: int) -> torch.Generator:
    """Random numbers that differ between inputs, but not with their place in a batch, nor with the columns' order."""
    content = zlib.crc32(point.flatten().sort().values.numpy().tobytes())
    return torch.Generator().manual_seed((seed * 1_000_003 + content) % 2**63)


def _choose_fills(kind: Kind, points: Tensor, row: int, starts: Tensor, generator: torch.Generator) -> Tensor:
    """What stands in for removed features: (fills, *shape), at least three."""
    point, start = points[row], starts.mean(0)
    if kind == "image":
        mean = point.mean((1, 2), keepdim=True).expand_as(point)
        return torch.stack([*starts, mean, blur_images(point, max(1.0, min(point.shape[1:]) / 16))])
    if len(starts) > 2:
        return starts
    others = (points != point).flatten(1).any(1).nonzero()[:, 0]
    if len(points) > OTHERS and len(others):
        chosen = others[torch.randperm(len(others), generator=generator)[:OTHERS]]
        return torch.cat([starts, points[chosen]])
    beyond = point.mean(0, keepdim=True).expand_as(point) if kind == "tokens" else 2 * start - point
    return torch.stack([*starts, (point + start) / 2, beyond])


def _as_parts(given: Any) -> tuple[Any, ...]:
    return given if isinstance(given, tuple) else (given,)
