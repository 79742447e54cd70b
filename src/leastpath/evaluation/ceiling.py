"""A ceiling for removal: the best order in which features can be taken away, by search. For small inputs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import numpy as np
import torch
from torch import Tensor

from leastpath._support.checks import Count, Range, Settings, seed_of
from leastpath._support.rows import flat_rows
from leastpath.evaluation.support import prepare_fill
from leastpath.features.groups import Groups, check_groups, label_groups
from leastpath.removal.curves import Fill, Filling, Probability, Scale, fill_rows, find_filler, judged_score, level_of
from leastpath.result.attribution import Attribution, without_path
from leastpath.result.status import Note, Outcome, Status
from leastpath.score.calls import leave_untouched, warn_of_training_mode
from leastpath.score.score import Baselines, BoundScore, Inputs, Score

EXACT = 12  # features up to which all 2ⁿ subsets are evaluated
BLOCK = 4096  # subsets made into inputs at once


@dataclass(frozen=True, eq=False)
class NearOptimalRemoval(Settings):
    """An order of removal that lowers the probability as fast as a search can find: a ceiling for removal measures.

    It is no explanation: it looks at the answer of the test. Give it to `compare` beside methods, to see how much room
    they leave. Up to `exact` features the order is the best possible one, from all 2ⁿ subsets. Above that it is
    the better of two greedy orders (the best next removal, and the best last one), improved by swaps of neighbours.

    The order makes the area under the full deletion curve smallest, one feature at a time. Values are positive and fall
    in that order. Costs 2ⁿ forwards up to `exact` features, above that about n² and n for each sweep.

    Args:
        groups: what is removed together, as in `symmetric_relevance_gain`.
        fill: what replaces removed features, as there.
        exact: features up to which the order is the best possible one.
        sweeps: at most so many passes of swaps.
        most: features above which it refuses: n² forwards.
        probability: what is lowered; see `Masking`.

    Example:
        >>> import leastpath as lp
        >>> score, inputs = lp.Score(lambda x: x @ torch.tensor([1.0, 3.0, 2.0])), torch.ones(1, 3)
        >>> NearOptimalRemoval()(score, inputs, None, 0).values
        tensor([[0.3333, 1.0000, 0.6667]])
    """

    groups: Groups = None
    fill: Fill = "baseline"
    exact: Annotated[int, Range(least=0, most=20, hint="it takes 2^exact evaluations")] = EXACT
    sweeps: Annotated[int, Range(least=0)] = 20
    most: Count = 300
    probability: Probability = "auto"

    def __post_init__(self) -> None:
        check_groups(self.groups)
        super().__post_init__()
        find_filler(self.fill)

    def __call__(self, score: Score, inputs: Inputs, baselines: Baselines = None, seed: int = 0) -> Attribution:
        """Explains like a method: values shaped like the inputs."""
        warn_of_training_mode(score.model)
        seed = seed_of(seed)
        judged, scale = judged_score(score, self.probability)
        with leave_untouched(score.model, inputs), torch.no_grad():
            bound = judged.bind(inputs)
            fill = prepare_fill(self.fill, bound, inputs, baselines, seed)
            labels = label_groups(self.groups, bound.space.points())
            every = torch.arange(bound.n_features)[None] if labels is None else flat_rows(labels)
            values = torch.zeros_like(flat_rows(bound.space.points()), dtype=bound.work_dtype)
            for b, index in enumerate(every.expand(bound.batch, -1)):
                values[b] = self._values(_Removals(bound, scale, b, index, fill)).to(values)
        unknown = torch.full((bound.batch,), torch.nan, dtype=values.dtype)
        note = Note(Outcome.SOLVER_NOTE, "an order of removal found by search, which is no explanation")
        return without_path(
            bound.space.split(values.reshape(bound.batch, *bound.shape)),
            unknown,
            unknown,
            unknown,
            (Status((note,)),) * bound.batch,
            n_gradients=torch.zeros(bound.batch, dtype=torch.long),
            n_forwards=torch.as_tensor(bound.forwards_spent).long(),
            method=repr(self),
        )

    def _values(self, removals: _Removals) -> Tensor:
        """(features,) of one example."""
        n = removals.n
        if n > self.most:
            raise ValueError(
                f"a search over {n} features takes about {n * n} evaluations, more than most={self.most} allows: "
                'remove larger parts, as with groups="patches" or labels'
            )
        if n <= self.exact:
            order = best_order(removals)
        else:
            starts = [greedy_order(removals), greedy_order(removals, backwards=True)]
            order = swap_neighbours(removals, min(starts, key=removals.area), self.sweeps)
        worth = torch.zeros(n)
        worth[torch.tensor(order)] = torch.arange(n, 0, -1) / n
        sizes = torch.bincount(removals.index[removals.index >= 0], minlength=n)  # a group shares its worth
        return torch.where(removals.index >= 0, (worth / sizes)[removals.index.clamp_min(0)], 0.0)


class _Removals:
    """The probability, or score, of one example without some of its features. Each subset is evaluated once."""

    def __init__(self, bound: BoundScore, scale: Scale, example: int, index: Tensor, fill: Filling) -> None:
        self.bound, self.scale, self.example, self.fill = bound, scale, example, fill
        present = torch.unique(index[index >= 0])
        self.n = len(present)
        number = torch.full((int(index.max()) + 2,), -1)
        number[present] = torch.arange(self.n)
        self.index = number[index]  # (features,) which of the n groups; −1 for what stays
        self._known: dict[bytes, float] = {}

    def levels(self, removed: np.ndarray) -> np.ndarray:
        """Subsets (m, n) of bools -> (m,)."""
        keys = [row.tobytes() for row in np.ascontiguousarray(removed)]
        new = list({key: i for i, key in enumerate(keys) if key not in self._known}.values())
        for some in np.array_split(np.array(new, dtype=int), max(1, -(-len(new) // BLOCK))):
            for i, level in zip(some, self._evaluate(removed[some]), strict=True):
                self._known[keys[i]] = float(level)
        return np.array([self._known[key] for key in keys])

    def area(self, order: list[int]) -> float:
        """Σ of the levels after each removal but the last, which all orders share."""
        return float(self.levels(_prefixes(order, self.n)[1:-1]).sum())

    def _evaluate(self, removed: np.ndarray) -> np.ndarray:
        if not len(removed):
            return np.empty(0)
        rows = torch.full((len(removed),), self.example)
        # One more group, which is never removed, for what stays.
        chosen = torch.cat([torch.as_tensor(removed), torch.zeros(len(removed), 1, dtype=torch.bool)], 1)
        points = self.bound.space.points()[self.example : self.example + 1]
        masked = chosen[:, self.index].reshape(len(removed), *self.bound.shape).to(points.device)
        filled = torch.where(masked, fill_rows(self.fill, rows, masked).to(points), points)
        return level_of(self.bound.values(filled, rows).cpu().double(), self.scale).numpy()


def best_order(removals: _Removals) -> list[int]:
    """The order with the least area, by dynamic programming over all subsets."""
    n = removals.n
    numbers = np.arange(2**n)
    bits = (numbers[:, None] >> np.arange(n)) & 1
    level = removals.levels(bits.astype(bool))
    total, last = np.full(2**n, np.inf), np.zeros(2**n, dtype=int)
    total[0] = 0.0
    for subset in numbers[1:]:  # smaller numbers are all its subsets
        members = np.flatnonzero(bits[subset])
        before = total[subset ^ (1 << members)]
        last[subset] = members[before.argmin()]
        total[subset] = before.min() + level[subset]
    order, subset = [], 2**n - 1
    while subset:
        order.append(int(last[subset]))
        subset ^= 1 << last[subset]
    return order[::-1]


def greedy_order(removals: _Removals, *, backwards: bool = False) -> list[int]:
    """Each time the removal that lowers the level most; backwards, the one whose return raises it least."""
    n, order = removals.n, list[int]()
    removed = np.full(n, backwards)
    for _ in range(n):
        candidates = np.flatnonzero(removed == backwards)
        trials = np.repeat(removed[None], len(candidates), 0)
        trials[np.arange(len(candidates)), candidates] = not backwards
        best = int(candidates[removals.levels(trials).argmin()])
        removed[best] = not backwards
        order.append(best)
    return order[::-1] if backwards else order


def swap_neighbours(removals: _Removals, order: list[int], sweeps: int) -> list[int]:
    """Neighbours change places where that lowers the area. A swap changes one subset only, so it costs one forward."""
    order = list(order)
    for _ in range(sweeps):
        changed = False
        for parity in (0, 1):  # pairs that do not touch each other
            first = np.arange(parity, removals.n - 1, 2)
            if not len(first):
                continue
            prefixes = _prefixes(order, removals.n)
            now, other = prefixes[first + 1], prefixes[first].copy()
            other[np.arange(len(first)), np.array(order)[first + 1]] = True
            for j in first[removals.levels(other) < removals.levels(now)]:
                order[j], order[j + 1] = order[j + 1], order[j]
                changed = True
        if not changed:
            break
    return order


def _prefixes(order: list[int], n: int) -> np.ndarray:
    """What is removed after 0, 1, …, n removals: (n + 1, n) of bools."""
    place = np.empty(n, dtype=int)
    place[order] = np.arange(n)
    return place[None] < np.arange(n + 1)[:, None]
