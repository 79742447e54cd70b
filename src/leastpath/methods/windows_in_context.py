"""Windows in context: pictures explained by what windows of all sizes add, from an empty picture to the whole one."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Annotated, Any, Literal

import torch
from torch import Tensor

from leastpath._support.checks import Count, Range
from leastpath._support.rows import flat_rows
from leastpath.features.groups import kind_of, share_evenly
from leastpath.methods.method import Explained, Problem, method
from leastpath.methods.noisy_gradients import gradient_moments
from leastpath.methods.owen import Coin, divide
from leastpath.result.status import Note, Outcome

Quality = Literal["fast", "default", "best"]
Detail = Literal["windows", "pixels"]
PATCHES = 16  # per side, between which agreement is measured: what people point at
SMOOTHING = 6 / 128  # of the longer side: the deviation of the Gaussian that maps are smoothed with
MIDDLE = 0.35, 0.65  # between which shares of its side a window is halved
LEAST = 1.5 / PATCHES  # of the longer side: windows are not halved below
CONTEXTS = 8  # in which a tree sees a window: both orders of the first cuts, then one by chance
SATURATING = ("softmax", "log_softmax", "sigmoid")  # outputs that are read as their logit
FORWARDS = 3  # that cost as much as one gradient


@dataclass(frozen=True)
class Plan:
    """What a quality spends on each baseline."""

    trees: int  # of halves, in a round
    forwards: int  # of a tree
    rounds: int

    def cost(self, rounds: int) -> float:
        """Gradients' worth of so many rounds."""
        return rounds * self.trees * self.forwards / FORWARDS


# Chosen on photographs of the development half of ImageNet (docs/methods.md).
PLANS: Mapping[Quality, Plan] = {
    "fast": Plan(trees=3, forwards=28, rounds=1),
    "default": Plan(trees=7, forwards=96, rounds=1),
    "best": Plan(trees=5, forwards=96, rounds=3),
}
MOST_GRADIENTS = 1_100  # gradients' worth of an example whose map shall settle, unless the user says otherwise


def _cost(shape: Sequence[int], settings: Mapping[str, Any]) -> tuple[int, int]:
    plan = PLANS[settings["quality"]]
    return 50 if settings["detail"] == "pixels" else 0, plan.rounds * plan.trees * plan.forwards


