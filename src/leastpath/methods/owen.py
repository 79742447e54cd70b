"""Owen values over a hierarchy of halves, as SHAP's partition explainer has them: whole regions first, then parts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any

import torch
from torch import Tensor

from leastpath._support.checks import Range
from leastpath.features.groups import Groups, is_cuttable, kind_of, share_evenly
from leastpath.methods.masks import score_own_masks
from leastpath.methods.method import Explained, Problem, method
from leastpath.methods.shapley import RowGroups

CELLS = 16  # per side of an image, the smallest parts
AT_ONCE = 32  # runs that are divided before it is asked again which matter most
Cut = Callable[[Tensor, Tensor], Tensor]
"""From begins and ends of runs of cells (n,) to the cells before which they are cut (n,)."""


def _cost(shape: Sequence[int], settings: Mapping[str, Any]) -> tuple[int, int]:
    return 0, settings["n_forwards"]


@method(
    "Owen values", "Shapley values over halves: regions first, then their parts.", complete=True, unitless=True,
    cost=_cost,
)  # fmt: skip
def owen(
    problem: Problem,
    *,
    n_forwards: Annotated[int, Range(least=2)] = 500,
    groups: Groups = None,
    cuts: tuple[int, ...] = (),
) -> Explained:
    """Owen values: Shapley values in which the halves of a region join together before or after the other half.

    An image is halved along its longer side, and so is every half, down to a sixteenth of a side. A half is asked for
    twice, with and without its sibling, in each of the contexts of its parent. Within the budget the halves that
    matter most are divided further; what is not divided shares its gain evenly. So every budget adds up to the change
    of score, and a budget without end gives the Owen value itself. Tokens, time steps and columns are halved in their
    order: put columns that belong together side by side.

    Args:
        n_forwards: per baseline, two for each division.
        groups: the smallest parts, in place of an image's cells, in the order of their numbers: as for `kernel_shap`.
        cuts: the numbers of parts before which a run of parts is cut first, the one nearest to its middle: the words
            that begin a sentence.

    Example:
        >>> import leastpath as lp
        >>> owen(lp.Score(lambda x: x[:, 0] * x[:, 1]), torch.tensor([[2.0, 3.0]])).values
        tensor([[3., 3.]])
    """
    shape, rows = problem.bound.shape, []
    cells = None
    if groups is None and kind_of(problem.bound) == "image" and is_cuttable(shape):
        cells = halved_cells(shape)
    grouped = None if cells is not None else RowGroups.of(problem, groups)
    first = problem.bound.values(problem.start, torch.arange(len(problem))).cpu()
    for row in range(len(problem)):
        members = cells if grouped is None else grouped.members[row]
        assert members is not None
        ends = torch.stack([first[row], first[row] + problem.change[row].cpu()])
        runs = divide(problem, row, members, ends, n_forwards, partial(_middle, cuts=cuts))
        rows.append(share_evenly(runs.shared(torch.ones(int(members.max()) + 1)), members))
        problem.bar.advance()
    return Explained(torch.stack(rows).to(problem.end.device))


def halved_cells(shape: torch.Size) -> Tensor:
    """The cell of each feature (*shape), numbered so that the halves of an image are runs of numbers, and so on.

    Example:
        >>> halved_cells(torch.Size([1, 2, 4]))[0]
        tensor([[0, 2, 4, 6],
                [1, 3, 5, 7]])
    """
    lines = [torch.arange(side) * min(CELLS, side) // side for side in shape[1:]]
    boxes = [tuple(range(int(line[-1]) + 1) for line in lines)]
    while any(len(tall) > 1 or len(wide) > 1 for tall, wide in boxes):
        boxes = [half for box in boxes for half in _halves(box)]
    numbers = torch.empty(len(set(lines[0].tolist())), len(set(lines[1].tolist())), dtype=torch.long)
    for number, (tall, wide) in enumerate(boxes):
        numbers[tall[0], wide[0]] = number
    return numbers[lines[0][:, None], lines[1]].expand(shape)


def _halves(box: tuple[range, ...]) -> Iterator[tuple[range, ...]]:
    tall, wide = box
    if len(tall) == len(wide) == 1:
        yield box
    elif len(wide) >= len(tall):
        yield from ((tall, half) for half in (wide[: -(-len(wide) // 2)], wide[-(-len(wide) // 2) :]))
    else:
        yield from ((half, wide) for half in (tall[: -(-len(tall) // 2)], tall[-(-len(tall) // 2) :]))


def _middle(begin: Tensor, end: Tensor, cuts: Sequence[int]) -> Tensor:
    """Where each run is cut: at the cut inside of it that is nearest to its middle, or there."""
    found = (begin + end + 1) // 2
    if not len(cuts):
        return found
    places = torch.as_tensor(cuts)  # (m,)
    inside = (places > begin[:, None]) & (places < end[:, None])
    away = torch.where(inside, (places - found[:, None]).abs(), torch.iinfo(torch.long).max)
    return torch.where(inside.any(1), places[away.argmin(1)], found)


@dataclass(frozen=True)
class Runs:
    """Runs of cells in contexts, (n,) each: what is shown besides, and the score without and with the run."""

    begin: Tensor
    end: Tensor
    context: Tensor  # (n, cells) bool
    without: Tensor
    with_it: Tensor
    weight: Tensor

    def __getitem__(self, chosen: Tensor) -> Runs:
        return Runs(*(getattr(self, name)[chosen] for name in self.__dataclass_fields__))

    def and_also(self, others: Runs) -> Runs:
        """These and others."""
        return Runs(*(torch.cat([getattr(self, f), getattr(others, f)]) for f in self.__dataclass_fields__))

    @property
    def size(self) -> Tensor:
        """Cells of each."""
        return self.end - self.begin

    @property
    def gain(self) -> Tensor:
        """What each adds to the score in its context, by the share of orders in which it has that context."""
        return self.weight * (self.with_it - self.without)

    def shown(self, begin: Tensor, end: Tensor) -> Tensor:
        """The contexts together with the cells from begin to end: (n, cells)."""
        places = torch.arange(self.context.shape[1])
        return self.context | ((places >= begin[:, None]) & (places < end[:, None]))

    def shared(self, sizes: Tensor) -> Tensor:
        """What each cell gains (cells,), where the cells of a run share its gain by their sizes (cells,)."""
        values, sizes = torch.zeros(len(sizes), dtype=self.without.dtype), sizes.to(self.without)
        for begin, end, gain in zip(self.begin.tolist(), self.end.tolist(), self.gain.tolist(), strict=True):
            values[begin:end] += gain * sizes[begin:end] / sizes[begin:end].sum()
        return values


def divide(
    problem: Problem, row: int, members: Tensor, ends: Tensor, n_forwards: int, cut: Cut, coin: Coin | None = None
) -> Runs:
    """Runs of cells, on the CPU: some at a time, those that matter most are divided.

    Args:
        problem: what is explained.
        row: of it.
        members: (*shape) the cell of each feature, numbered from 0 so that whatever shall be divided is a run.
        ends: (2,) the score at the baseline and at the input.
        n_forwards: two for each division, or one where a coin decides.
        cut: where a run is divided.
        coin: which half enters first, where it is not both in turn. None: always both.
    """
    k, left, one = int(members.max()) + 1, n_forwards, torch.ones(1, dtype=ends.dtype)
    runs = Runs(one.long() * 0, one.long() * k, torch.zeros(1, k, dtype=torch.bool), ends[:1], ends[1:], one)
    while n := min(int((runs.size > 1).sum()), left, AT_ONCE):
        order = torch.where(runs.size > 1, runs.gain.abs(), -torch.inf).argsort(descending=True, stable=True)
        chosen, rest = runs[order[:n]], runs[order[n:]]
        both = torch.ones(n, dtype=torch.bool) if coin is None else chosen.weight > coin.below
        kept = (1 + both.long()).cumsum(0) <= left  # those that can be paid
        if not kept.any():
            break
        left -= int((1 + both.long())[kept].sum())
        rest = rest.and_also(chosen[~kept])
        halves = _halve(problem, row, members, chosen[kept & both], cut)
        runs = rest.and_also(halves)
        if coin is not None:
            runs = runs.and_also(_halve_once(problem, row, members, chosen[kept & ~both], cut, coin))
    return runs


@dataclass(frozen=True)
class Coin:
    """Which half of a run enters first, for runs of a weight up to `below`: tossed, so that they cost one forward."""

    below: float
    generator: torch.Generator


def _halve_once(problem: Problem, row: int, members: Tensor, runs: Runs, cut: Cut, coin: Coin) -> Runs:
    """Each run as its two halves, one of which enters first."""
    n, middle = len(runs.begin), cut(runs.begin, runs.end)
    heads = torch.rand(n, generator=coin.generator) < 0.5
    begin, end = torch.where(heads, runs.begin, middle), torch.where(heads, middle, runs.end)  # of the first
    shown = runs.shown(begin, end)
    scores = score_own_masks(problem, torch.full((n,), row), lambda i: shown[i][:, members])
    return Runs(
        torch.cat([begin, torch.where(heads, middle, runs.begin)]),
        torch.cat([end, torch.where(heads, runs.end, middle)]),
        torch.cat([runs.context, shown]),
        torch.cat([runs.without, scores]),
        torch.cat([scores, runs.with_it]),
        runs.weight.repeat(2),
    )


def _halve(problem: Problem, row: int, members: Tensor, runs: Runs, cut: Cut) -> Runs:
    """Each run as its two halves, each of them in the contexts without and with the other: four for one."""
    n, middle = len(runs.begin), cut(runs.begin, runs.end)
    shown = torch.cat([runs.shown(runs.begin, middle), runs.shown(middle, runs.end)])  # (2 n, cells)
    scores = score_own_masks(problem, torch.full((2 * n,), row), lambda i: shown[i][:, members])
    left, right = scores[:n], scores[n:]
    return Runs(
        torch.cat([runs.begin, runs.begin, middle, middle]),
        torch.cat([middle, middle, runs.end, runs.end]),
        torch.cat([runs.context, shown[n:], runs.context, shown[:n]]),
        torch.cat([runs.without, right, runs.without, left]),
        torch.cat([left, runs.with_it, right, runs.with_it]),
        (runs.weight / 2).repeat(4),
    )
