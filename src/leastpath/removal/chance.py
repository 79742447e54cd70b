"""Chance: how often would an order that knows nothing have done as well? Exact permutation tests on shared removals.

Pairs of random removals of one input say how much each of its units (features, patches, tokens) matters: its weights.
An explanation is as good as its ranks agree with them. Whatever else is tested on that input (draws of a null, other
explanations, two explanations beside each other) is then a product of matrices and costs no forward. Nothing here knows
how an explanation was made, and nothing runs the model. docs/theory.md has the definition.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import NamedTuple

import torch
from torch import Tensor

from leastpath.score.baselines import blur_images

RIDGE = 0.3  # of the mean square of a unit's signs: weights of units that the removals hardly tell apart shrink
REACHES = (1.5, 3.0, 6.0, 12.0)  # in cells of a grid, at which the correlation of two weights has fallen to 1 / e
NOISE = torch.logspace(-3, 4, 29, dtype=torch.float64)  # of a pair, over the variance of a weight, by number of pairs


# ---- the probe ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Probe:
    """What random removals did to the score of one input. Shared by all its explanations, and by all draws.

    A map that was fitted to these very removals would pass by construction: never hand them to a method.
    """

    weights: Tensor  #: (units,) how much higher the score is with a unit than without it, up to a factor; mean 0
    halves: Tensor  #: (2, units) the same by each half of the removals
    gains: Tensor  #: (orders,) symmetric relevance gains of random orders

    @classmethod
    def of(
        cls, signs: Tensor, differences: Tensor, half: Tensor, gains: Tensor, grid: tuple[int, int] | None = None
    ) -> Probe:
        """From pairs of removals A and B.

        Args:
            signs: (pairs, units) 1 for a unit of A, −1 for one of B, 0 for one of neither.
            differences: (pairs,) level without B − level without A.
            half: (pairs,) 0 or 1, by which half a pair counts.
            gains: (orders,) of random orders.
            grid: whose cells the units of a photograph are.
        """
        left, signs = _take_out_size(differences.double(), signs.double().mean(1)), signs.double()
        weigh = weigh_units if grid is None else partial(weigh_cells, grid=grid)
        halves = torch.stack([weigh(signs[half == k], left[half == k]) for k in (0, 1)])
        return cls(weigh(signs, left), halves, gains)

    @property
    def spread(self) -> float:
        """The standard deviation of a random order's gain. An order and its reverse have opposite gains: mean 0."""
        return float(self.gains.square().mean().sqrt())


def weigh_units(signs: Tensor, differences: Tensor) -> Tensor:
    """How much each unit matters by pairs of removals: (pairs, units) and (pairs,) -> (units,), mean 0.

    With more pairs than units a ridge regression, which takes what other units did out of a unit's weight; with fewer
    the sum of differences, signed.
    """
    sums = differences @ signs
    if len(signs) > signs.shape[1]:
        moments = signs.T @ signs
        moments.diagonal().add_(RIDGE * moments.diagonal().mean() + 1e-12)
        sums = torch.linalg.solve(moments, sums)
    return sums - sums.mean()


def weigh_cells(signs: Tensor, differences: Tensor, grid: tuple[int, int]) -> Tensor:
    """The same of the cells of a grid, where neighbors matter alike as far as the removals themselves say that they do.

    The posterior mean under a Gaussian process, with the reach and the noise that make the differences most likely. It
    needs fewer pairs than there are cells.
    """
    pairs, roots = len(signs), _covariance_roots(grid)  # (reaches, cells, cells)
    spectrum, vectors = torch.linalg.eigh(roots.mT @ (signs.T @ signs) @ roots)
    along = ((differences @ signs @ roots)[:, None] @ vectors)[:, 0]  # (reaches, cells)
    noise = pairs * NOISE[:, None]  # (levels, 1)
    total = spectrum.clamp_min(0) + noise[:, :, None]  # (levels, reaches, cells)
    left = (differences.square().sum() - (along.square() / total).sum(2)) / noise
    volume = total.log().sum(2) + (pairs - total.shape[2]) * noise.log()
    unlikely = pairs * left.clamp_min(torch.finfo(left.dtype).tiny).log() + volume  # (levels, reaches)
    level, reach = divmod(int(unlikely.argmin()), len(roots))
    weights = roots[reach] @ vectors[reach] @ (along[reach] / total[level, reach])
    return weights - weights.mean()


