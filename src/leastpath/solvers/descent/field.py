"""Field: the score and the metric, sampled along stacks of polylines.

Random numbers depend on seed and draw number alone, so that a batch gives what a loop gives.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from leastpath._support.rows import flat_rows, norms, per_row
from leastpath.account.run import Bar, Budget, Run
from leastpath.geometry.metric import Metric
from leastpath.geometry.path import real_segments
from leastpath.integral.block import extreme_by, sum_by
from leastpath.integral.integrator import FIRST_GRADIENTS
from leastpath.integral.pieces import Estimate
from leastpath.score.score import BoundScore
from leastpath.solvers.shorten import coarse
from leastpath.solvers.solution import Stop

LINE_PIECES = FIRST_GRADIENTS // 2  # as many as a first measurement would take


@dataclass
class PathSamples:
    """What is known at n positions of each polyline: (rows, n), and (rows, n, *features) where it says so."""

    points: Tensor  # (rows, n, *features)
    steps: Tensor  # (rows, n, *features) the segment that a point lies on
    value: Tensor
    gradient: Tensor  # (rows, n, *features); zero where the model has none
    speed: Tensor  # of the segment; infinite where the model has no finite gradient

    def row(self, i: int) -> PathSamples:
        """What is known of one polyline: (n,) and (n, *features)."""
        return PathSamples(*(part[i] for part in self._parts))

    def blank(self, rows: int, n: int) -> PathSamples:
        """Room for n samples of each of some other polylines."""
        return PathSamples(*(part.new_zeros(rows, n, *part.shape[2:]) for part in self._parts))

    def put(self, rows: Tensor, other: PathSamples, of: Tensor) -> None:
        """The first samples of the polylines `of` (m,) take the place of those of `rows` (m,)."""
        for part, new in zip(self._parts, other._parts, strict=True):
            part[rows] = new[of, : part.shape[1]]

    def take(self, rows: Tensor) -> PathSamples:
        """Those of some polylines (rows,)."""
        return PathSamples(*(part[rows] for part in self._parts))

    @staticmethod
    def join(several: Sequence[PathSamples]) -> PathSamples:
        """All samples of the same polylines."""
        return PathSamples(*(torch.cat(parts, 1) for parts in zip(*(some._parts for some in several), strict=True)))

    @property
    def _parts(self) -> tuple[Tensor, ...]:
        return self.points, self.steps, self.value, self.gradient, self.speed


def segment_estimates(path: Tensor, samples: PathSamples, positions: Tensor) -> tuple[Tensor, Estimate]:
    """What samples of one polyline (knots, *features) at `positions` (n,) say of its segments.

    The segments (m,) that have a sample, all finite, as the polyline without repeated knots numbers them, and the
    estimate of each.
    """
    k = positions.floor().long().clamp(0, len(path) - 2)
    real = real_segments(path)
    bad = torch.zeros_like(real).index_fill_(0, k[~torch.isfinite(samples.speed)], True)
    seen = torch.zeros_like(real).index_fill_(0, k, True) & real & ~bad
    number = (real.cumsum(0) - 1)[seen]
    place, use = (seen.cumsum(0) - 1)[k], seen[k]
    place, n = place[use], int(seen.sum())
    count = torch.bincount(place, minlength=n).to(samples.speed)
    gradient = samples.gradient.new_zeros(n, *path.shape[1:]).index_add_(0, place, samples.gradient[use])
    attributions = gradient * path.diff(dim=0)[seen] / per_row(count, gradient)
    length = count.new_zeros(n).index_add_(0, place, samples.speed[use]) / count
    low, high = (extreme_by(samples.value[use], place, n, reduce) for reduce in ("amin", "amax"))
    return number.cpu(), Estimate(attributions, length, low, high)


def line_estimates(samples: PathSamples) -> tuple[Tensor, Estimate]:
    """What evenly spread samples of straight lines (rows, n) say of a few pieces of each.

    Where each piece begins and ends (pieces, 2), and their estimates (rows · pieces).
    """
    rows, n = samples.speed.shape
    edges = torch.linspace(0, n, min(LINE_PIECES, n) + 1).round().long()
    count = edges.diff()
    piece = torch.arange(len(count)).repeat_interleave(count).to(samples.speed.device).repeat(rows)
    index = piece + torch.arange(rows, device=piece.device).repeat_interleave(n) * len(count)
    total = rows * len(count)

    def sum_samples(of: Tensor) -> Tensor:  # each sample stands for one part of n of the line
        return sum_by(of.flatten(0, 1), index, total) / n

    value = samples.value.flatten()
    low, high = (extreme_by(value, index, total, reduce) for reduce in ("amin", "amax"))
    span = torch.stack([edges[:-1], edges[1:]], 1).double() / n
    return span, Estimate(sum_samples(samples.gradient * samples.steps), sum_samples(samples.speed), low, high)


@dataclass
class Field:
    """Some examples of a call, and what may be spent on each of them."""

    score: BoundScore
    metric: Metric
    stop: Stop  # of the call
    budget: Budget  # with a limit
    examples: Tensor  # (batch,) their numbers in the bound score, on the CPU
    start: Tensor  # (batch, *features) in the working dtype
    end: Tensor
    resolution: int | None = None
    bar: Bar = field(default_factory=Bar)

    def __post_init__(self) -> None:
        self.distance = norms(self.end - self.start, 1)  # (batch,)
        self.limit = int(self.budget.least_left(self.examples))  # gradients per example, from now on
        self._before = self.budget.spent(self.examples)
        self._shown = 0.0

    @property
    def run(self) -> Run:
        """The run of the call."""
        return self.stop.run

    @property
    def spent(self) -> Tensor:
        """(batch,) gradients that this solve has cost each example."""
        return self.budget.spent(self.examples) - self._before

    def affords(self, rows: Tensor, cost: float) -> Tensor:
        """(n,) whether `rows` (n,) may spend `cost` gradients more."""
        return self.budget.affords(cost, self.examples[rows.cpu()]).to(rows.device)

    def show(self, ratio: Tensor) -> None:
        """Move the progress bar to what has been spent; `ratio` (n,) are sampled lengths relative to the line's."""
        known = ratio[torch.isfinite(ratio)]
        total = float(self.spent.sum())
        self.bar.advance(total - self._shown, f"length {float(known.median()):.3f} of the line" if len(known) else "")
        self._shown = total

    def gradient(self, points: Tensor, rows: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """f (n,), its gradient (n, *features) and whether both are finite (n,), at trial `points` (n, *features)."""
        value, gradient = self.score.gradients(points, self.examples[rows.cpu()], strict=False)
        finite = torch.isfinite(value) & torch.isfinite(flat_rows(gradient)).all(1)
        return value, torch.where(per_row(finite, gradient), gradient, 0), finite

    def sample(self, paths: Tensor, positions: Tensor, rows: Tensor) -> PathSamples:
        """paths (rows, knots, *features) at positions (rows, n), which count segments from the start."""
        n = positions.shape[1]
        k = positions.floor().long().clamp(0, paths.shape[1] - 2)
        each = torch.arange(len(paths), device=paths.device)[:, None]
        a, b = paths[each, k], paths[each, k + 1]
        points, steps = torch.lerp(a, b, per_row(positions - k, a)), b - a
        flat, flat_steps = points.flatten(0, 1), steps.flatten(0, 1)
        value, gradient, finite = self.gradient(flat, rows.repeat_interleave(n))
        speed = torch.where(finite, self.metric.speed(flat, gradient, flat_steps), torch.inf)
        return PathSamples(points, steps, value.view(-1, n), gradient.view_as(points), speed.view(-1, n))

    def speed(self, points: Tensor, steps: Tensor, rows: Tensor) -> Tensor:
        """(n,) of steps (n, *features) at points (n, *features); infinite where the model has no finite gradient."""
        _, gradient, finite = self.gradient(points, rows)
        return torch.where(finite, self.metric.speed(points, gradient, steps), torch.inf)

    def spread_out(self, paths: Tensor, n: int, draw: int) -> tuple[Tensor, Tensor]:
        """n jittered positions of each path and their weights, (rows, n) both: Σ weight · speed is its length.

        Half of them go by Euclidean length and half by segment: short segments are often the steep ones.
        """
        size = norms(paths.diff(dim=1), 2)  # (rows, segments)
        tiny = torch.finfo(size.dtype).tiny
        real = (size > 0).to(size)
        density = size / size.sum(1, True).clamp_min(tiny) + real / real.sum(1, True).clamp_min(1)
        density = density / density.sum(1, True).clamp_min(tiny)
        edges = torch.cat([torch.zeros_like(size[:, :1]), density.cumsum(1)], 1)
        jitter = self.run.uniform((n,), size, draw)
        u = (torch.arange(n, device=size.device, dtype=size.dtype) + jitter) / n * edges[:, -1:]
        k = (torch.searchsorted(edges, u, right=True) - 1).clamp(0, size.shape[1] - 1)
        mass = density.gather(1, k).clamp_min(tiny)
        fraction = ((u - edges.gather(1, k)) / mass).clamp(0, 1 - 1e-6)
        return k + fraction, 1 / (n * mass)

    def one_each(self, paths: Tensor, n: int, draw: int) -> tuple[Tensor, Tensor]:
        """`spread_out`, but first a position on every segment, if there are so many."""
        rows, segments = len(paths), paths.shape[1] - 1
        if n < segments:
            return self.spread_out(paths, n, draw)
        jitter = self.run.uniform((segments,), paths, draw + 1)
        first = (torch.arange(segments, device=paths.device) + jitter.clamp_max(1 - 1e-6)).expand(rows, -1)
        share = segments / n  # of all positions, so of the length
        if n == segments:
            return first, torch.ones_like(first)
        more, weights = self.spread_out(paths, n - segments, draw)
        return torch.cat([first, more], 1), torch.cat([share * torch.ones_like(first), (1 - share) * weights], 1)

    def length(self, paths: Tensor, n: int, rows: Tensor, draw: int) -> Tensor:
        """Lengths (rows,) by n samples each: for rough comparisons, not for measurements."""
        positions, weights = self.spread_out(paths, n, draw)
        return (self.sample(paths, positions, rows).speed * weights).sum(1)

    def smooth(self, direction: Tensor) -> Tensor:
        """(…, *features) on the coarse grid of `resolution`, if it is set."""
        return direction if self.resolution is None else coarse(direction, self.resolution)