@method(
    "Windows in context", "What windows of all sizes add, from an empty picture to the whole one, in the logit.",
    complete=True, fits=("image",), unitless=True, recommended=("image",), cost=_cost,
)  # fmt: skip
def windows_in_context(
    problem: Problem,
    *,
    quality: Quality = "default",
    detail: Detail = "windows",
    tolerance: Annotated[float, Range(above=0, below=1, hint="0.05 where another seed shall agree .95")] | None = None,
    max_gradients: Count | None = None,
) -> Explained:
    """Windows in context: a picture is halved at random, and so is each half; each gets what it adds to the score.

    The two halves of a window enter one after the other, either first, in the contexts in which their window enters:
    from the baseline, which shows nothing, to the whole picture. So each is seen with much and with little around it,
    and gets its mean gain: Owen values of a random tree of halves, where from the fourth cut on a coin says which half
    is first. Where most is gained is halved further, down to a sixteenth of the side. Several trees from each baseline
    are averaged and smoothed.

    - **In the logit**: a softmax is read as its logit, since most steps of a saturated probability are 0. Values and
      `score_change` are in that unit, and the status says so. Values add up to that change.
    - **Baselines**: those that are given. None: black (zero) and the picture's own mean colour.
    - **No bright border**: a window's gain is shared evenly by its pixels, and none is cut by the border.
    - **How sure**: `path_spread` is the standard error of each value from the trees, and `stats["agreement"]` the
      rank correlation of 16 × 16 patches that another seed would have, estimated from two halves of the trees.
    - **Certificate**: the mean length of the walks in which windows enter one after another, which is the total
      variation of the score along them, over |change of score|. 1: no step was taken back by another.

    Args:
        quality: "fast", "default" or "best": about 56, 448 and 960 gradients' worth with two baselines.
        detail: "pixels" shares the map out among neighbouring pixels by how steep the score is in each (the root of
            SmoothGrad's mean |gradient|, 50 gradients more), for uses that take single pixels. The sums over windows
            stay about the same.
        tolerance: draw trees in rounds until another seed would agree 1 − tolerance or better, in place of the
            quality's number of rounds. The status says whether that was reached.
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
    aim = aim.afford(2 if problem.baselines is None else m)
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

    def afford(self, n_starts: int) -> _Aim:
        """With the best plan, up to the one that was asked for, of which a round can be paid."""
        plans = list(PLANS.values())
        usable = [plan for plan in plans[: plans.index(self.plan) + 1] if plan.cost(1) * n_starts <= self.gradients]
        return replace(self, plan=(usable or plans)[-1 if usable else 0])

    def say(self, outcome: Outcome, rounds: int, agreement: float) -> str:
        """How reproducible the map is, and why no more was walked."""
        said = f"another seed would agree {agreement:.2f} (rank correlation of patches)"
        if outcome is Outcome.REACHED:
            return f"{said}, which is within tolerance={1 - (self.agreement or 0):g}"
        if outcome is Outcome.INTERRUPTED:
            return f"interrupted after {rounds} rounds of trees: {said}"
        if outcome is Outcome.BUDGET_SPENT:
            wanted = f"{self.plan.rounds} rounds" if self.agreement is None else f"{self.agreement:.2f}"
            return f"{said}: max_gradients={self.gradients:g} ended the rounds before {wanted}; raise it"
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
    """One example: rounds of trees until it is enough. An interruption loses at most one round."""
    sample, plan = _Sample.of(problem, example, aim.plan), aim.plan
    rounds, outcome = 0, Outcome.SOLVER_NOTE
    while True:
        try:
            sample.grow(rounds)
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
        if len(sample.starts) * plan.cost(rounds + 1) > aim.gradients:
            outcome = Outcome.BUDGET_SPENT
            break
    return sample.answer(rounds, Note(outcome, aim.say(outcome, rounds, float(sample.agreement))))


@dataclass
class _Sample:
    """What was seen of one example so far."""

    starts: list[tuple[Problem, int]]
    plan: Plan
    ends: Tensor  # (baselines, 2) the score at the baseline and at the picture
    maps: Tensor  # (trees, baselines, height, width), smoothed: each adds up to the change of score
    lengths: Tensor  # (trees, baselines) of the walks, in the mean over a tree's orders

    @classmethod
    def of(cls, problem: Problem, example: int, plan: Plan) -> _Sample:
        """No tree yet."""
        starts = _starts(problem, example)
        ends = torch.stack([_ends(*start) for start in starts])
        nothing = ends.new_zeros(0, len(starts), *problem.bound.shape[1:])
        return cls(starts, plan, ends, nothing, nothing[:, :, 0, 0])

    def grow(self, number: int) -> None:
        """One round more. All of it or nothing is kept."""
        n = self.plan.trees
        found = [self._divided(j, tree) for tree in range(number * n, number * n + n) for j in range(len(self.starts))]
        maps, lengths = (torch.stack(part).unflatten(0, (n, -1)) for part in zip(*found, strict=True))
        self.maps, self.lengths = torch.cat([self.maps, smooth_maps(maps)]), torch.cat([self.lengths, lengths])

    def _divided(self, j: int, tree: int) -> tuple[Tensor, Tensor]:
        """What each pixel gains (height, width) from a baseline by a tree, and the length of its walks ()."""
        problem, row = self.starts[j]
        seed = f"{problem.seed} {tree} {j}"
        members, cuts = draw_halves(problem.bound.shape[1:], seed)
        coin = Coin(1 / CONTEXTS, torch.Generator().manual_seed(random.Random(seed).getrandbits(63)))  # noqa: S311
        runs = divide(
            problem, row, members[None], self.ends[j], self.plan.forwards, lambda begin, end: cuts[begin, end], coin
        )
        problem.bar.advance(problem.m / (len(self.starts) * self.plan.rounds * self.plan.trees))
        return share_evenly(runs.shared(torch.bincount(members.flatten())), members), runs.gain.abs().sum()

    @property
    def agreement(self) -> Tensor:
        """(), the rank correlation that is foretold between this map and another seed's."""
        one, other = (self.maps[half::2].mean((0, 1))[None] for half in (0, 1))
        return estimate_agreement(one, other)[0]

    def answer(self, rounds: int, note: Note) -> _Answer:
        """What is known now."""
        bound, trees = self.starts[0][0].bound, len(self.maps)
        error = (self.maps.var(0).sum(0) / trees).sqrt() / len(self.starts)
        values, error = ((each / bound.shape[0]).expand(bound.shape) for each in (self.maps.mean((0, 1)), error))
        change, length = self.ends.diff(dim=1).mean(), self.lengths.mean()
        floor = 64 * bound.eps * change.abs().clamp_min(1)
        certificate = torch.where(change.abs() <= floor, torch.inf, (length / change.abs()).clamp_min(1))
        return _Answer(values, error, change, certificate, self.agreement, rounds, note)