@lru_cache(maxsize=4)
def _covariance_roots(grid: tuple[int, int]) -> Tensor:
    """For each reach the root of the covariance of the cells' weights: (reaches, cells, cells)."""
    places = torch.cartesian_prod(*(torch.arange(side, dtype=torch.float64) for side in grid))
    far = torch.cdist(places, places)
    return torch.stack([torch.linalg.cholesky(torch.exp(-far / reach)) for reach in REACHES])


def _take_out_size(difference: Tensor, size: Tensor) -> Tensor:
    """A and B may differ in size: what that explains of the difference is no unit's doing."""
    if not size.any():
        return difference
    columns = torch.stack([size, size**3], 1)
    return difference - columns @ torch.linalg.lstsq(columns, difference, driver="gelsd").solution


def draw_fields(n: int, grid: tuple[int, int], width: float, generator: torch.Generator) -> Tensor:
    """Random fields (n, cells), smooth over so many cells of a grid, and rougher than nothing for a width of 0."""
    margin = int(3 * width) + (width > 0)  # smoothed beyond the border, then cut: no place on the grid is special
    noise = torch.randn(n, grid[0] + 2 * margin, grid[1] + 2 * margin, generator=generator)
    return blur_images(noise, width)[:, margin : margin + grid[0], margin : margin + grid[1]].flatten(1)


# ---- ranks and statistics ----------------------------------------------------------------------------------------


def rank_evenly(values: Tensor) -> Tensor:
    """Centred mid-ranks (…, units) in float64, between −1 and 1: equal values have equal ranks.

    Example:
        >>> rank_evenly(torch.tensor([3.0, 1.0, 1.0, 9.0]))
        tensor([ 0.2500, -0.5000, -0.5000,  0.7500], dtype=torch.float64)
    """
    ordered, values = values.sort(dim=-1).values, values.contiguous()
    low, high = (torch.searchsorted(ordered, values, right=right) for right in (False, True))
    return (low + high - values.shape[-1]).double() / values.shape[-1]


@dataclass(frozen=True)
class Statistic:
    """How well ranks agree with weights: Σ rank · weight; or the same blind to what the input alone says.

    Blind means: what is left of the weights and of the ranks after regression on the ranks of what the input says,
    divided by the length of what is left of the ranks. That is a partial rank correlation, up to a constant.

    Example:
        >>> ranked = rank_evenly(torch.tensor([1.0, 2.0, 3.0]))
        >>> Statistic.of(torch.tensor([-1.0, 0.0, 1.0]))(ranked)
        tensor(1.3333, dtype=torch.float64)
    """

    weights: Tensor  #: (units,)
    basis: Tensor | None = None  #: (units, columns) orthonormal, of what the statistic is blind to

    @classmethod
    def of(cls, weights: Tensor, says: Sequence[Tensor] = ()) -> Statistic:
        """The plain statistic, or one that is blind to what `says` (units,) each say."""
        weights = weights.double()
        if not says:
            return cls(weights)
        columns = torch.stack([torch.ones_like(weights), *(rank_evenly(one) for one in says)], 1)
        q, r = torch.linalg.qr(columns)
        basis = q[:, r.diagonal().abs() > 1e-6]  # columns that say the same twice are left out
        return cls(weights - basis @ (basis.T @ weights), basis)

    def __call__(self, ranked: Tensor) -> Tensor:
        """Ranks (…, units) -> (…)."""
        agreement = ranked @ self.weights
        if self.basis is None:
            return agreement
        left = ranked.square().sum(-1) - (ranked @ self.basis).square().sum(-1)
        return agreement / left.clamp_min(0.003 * ranked.shape[-1]).sqrt()  # never divided by what is only rounding


# ---- nulls: orders that would have been as likely ----------------------------------------------------------------


def cut_strata(says: Tensor, size: int, generator: torch.Generator) -> Tensor:
    """Strata of about `size` units of which the input says about the same: numbers (units,). Ties are cut at random.

    Example:
        >>> cut_strata(torch.tensor([5.0, 1.0, 2.0, 7.0]), 2, torch.Generator())
        tensor([1, 0, 0, 1])
    """
    n, shuffled = len(says), torch.randperm(len(says), generator=generator)
    number = torch.empty(n, dtype=torch.long)
    number[shuffled[says[shuffled].argsort(stable=True)]] = torch.arange(n) * max(1, round(n / size)) // n
    return number


