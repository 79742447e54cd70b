"""Weightings and quadrature: what each gradient along a path adds, and the sums of that over pieces of segments.

Quadrature holds at most one model batch of gradients, for any number of steps.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Literal, NamedTuple, Protocol, runtime_checkable

import numpy as np
import torch
from torch import Tensor

from leastpath._support.checks import check_settings_of
from leastpath._support.rows import norms, per_row
from leastpath.geometry.metric import Euclidean, FeatureMetric, Metric, compares_features, speed_of
from leastpath.score.derivatives import read_features
from leastpath.score.score import BoundScore

By = Literal["segment", "length"]


@runtime_checkable
class Weighting(Protocol):
    """What each gradient adds to the attribution: `finish(Σ weight · weigh(gradient, step), step)`.

    Example:
        >>> import leastpath as lp
        >>> lp.PathIntegral().complete, lp.AsPrinted().complete
        (True, False)
    """

    @property
    def complete(self) -> bool:
        """Whether attributions add up to Δf in the limit, which error control needs."""
        ...

    def weigh(self, gradient: Tensor, step: Tensor) -> Tensor:
        """What is summed: gradient (rows, nodes, *features), step (rows, 1, *features) -> (rows, nodes, *features)."""
        ...

    def finish(self, total: Tensor, step: Tensor) -> Tensor:
        """From the sum to attributions: total (rows, *features), step (rows, *features) -> (rows, *features)."""
        ...


@runtime_checkable
class WholePathWeighting(Weighting, Protocol):
    """A weighting that needs the whole path, after all its segments are summed. At fixed steps only.

    A segment must add the same in both directions, because a segment that examples share is integrated once.
    """

    @property
    def follows_score(self) -> bool:
        """Whether fixed steps are spread by change of score rather than by length."""
        ...

    def conclude(self, total: Tensor, length: Tensor, difference: Tensor) -> Tensor:
        """From the segments' sums `total` (batch, *features) over a path to its attributions (batch, *features).

        `length` (batch,) is the path's Euclidean length, `difference` (batch, *features) its last knot minus its first.
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
class IDGI:
    """Important Direction Gradient Integration (Yang et al. 2023): ∫ (∇f·γ̇) (∂ᵢf)² / ‖∇f‖² dt. Complete.

    Each step's change of score is divided by squared gradients, as if the step had gone along the gradient; movement
    across the gradient counts as noise. Where f is monotone along the path, all values have one sign.

    Example:
        >>> import torch, leastpath as lp
        >>> score = lp.Score(lambda x: 2 * x[:, 0] - x[:, 1])
        >>> lp.attribute(score, torch.ones(1, 2), method=lp.StraightLine(), weighting=lp.IDGI()).values
        tensor([[0.8000, 0.2000]])
    """

    complete: bool = True

    def weigh(self, gradient: Tensor, step: Tensor) -> Tensor:
        size = _inner(gradient, gradient)
        # Where the gradient is zero, so is the change of score.
        return gradient**2 * (_inner(gradient, step) / torch.where(size > 0, size, 1))

    def finish(self, total: Tensor, step: Tensor) -> Tensor:
        return total


@dataclass(frozen=True)
class IDG:
    """Integrated Decision Gradients (Walker et al. 2024): ∫ ∂ᵢf γ̇ᵢ · df/dα dα, with α the share of the path walked.

    Gradients count where the score changes, not where it is saturated; fixed steps are placed there too. Not complete:
    values scale with the square of the score.

    Example:
        >>> import torch, leastpath as lp
        >>> score = lp.Score(lambda x: 2 * x[:, 0] - x[:, 1])
        >>> lp.attribute(
        ...     score, torch.ones(1, 2), method=lp.StraightLine(), weighting=lp.IDG(), tolerance=None, n_steps=8
        ... ).values.round(decimals=3)
        tensor([[ 2., -1.]])
    """

    complete: bool = False
    follows_score: bool = True

    def weigh(self, gradient: Tensor, step: Tensor) -> Tensor:
        """The gradient times df/ds, s the Euclidean length: (rows, nodes, *features)."""
        size = _inner(step, step).sqrt()
        return gradient * (_inner(gradient, step) / torch.where(size > 0, size, 1))

    def finish(self, total: Tensor, step: Tensor) -> Tensor:
        return total * step

    def conclude(self, total: Tensor, length: Tensor, difference: Tensor) -> Tensor:
        """Times the length, since df/dα = length · df/ds: (batch, *features)."""
        return total * per_row(length, total)


