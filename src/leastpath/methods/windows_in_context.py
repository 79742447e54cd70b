"""Windows in context: pictures explained by what windows are worth, in the whole picture and in parts of it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Annotated, Any, Literal

import torch
from torch import Tensor

from leastpath._support.checks import Count, Range
from leastpath._support.rows import flat_rows
from leastpath.features.groups import kind_of
from leastpath.methods.masks import score_own_masks
from leastpath.methods.method import Explained, Problem, method
from leastpath.methods.noisy_gradients import gradient_moments
from leastpath.methods.windows import spread_over_windows, window_masks
from leastpath.result.status import Note, Outcome

Quality = Literal["fast", "default", "best"]
Detail = Literal["windows", "pixels"]
PATCHES = 16  # per side, between which agreement is measured: what people point at
SMOOTHING = 6 / 128  # of the longer side: the deviation of the Gaussian that maps are smoothed with
WINDOW = 4  # windows have the picture's side over this
SATURATING = ("softmax", "log_softmax", "sigmoid")  # outputs that are read as their logit
FORWARDS = 3  # that cost as much as one gradient


@dataclass(frozen=True)
class Plan:
    """What a quality spends on each baseline."""

    windows: int  # places of a window along each side
    walks: Mapping[int, int]  # by cells along the longer side, the orders that a round walks, each also backwards
    rounds: int

    def place(self, shape: Sequence[int]) -> list[Tensor]:
        """Which places (windows, side) each window covers, down and across: the same share of every picture."""
        lines = []
        for side in shape[1:]:
            width = math.ceil(side / WINDOW)
            n = min(self.windows, side - width + 1)
            first = (torch.arange(n) * ((side - width) / max(1, n - 1))).round()[:, None]
            lines.append((torch.arange(side) >= first) & (torch.arange(side) < first + width))
        return lines

    def n_windows(self, shape: Sequence[int]) -> int:
        """Forwards of all windows."""
        return math.prod(map(len, self.place(shape)))

    def n_steps(self, shape: Sequence[int]) -> int:
        """Forwards of one round."""
        return sum(2 * n * (math.prod(count_cells(shape, cells)) - 1) for cells, n in self.walks.items())

    def cost(self, shape: Sequence[int], rounds: int) -> float:
        """Gradients' worth of the windows and so many rounds."""
        return (self.n_windows(shape) + rounds * self.n_steps(shape)) / FORWARDS


