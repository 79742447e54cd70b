"""A path that is known already, carried over to other ends."""

from __future__ import annotations

import torch
from torch import Tensor

from leastpath._support.rows import per_row
from leastpath.path import Path


def carried_over(given: Path, examples: Tensor, start: Tensor, end: Tensor) -> list[Tensor]:
    """Paths between start and end (n, *features) that leave their lines as the given ones do: (knots, *features) each.

    `given` has one path for all or one for each example of the call, of which `examples` (n,) are meant.
    """
    if given.points.shape[1:] != start.shape[1:]:
        raise ValueError(
            f"start_from has points of shape {tuple(given.points.shape[1:])}, the inputs {tuple(start.shape[1:])}: "
            "expected the same features"
        )
    which = examples if len(given) > 1 else torch.zeros_like(examples)
    return [_carried(given[int(k)].to(start), a, b) for k, a, b in zip(which, start, end, strict=True)]


def _carried(path: Tensor, start: Tensor, end: Tensor) -> Tensor:
    """One polyline (knots, *features), its deviation from its own line added to the line from start to end."""
    if torch.equal(path[0], start) and torch.equal(path[-1], end):
        return path
    chord = path[-1] - path[0]
    # A knot belongs to the nearest point of its line, so that what happens next to an end stays next to it.
    along = ((path - path[0]) * chord).flatten(1).sum(1) / (chord**2).sum().clamp_min(torch.finfo(path.dtype).tiny)
    t = per_row(along.clamp(0, 1), path)
    moved = path + (1 - t) * (start - path[0]) + t * (end - path[-1])
    return torch.cat([start[None], moved[1:-1], end[None]])