@dataclass(frozen=True)
class AsPrinted:
    """The paper's equation as printed, (xᵢ − x̄ᵢ) Σₖ ∫₀¹ ∂ᵢf dt over the segments k of the path. Not complete.

    The straight difference multiplies gradients of a curved path, and every segment counts the same, however short: a
    segment cut in two counts twice. For comparison only; on a path of one segment it is the line integral.

    Args:
        by: "segment", the equation to the letter; "length", the authors' code for variational paths, which multiplies
            each segment by its Euclidean length.

    Example:
        >>> import torch, leastpath as lp
        >>> score = lp.Score(lambda x: 2 * x[:, 0] - x[:, 1])
        >>> lp.attribute(
        ...     score, torch.ones(1, 2), method=lp.StraightLine(), weighting=lp.AsPrinted(), tolerance=None, n_steps=8
        ... ).values
        tensor([[ 2., -1.]])
    """

    by: By = "segment"
    complete: bool = False
    follows_score: bool = False

    def __post_init__(self) -> None:
        check_settings_of(self)

    def weigh(self, gradient: Tensor, step: Tensor) -> Tensor:
        return gradient

    def finish(self, total: Tensor, step: Tensor) -> Tensor:
        """The mean gradient of a segment, times its length if asked: (rows, *features)."""
        if self.by == "segment":
            return total
        return total * per_row(norms(step, 1), total)

    def conclude(self, total: Tensor, length: Tensor, difference: Tensor) -> Tensor:
        return total * difference


def _inner(a: Tensor, b: Tensor) -> Tensor:
    """Inner products over the features of (rows, nodes, *features): (rows, nodes, 1, …), fit to multiply them."""
    return per_row((a * b).reshape(*torch.broadcast_shapes(a.shape[:2], b.shape[:2]), -1).sum(2), a)


# ---- rules ---------------------------------------------------------------------------------------------------------

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
    """Nodes in [0, 1] and weights that sum to one, both (n,), in the dtype and on the device of `like`."""
    return _nodes(rule, n, like.dtype, like.device)


@lru_cache(maxsize=64)
def _nodes(rule: str, n: int, dtype: torch.dtype, device: torch.device) -> tuple[Tensor, Tensor]:
    """Made once: nobody writes on them."""
    with torch.inference_mode(False):  # whoever asks first, others may differentiate with them
        # Cast on the CPU first: MPS has no float64 at all.
        nodes, weights = (torch.as_tensor(part).to(dtype).to(device) for part in RULES[rule](n))
    return nodes, weights


