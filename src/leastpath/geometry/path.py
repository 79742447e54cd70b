"""Path: a frozen polyline per example, as routes through shared points.

A dense batch of polylines and ragged routes through one graph are the same type: a pool of points, and for each example
the row numbers that it visits. A segment that several examples share is integrated once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from leastpath._support.checks import check_integer, check_tensor, show_value
from leastpath._support.rows import norms, per_row

REPEATED = 1e-6  # of a path's length: knots that are closer are one


@dataclass(frozen=True)
class Segments:
    """The distinct segments of a path, and which example walks which of them in which direction."""

    tail: Tensor  # (segments,) row of Path.points
    head: Tensor  # (segments,)
    owner: Tensor  # (segments,) an example whose score is used on the segment
    leg_segment: Tensor  # (legs,) every step of every route, in route order
    leg_example: Tensor  # (legs,)
    leg_sign: Tensor  # (legs,) +1 from tail to head, -1 the other way

    def __len__(self) -> int:
        return self.tail.shape[0]


@dataclass(frozen=True)
class Path:
    """One polyline per example.

    Args:
        points: (n_points, *features) the knots.
        route: (total,) rows of `points`, the examples' routes one after the other.
        offsets: (batch + 1,) where each route begins in `route`.

    Example:
        >>> path = Path.straight(torch.zeros(2, 3), torch.ones(2, 3))
        >>> len(path), path[0].shape
        (2, torch.Size([2, 3]))
    """

    points: Tensor
    route: Tensor
    offsets: Tensor

    def __post_init__(self) -> None:
        for name in ("points", "route", "offsets"):
            check_tensor(name, getattr(self, name))
        if self.route.is_floating_point() or self.offsets.is_floating_point():
            raise ValueError("route and offsets are row numbers: pass integer tensors")
        object.__setattr__(self, "route", self.route.cpu().long())
        object.__setattr__(self, "offsets", self.offsets.cpu().long())
        route, offsets = self.route.numpy(), self.offsets.numpy()  # for a few numbers several times as fast
        if (
            offsets.ndim != 1
            or route.ndim != 1
            or len(offsets) < 2
            or (offsets[0], offsets[-1]) != (0, len(route))
            or bool((offsets[1:] <= offsets[:-1]).any())
        ):
            raise ValueError(
                f"offsets must rise from 0 to len(route)={len(self.route)}, by at least one knot per example"
            )
        low, high = int(route.min()), int(route.max())
        if low < 0 or high >= len(self.points):
            raise ValueError(f"route visits rows {low} to {high}, points has {len(self.points)}")

    @classmethod
    def polyline(cls, points: Tensor) -> Path:
        """From dense knots (batch, knots, *features)."""
        check_tensor("points", points)
        if points.ndim < 2 or points.shape[1] < 2:
            raise ValueError(f"a polyline has shape (batch, knots ≥ 2, *features), got {tuple(points.shape)}")
        batch, knots = points.shape[:2]
        n = batch * knots
        return cls(points.reshape(n, *points.shape[2:]), torch.arange(n), torch.arange(0, n + 1, knots))

    @classmethod
    def ragged(cls, polylines: Sequence[Tensor]) -> Path:
        """From one polyline per example, (knots, *features) each, of any number of knots.

        Example:
            >>> Path.ragged([torch.zeros(2, 3), torch.ones(4, 3)]).n_knots
            tensor([2, 4])
        """
        offsets = torch.tensor([0, *map(len, polylines)]).cumsum(0)
        return cls(torch.cat(list(polylines)), torch.arange(int(offsets[-1])), offsets)

    @classmethod
    def straight(cls, start: Tensor, end: Tensor) -> Path:
        """The straight lines from start (batch, *features) to end (batch, *features)."""
        check_tensor("start", start)
        check_tensor("end", end)
        if start.shape != end.shape:
            raise ValueError(f"start {tuple(start.shape)} and end {tuple(end.shape)} differ in shape")
        return cls.polyline(torch.stack([start, end], dim=1))

    def __len__(self) -> int:
        return self.offsets.shape[0] - 1

    def __repr__(self) -> str:
        low, high = int(self.n_knots.min()), int(self.n_knots.max())
        knots = f"{low}" if low == high else f"{low} to {high}"
        return f"Path(examples={len(self)}, knots={knots}, features={tuple(self.points.shape[1:])})"

    def __getitem__(self, example: int) -> Tensor:
        """The polyline of one example: (knots, *features)."""
        if not -len(self) <= example < len(self):
            raise IndexError(f"example {example} of a path with {len(self)} examples")
        example %= len(self)
        rows = self.route[int(self.offsets[example]) : int(self.offsets[example + 1])]
        return self.points[rows.to(self.points.device)]

    @property
    def n_knots(self) -> Tensor:
        """(batch,) knots of each example."""
        return self.offsets.diff()

    @property
    def start(self) -> Tensor:
        """(batch, *features) first knots."""
        return self.points[self.route[self.offsets[:-1]].to(self.points.device)]

    @property
    def end(self) -> Tensor:
        """(batch, *features) last knots."""
        return self.points[self.route[self.offsets[1:] - 1].to(self.points.device)]

    @property
    def is_straight(self) -> Tensor:
        """(batch,) whether an example has no knot between its ends."""
        return self.n_knots <= 2

    def select(self, examples: Tensor) -> Path:
        """The paths of some examples, over the same points."""
        return self._first_knots(examples, self.n_knots[examples])

    def only(self, mask: Tensor) -> Path:
        """The paths of the examples in `mask` (batch,); the others keep only their first knot, which costs nothing."""
        return self._first_knots(torch.arange(len(self)), torch.where(mask, self.n_knots, 1))

    def _first_knots(self, examples: Tensor, counts: Tensor) -> Path:
        """The first `counts` (n,) knots of some examples (n,)."""
        n = counts.numpy()
        offsets = np.concatenate([[0], np.cumsum(n)])
        shift = np.repeat(self.offsets.numpy()[examples.numpy()] - offsets[:-1], n)
        route = self.route.numpy()[np.arange(offsets[-1]) + shift]
        return Path(self.points, torch.as_tensor(route), torch.as_tensor(offsets))

    def segments(self, groups: Tensor | None = None) -> Segments:
        """Distinct segments. Examples share one only if they are of one group (the same score): groups (batch,)."""
        route, offsets, n = self.route.numpy(), self.offsets.numpy(), len(self.points)
        is_leg = np.ones(len(route), dtype=bool)
        is_leg[offsets[1:] - 1] = False
        leg = np.flatnonzero(is_leg)
        a, b, leg_example = route[leg], route[leg + 1], np.repeat(np.arange(len(self)), np.diff(offsets))[leg]
        group = 0 if groups is None else groups.numpy()[leg_example]
        keys = torch.as_tensor((group * n + np.minimum(a, b)) * n + np.maximum(a, b))
        distinct, number = torch.unique(keys, return_inverse=True)
        leg_segment = number.numpy()
        # Any leg of a segment will do, since all have the same segment and score: the last one written stays.
        first = np.zeros(len(distinct), dtype=np.int64)
        first[leg_segment] = np.arange(len(leg_segment))
        sign = np.where(a == a[first][leg_segment], 1, -1)
        return Segments(*map(torch.as_tensor, (a[first], b[first], leg_example[first], leg_segment, leg_example, sign)))

    def at(self, fractions: Tensor) -> Tensor:
        """Points at `fractions` (k,) in [0, 1] of each example's Euclidean length: (batch, k, *features)."""
        fractions = torch.as_tensor(fractions)
        if fractions.ndim != 1 or not bool(((fractions >= 0) & (fractions <= 1)).all()):
            raise ValueError(
                f"fractions={show_value(fractions)} must be a row of numbers from 0 (the start) to 1 (the end): "
                "path.at(torch.linspace(0, 1, 5))"
            )
        fractions = fractions.to(torch.promote_types(self.points.dtype, torch.float32)).to(self.points.device)
        return torch.stack([_along(self[b], fractions) for b in range(len(self))])

    def resample(self, knots: int) -> Path:
        """Polylines with `knots` knots each, equally spaced by Euclidean length; the ends stay exactly."""
        check_integer("knots", knots, 2, advice="a polyline has at least its two ends")
        points = self.at(torch.linspace(0, 1, knots, dtype=torch.float64)).to(self.points.dtype)
        points[:, 0], points[:, -1] = self.start, self.end
        return Path.polyline(points)

    def subdivide(self, pieces: int) -> Path:
        """The same curves with every segment cut in `pieces` equal ones."""
        check_integer("pieces", pieces, 1)
        return Path.ragged([_cut(self[b], pieces) for b in range(len(self))])


