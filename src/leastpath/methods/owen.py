"""Owen values over a hierarchy of halves, as SHAP's partition explainer has them: whole regions first, then parts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
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
        ends = first[row : row + 1], first[row : row + 1] + problem.change[row : row + 1].cpu()
        rows.append(share_evenly(_divide(problem, row, members, ends, n_forwards, cuts), members))
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


@dataclass(frozen=True)
class _Runs:
    """Runs of cells in contexts, (n,) each: what is shown besides, and the score without and with the run."""

    begin: Tensor
    end: Tensor
    context: Tensor  # (n, cells) bool
    without: Tensor
    with_it: Tensor
    weight: Tensor

    def __getitem__(self, chosen: Tensor) -> _Runs:
        return _Runs(*(getattr(self, name)[chosen] for name in self.__dataclass_fields__))

    def and_also(self, others: _Runs) -> _Runs:
        return _Runs(*(torch.cat([getattr(self, f), getattr(others, f)]) for f in self.__dataclass_fields__))

    @property
    def size(self) -> Tensor:
        return self.end - self.begin

    def middle(self, cuts: Sequence[int]) -> Tensor:
        """Where each run is cut: at the cut inside of it that is nearest to its middle, or there."""
        found = (self.begin + self.end + 1) // 2
        if not len(cuts):
            return found
        places = torch.as_tensor(cuts)  # (m,)
        inside = (places > self.begin[:, None]) & (places < self.end[:, None])
        away = torch.where(inside, (places - found[:, None]).abs(), torch.iinfo(torch.long).max)
        return torch.where(inside.any(1), places[away.argmin(1)], found)

    @property
    def gain(self) -> Tensor:
        return self.weight * (self.with_it - self.without)

    def shown(self, begin: Tensor, end: Tensor) -> Tensor:
        """The contexts together with the cells from begin to end: (n, cells)."""
        places = torch.arange(self.context.shape[1])
        return self.context | ((places >= begin[:, None]) & (places < end[:, None]))


def _divide(
    problem: Problem, row: int, members: Tensor, ends: tuple[Tensor, Tensor], n_forwards: int, cuts: Sequence[int]
) -> Tensor:  # fmt: skip
    """What each cell gains (cells,), on the CPU: some at a time, the runs that matter most are divided."""
    k, left, one = int(members.max()) + 1, n_forwards // 2, torch.ones(1, dtype=ends[0].dtype)
    runs = _Runs(one.long() * 0, one.long() * k, torch.zeros(1, k, dtype=torch.bool), *ends, one)
    while n := min(int((runs.size > 1).sum()), left, AT_ONCE):
        left -= n
        order = torch.where(runs.size > 1, runs.gain.abs(), -torch.inf).argsort(descending=True, stable=True)
        runs = runs[order[n:]].and_also(_halve(problem, row, members, runs[order[:n]], cuts))
    values = torch.zeros(k, dtype=one.dtype)
    for begin, end, share in zip(runs.begin.tolist(), runs.end.tolist(), (runs.gain / runs.size).tolist(), strict=True):
        values[begin:end] += share
    problem.bar.advance()
    return values


def _halve(problem: Problem, row: int, members: Tensor, runs: _Runs, cuts: Sequence[int]) -> _Runs:
    """Each run as its two halves, each of them in the contexts without and with the other: four for one."""
    n, middle = len(runs.begin), runs.middle(cuts)
    shown = torch.cat([runs.shown(runs.begin, middle), runs.shown(middle, runs.end)])  # (2 n, cells)
    scores = score_own_masks(problem, torch.full((2 * n,), row), lambda i: shown[i][:, members])
    left, right = scores[:n], scores[n:]
    return _Runs(
        torch.cat([runs.begin, runs.begin, middle, middle]),
        torch.cat([middle, middle, runs.end, runs.end]),
        torch.cat([runs.context, shown[n:], runs.context, shown[:n]]),
        torch.cat([runs.without, right, runs.without, left]),
        torch.cat([left, runs.with_it, right, runs.with_it]),
        (runs.weight / 2).repeat(4),
    )
