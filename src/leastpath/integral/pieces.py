"""Quadrature on straight segments: rules as data, and the loop that applies one to many segments.

The loop is the hot path. It holds at most one model batch of gradients and one sum a segment, whatever the number of
steps.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Protocol, runtime_checkable

import numpy as np
import torch
from torch import Tensor

from leastpath.bound import BoundScore
from leastpath.metric import Metric, length

Nodes = tuple[np.ndarray, np.ndarray]


def _midpoint(n: int) -> Nodes:
    return (np.arange(n) + 0.5) / n, np.full(n, 1 / n)


def _trapezoid(n: int) -> Nodes:
    if n == 1:
        return _midpoint(1)  # two ends do not fit in one step
    weights = np.full(n, 1 / (n - 1))
    weights[[0, -1]] /= 2
    return np.linspace(0, 1, n), weights


def _gauss_legendre(n: int) -> Nodes:
    nodes, weights = np.polynomial.legendre.leggauss(n)
    return (nodes + 1) / 2, weights / 2


RULES: dict[str, Callable[[int], Nodes]] = {
    "gauss_legendre": lru_cache(maxsize=256)(_gauss_legendre),
    "midpoint": _midpoint,
    "trapezoid": _trapezoid,
}


def rule_nodes(rule: str, n: int, like: Tensor) -> tuple[Tensor, Tensor]:
    """Nodes in [0, 1] and weights that sum to one, both (n,), in the dtype and on the device of `like`.

    Example:
        >>> nodes, weights = rule_nodes("gauss_legendre", 3, torch.zeros(1))
        >>> round(float(weights.sum()), 6)
        1.0
    """
    if rule not in RULES:
        raise ValueError(f"rule={rule!r} is unknown: use one of {sorted(RULES)}")
    if n < 1:
        raise ValueError(f"a rule needs at least one step, got {n}")
    nodes, weights = RULES[rule](n)
    # Cast on the CPU first: MPS has no float64 at all.
    return torch.as_tensor(nodes).to(like.dtype).to(like.device), torch.as_tensor(weights).to(like.dtype).to(
        like.device
    )


class Weighting(Protocol):
    """What each gradient adds to the attribution: `finish(Σ weight · weigh(gradient, step), step)`.

    Example:
        >>> import leastpath as lp
        >>> lp.PathIntegral().complete, lp.AsPrinted().complete
        (True, False)
    """

    @property
    def complete(self) -> bool:
        """Whether attributions add up to Δf in the limit, which is what error control relies on."""
        ...

    def weigh(self, gradient: Tensor, step: Tensor) -> Tensor:
        """What is summed: gradient (rows, nodes, *features), step (rows, 1, *features) -> (rows, nodes, *features)."""
        ...

    def finish(self, total: Tensor, step: Tensor) -> Tensor:
        """From the sum to attributions: total (rows, *features), step (rows, *features) -> (rows, *features)."""
        ...


@runtime_checkable
class WholePathWeighting(Weighting, Protocol):
    """A weighting that looks at the whole path once all its segments are summed. At fixed steps only.

    A segment walked backwards must add the same as forwards, since what several examples share is integrated once.
    """

    @property
    def follows_score(self) -> bool:
        """Whether fixed steps go where the score changes, rather than being spread by length."""
        ...

    def conclude(self, total: Tensor, length: Tensor, difference: Tensor) -> Tensor:
        """From sums over a path to its attributions: (batch, *features).

        Args:
            total: (batch, *features) the segments' sums.
            length: (batch,) the path's Euclidean length.
            difference: (batch, *features) its last knot minus its first.
        """
        ...


@dataclass(frozen=True)
class PathIntegral:
    """∂ᵢf · γ̇ᵢ: the line integral, complete on every path.

    Example:
        >>> PathIntegral().finish(torch.full((1, 2), 2.0), torch.tensor([[1.0, 3.0]]))
        tensor([[2., 6.]])
    """

    complete: bool = True

    def weigh(self, gradient: Tensor, step: Tensor) -> Tensor:
        """The gradient itself, since on a straight segment the step is the same everywhere."""
        return gradient

    def finish(self, total: Tensor, step: Tensor) -> Tensor:
        """The mean gradient times the step: (rows, *features)."""
        return total * step


@dataclass(frozen=True)
class Pieces:
    """Parts of straight segments: from `start + t0 · step` to `start + t1 · step`, judged as example `example`."""

    points: Tensor  # (n_points, *features) the path's knots
    tail: Tensor  # (pieces,) rows of points
    head: Tensor  # (pieces,)
    example: Tensor  # (pieces,)
    t0: Tensor  # (pieces,) float64, on the CPU: bookkeeping must not lose what float32 cannot hold
    t1: Tensor  # (pieces,)

    def __len__(self) -> int:
        return len(self.tail)

    def take(self, rows: Tensor | slice) -> Pieces:
        """Some of the pieces."""
        return Pieces(self.points, self.tail[rows], self.head[rows], self.example[rows], self.t0[rows], self.t1[rows])

    def ends(self, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        """First and last point of each whole segment: (pieces, *features) twice."""
        device = self.points.device
        return self.points[self.tail.to(device)].to(dtype), self.points[self.head.to(device)].to(dtype)

    def at(self, t: Tensor, dtype: torch.dtype) -> Tensor:
        """The point of each segment at parameter t (pieces,): (pieces, *features). Exact at the knots."""
        start, end = self.ends(dtype)
        return torch.lerp(start, end, t.to(dtype).to(start.device).view(-1, *[1] * (start.ndim - 1)))


@dataclass(frozen=True)
class Estimate:
    """What quadrature says of each piece."""

    attributions: Tensor  # (pieces, *features)
    length: Tensor  # (pieces,)
    low: Tensor  # (pieces,) smallest and largest score met
    high: Tensor  # (pieces,)

    @property
    def parts(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """The four tensors, in order."""
        return self.attributions, self.length, self.low, self.high

    @staticmethod
    def join(estimates: Sequence[Estimate]) -> Estimate:
        """One estimate of several, in order."""
        if len(estimates) == 1:
            return estimates[0]
        return Estimate(*(torch.cat(parts) for parts in zip(*(e.parts for e in estimates), strict=True)))


@dataclass(frozen=True)
class KnownSegments:
    """Whole segments that a solver has looked at already, so that the integrator need not look twice.

    `tail` and `head` are rows of the path's points, `group` is that of `BoundScore.groups`: (segments,) each.
    """

    tail: Tensor
    head: Tensor
    group: Tensor
    estimate: Estimate

    def find(self, tail: Tensor, head: Tensor, group: Tensor, n_points: int) -> tuple[Tensor, Tensor]:
        """For wanted segments (m,) the row here, -1 where unknown, and +1 or -1 for the direction: (m,) twice."""
        keys, wanted = (
            (g * n_points + torch.minimum(a, b)) * n_points + torch.maximum(a, b)
            for a, b, g in ((self.tail, self.head, self.group), (tail, head, group))
        )
        order = torch.argsort(keys)
        row = order[torch.searchsorted(keys[order], wanted).clamp_max(len(keys) - 1)]
        found = keys[row] == wanted
        return torch.where(found, row, -1), torch.where(self.tail[row] == tail, 1, -1)


def quadrature(
    score: BoundScore,
    pieces: Pieces,
    metric: Metric,
    rule: str,
    n: int,
    weighting: Weighting | None = None,
    *,
    strict: bool = True,
) -> Estimate:
    """Attributions, length and range of the score over each piece, with `n` gradients a piece.

    Pieces and nodes are walked in blocks of at most `score.batch_size` rows, so memory does not grow with n. `strict`
    is that of `BoundScore.gradients`.
    """
    weighting = weighting or PathIntegral()
    blocks = []
    size = score.batch_size  # kept: it shrinks on the way when memory runs out
    for first in range(0, max(1, len(pieces)), size):
        block = pieces.take(slice(first, first + size))
        blocks.append(_quadrature_block(score, block, metric, rule, n, weighting, strict))
    return Estimate.join(blocks)


def _quadrature_block(
    score: BoundScore, pieces: Pieces, metric: Metric, rule: str, n: int, weighting: Weighting, strict: bool
) -> Estimate:
    dtype, m = score.work_dtype, len(pieces)
    start, end = pieces.ends(dtype)
    step = end - start
    t0, span = (t.to(dtype).to(start.device) for t in (pieces.t0, pieces.t1 - pieces.t0))  # (m,)
    nodes, weights = rule_nodes(rule, n, start)
    t = t0[:, None] + span[:, None] * nodes  # (m, n)
    total, values, speeds = torch.zeros_like(start), torch.empty_like(t), torch.empty_like(t)
    per_call = max(1, score.batch_size // max(1, m))
    held = start.new_empty(m * min(n, per_call), *start.shape[1:])  # once: a fresh one each time costs page faults
    for first in range(0, n, per_call):
        some = slice(first, first + per_call)
        w, k = weights[some], len(weights[some])
        where = t[:, some].reshape(m, k, *[1] * (start.ndim - 1))
        points = torch.lerp(start.unsqueeze(1), end.unsqueeze(1), where, out=held[: m * k].view(m, k, *start.shape[1:]))
        flat = points.flatten(0, 1)  # (m · k, *features)
        examples = pieces.example if k == 1 else pieces.example.repeat_interleave(k)
        value, gradient = score.gradients(flat, examples, strict=strict)
        values[:, some] = value.view(m, k)
        speeds[:, some] = metric.speed(flat, gradient, step.unsqueeze(1).expand_as(points).flatten(0, 1)).view(m, k)
        weighed = weighting.weigh(gradient.view_as(points), step.unsqueeze(1))
        if k == 1:  # the common case for large inputs, in one pass over memory
            total.add_(weighed[:, 0], alpha=float(w))
        else:
            total += torch.einsum("k,mk...->m...", w, weighed)
    attributions = weighting.finish(total, step) * span.view(m, *[1] * (start.ndim - 1))
    return Estimate(attributions, length(speeds, weights) * span, values.amin(1), values.amax(1))
