"""The elastic band: knots that start on the line and descend length plus stiffness × stretching.

The shortest path alone runs far from what lies between baseline and input: it crosses wherever the score is flat. The
band pays for every detour, so it bends only where that saves length. Forces are those of `shorten`: differences of
gradients, which see kinks, at positions that are drawn anew every round, so that no cliff hides between knots.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import torch
from torch import Tensor

from leastpath._support.checks import check_integer
from leastpath._support.rows import flat_rows, norms, per_row
from leastpath.bound import BoundScore
from leastpath.budget import Budget
from leastpath.metric import Euclidean, Metric
from leastpath.path import Path
from leastpath.run import Bar, Run
from leastpath.solution import Solution, joined, straight_with_note
from leastpath.solvers.elastic.groups import Groups, check_groups, group_labels
from leastpath.solvers.shorten import Shortening, jittered, length_force, sampled_length
from leastpath.status import Note, Outcome

FIRST_DRAW = 9000  # numbers of random draws, apart from those of other solvers
BLOCK_ELEMENTS = 2**27  # numbers held at once
SOLVER_SHARE = 0.5  # of the budget of `attribute`; the rest measures the path and the straight line
LINE = "the straight line was used"


@dataclass(frozen=True, eq=False)
class ElasticBand:
    """A path that bends where that saves length, and is otherwise straight: length plus stiffness × stretching.

    Minimises length / length of the line + stiffness · Σ‖step‖² / the same of the line. It is never longer than the
    line. It costs `(2 · n_rounds + 1) · n_samples · (n_knots + 1)` gradients an example.

    Args:
        stiffness: price of stretching. 0: only length counts; the larger, the nearer to the straight line.
        monotone: every feature goes from its baseline to its input without turning back: γ = x̄ + s ∘ (x − x̄), each s
            rising from 0 to 1. So what equals its baseline gets exactly nothing, no point leaves the box between
            baseline and input, and a feature that can only raise the score gets no negative value.
            False: knots move freely.
        groups: features that share one s, with `monotone`; values stay per feature. None: every feature has its own.
            "pixel": the channels of a pixel, for images (channels, height, width). A whole number p: patches of p × p
            pixels. "token": a token's vector, for (tokens, width). An integer tensor: labels of superpixels, one-hot
            blocks and so on, shaped like an input (channels may be left out), one for all or one for each input.

    Rarely needed:
        n_knots: that move, between the two ends.
        n_rounds: steps of the descent.
        n_samples: positions on each segment that a round looks at.
        rate: size of a step (Adam).

    Example:
        >>> import torch, leastpath as lp
        >>> score = lp.Score(lambda x: torch.sigmoid(8 * x[:, 0] * x[:, 1] - 4))
        >>> result = lp.attribute(score, torch.tensor([[1.0, 1.0, 0.0]]), solver=lp.ElasticBand())
        >>> bool(result.length_ratio <= 1), float(result.values[0, 2])
        (True, 0.0)
    """

    stiffness: float = 1.0
    monotone: bool = True
    groups: Groups = field(default=None)
    n_knots: int = 6
    n_rounds: int = 6
    n_samples: int = 2
    rate: float = 0.3

    def __post_init__(self) -> None:
        if not self.stiffness >= 0:
            raise ValueError(
                f"stiffness={self.stiffness} must be at least 0: 1 is a good start, as in ElasticBand(1.0)"
            )
        if not 0 < self.rate < math.inf:
            raise ValueError(f"rate={self.rate} must be a positive number: the step of a round, as in rate=0.3")
        for name in ("n_knots", "n_rounds", "n_samples"):
            check_integer(name, getattr(self, name), 1)
        check_groups(self.groups)
        if self.groups is not None and not self.monotone:
            raise ValueError("groups share one s, which only a monotone band has: pass monotone=True, or groups=None")

    def solve(self, score: BoundScore, metric: Metric, start: Tensor, end: Tensor, run: Run) -> Solution:
        """start, end (batch, *features) -> polylines of n_knots + 2 knots, or the line where nothing is better."""
        labels = None if self.groups is None else group_labels(self.groups, score.shape, score.row(len(start) - 1) + 1)
        if isinstance(metric, Euclidean) or self.stiffness == math.inf:
            return Solution(Path.straight(start, end))
        rounds = self._affordable_rounds(run.budget(score).share(SOLVER_SHARE))
        if not rounds:
            return straight_with_note(start, end, self._unaffordable(run))
        parts, interrupted = [], False
        with run.bar("elastic band", len(start) * rounds) as bar:
            for examples in torch.arange(len(start)).split(self._block(score.n_features)):
                rows = examples.to(start.device)
                ends = start[rows].to(score.work_dtype), end[rows].to(score.work_dtype)
                course = self._course(*ends, labels, [score.row(b) for b in examples.tolist()])
                band = _Band(self, score, metric, examples, course, run)
                band.interrupted = interrupted
                parts.append((examples, band.solution(rounds, bar)))
                interrupted = band.interrupted
        stats = {name: torch.cat([part.stats[name] for _, part in parts]) for name in parts[0][1].stats}
        whole = joined(parts)
        # The line stretches least, so a path that is longer than the line has the larger objective, too.
        return Solution(whole.path, whole.notes, stats, never_longer=True)

    def _course(self, start: Tensor, end: Tensor, labels: Tensor | None, rows: list[int]) -> _Course:
        if not self.monotone:
            return _Free(start, end, self.n_knots)
        own = labels if labels is None or len(labels) == 1 else labels[rows]
        return _Monotone(start, end, self.n_knots, None if own is None else own.to(start.device))

    def _looks(self) -> int:
        """Gradients that a look at a whole path takes; the force takes as many again."""
        return self.n_samples * (self.n_knots + 1)

    def _affordable_rounds(self, budget: Budget) -> int:
        return int(max(0, min(self.n_rounds, (budget.least_left() / self._looks() - 1) // 2)))

    def _unaffordable(self, run: Run) -> Note:
        sentence = (
            f"max_gradients={run.max_gradients} pays for no round of {2 * self._looks()} gradients and a look at the "
            f"end: {LINE}; raise it, or lower n_knots"
        )
        return Note(Outcome.BUDGET_SPENT, sentence)

    def _block(self, n_features: int) -> int:
        """Examples at work at once: each holds a few numbers for every feature of every sample and knot."""
        held = 8 * (self.n_samples + 1) * (self.n_knots + 1)
        return max(1, BLOCK_ELEMENTS // (held * n_features))


class _Course:
    """Knots (batch, n_knots + 2, *features) as a differentiable function of free numbers; zeros are the line."""

    def __init__(self, start: Tensor, end: Tensor, n_knots: int) -> None:
        self.start, self.end = start, end
        self.t = torch.linspace(0, 1, n_knots + 2, device=start.device, dtype=start.dtype)

    def zeros(self) -> Tensor:
        """The free numbers of the straight line, (batch, …)."""
        raise NotImplementedError

    def knots(self, numbers: Tensor) -> Tensor:
        """The polylines that these numbers stand for."""
        raise NotImplementedError


class _Free(_Course):
    """Each knot has a displacement of its own, in units of the root mean square of end − start."""

    def zeros(self) -> Tensor:
        return self.start.new_zeros(len(self.start), len(self.t) - 2, *self.start.shape[1:])

    def knots(self, numbers: Tensor) -> Tensor:
        unit = norms(self.end - self.start, 1) / max(1, flat_rows(self.start).shape[1]) ** 0.5
        inner = torch.lerp(
            self.start[:, None], self.end[:, None], self.t[1:-1].view(1, -1, *[1] * (self.start.ndim - 1))
        )
        inner = inner + per_row(unit, inner) * numbers
        return torch.cat([self.start[:, None], inner, self.end[:, None]], 1)


class _Monotone(_Course):
    """Each group of features goes a share of its way on every segment; the shares are a softmax of free numbers."""

    def __init__(self, start: Tensor, end: Tensor, n_knots: int, labels: Tensor | None) -> None:
        super().__init__(start, end, n_knots)
        self.labels = labels  # (1 or batch, all features); None: every feature is a group

    def zeros(self) -> Tensor:
        n = flat_rows(self.start).shape[1] if self.labels is None else int(self.labels.max()) + 1
        return self.start.new_zeros(len(self.start), len(self.t) - 1, n)

    def knots(self, numbers: Tensor) -> Tensor:
        share = numbers.softmax(1).cumsum(1)[:, :-1].clamp_max(1)  # (batch, n_knots, groups)
        if self.labels is not None:
            share = share.gather(2, self.labels[:, None].expand(len(share), share.shape[1], -1))
        share = share.view(*share.shape[:2], *self.start.shape[1:])
        start, end = self.start[:, None], self.end[:, None]
        # In this form rounding keeps the order of the knots; the box must not be left by the last digit either.
        inner = (start + share * (end - start)).clamp(torch.minimum(start, end), torch.maximum(start, end))
        return torch.cat([start, inner, end], 1)


class _Band:
    """One block of examples on its way: the best knots so far of each, beginning with the line."""

    def __init__(
        self, settings: ElasticBand, score: BoundScore, metric: Metric, examples: Tensor, course: _Course, run: Run
    ) -> None:
        self.settings, self.score, self.metric, self.examples = settings, score, metric, examples
        self.course, self.run = course, run
        self.how = Shortening(samples=settings.n_samples)
        self.knots = course.knots(course.zeros())
        self.best = torch.full_like(norms(course.start, 1), torch.inf)  # (batch,) objective
        self.line = torch.full_like(self.best, torch.nan)  # sampled length of the straight line
        self.ratio, self.stretch = torch.ones_like(self.best), torch.ones_like(self.best)
        self.interrupted = False

    def solution(self, rounds: int, bar: Bar) -> Solution:
        try:
            if not self.interrupted:
                self._descend(rounds, bar)
        except KeyboardInterrupt:
            self.interrupted = True
        bent, start, end = self._bent.cpu(), self.course.start, self.course.end
        counts = torch.where(bent, self.knots.shape[1], 2)
        offsets = torch.cat([torch.zeros(1, dtype=torch.long), counts.cumsum(0)])
        paths = [self.knots[b] if bent[b] else torch.stack([start[b], end[b]]) for b in range(len(start))]
        path = Path(torch.cat(paths), torch.arange(int(offsets[-1])), offsets)
        stats = {"sampled_ratio": self.ratio.float().cpu(), "stretch": self.stretch.float().cpu()}
        return Solution(path, tuple(self._note(b) for b in range(len(path))), stats)

    def _descend(self, rounds: int, bar: Bar) -> None:
        """Adam on the objective. A round judges the knots that it begins with, so the last ones need one more look."""
        numbers = self.course.zeros().requires_grad_()
        # Slopes of single features are tiny: nothing but zero may count as zero.
        adam = torch.optim.Adam([numbers], self.settings.rate, eps=torch.finfo(numbers.dtype).tiny)
        for number in range(rounds):
            with torch.enable_grad():
                knots = self.course.knots(numbers)
            length, pull = length_force(
                self.score, self.metric, knots.detach(), self.examples, self._positions(number), self.how
            )
            if number == 0:
                self.line = length
            self._keep(knots.detach(), length)
            pull = per_row(1 / self.line, pull) * pull + self.settings.stiffness * self._tension(knots.detach())
            numbers.grad = torch.autograd.grad(knots, numbers, torch.nan_to_num(pull, 0, 0, 0))[0]
            adam.step()
            bar.advance(len(length), f"length {float(self.ratio.median()):.3f} of the line")
        knots = self.course.knots(numbers.detach())
        self._keep(knots, sampled_length(self.score, self.metric, knots, self.examples, self._positions(rounds)))

    def _positions(self, number: int) -> Tensor:
        segments = self.settings.n_knots + 1
        return jittered(self.run, segments, self.settings.n_samples, self.course.start, FIRST_DRAW + number)

    def _keep(self, knots: Tensor, length: Tensor) -> None:
        """Knots become the best so far where they look better: a place without a finite length never does."""
        ratio, stretch = length / self.line, self._stretch(knots)
        objective = ratio + self.settings.stiffness * stretch
        better = objective < self.best  # false for what is not a number
        self.best = torch.where(better, objective, self.best)
        self.ratio, self.stretch = torch.where(better, ratio, self.ratio), torch.where(better, stretch, self.stretch)
        self.knots = torch.where(per_row(better, knots), knots, self.knots)

    def _stretch(self, knots: Tensor) -> Tensor:
        """Σ‖step‖² relative to that of the line: (batch,), at least 1."""
        return (norms(knots.diff(dim=1), 2) ** 2).sum(1) * (knots.shape[1] - 1) / self._square()

    def _tension(self, knots: Tensor) -> Tensor:
        """The derivative of `_stretch` by the knots; that by the ends is not needed."""
        bend = 2 * knots[:, 1:-1] - knots[:, :-2] - knots[:, 2:]
        force = torch.zeros_like(knots)
        force[:, 1:-1] = per_row(2 * (knots.shape[1] - 1) / self._square(), bend) * bend
        return force

    def _square(self) -> Tensor:
        """(batch,) squared distance of the ends."""
        square = norms(self.course.end - self.course.start, 1) ** 2
        return square.clamp_min(torch.finfo(square.dtype).tiny)

    @property
    def _bent(self) -> Tensor:
        """(batch,) whether something better than the line was found."""
        return self.stretch > 1 + 1e-6

    def _note(self, b: int) -> tuple[Note, ...]:
        if self.interrupted:
            what = "the best path so far is returned" if self._bent[b] else LINE
            return (Note(Outcome.INTERRUPTED, f"interrupted: {what}"),)
        if not math.isfinite(float(self.line[b])):
            return (Note(Outcome.FELL_BACK, "the gradient is NaN or infinite on the straight line, which was used"),)
        return ()