def _along(knots: Tensor, fractions: Tensor) -> Tensor:
    """Points of one polyline (knots, *features) at fractions (k,) of its length: (k, *features)."""
    work = knots.to(fractions.dtype)
    sizes = norms(work.diff(dim=0), 1)
    travelled = torch.cat([sizes.new_zeros(1), sizes.cumsum(0)])
    if float(travelled[-1]) == 0:
        return work[:1].expand(len(fractions), *work.shape[1:])
    where = fractions * travelled[-1]
    i = (torch.searchsorted(travelled, where, right=True) - 1).clamp(0, len(sizes) - 1)
    t = ((where - travelled[i]) / sizes[i].clamp_min(torch.finfo(sizes.dtype).tiny)).clamp(0, 1)
    return torch.lerp(work[i], work[i + 1], per_row(t, work))


def without_repeats(knots: Tensor) -> Tensor:
    """One polyline (knots, *features) with its `real_segments` only, from end to end: a copy."""
    real = real_segments(knots)
    kept = knots[torch.cat([real.new_ones(1), real])]
    kept[-1] = knots[-1]
    return kept


def real_segments(knots: Tensor) -> Tensor:
    """(segments,) those of one polyline (knots, *features) that are longer than a hair; at least one.

    Rounding decides whether two knots are equal or a hair apart, and what counts segments must not depend on it.
    """
    sizes = norms(knots.diff(dim=0), 1)
    real = sizes > REPEATED * sizes.sum()
    real[-1:] |= ~real.any()
    return real


def _cut(knots: Tensor, pieces: int) -> Tensor:
    """One polyline with every segment cut in equal pieces: ((knots - 1) · pieces + 1, *features)."""
    work = knots.to(torch.promote_types(knots.dtype, torch.float32))
    t = torch.arange(pieces, device=work.device, dtype=work.dtype) / pieces
    steps = work.diff(dim=0)[:, None]  # (knots - 1, 1, *features)
    inner = work[:-1, None] + per_row(t[None], steps) * steps
    cut = inner.reshape(-1, *work.shape[1:]).to(knots.dtype)
    return torch.cat([cut, knots[-1:]])