# ---- pieces --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Pieces:
    """Parts of straight segments, from `start + t0 · step` to `start + t1 · step`, with the score of `example`."""

    points: Tensor  # (n_points, *features) the path's knots
    tail: Tensor  # (pieces,) rows of points
    head: Tensor  # (pieces,)
    example: Tensor  # (pieces,)
    t0: Tensor  # (pieces,) float64, on the CPU: float32 could not tell small pieces apart
    t1: Tensor  # (pieces,)

    @classmethod
    def whole(cls, points: Tensor, tail: Tensor, head: Tensor, example: Tensor) -> Pieces:
        """Whole segments between rows of `points`, each with the score of its `example` (segments,)."""
        zeros = torch.zeros(len(tail), dtype=torch.float64)
        return cls(points, tail, head, example, zeros, torch.ones_like(zeros))

    def __len__(self) -> int:
        return self.tail.shape[0]

    def take(self, rows: Tensor) -> Pieces:
        """Some of the pieces (rows,)."""
        columns = (self.tail, self.head, self.example, self.t0, self.t1)
        return Pieces(self.points, *(of.index_select(0, rows) for of in columns))

    def ends(self, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        """First and last point of each whole segment: (pieces, *features) twice."""
        points, device = self.points, self.points.device
        tail, head = (points.index_select(0, rows.to(device)).to(dtype) for rows in (self.tail, self.head))
        return tail, head

    def at(self, t: Tensor, dtype: torch.dtype) -> Tensor:
        """The point of each segment at parameter t (pieces,): (pieces, *features). Exact at the knots."""
        start, end = self.ends(dtype)
        return torch.lerp(start, end, per_row(t.to(dtype).to(start.device), start))


class Estimate(NamedTuple):
    """What quadrature says of each piece."""

    attributions: Tensor  # (pieces, *features)
    length: Tensor  # (pieces,)
    low: Tensor  # (pieces,) smallest and largest score met
    high: Tensor  # (pieces,)

    @staticmethod
    def join(estimates: Sequence[Estimate]) -> Estimate:
        """One estimate of several, in order."""
        return estimates[0] if len(estimates) == 1 else Estimate(*map(torch.cat, zip(*estimates, strict=True)))


@dataclass(frozen=True)
class KnownSegments:
    """Segments that a solver has measured already, so that the integrator only verifies them.

    Each is one piece, or several that cover it. `tail` and `head` are rows of the path's points, `group` is that of
    `BoundScore.groups`: (pieces,) each.
    """

    tail: Tensor
    head: Tensor
    group: Tensor
    estimate: Estimate
    span: Tensor | None = None  # (pieces, 2) float64, from where to where on its segment; None: all of it

    @staticmethod
    def join(parts: Sequence[KnownSegments]) -> KnownSegments:
        """Several as one, in order; all of them have spans, or none has."""
        spans = [part.span for part in parts if part.span is not None]
        tail, head, group = (torch.cat([getattr(part, of) for part in parts]) for of in ("tail", "head", "group"))
        estimate = Estimate.join([part.estimate for part in parts])
        return KnownSegments(tail, head, group, estimate, torch.cat(spans) if spans else None)

    def renumber(self, rows: Tensor) -> KnownSegments:
        """The same over points that are in other `rows` (n_points,) now."""
        return replace(self, tail=rows[self.tail], head=rows[self.head])

    def find(self, tail: Tensor, head: Tensor, group: Tensor, n_points: int) -> tuple[Tensor, Tensor]:
        """The pieces of wanted segments (m,): which of these each belongs to, and its row here, (found,) twice."""
        keys, wanted = (
            (g * n_points + torch.minimum(a, b)) * n_points + torch.maximum(a, b)
            for a, b, g in ((self.tail, self.head, self.group), (tail, head, group))
        )
        keys, order = torch.sort(keys, stable=True)
        first, last = (torch.searchsorted(keys, wanted, right=right) for right in (False, True))
        count = last - first
        of = torch.arange(len(wanted)).repeat_interleave(count)
        place = torch.arange(len(of)) - (count.cumsum(0) - count)[of]
        return of, order[first[of] + place]

    def spans(self, rows: Tensor, forward: Tensor) -> tuple[Tensor, Tensor]:
        """Beginnings and ends of some pieces (rows,), as who walks them `forward` or not (rows,) counts them."""
        span = torch.tensor([[0.0, 1.0]], dtype=torch.float64).expand(len(rows), 2)
        span = span if self.span is None else self.span[rows]
        t0, t1 = torch.where(forward[:, None], span, 1 - span.flip(1)).unbind(1)
        return t0, t1


def quadrature(
    score: BoundScore, pieces: Pieces, metric: Metric, rule: str, n: int, weighting: Weighting | None = None, *,
    strict: bool = True,
) -> Estimate:  # fmt: skip
    """Attributions, length and range of the score over each piece, with `n` gradients per piece.

    `strict` is that of `BoundScore.gradients`.
    """
    if len(pieces) > score.batch_size:
        blocks = (pieces.take(rows) for rows in torch.arange(len(pieces)).split(score.batch_size))
        return Estimate.join([quadrature(score, b, metric, rule, n, weighting, strict=strict) for b in blocks])
    weighting = weighting or PathIntegral()
    dtype, m = score.work_dtype, len(pieces)
    start, end = pieces.ends(dtype)
    step = end - start
    t0, span = (t.to(dtype).to(start.device) for t in (pieces.t0, pieces.t1 - pieces.t0))  # (m,)
    nodes, weights = rule_nodes(rule, n, start)
    t = t0[:, None] + span[:, None] * nodes  # (m, n)
    per_call = max(1, score.batch_size // max(1, m))
    total, values, speeds = torch.zeros_like(start), [], []
    held = start.new_empty(m * min(n, per_call), *start.shape[1:])  # allocated once: a new one each time is slow
    start, end, steps = (of.unsqueeze(1) for of in (start, end, step))  # (m, 1, *features)
    for w, some in zip(weights.split(per_call), t.split(per_call, 1), strict=True):
        k = some.shape[1]
        points = torch.lerp(start, end, per_row(some, start), out=held[: m * k].view(m, k, *step.shape[1:]))
        flat = points.flatten(0, 1)  # (m · k, *features)
        examples = pieces.example if k == 1 else pieces.example.repeat_interleave(k)
        value, gradient = score.gradients(flat, examples, strict=strict)
        values.append(value.view(m, k))
        if not compares_features(metric):
            speed = speed_of(metric, flat, gradient, steps.expand_as(points).flatten(0, 1))
            speeds.append(speed.view(m, k) @ w)
        weighed = weighting.weigh(gradient.view_as(points), steps)
        if k == 1:  # the common case for large inputs, in one pass over memory
            total.add_(weighed[:, 0], alpha=float(w))
        else:
            total += torch.einsum("k,mk...->m...", w, weighed)
    attributions = weighting.finish(total, step) * per_row(span, step)
    lengths = chords(score, pieces, metric, n, strict=strict) if compares_features(metric) else sum(speeds) * span
    return Estimate(attributions, lengths, *torch.cat(values, 1).aminmax(dim=1))


def integrate_lines(score: BoundScore, start: Tensor, end: Tensor, examples: Tensor, n_steps: int) -> Tensor:
    """Attributions along any number of straight lines, with `n_steps` gradients each: (lines, *features).

    Args:
        score: what is explained.
        start: (lines, *features).
        end: (lines, *features).
        examples: (lines,) whose score counts on each line; an example may have several.
        n_steps: nodes of Gauss–Legendre quadrature.

    Example:
        >>> import leastpath as lp
        >>> bound = lp.Score(lambda x: x.prod(1)).bind(torch.ones(1, 2))
        >>> integrate_lines(bound, torch.zeros(1, 2), torch.ones(1, 2), torch.tensor([0]), 3)
        tensor([[0.5000, 0.5000]])
    """
    tail = torch.arange(len(start))
    pieces = Pieces.whole(torch.cat([start, end]), tail, tail + len(start), examples)
    return quadrature(score, pieces, Euclidean(), "gauss_legendre", n_steps).attributions


def chords(score: BoundScore, pieces: Pieces, metric: FeatureMetric, n: int, *, strict: bool = True) -> Tensor:
    """The length of each piece as a sum of `n` distances: (pieces,). Costs n + 1 forwards per piece.

    It is never above the true length, since a distance is never above the length of a way between two points.
    """
    if len(pieces) > score.batch_size:
        blocks = (pieces.take(rows) for rows in torch.arange(len(pieces)).split(score.batch_size))
        return torch.cat([chords(score, block, metric, n, strict=strict) for block in blocks])
    dtype, device = score.work_dtype, pieces.points.device
    total = torch.zeros(len(pieces), dtype=dtype, device=device)
    if not len(pieces):
        return total
    before, at = None, None
    for share in torch.linspace(0, 1, n + 1, dtype=torch.float64):
        point = pieces.at(torch.lerp(pieces.t0, pieces.t1, share), dtype)
        features = read_features(score, point, pieces.example, metric, strict=strict)
        if before is not None and at is not None:
            total += metric.distance(before, features, point - at).to(dtype)
        before, at = features, point
    return total
