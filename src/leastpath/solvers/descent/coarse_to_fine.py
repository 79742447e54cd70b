"""Coarse to fine: shorten a polyline of few segments, cut it where its length concentrates, shorten it again."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from leastpath._support.rows import flat_rows, norms, per_row
from leastpath.solvers.descent.field import Field
from leastpath.solvers.shorten import Shortening, shorten

COARSEST = 4  # segments that a line begins with
FINEST = 32
BOWS, BOW_SAMPLES = 12, 8  # tried beside the line, and samples of each
BOW_HEIGHTS = (0.25, 0.75, 0.5)  # relative to the distance of the ends
BOWS_FROM = 1000  # gradients per example: with fewer, only the line is tried


def refine_lines(
    field: Field, rows: Tensor, settings: Shortening, spare: int, draw: int
) -> Iterator[tuple[Tensor, Tensor]]:
    """Shortened lines or bows of some examples (n,), as fine as possible while `spare` gradients are left.

    Yields the rows of a group (m,) and their paths (m, knots, *features).
    """
    rows = rows[field.affords(rows, settings.samples * COARSEST * settings.round_cost + spare)]
    paths = _bows(field, rows, draw) if len(rows) else field.start[:0]
    while len(rows):
        paths = shorten_by_force(field, paths, rows, settings, spare)
        n = paths.shape[1] - 1
        cost = 2 * n + 2 * n * settings.samples * settings.round_cost  # of cutting, and of one round after it
        finer = field.affords(rows, cost + spare) & (2 * n <= FINEST)
        if not finer.all():
            yield rows[~finer], paths[~finer]
        rows, paths = rows[finer], paths[finer]
        if len(rows):
            paths = cut_where_long(field, paths, rows, draw + n)


def _bows(field: Field, rows: Tensor, draw: int) -> Tensor:
    """The straight line, or a bow in a random direction that looks shorter: (n, knots, *features).

    A line over a maximum of the score has no shorter path near it; only distant paths lead around the maximum.
    """
    t = torch.linspace(0, 1, COARSEST + 1, device=field.start.device, dtype=field.start.dtype)
    a, chord, size = field.start[rows], (field.end - field.start)[rows], field.distance[rows]
    t = per_row(t[None], a[:, None])
    line = best = a[:, None] + t * chord[:, None]
    if field.limit < BOWS_FROM:
        return line
    n = BOW_SAMPLES
    best_length = field.length(line, n, rows, draw)
    for number in range(BOWS):
        noise = field.run.noise(tuple(a.shape[1:]), a, draw + 100 + number // 2)
        across = noise - per_row(flat_rows(noise * chord).sum(1) / size**2, chord) * chord
        across = (-1) ** number * across / per_row(norms(across, 1).clamp_min(torch.finfo(a.dtype).tiny), across)
        height = BOW_HEIGHTS[(number // 2) % len(BOW_HEIGHTS)]
        bow = line + per_row(height * size, line) * torch.sin(torch.pi * t) * across[:, None]
        length = field.length(bow, n, rows, draw)
        better = length < best_length
        best = torch.where(per_row(better, best), bow, best)
        best_length = torch.where(better, length, best_length)
    best[:, -1] = field.end[rows]
    return best


def shorten_by_force(field: Field, paths: Tensor, rows: Tensor, settings: Shortening, spare: int) -> Tensor:
    """Paths (n, knots, *features) of `rows` (n,), shortened while more than `spare` gradients are left."""
    budget = field.budget.keeping(spare)
    return shorten(field.score, field.metric, paths, field.examples[rows.cpu()], budget, field.run, settings)


def cut_where_long(field: Field, paths: Tensor, rows: Tensor, draw: int) -> Tensor:
    """The same curves with twice as many segments, the new ones where the sampled length is: (n, knots, *features)."""
    n = paths.shape[1] - 1
    jitter = field.run.uniform((2 * n,), paths, draw)
    positions = (torch.arange(2 * n, device=paths.device, dtype=paths.dtype) + jitter) / 2
    speed = field.sample(paths, positions.expand(len(paths), -1), rows).speed.unflatten(1, (n, 2)).mean(2)
    speed = torch.nan_to_num(speed, posinf=0.0)
    # Every segment keeps one piece; half of the new pieces go by length and half equally, as samples are not exact.
    share = 0.5 * speed / speed.sum(1, True).clamp_min(torch.finfo(speed.dtype).tiny) + 0.5 / n
    edges = (share.cumsum(1) / share.sum(1, True) * n).round().long()
    pieces = 1 + edges.diff(dim=1, prepend=torch.zeros_like(edges[:, :1]))  # (n, segments), summing to 2 n
    segment = torch.arange(n, device=paths.device).expand(len(paths), -1)
    segment = segment.flatten().repeat_interleave(pieces.flatten()).view(len(paths), 2 * n)
    first = pieces.cumsum(1) - pieces
    within = torch.arange(2 * n, device=paths.device) - first.gather(1, segment)
    fraction = (within / pieces.gather(1, segment)).to(paths.dtype)
    each = torch.arange(len(paths), device=paths.device)[:, None]
    a, b = paths[each, segment], paths[each, segment + 1]
    knots = torch.lerp(a, b, per_row(fraction, a))
    return torch.cat([knots, paths[:, -1:]], 1)