def permute(n: int, draws: int, generator: torch.Generator, strata: Tensor | None = None) -> Tensor:
    """Permutations of n units (draws, n), uniform over all, or over those that keep each unit in its stratum.

    Where there are no more than `draws` at all (up to five units), each comes once.

    Example:
        >>> permute(4, 1, torch.Generator().manual_seed(0), torch.tensor([0, 0, 1, 1])).sort().values
        tensor([[0, 1, 2, 3]])
    """
    if (strata is None or not strata.any()) and math.factorial(n) <= draws + 1:
        return torch.tensor(list(itertools.permutations(range(n)))[1:])  # all of them but the identity
    shuffled = torch.rand(draws, n, generator=generator, dtype=torch.float64)
    if strata is None:
        return shuffled.argsort(1)
    indices = torch.empty(draws, n, dtype=torch.long)
    indices[:, strata.argsort(stable=True)] = (strata + 0.999 * shuffled).argsort(1)
    return indices


def move(grid: tuple[int, int], draws: int, generator: torch.Generator) -> Tensor:
    """Moves of a grid's cells (at most `draws`, cells): cyclic shifts with mirrors, and turns where it is square.

    Drawn without replacement, and never the identity.

    Example:
        >>> move((4, 4), 499, torch.Generator()).shape  # 16 shifts × 8 turns and mirrors, less one
        torch.Size([127, 16])
    """
    cells = torch.arange(grid[0] * grid[1]).view(grid)
    turned = [cells, cells.flip(0), cells.flip(1), cells.flip(0, 1)]
    turned += [one.T for one in turned] if grid[0] == grid[1] else []
    chosen = 1 + torch.randperm(len(turned) * cells.numel() - 1, generator=generator)[:draws]
    turns, shifts = chosen // cells.numel(), chosen % cells.numel()
    down, right = (shifts // grid[1]).tolist(), (shifts % grid[1]).tolist()
    rolled = (turned[t].roll((i, j), (0, 1)) for t, i, j in zip(turns.tolist(), down, right, strict=True))
    return torch.stack([one.flatten() for one in rolled])


# ---- p-values ----------------------------------------------------------------------------------------------------


class Tail(NamedTuple):
    """How many draws were at least as good as what was observed.

    Example:
        >>> Tail(4, 499).p, Tail(4, 499).beaten
        (0.01, 495)
    """

    as_good: int
    draws: int

    @property
    def p(self) -> float:
        """The p-value of a permutation test: what was observed counts as one of the draws."""
        return (1 + self.as_good) / (1 + self.draws)

    @property
    def beaten(self) -> int:
        """How many draws were worse."""
        return self.draws - self.as_good


def count_tail(statistic: Statistic, ranked: Tensor, null: Tensor) -> Tail:
    """Ranks (units,) against the same ranks moved by each row of `null` (draws, units). Ties count against them.

    Example:
        >>> ranked, null = rank_evenly(torch.arange(8.0)), permute(8, 99, torch.Generator().manual_seed(0))
        >>> count_tail(Statistic.of(ranked), ranked, null).p, count_tail(Statistic.of(ranked), -ranked, null).p
        (0.01, 1.0)
    """
    return _count(statistic(ranked), statistic(ranked[null]))


def p_worse(probe: Probe, values: Tensor, other: Tensor, *, draws: int = 999, seed: int = 0) -> float:
    """Is one explanation worse than another on this input? The p-value of "it is chance which gave which rank".

    The two ranks of each unit are swapped at random: exact if, unit by unit, either explanation could have given either
    rank. Values and other (units,).

    Example:
        >>> weights = torch.linspace(-1, 1, 12)
        >>> probe = Probe(weights, torch.stack([weights, weights]), torch.zeros(1))
        >>> p_worse(probe, -weights, weights) < 0.05, p_worse(probe, weights, weights)
        (True, 1.0)
    """
    ranked, better = rank_evenly(torch.stack([values, other]))
    each = (better - ranked) * probe.weights.double()
    coins = torch.rand(draws, len(each), generator=torch.Generator().manual_seed(seed))
    return _count(each.sum(), torch.where(coins < 0.5, 1.0, -1.0).double() @ each).p


def _count(observed: Tensor, drawn: Tensor) -> Tail:
    slack = 1e-9 * (observed.abs() + drawn.abs().max())  # what differs by rounding is equal
    return Tail(int((drawn >= observed - slack).sum()), len(drawn))


def is_decidable(probe: Probe, null: Tensor, alpha: float) -> bool:
    """Whether an ideal explanation would have been found better than chance.

    It is the weights of one half of the removals, tested on the other. If not even they pass, nothing can be said here:
    too few units, too few removals, or a score that hardly moves.
    """
    return count_tail(Statistic.of(probe.halves[1]), rank_evenly(probe.halves[0]), null).p <= alpha
