"""Paths carried over to other ends, with the same deviation from their straight line."""

from __future__ import annotations

import torch
from torch import Tensor

from leastpath._support.checks import check_features
from leastpath._support.rows import per_row
from leastpath.geometry.path import Path


def move_to_ends(given: Path, examples: Tensor, start: Tensor, end: Tensor) -> list[Tensor]:
    """The given paths moved to start and end (n, *features), with the same deviations: (knots, *features) each.

    `given` has one path for all or one for each example of the call, of which `examples` (n,) are meant.
    """
    check_features("start_from", given.points.shape[1:], start.shape[1:])
    which = examples if len(given) > 1 else torch.zeros_like(examples)
    return [_move_to_ends(given[int(k)].to(start), a, b) for k, a, b in zip(which, start, end, strict=True)]


def _move_to_ends(path: Tensor, start: Tensor, end: Tensor) -> Tensor:
    """One polyline (knots, *features), its deviation from its own line added to the line from start to end."""
    if torch.equal(path[0], start) and torch.equal(path[-1], end):
        return path
    chord = path[-1] - path[0]
    # A knot belongs to the nearest point of its line, so that knots next to an end stay next to it.
    along = ((path - path[0]) * chord).flatten(1).sum(1) / (chord**2).sum().clamp_min(torch.finfo(path.dtype).tiny)
    t = per_row(along.clamp(0, 1), path)
    moved = path + (1 - t) * (start - path[0]) + t * (end - path[-1])
    return torch.cat([start[None], moved[1:-1], end[None]])