def _ends(problem: Problem, row: int) -> Tensor:
    """(2,) the score at the baseline and at the picture."""
    points, rows = torch.stack([problem.start[row], problem.end[row]]), torch.tensor([row, row])
    return problem.bound.values(points, rows).cpu()


def draw_halves(sides: Sequence[int], seed: str) -> tuple[Tensor, Tensor]:
    """A random tree of windows, each cut across its longer side into two.

    Args:
        sides: of the picture, height and width.
        seed: of where windows are cut, at a share of their side. So the tree is about the same whatever the size.

    Returns:
        The smallest window of each pixel (height, width), numbered so that every window is a run of numbers, and for
        runs from a number to another (n, n + 1) the one at which they are cut.

    Example:
        >>> members, cuts = draw_halves((1, 2), "any")
        >>> members, cuts[0, 2]
        (tensor([[0, 1]]), tensor(1))
    """
    members, least = torch.empty(*sides, dtype=torch.long), max(1.0, LEAST * max(sides))
    found: list[tuple[int, int, int]] = []

    def number(window: Tensor, begin: int, name: str) -> int:
        """Number a window, a part of `members`, from `begin` on; the number after the last."""
        height, width = window.shape
        if max(height, width) <= least:
            window.fill_(begin)
            return begin + 1
        chance = random.Random(name)  # noqa: S311, no secret
        across = width > height or (width == height and chance.random() < 0.5)
        side = width if across else height
        cut = min(side - 1, max(1, round(chance.uniform(*MIDDLE) * side)))
        one, other = window.split([cut, side - cut], dim=int(across))
        middle = number(one, begin, name + "a")
        end = number(other, middle, name + "b")
        found.append((begin, end, middle))
        return end

    n = number(members, 0, seed)
    cuts = torch.zeros(n, n + 1, dtype=torch.long)
    for begin, end, middle in found:
        cuts[begin, end] = middle
    return members, cuts


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


def estimate_agreement(one: Tensor, other: Tensor) -> Tensor:
    """The rank correlation (n,) that a map of all trees has with that of another seed, from maps of half of them each.

    Halves have twice the variance, so a correlation of r between them is one of 2 r / (1 + r) between wholes.
    """
    patches = [flat_rows(torch.nn.functional.adaptive_avg_pool2d(each[:, None], PATCHES)) for each in (one, other)]
    ranks = [each.argsort(1).argsort(1).double() for each in patches]
    centred = [each - each.mean(1, keepdim=True) for each in ranks]
    r = (centred[0] * centred[1]).sum(1) / (centred[0].norm(dim=1) * centred[1].norm(dim=1)).clamp_min(1e-12)
    return 2 * r / (1 + r.abs())  # halves that contradict each other foretell no more than they show: at least −1
