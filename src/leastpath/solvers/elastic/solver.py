"""The elastic band: knots that start on the line and descend length plus stiffness × stretching.

The shortest path alone runs far from what lies between baseline and input: it crosses wherever the score is flat. The
band pays for every detour, so it bends only where that saves length. Forces are those of `shorten`: differences of
gradients, which see kinks, at positions that are drawn anew every round, so that no cliff hides between knots.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from functools import cached_property
from itertools import chain
from typing import Annotated

import torch
from torch import Tensor

from leastpath._support.checks import Count, Range, Settings
from leastpath._support.rows import flat_rows, norms, per_row
from leastpath.account.run import Bar, Budget, Run
from leastpath.features.groups import Groups, check_groups, label_groups, number_groups
from leastpath.geometry.metric import Euclidean, Metric
from leastpath.geometry.path import Path
from leastpath.result.status import Note, Outcome
from leastpath.score.score import BoundScore
from leastpath.solvers.shorten import Shortening, inverse_laplacian, jitter_positions, length_force, sampled_length
from leastpath.solvers.solution import LINE, Solution, Stop, split_ends, straight_with_note

FIRST_DRAW = 9000  # numbers of random draws, apart from those of other solvers
BLOCK_ELEMENTS = 2**27  # numbers held at once
SOLVER_SHARE = 0.5  # of the budget of `attribute`; the rest measures the path and the straight line
STEP = 0.2  # largest move of a knot, relative to the distance of the ends; the first round goes half of that


@dataclass(frozen=True, eq=False, repr=False)
class ElasticBand(Settings):
    """A path that bends where that saves length, and is otherwise straight: length plus stiffness × stretching.

    Minimises length / length of the line + stiffness · Σ‖step‖² / the same of the line. It is never longer than the
    line. It costs `(2 · n_rounds + 1) · n_samples · (n_knots + 1)` gradients per example; at most so
    many under a feature metric (`Fisher`, `Pullback`), and none where the metric does not ask the model.

    Args:
        stiffness: price of stretching. 0: only length counts; the larger, the nearer to the straight line.
        monotone: every feature goes from its baseline to its input without turning back: γ = x̄ + s ∘ (x − x̄), each s
            rising from 0 to 1. So what equals its baseline gets exactly nothing, no point leaves the box between
            baseline and input, and a feature that can only raise the score gets no negative value.
            False: knots move freely.
        groups: features that share one s, with `monotone`; values stay per feature. None: every feature has its own.
            "pixels": the channels of a pixel, for images (channels, height, width). "patches": the cells of a grid. A
            whole number: about so many superpixels. "tokens": a token's vector, for (tokens, width). An integer tensor:
            labels of one-hot blocks and so on, shaped like an input (channels may be left out), one for all inputs or
            one for each.

    Rarely needed:
        n_knots: that move, between the two ends.
        n_rounds: steps of the descent.
        n_samples: positions on each segment that a round samples.

    Example:
        >>> import torch, leastpath as lp
        >>> score = lp.Score(lambda x: torch.sigmoid(8 * x[:, 0] * x[:, 1] - 4))
        >>> result = lp.attribute(score, torch.tensor([[1.0, 1.0, 0.0]]), method=lp.ElasticBand())
        >>> bool(result.length_ratio <= 1), float(result.values[0, 2])
        (True, 0.0)
    """

    stiffness: Annotated[float, Range(least=0, below=None, hint="ElasticBand(stiffness=1.0) is a good start")] = 1.0
    monotone: bool = True
    groups: Groups = None
    n_knots: Count = 4
    n_rounds: Count = 6
    n_samples: Count = 2

    def __post_init__(self) -> None:
        check_groups(self.groups)
        super().__post_init__()
        if self.groups is not None and not self.monotone:
            raise ValueError("groups share one s, which only a monotone band has: pass monotone=True, or groups=None")

    def __repr__(self) -> str:
        values = {f.name: getattr(self, f.name) for f in fields(self)}
        if isinstance(self.groups, Tensor):
            values["groups"] = f"labels of shape {tuple(self.groups.shape)}"
        return f"ElasticBand({', '.join(f'{name}={value!r}' for name, value in values.items())})"

    def solve(self, score: BoundScore, metric: Metric, start: Tensor, end: Tensor, run: Run) -> Solution:
        """start, end (batch, *features) -> polylines of n_knots + 2 knots, or the line where nothing is better."""
        labels = self._labels(end, inputs=score.space.row(len(start) - 1) + 1)
        if isinstance(metric, Euclidean) or self.stiffness == math.inf:
            return Solution(Path.straight(start, end))
        rounds = self._affordable_rounds(run.budget(score).share(SOLVER_SHARE))
        if not rounds:
            return straight_with_note(start, end, self._unaffordable(run))
        found: list[tuple[list[Tensor], list[tuple[Note, ...]], Tensor, Tensor]] = []
        with run.bar("elastic band", len(start) * rounds) as bar:
            stop = Stop(run)
            for examples, a, b in split_ends(start, end, self._block(score.n_features), score.work_dtype):
                own = labels
                if labels is not None and len(labels) > 1:
                    own = labels[[score.space.row(b) for b in examples.tolist()]]
                band = _begin(self, score, metric, run, examples, a, b, own)
                with stop.catch():
                    if not stop.caught:
                        band._descend(rounds, bar)
                found.append(band._end(rounds, stop))
        knots, notes, ratio, stretch = zip(*found, strict=True)
        stats = {"sampled_ratio": torch.cat(ratio), "stretch": torch.cat(stretch)}
        # The line stretches least, so a path that is longer than the line has the larger objective, too.
        return Solution(Path.ragged([*chain(*knots)]), (*chain(*notes),), stats, never_longer=True)

    def _labels(self, end: Tensor, inputs: int) -> Tensor | None:
        """The group of each feature, numbered from 0: (1 or inputs, all features); None: every feature by itself."""
        labels = label_groups(self.groups, end[:: len(end) // inputs])
        return None if labels is None else number_groups(flat_rows(labels))

    @property
    def planned_gradients(self) -> int:
        """Per example, if nothing limits it."""
        return (2 * self.n_rounds + 1) * self._cost_of_length()

    def _cost_of_length(self) -> int:
        """Gradients that measuring a whole path takes; the force takes as many again."""
        return self.n_samples * (self.n_knots + 1)

    def _affordable_rounds(self, budget: Budget) -> int:
        """Rounds that the budget pays for, with the measurement at the end."""
        return int(max(0, min(self.n_rounds, (budget.least_left() / self._cost_of_length() - 1) // 2)))

    def _unaffordable(self, run: Run) -> Note:
        sentence = (
            f"a budget of max_gradients={run.max_gradients} does not pay for one round of {2 * self._cost_of_length()} "
            f"gradients: {LINE}; raise it, or lower n_knots"
        )
        return Note(Outcome.BUDGET_SPENT, sentence)

    def _block(self, n_features: int) -> int:
        """Examples at work at once: each holds a few numbers for every feature of every sample and knot."""
        held = 16 * (self.n_samples + 1) * (self.n_knots + 1)
        return BLOCK_ELEMENTS // (held * n_features)


@dataclass(eq=False)
class _Band:
    """One block of examples on its way: the best knots so far of each, beginning with the line."""

    settings: ElasticBand
    score: BoundScore
    metric: Metric
    run: Run
    examples: Tensor  # (batch,)
    start: Tensor  # (batch, *features)
    end: Tensor
    labels: Tensor | None
    t: Tensor  # (1, n_knots, …) where the knots of the line are
    knots: Tensor  # (batch, knots, *features)
    best: Tensor  # (batch,) objective
    line: Tensor  # (batch,) sampled length of the straight line
    ratio: Tensor
    stretch: Tensor
    bent: Tensor  # (batch,) whether something better than the line was found

    @cached_property
    def _segments(self) -> int:
        return self.settings.n_knots + 1

    @cached_property
    def _distance(self) -> Tensor:
        """(batch,) of the ends."""
        return norms(self.end - self.start, 1).clamp_min(torch.finfo(self.start.dtype).tiny)

    @cached_property
    def _inverse(self) -> Tensor:
        return inverse_laplacian(self.settings.n_knots, self.start)

    def _end(self, rounds: int, stop: Stop) -> tuple[list[Tensor], list[tuple[Note, ...]], Tensor, Tensor]:
        """Polyline and notes of each example, its length beside that of the line, and how much it stretches."""
        each = zip(self.knots, self.bent.tolist(), strict=True)
        knots = [knots if bent else knots[[0, -1]] for knots, bent in each]
        notes = [self._note(b, rounds, stop) for b in range(len(knots))]
        return knots, notes, self.ratio.float().cpu(), self.stretch.float().cpu()

    def _note(self, b: int, rounds: int, stop: Stop) -> tuple[Note, ...]:
        if stop.caught:
            what = "the best path so far is returned" if self.bent[b] else LINE
            return (stop.note(f"interrupted: {what}"),)
        if not math.isfinite(float(self.line[b])):
            return (Note(Outcome.FELL_BACK, "the gradient is NaN or infinite on the straight line, which was used"),)
        if rounds < self.settings.n_rounds:
            limit = f"max_gradients={self.run.max_gradients}"
            sentence = f"the search was ended by {limit} after {rounds} of {self.settings.n_rounds} rounds; raise it"
            return (Note(Outcome.BUDGET_SPENT, sentence),)
        return ()

    # ---- the descent ---------------------------------------------------------------------------------------------

    def _descend(self, rounds: int, bar: Bar) -> None:
        """A round judges the knots that it begins with, so the last ones are measured once more."""
        knots, how = self.knots, Shortening(samples=self.settings.n_samples)
        for number in range(rounds):
            length, pull = length_force(self.score, self.metric, knots, self.examples, self._positions(number), how)
            self.line = length if number == 0 else self.line
            self._keep(knots, length, bent=number > 0)
            knots = self._step(knots, pull, number)
            bar.advance(len(length), f"length {float(self.ratio.median()):.3f} of the line")
        length = sampled_length(self.score, self.metric, knots, self.examples, self._positions(rounds))
        self._keep(knots, length, bent=True)

    def _positions(self, number: int) -> Tensor:
        return jitter_positions(self.run, self._segments, self.settings.n_samples, self.start, FIRST_DRAW + number)

    def _keep(self, knots: Tensor, length: Tensor, *, bent: bool) -> None:
        """Knots become the best so far where they look better: a place without a finite length never does."""
        ratio = length / self.line
        # Σ‖step‖² relative to that of the line, less 1: zero for the line, whatever is rounded.
        none = torch.zeros_like(knots[:, :1])
        away = torch.cat([none, knots[:, 1:-1] - self._line(), none], 1)
        stretch = (norms(away.diff(dim=1), 2) ** 2).sum(1) * self._segments / self._distance**2
        objective = ratio + self.settings.stiffness * stretch
        better = objective < self.best  # false for what is no number
        self.best = torch.where(better, objective, self.best)
        self.ratio, self.stretch = torch.where(better, ratio, self.ratio), torch.where(better, stretch, self.stretch)
        self.knots = torch.where(per_row(better, knots), knots, self.knots)
        self.bent |= better & bent

    def _step(self, knots: Tensor, pull: Tensor, number: int) -> Tensor:
        """Knots after a step towards where tension and the pull of length are in balance.

        Tension is linear in the distance from the line, so that this place is known. Pulls are noisy: steps become
        smaller in such a way that it is their mean which counts.
        """
        inner, stiffness = knots[:, 1:-1], self.settings.stiffness
        pull = torch.einsum("kl,bl...->bk...", self._inverse, per_row(1 / self.line, pull) * pull[:, 1:-1])
        move = -per_row(self._distance**2 / (2 * self._segments), pull) * pull - stiffness * (inner - self._line())
        move = torch.where(per_row(torch.isfinite(norms(move, 1)), move), move, 0)
        largest = norms(move, 2).amax(1).clamp_min(torch.finfo(move.dtype).tiny)
        most = STEP * self._distance / largest
        share = most if stiffness == 0 else most.clamp_max(1 / stiffness)
        inner = inner + per_row(share / (number + 2), move) * move
        inner = self._make_rising(inner) if self.settings.monotone else inner
        return torch.cat([knots[:, :1], inner, knots[:, -1:]], 1)

    def _make_rising(self, inner: Tensor) -> Tensor:
        """The nearest knots x̄ + s ∘ (x − x̄) with one s per group, then with every s rising from 0 to 1."""
        start, way = self.start[:, None], (self.end - self.start)[:, None]
        along, square = (inner - self._line()) * way, (way**2).expand_as(inner)
        if self.labels is not None:
            along, square = self._sum_groups(along), self._sum_groups(square)
        s = self.t + torch.where(square > 0, along / square, 0)
        # Half-way between the lowest rising course above and the highest below; one that rises stays as it is.
        s = (s.cummax(1).values + s.flip(1).cummin(1).values.flip(1)) / 2
        # In this form rounding keeps the order of the knots; the box must not be left by the last digit either.
        low, high = torch.minimum(self.start, self.end)[:, None], torch.maximum(self.start, self.end)[:, None]
        return (start + s.clamp(0, 1) * way).clamp(low, high)

    def _sum_groups(self, values: Tensor) -> Tensor:
        """Sums over the groups, at every feature of the group: (batch, n_knots, *features) -> the same."""
        assert self.labels is not None
        flat = values.flatten(2)
        where = self.labels[:, None].expand_as(flat)
        sums = flat.new_zeros(*flat.shape[:2], int(self.labels.max()) + 1).scatter_add_(2, where, flat)
        return sums.gather(2, where).view_as(values)

    def _line(self) -> Tensor:
        """The knots of the straight line between its ends: (batch, n_knots, *features)."""
        return self.start[:, None] + self.t * (self.end - self.start)[:, None]


def _begin(
    settings: ElasticBand, score: BoundScore, metric: Metric, run: Run, examples: Tensor, start: Tensor, end: Tensor,
    labels: Tensor | None,
) -> _Band:  # fmt: skip
    """The straight lines of a block of examples, of whose lengths nothing is known yet."""
    t = torch.linspace(0, 1, settings.n_knots + 2, device=start.device, dtype=start.dtype)[1:-1]
    t = t.view(1, -1, *[1] * (start.ndim - 1))
    line = start[:, None] + t * (end - start)[:, None]
    unknown = start.new_full((len(start),), torch.nan)
    one, none = torch.ones_like(unknown), torch.zeros_like(unknown)
    labels = None if labels is None else labels.to(start.device)
    knots = torch.cat([start[:, None], line, end[:, None]], 1)
    return _Band(
        settings, score, metric, run, examples, start, end, labels, t, knots,
        best=torch.full_like(unknown, torch.inf), line=unknown, ratio=one, stretch=none, bent=none.bool(),
    )  # fmt: skip
