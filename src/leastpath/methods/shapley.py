"""Orders: groups of features enter one after another, and each gets what the score gains then."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from leastpath._support.checks import Count
from leastpath._support.rows import flat_rows
from leastpath.features.groups import (
    SUPERPIXELS,
    Groups,
    group_features,
    is_cuttable,
    kind_of,
    kind_of_shape,
    number_groups,
    patches,
    share_evenly,
)
from leastpath.methods.masks import score_own_masks
from leastpath.methods.method import KINDS, Explained, Problem, method

PATCHES = 8  # per side: about as many steps as a straight line has


@dataclass(frozen=True)
class RowGroups:
    """What is switched together in each row of a problem; all baselines of an example share its groups."""

    members: Tensor  # (rows, *shape) numbers from 0 without gaps
    counts: Tensor  # (rows,)
    cut: Sequence[str]  # how images were cut, as the end of a sentence

    @classmethod
    def of(cls, problem: Problem, groups: Groups) -> RowGroups:
        """See `group_features`."""
        labels, cut = group_features(groups, problem.end[:: problem.m], kind_of(problem.bound))
        members = labels.repeat_interleave(problem.m, 0)
        return cls(members, flat_rows(members).amax(1) + 1, [said for said in cut for _ in range(problem.m)])

    def explain(self, problem: Problem, values: Tensor, words: str, **stats: Any) -> Explained:
        """The values (rows, *shape), with a remark in which {} is the number of groups."""
        remarks = [words.format(k) + more for k, more in zip(self.counts.tolist(), self.cut, strict=True)]
        return Explained(values, {**stats, "n_groups": self.counts[:: problem.m]}, remarks)


def _permutation_cost(shape: Sequence[int], settings: Mapping[str, Any]) -> tuple[int, int]:
    n = SUPERPIXELS if kind_of_shape(shape) == "image" else math.prod(shape)
    return 0, 2 * settings["n_permutations"] * (n - 1) + 2


@method(
    "Permutation SHAP", "Shapley values of groups of features, by orders and their reverses.", complete=True,
    unitless=True, cost=_permutation_cost,
)  # fmt: skip
def permutation_shap(problem: Problem, *, n_permutations: Count = 10, groups: Groups = None) -> Explained:
    """Permutation SHAP: what each group adds when groups join one by one, averaged over orders and their reverses.

    An absent group is at its baseline. Every order adds up to the change of score, so the mean does, too. With its
    reverse, an order is exact for scores in which at most two groups act together. Orders are the same for all examples
    that have as many groups.

    Args:
        n_permutations: orders, each with its reverse: 2 (groups − 1) forwards each.
        groups: as for `kernel_shap`.
    """
    own, rows = RowGroups.of(problem, groups), []
    for row, k in enumerate(own.counts.tolist()):
        generator = torch.Generator().manual_seed(problem.seed)
        orders = torch.stack([torch.randperm(k, generator=generator) for _ in range(n_permutations)])
        gains = _gains(problem, row, own.members[row], torch.cat([orders, orders.flip(1)])).mean(0)
        rows.append(share_evenly(gains, own.members[row]).to(problem.end.device))
        problem.bar.advance()
    return own.explain(problem, torch.stack(rows), f"{2 * n_permutations} orders of {{}} groups of features")


MOST_EXACT = 10  # groups of features, whose 1,024 coalitions are all asked for


def _exact_cost(shape: Sequence[int], settings: Mapping[str, Any]) -> tuple[int, int] | None:
    return (0, 2 ** math.prod(shape)) if math.prod(shape) <= MOST_EXACT else None


@method(
    "Exact Shapley values", "All coalitions of up to 10 features, without chance and without error.", complete=True,
    fits=("few",), unitless=True, cost=_exact_cost,
)  # fmt: skip
def exact_shapley(problem: Problem, *, groups: Groups = None) -> Explained:
    """Exact Shapley values of up to 10 features or groups: the score of all 2ⁿ coalitions, so nothing is sampled.

    An absent group is at its baseline. For a table of more columns give `groups`, or take `permutation_shap`.

    Args:
        groups: as for `kernel_shap`; a group's value is shared evenly by its features.

    Example:
        >>> import leastpath as lp
        >>> exact_shapley(lp.Score(lambda x: x[:, 0] * x[:, 1]), torch.tensor([[2.0, 3.0]])).values
        tensor([[3., 3.]])
    """
    own, values = RowGroups.of(problem, groups), []
    most = int(own.counts.max())
    if most > MOST_EXACT:
        raise ValueError(
            f"exact_shapley asks for all coalitions of up to {MOST_EXACT} groups, got {most}: pass groups=, or use "
            'method="permutation_shap"'
        )
    for row, k in enumerate(own.counts.tolist()):
        members, here = own.members[row], (torch.arange(2**k)[:, None] >> torch.arange(k)) & 1  # (coalitions, groups)
        present = here.bool()
        scores = score_own_masks(problem, torch.full((2**k,), row), _shown_by(present, members), 1.0)
        size = here.sum(1)
        ways = torch.tensor([math.factorial(s) * math.factorial(k - s - 1) if s < k else 0 for s in range(k + 1)])
        alone = (ways.double() / math.factorial(k))[size]  # of joining a coalition of this size
        after = (ways.double() / math.factorial(k))[(size - 1).clamp_min(0)]
        weights = torch.where(present, after[:, None], -alone[:, None])  # (coalitions, groups)
        values.append(share_evenly((scores.double() @ weights).to(scores), members))
    return own.explain(problem, torch.stack(values).to(problem.end.device), "all coalitions of {} groups of features")


def _shown_by(present: Tensor, members: Tensor) -> Callable[[Tensor], Tensor]:
    """Masks of coalitions (n, groups), for copies by their numbers."""
    return lambda copies: present[copies][:, members]


def _staircase_cost(shape: Sequence[int], settings: Mapping[str, Any]) -> tuple[int, int]:
    return 0, 650 if kind_of_shape(shape) == "image" else 2 * settings["n_orders"] * math.prod(shape)


STEPS = "One patch, token or feature after another enters and gets what is gained."


@method(
    "Random staircases", STEPS, complete=True, unitless=True, recommended=KINDS, cost=_staircase_cost, every_class=True
)
def staircase(problem: Problem, *, n_orders: Count = 4, patch: Count | None = None, groups: Groups = None) -> Explained:
    """Random staircases: the mean of path integrals along which one patch after another enters the image.

    On each step of such a path only one patch moves, so the patch gets exactly what the score gains: no gradient is
    needed, none of its noise is picked up, and saturation does no harm. Every path is monotone between the baseline
    and the input. The patches of each order lie on a grid that is shifted at random, so that the mean is finer than
    one grid. Each order is walked forwards and backwards. Tokens, time steps and the features of a table enter one by
    one: there the mean is a sampled Shapley value.

    Inside a patch the gain is shared evenly by what moves: what equals its baseline gets nothing. On photographs take
    several baselines: black alone cannot see what is dark.

    Args:
        n_orders: orders, each with its reverse. About 2 × 80 forwards each for an image.
        patch: side of a patch in pixels. None: an eighth of the image's longer side.
        groups: what enters together, in place of patches that are drawn: as for `kernel_shap`.

    Example:
        >>> import leastpath as lp
        >>> score = lp.Score(lambda x: x[:, 0] * x[:, 1])
        >>> staircase(score, torch.tensor([[2.0, 3.0]])).values
        tensor([[3., 3.]])
    """
    if patch is not None and groups is not None:
        raise ValueError("staircase lets patches or groups enter: pass patch or groups, not both")
    shape = problem.bound.shape
    drawn = groups is None and is_cuttable(shape)
    own = None if drawn else RowGroups.of(problem, groups).members

    def draw(row: int, generator: torch.Generator) -> Tensor:
        return _draw_patches(shape, patch, generator) if own is None else own[row]

    moves = (problem.end != problem.start).cpu()
    rows = [_average(problem, row, n_orders, draw, moves[row]) for row in range(len(moves))]
    said = f"the mean over {2 * n_orders} random orders, each of which adds up to the change of score"
    values = rows[0][None] if len(rows) == 1 else torch.stack(rows)  # of 1,000 classes they are large
    return Explained(values, remarks=[said] * len(rows))


def _draw_patches(shape: torch.Size, patch: int | None, generator: torch.Generator) -> Tensor:
    """The patch of each feature (*shape): cells of a grid that is shifted at random."""
    side = patch or math.ceil(max(shape[1:]) / PATCHES)
    down, right = torch.randint(0, side, (2,), generator=generator).tolist()
    return number_groups(patches(shape[1], shape[2], side=side, down=down, right=right)).expand(shape)


def _average(
    problem: Problem, row: int, n_orders: int, draw: Callable[[int, torch.Generator], Tensor],
    among: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """The mean gain of each feature (*shape) of a row over random orders of drawn groups, and their reverses."""
    generator, bound = torch.Generator().manual_seed(problem.seed), problem.bound
    total = torch.zeros((*problem.change.shape[1:], *bound.shape), dtype=bound.work_dtype)
    for _ in range(n_orders):
        groups = draw(row, generator)
        order = torch.randperm(int(groups.max()) + 1, generator=generator)
        both = _gains(problem, row, groups, torch.stack([order, order.flip(0)]))
        total += share_evenly(both.mean(0) / n_orders, groups, among)
    problem.bar.advance()
    return total.to(problem.end.device)


def _gains(problem: Problem, row: int, groups: Tensor, orders: Tensor) -> Tensor:
    """What each group adds when groups join in these orders: (orders, k, …), by the groups' numbers, on the CPU.

    Groups (*shape) are numbers from 0 to k − 1; each of the orders (n, k) begins with what joins first.
    """
    n, k = orders.shape
    places = orders.argsort(1)

    def joined(copies: Tensor) -> Tensor:
        order, step = copies.div(k - 1, rounding_mode="floor"), copies % (k - 1)
        return places[order][:, groups] <= step.reshape(-1, *[1] * groups.ndim)

    own = torch.tensor([row])
    between = score_own_masks(problem, own.expand(n * (k - 1)), joined)
    first = problem.scores(problem.start[row : row + 1], own).cpu()
    last, more = first + problem.change[row : row + 1].cpu(), first.shape[1:]
    ends = (end.expand(n, 1, *more) for end in (first[:, None], last[:, None]))
    steps = torch.cat([next(ends), between.reshape(n, k - 1, *more), next(ends)], 1).diff(dim=1)
    return steps[torch.arange(n)[:, None], places]  # from the order of joining to the groups' numbers