def count_cells(shape: Sequence[int], cells: int) -> tuple[int, int]:
    """Cells of a grid that is shifted, down and across: nearly square, so many whole ones along the longer side."""
    counts = (min(side, max(1, round(cells * side / max(shape[1:])))) for side in shape[1:])
    down, across = (n + (side // n > 1) for n, side in zip(counts, shape[1:], strict=True))
    return down, across


# Chosen on photographs of the development half of ImageNet (docs/methods.md).
PLANS: Mapping[Quality, Plan] = {
    "fast": Plan(windows=6, walks={4: 1}, rounds=1),
    "default": Plan(windows=13, walks={4: 4, 6: 3}, rounds=1),
    "best": Plan(windows=13, walks={4: 4, 6: 3}, rounds=3),
}
MOST_GRADIENTS = 1_100  # gradients' worth of an example whose map shall settle, unless the user says otherwise


def _cost(shape: Sequence[int], settings: Mapping[str, Any]) -> tuple[int, int]:
    plan = PLANS[settings["quality"]]
    return 50 if settings["detail"] == "pixels" else 0, plan.n_windows(shape) + plan.rounds * plan.n_steps(shape)


@method(
    "Windows in context", "What windows are worth in the whole picture and in parts of it, in the logit.",
    fits=("image",), unitless=True, recommended=("image",), cost=_cost,
)  # fmt: skip
def windows_in_context(
    problem: Problem,
    *,
    quality: Quality = "default",
    detail: Detail = "windows",
    tolerance: Annotated[float, Range(above=0, below=1, hint="0.05 where another seed shall agree .95")] | None = None,
    max_gradients: Count | None = None,
) -> Explained:
    """Windows in context: a picture's map from windows that are hidden and from cells that enter one after another.

    Two kinds of steps, from each baseline. Windows of a quarter of the side slide over the whole picture and hide what
    is behind them. And along random walks from the baseline to the picture the cells of a grid enter one by one, each
    order also backwards, so that a cell is seen in all contexts; there are walks over cells of a quarter of the side
    and of a sixth. The maps of windows and of each grid are smoothed, scaled to the same Σ|values| and averaged. Values
    do not add up to the change of score; `completeness_gap` says by how much.

    - **In the logit**: a softmax is read as its logit, since most steps of a saturated probability are 0. Values and
      `score_change` are in that unit, and the status says so.
    - **Baselines**: those that are given. None: black (zero) and the picture's own mean colour.
    - **No bright border**: cells that the border cuts are small. A pixel gets what its cells gained over their areas,
      both summed over the walks, so that a small cell counts little and is not brighter for being small.
    - **How sure**: `path_spread` is the standard error of each value from the orders, and `stats["agreement"]` the
      rank correlation of 16 × 16 patches that another seed would have, estimated from two halves of the walks.
    - **Certificate**: the mean length of the walks, which is the total variation of the score along them, over
      |change of score|. 1: no step was taken back by another.

    Args:
        quality: "fast", "default" or "best": about 56, 430 and 1,070 gradients' worth with two baselines.
        detail: "pixels" shares the map out among neighbouring pixels by how steep the score is in each (the root of
            SmoothGrad's mean |gradient|, 50 gradients more), for uses that take single pixels. The sums over windows
            stay about the same.
        tolerance: walk in rounds until another seed would agree 1 − tolerance or better, in place of the quality's
            number of rounds. The status says whether that was reached.
        max_gradients: at most so many gradients' worth per example, a forward counting as a third. The quality falls to
            what can be had for it, but not below "fast". None: as the quality says, and 1,100 with a tolerance.

    Example:
        >>> import leastpath as lp
        >>> score = lp.Score(lambda x: x[:, 0, 2:6, 2:6].sum((1, 2)))
        >>> values = windows_in_context(score, torch.ones(1, 1, 16, 16), 0.0).values[0, 0]
        >>> bool(values[3, 3] > values[12, 12])
        True
    """
    aim = _Aim.of(quality, tolerance, max_gradients)
    shape, m = problem.bound.shape, problem.m
    if kind_of(problem.bound) != "image":
        raise ValueError(
            f"windows_in_context needs images (batch, channels, height, width), got {(len(problem), *shape)}: "
            'use method="staircase", or "exact_shapley" for up to 10 features'
        )
    aim = aim.afford(shape, 2 if problem.baselines is None else m)
    read, said = _read_in_logit(problem)
    found: list[_Answer] = []
    try:
        for example in range(len(problem) // m):
            found.append(_explain_one(read, example, aim))
            if found[-1].note.outcome is Outcome.INTERRUPTED:
                break
    except KeyboardInterrupt:
        if not found:
            raise
    found += [_Answer.unknown(read)] * (len(problem) // m - len(found))
    columns = zip(*((a.values, a.error, a.change, a.certificate) for a in found), strict=True)
    parts = [torch.stack(column) for column in columns]
    if detail == "pixels":
        texture = _texture(read).to(parts[0])
        parts[:2] = parts[0] * texture, parts[1] * texture
    per_row = [part.repeat_interleave(m, 0).to(problem.end.device) for part in parts]
    agreement = torch.stack([answer.agreement for answer in found])
    notes = [(Note(Outcome.SOLVER_NOTE, said), answer.note) if said else (answer.note,) for answer in found]
    return Explained(
        per_row[0], {"agreement": agreement, "rounds": [a.rounds for a in found], "quality": quality},
        notes=[own for own in notes for _ in range(m)], change=per_row[2], uses_all_baselines=True,
        path_spread=per_row[1], certificate=per_row[3],
    )  # fmt: skip


@dataclass(frozen=True)
class _Aim:
    """When enough was walked: after some rounds, or when two seeds would agree; and what may be spent."""

    plan: Plan
    agreement: float | None
    gradients: float

    @classmethod
    def of(cls, quality: Any, tolerance: Any, max_gradients: int | None) -> _Aim:
        if tolerance is None:
            return cls(PLANS[quality], None, math.inf if max_gradients is None else max_gradients)
        return cls(PLANS[quality], 1 - tolerance, MOST_GRADIENTS if max_gradients is None else max_gradients)

    def afford(self, shape: Sequence[int], n_starts: int) -> _Aim:
        """With the best plan, up to the one that was asked for, of which windows and a round can be paid."""
        plans = list(PLANS.values())
        usable = [
            plan for plan in plans[: plans.index(self.plan) + 1] if plan.cost(shape, 1) * n_starts <= self.gradients
        ]
        return replace(self, plan=(usable or plans)[-1 if usable else 0])

    def say(self, outcome: Outcome, rounds: int, agreement: float) -> str:
        """How reproducible the map is, and why no more was walked."""
        said = f"another seed would agree {agreement:.2f} (rank correlation of patches)"
        if outcome is Outcome.REACHED:
            return f"{said}, which is within tolerance={1 - (self.agreement or 0):g}"
        if outcome is Outcome.INTERRUPTED:
            return f"interrupted after {rounds} rounds of walks: {said}"
        if outcome is Outcome.BUDGET_SPENT:
            wanted = f"{self.plan.rounds} rounds" if self.agreement is None else f"{self.agreement:.2f}"
            return f"{said}: max_gradients={self.gradients:g} ended the walks before {wanted}; raise it"
        return said


@dataclass(frozen=True)
class _Answer:
    """What is known of one example."""

    values: Tensor  # (*shape)
    error: Tensor  # (*shape)
    change: Tensor  # ()
    certificate: Tensor  # ()
    agreement: Tensor  # ()
    rounds: int
    note: Note

    @classmethod
    def unknown(cls, problem: Problem) -> _Answer:
        """Of an example that an interruption left out."""
        nothing, nan = torch.full(problem.bound.shape, torch.nan), torch.tensor(torch.nan)
        note = Note(Outcome.INTERRUPTED, "interrupted before this example was explained")
        return cls(nothing, nothing, nan, nan, nan, 0, note)


def _read_in_logit(problem: Problem) -> tuple[Problem, str]:
    """The problem with the logit in place of a softmax, and what to say of it. The account is the same."""
    score, bound = problem.score, problem.bound
    if score.output not in SATURATING:
        return problem, ""
    logit = replace(score, output="raw").bind(problem.inputs, problem.m)
    logit.gradients_spent, logit.forwards_spent = bound.gradients_spent, bound.forwards_spent
    # Whoever is asked for the change of score here is asked for the logit's.
    said = f"read in the logit, not in its {score.output}"
    return replace(problem, score=replace(score, output="raw"), bound=logit), said


def _texture(problem: Problem) -> Tensor:
    """(examples, 1, height, width) how steep the score is in a pixel, over how steep it is around it."""
    steep = gradient_moments(problem, n_samples=50, noise=0.15)[2].sum(1).sqrt().cpu()
    return (steep / smooth_maps(steep).clamp_min(torch.finfo(steep.dtype).tiny))[:, None]


def _starts(problem: Problem, example: int) -> list[tuple[Problem, int]]:
    """For each baseline the problem from it, and the row of the example."""
    if problem.baselines is not None:
        return [(problem, example * problem.m + j) for j in range(problem.m)]
    mean = problem.end.mean((2, 3), keepdim=True).expand_as(problem.end)
    return [(problem, example), (replace(problem, start=mean), example)]


def _explain_one(problem: Problem, example: int, aim: _Aim) -> _Answer:
    """One example: its windows, then rounds of walks until it is enough. An interruption loses at most one round."""
    sample, plan, shape = _Sample.of(problem, example, aim.plan), aim.plan, problem.bound.shape
    rounds, outcome = 0, Outcome.SOLVER_NOTE
    while True:
        try:
            sample.walk(rounds)
        except KeyboardInterrupt:
            if not rounds:
                raise
            outcome = Outcome.INTERRUPTED
            break
        rounds += 1
        if aim.agreement is None and rounds == plan.rounds:
            break
        if aim.agreement is not None and float(sample.agreement) >= aim.agreement:
            outcome = Outcome.REACHED
            break
        if len(sample.starts) * plan.cost(shape, rounds + 1) > aim.gradients:
            outcome = Outcome.BUDGET_SPENT
            break
    return sample.answer(rounds, Note(outcome, aim.say(outcome, rounds, float(sample.agreement))))


class _Sample:
    """What was seen of one example: its windows, and the walks so far."""

    def __init__(self, starts: list[tuple[Problem, int]], plan: Plan, ends: Tensor, windows: Tensor) -> None:
        self.starts, self.plan, self.ends, self.windows = starts, plan, ends, windows
        self.walks = {cells: _Walks([], []) for cells in plan.walks}
        self.lengths: list[Tensor] = []

    @classmethod
    def of(cls, problem: Problem, example: int, plan: Plan) -> _Sample:
        """The windows, and no walk yet."""
        shape, starts = problem.bound.shape, _starts(problem, example)
        inside, n = plan.place(shape), plan.n_windows(shape)
        ends = torch.stack([_ends(*start) for start in starts])  # (baselines, 2)
        shown = [_score(*start, n, lambda i: ~window_masks(inside, i), len(starts), plan) for start in starts]
        falls = ends[:, 1:] - torch.stack(shown)
        area = math.prod(int(line[0].sum()) for line in inside)
        return cls(starts, plan, ends, smooth_maps(spread_over_windows(falls.mean(0, keepdim=True), inside)[0] / area))

    def walk(self, number: int) -> None:
        """One round more, over each grid from each baseline. All of it or nothing is kept."""
        shape, found, lengths = self.starts[0][0].bound.shape, [], []
        for cells, n in self.plan.walks.items():
            gained, areas = [], []
            for j, start in enumerate(self.starts):
                ranks = draw_walks(shape, cells, range(number * n, number * n + n), start[0].seed, j)
                gains, flat = self._gains(j, ranks), ranks.flatten(1)
                gained.append(gains.gather(1, flat).reshape(2, n, *shape[1:]).transpose(0, 1))
                sizes = torch.stack([torch.bincount(own)[own] for own in flat[:n]])
                areas.append(sizes.reshape(n, 1, *shape[1:]).to(gains))
                lengths.append(gains.abs().sum(1))
            found.append((torch.stack(gained), torch.stack(areas)))
        for walks, (own, sizes) in zip(self.walks.values(), found, strict=True):
            walks.gains.append(own)
            walks.areas.append(sizes)
        self.lengths += lengths

    def _gains(self, j: int, ranks: Tensor) -> Tensor:
        """What each cell adds to the score when it enters, (walks, cells) in the order of entering, from a baseline."""
        n, cells = len(ranks), int(ranks.max()) + 1

        def shown(copies: Tensor) -> Tensor:
            return ranks[copies // (cells - 1)] <= (copies % (cells - 1))[:, None, None]

        steps = _score(*self.starts[j], n * (cells - 1), shown, len(self.starts), self.plan).reshape(n, cells - 1)
        first, last = (end.expand(n, 1) for end in self.ends[j])
        return torch.cat([first, steps, last], 1).diff(dim=1)

    def _shares(self) -> tuple[list[Tensor], float]:
        """By what each grid's map, and the windows', is multiplied before they are summed: all get the same size."""
        sizes = [walks.mean().abs().sum() for walks in self.walks.values()] + [self.windows.abs().sum()]
        wanted = torch.stack(sizes[:-1]).mean() / len(sizes)  # the walks' own size: their steps add up to the change
        *shares, last = (wanted / size.clamp_min(torch.finfo(size.dtype).tiny) for size in sizes)
        return shares, float(last)

    def join(self, half: int | None = None) -> Tensor:
        """The map (height, width) of windows and walks, of one size each, or with half of the walks, 0 or 1."""
        shares, last = self._shares()
        parts = (share * walks.mean(half) for share, walks in zip(shares, self.walks.values(), strict=True))
        return sum(parts, last * self.windows)

    @property
    def agreement(self) -> Tensor:
        """(), the rank correlation that is foretold between this map and another seed's."""
        return estimate_agreement(self.join(0)[None], self.join(1)[None])[0]

    @property
    def error(self) -> Tensor:
        """(height, width), the standard error from the walks; windows have none."""
        own = [share * walks.error() for share, walks in zip(self._shares()[0], self.walks.values(), strict=True)]
        return torch.stack(own).square().sum(0).sqrt()

    def answer(self, rounds: int, note: Note) -> _Answer:
        """What is known now."""
        bound = self.starts[0][0].bound
        values, error = ((each / bound.shape[0]).expand(bound.shape) for each in (self.join(), self.error))
        change, length = self.ends.diff(dim=1).mean(), torch.cat(self.lengths).mean()
        floor = 64 * bound.eps * change.abs().clamp_min(1)
        certificate = torch.where(change.abs() <= floor, torch.inf, (length / change.abs()).clamp_min(1))
        return _Answer(values, error, change, certificate, self.agreement, rounds, note)


@dataclass(frozen=True)
class _Walks:
    """Over the cells of one grid."""

    gains: list[Tensor]  # of each round (baselines, orders, 2, height, width): what a pixel's cell gained
    areas: list[Tensor]  # of each round (baselines, orders, 1, height, width): the pixels of that cell

    def mean(self, half: int | None = None) -> Tensor:
        """(height, width), smoothed, of all or every other order."""
        return smooth_maps(self._mean(half))

    def _mean(self, half: int | None = None) -> Tensor:
        """Gains over areas, both summed over walks: a small cell counts little."""
        gains = torch.cat(self.gains, 1)
        areas = torch.cat(self.areas, 1).expand_as(gains)
        if half is not None:
            gains, areas = _halve(gains, half), _halve(areas, half)
        return gains.sum((0, 1, 2)) / areas.sum((0, 1, 2))

    def error(self) -> Tensor:
        """(height, width), the standard error of the smoothed mean.

        That of a quotient of sums: what each walk gained beyond what its area was to gain, over the mean area.
        """
        gains, areas = torch.cat(self.gains, 1), torch.cat(self.areas, 1)
        return _standard_error(smooth_maps((gains - self._mean() * areas) / areas.mean((0, 1, 2))))


def _ends(problem: Problem, row: int) -> Tensor:
    """(2,) the score at the baseline and at the picture."""
    points, rows = torch.stack([problem.start[row], problem.end[row]]), torch.tensor([row, row])
    return problem.bound.values(points, rows).cpu()


def _score(problem: Problem, row: int, n: int, masks: Callable[[Tensor], Tensor], n_starts: int, plan: Plan) -> Tensor:
    """(n,) of a row of which masks (n, height, width) show a part. The bar advances by its share of the example."""
    shape = problem.bound.shape
    expected = n_starts * (plan.n_windows(shape) + plan.rounds * plan.n_steps(shape))
    rows = torch.full((n,), row)
    return score_own_masks(problem, rows, lambda i: masks(i)[:, None], problem.m * n / expected)


def draw_walks(shape: torch.Size, cells: int, orders: range, seed: int, draw: int) -> Tensor:
    """When each pixel enters, (2 orders, height, width): numbers from 0, one for each cell of a grid.

    Shifts of the grid are shares of a cell that fill the plane evenly (the R₂ sequence of M. Roberts) from a random
    one on, whatever the picture's size. The reverse of an order follows all orders, len(orders) later.
    """
    begin = torch.rand(2, generator=_generator(seed, draw, cells), dtype=torch.float64)
    counts, entered = count_cells(shape, cells), []
    for k in orders:
        share = (begin + k * torch.tensor([0.7548776662466927, 0.5698402909980532], dtype=torch.float64)) % 1
        lines = [_cut(side, n, float(u)) for side, n, u in zip(shape[1:], counts, share, strict=True)]
        order = torch.randperm(math.prod(counts), generator=_generator(seed, draw, cells, k + 1))
        entered.append(order[lines[0][:, None] * counts[1] + lines[1]])
    forwards = torch.stack(entered)
    return torch.cat([forwards, math.prod(counts) - 1 - forwards])


def _cut(side: int, pieces: int, share: float) -> Tensor:
    """(side,) the piece of each place: pieces of one size, of which the border cuts the first and the last."""
    if pieces == side or pieces < 2:
        return torch.arange(side) * pieces // side
    cell = side // (pieces - 1)
    return (torch.arange(side) + 1 + int(share * (cell - 1))) * (pieces - 1) // side


def _generator(seed: int, *draw: int) -> torch.Generator:
    """One for each draw of a seed."""
    number = seed
    for each in draw:
        number = (number * 1_000_003 + each + 1) % 2**63
    return torch.Generator().manual_seed(number)


def smooth_maps(maps: Tensor) -> Tensor:
    """Maps (…, height, width) smoothed by a Gaussian that is mirrored at the border, so that totals stay.

    Example:
        >>> torch.round(smooth_maps(torch.eye(8)).sum())
        tensor(8.)
    """
    sigma = SMOOTHING * max(maps.shape[-2:])
    down, across = (_blur_matrix(side, sigma).to(maps) for side in maps.shape[-2:])
    return down @ maps @ across


@lru_cache(maxsize=16)
def _blur_matrix(side: int, sigma: float) -> Tensor:
    """(side, side), symmetric, with rows that sum to one."""
    places = torch.arange(side, dtype=torch.float64)
    reach = 1 + int(8 * sigma / side)  # mirrors of mirrors, where the picture is smaller than the Gaussian
    images = [2 * side * k + flipped for k in range(-reach, reach + 1) for flipped in (places, -1 - places)]
    kernel = sum(torch.exp(-((places[:, None] - image) ** 2) / (2 * sigma**2)) for image in images)
    assert isinstance(kernel, Tensor)
    return kernel / kernel.sum(1, keepdim=True)


def _halve(walks: Tensor, half: int) -> Tensor:
    """Half of the walks (baselines, orders, 2, …): every other order, or of a single one the order or its reverse."""
    return walks[:, half::2] if walks.shape[1] > 1 else walks[:, :, half : half + 1]


def _standard_error(walks: Tensor) -> Tensor:
    """Of the mean over walks (baselines, orders, 2, …): between orders, or an order and its reverse if it is one."""
    drawn = walks.mean(2) if walks.shape[1] > 1 else walks[:, 0]
    return (drawn.var(1).sum(0) / drawn.shape[1]).sqrt() / len(walks)


def estimate_agreement(one: Tensor, other: Tensor) -> Tensor:
    """The rank correlation (n,) that a map of all walks has with that of another seed, from maps of half of them each.

    Halves have twice the variance, so a correlation of r between them is one of 2 r / (1 + r) between wholes.
    """
    patches = [flat_rows(torch.nn.functional.adaptive_avg_pool2d(each[:, None], PATCHES)) for each in (one, other)]
    ranks = [each.argsort(1).argsort(1).double() for each in patches]
    centred = [each - each.mean(1, keepdim=True) for each in ranks]
    r = (centred[0] * centred[1]).sum(1) / (centred[0].norm(dim=1) * centred[1].norm(dim=1)).clamp_min(1e-12)
    return 2 * r / (1 + r.abs())  # halves that contradict each other foretell no more than they show: at least −1
