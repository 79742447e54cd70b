"""A division of paths into pieces: what is known of each piece, and totals of what they add.

Memory must not grow with the number of gradients. Of a single piece only a *sketch* of its attributions stays, which
shows how far they move when the piece is cut. The attributions themselves are kept in *totals*. A piece that is cut is
replaced by its parts, so what it added must be taken out again. While a path has few pieces, each has a total of its
own. Beyond that, pieces whose errors are about equal share a total and are cut together: then the whole total is
dropped, and nothing is ever subtracted.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import NamedTuple

import torch
from torch import Tensor

from leastpath._support.rows import flat_rows, rank_by, take_rows

OWN_TOTALS = 48  # pieces of a path that have a total of their own
STRANDS = 2  # totals of about equal errors: a budget that does not pay for both may pay for one
LEVELS = 8  # classes of error, each twice the one before
LOWEST = -4  # the first class: errors below 2⁻³ of what a piece may err by
NEVER = LEVELS * STRANDS  # the class of pieces that cannot be cut
CLASSES = NEVER + 1
ALONE = -1  # the class of pieces with a total of their own
SKETCH = 127  # numbers that stay of a piece's attributions; a prime, so that rows of images do not fall on one number
PARTS_HELD = 8  # measurements that are collected before their totals are added


class PieceTable(NamedTuple):
    """The pieces that paths consist of now, and what is known of each: (pieces,) unless it says otherwise."""

    segment: Tensor
    t0: Tensor  # float64, from where to where on its segment
    t1: Tensor
    f0: Tensor  # score at the ends
    f1: Tensor
    sketch: Tensor  # (pieces, few) its attributions, as far as they are compared with those of its parts
    length: Tensor
    low: Tensor  # smallest and largest score met
    high: Tensor
    residual: Tensor  # |Σ attributions − change of score|, beyond what rounding explains
    moved: Tensor  # how far attributions moved when this piece was cut from its parent; inf if it was not cut
    length_moved: Tensor
    shift: Tensor  # (pieces, few) the sketch of that move, half of it in each part: moves of several pieces may cancel
    length_shift: Tensor
    total: Tensor  # the row of `Totals` that its attributions are in

    def where(self, keep: Tensor) -> PieceTable:
        """The pieces in `keep` (pieces,)."""
        return self if bool(keep.all()) else self.take(keep.nonzero()[:, 0])  # several times faster than a mask

    def take(self, rows: Tensor) -> PieceTable:
        """Some of the pieces (rows,)."""
        on = {self.segment.device: rows}
        on[self.f0.device] = rows.to(self.f0.device)
        return PieceTable(*(part.index_select(0, on[part.device]) for part in self))


class MeasuredPieces(NamedTuple):
    """A few pieces that were just measured."""

    table: PieceTable
    attributions: Tensor  # (pieces, *features) in the direction of who receives them
    receiver: Tensor  # (pieces,)


@dataclass(frozen=True)
class Totals:
    """Sums of attributions, each received by an example, or by a segment that several examples share."""

    sums: Tensor  # (totals, *features)
    receiver: Tensor  # (totals,) on the CPU
    error_class: Tensor  # (totals,) of its pieces, or `ALONE`

    def __len__(self) -> int:
        return self.receiver.shape[0]

    def take(self, rows: Tensor) -> Totals:
        """Some of them (rows,)."""
        return Totals(*(take_rows(part, rows) for part in (self.sums, self.receiver, self.error_class)))

    @classmethod
    def add_up(cls, attributions: Tensor, receiver: Tensor, error_class: Tensor) -> tuple[Totals, Tensor]:
        """Pieces (pieces, *features) with their receivers and classes (pieces,), and the total of each (pieces,)."""
        place = torch.arange(len(receiver))
        if bool((error_class == ALONE).all()):
            return cls(attributions, receiver, error_class), place
        # Negative keys are unique.
        key = torch.where(error_class == ALONE, place - len(place), receiver * CLASSES + error_class)
        keys, row = torch.unique(key, return_inverse=True)
        if len(keys) == len(key):
            return cls(attributions, receiver, error_class), place
        first = torch.empty(len(keys), dtype=torch.long).scatter_(0, row.flip(0), place.flip(0))
        sums = attributions.new_zeros(len(keys), *attributions.shape[1:])
        return cls(sums.index_add_(0, row.to(sums.device), attributions), receiver[first], error_class[first]), row

    @classmethod
    def join(cls, parts: Sequence[Totals]) -> tuple[Totals, Tensor]:
        """Several as one, and the new row of each of their totals, in order: totals of one class become one."""
        columns = zip(*((part.sums, part.receiver, part.error_class) for part in parts), strict=True)
        return cls.add_up(*(torch.cat(column) for column in columns))


@dataclass(frozen=True)
class Division:
    """All pieces of some paths, and the totals of what they add."""

    table: PieceTable
    totals: Totals

    @classmethod
    def collect(cls, measured: Iterable[tuple[MeasuredPieces, Tensor]]) -> Division:
        """Measured pieces with their classes (pieces,), one after the other: attributions are added and forgotten."""
        parts: list[Division] = []
        for (table, attributions, receiver), error_class in measured:
            totals, row = Totals.add_up(attributions, receiver, error_class)
            parts.append(cls(table._replace(total=row), totals))
            if len(parts) == PARTS_HELD:
                parts = [cls.join(parts)]
        return cls.join(parts)

    @classmethod
    def join(cls, parts: Sequence[Division]) -> Division:
        """Several as one, in order."""
        if len(parts) == 1:
            return parts[0]
        totals, row = Totals.join([part.totals for part in parts])
        shifts = torch.tensor([0, *(len(part.totals) for part in parts)]).cumsum(0).tolist()
        tables = [p.table._replace(total=row[p.table.total + at]) for p, at in zip(parts, shifts[:-1], strict=True)]
        return cls(PieceTable(*map(torch.cat, zip(*tables, strict=True))), totals)

    def without(self, gone: Tensor) -> Division:
        """What is left when the pieces in `gone` (pieces,), all of some totals, are taken away."""
        if not gone.any():
            return self
        stays = torch.ones(len(self.totals), dtype=torch.bool)
        stays.index_fill_(0, take_rows(self.table.total, gone.nonzero()[:, 0]), False)
        return self._keep(~gone, stays)

    def part(self, segment: Tensor, receiver: Tensor) -> Division:
        """What stays of it when segments and receivers get new numbers, -1 where they leave."""
        stays = receiver[self.totals.receiver] >= 0
        kept = self._keep(stays[self.table.total], stays)
        table, totals = kept.table, kept.totals
        return Division(
            table._replace(segment=segment[table.segment]), replace(totals, receiver=receiver[totals.receiver])
        )

    def _keep(self, pieces: Tensor, totals: Tensor) -> Division:
        """The pieces in `pieces` (pieces,) and the totals in `totals` (totals,), which get new rows."""
        table = self.table.where(pieces)
        table = table._replace(total=take_rows(totals.cumsum(0) - 1, table.total))
        return Division(table, self.totals.take(totals.nonzero()[:, 0]))


def classes_before_cutting(receiver: Tensor, n: int) -> Tensor:
    """(pieces,) classes of pieces that nothing is known of, by their receiver (pieces,) of n."""
    crowded = torch.bincount(receiver, minlength=n) > OWN_TOTALS
    strand = rank_by(receiver) % STRANDS
    return torch.where(crowded[receiver], (LEVELS - 1) * STRANDS + strand, ALONE)


def classes_of_error(excess: Tensor, can_cut: Tensor, rank: Tensor) -> Tensor:
    """(pieces,) classes of pieces whose errors are `excess` times what a piece may err by.

    `rank` (pieces,) numbers the pieces of a receiver: the same ones in a batch and alone.
    """
    level = torch.log2(excess).floor().clamp(LOWEST, LOWEST + LEVELS - 1).long() - LOWEST
    return torch.where(can_cut, level * STRANDS + rank % STRANDS, NEVER)


def sketch(attributions: Tensor) -> Tensor:
    """(pieces, *features) -> (pieces, at most `SKETCH`): differences of sketches are as large as those of pieces.

    Features are summed with random signs, which keeps Euclidean norms up to a few per cent, and on average exactly.
    Few features stay as they are.
    """
    flat = flat_rows(attributions)
    if flat.shape[1] <= SKETCH:
        return flat
    padding = -flat.shape[1] % SKETCH
    signed = torch.nn.functional.pad(flat * _signs(flat.shape[1]).to(flat), (0, padding))
    return signed.unflatten(1, (signed.shape[1] // SKETCH, SKETCH)).sum(1)


@lru_cache(maxsize=4)
def _signs(n: int) -> Tensor:
    """(n,) random signs, always the same."""
    return torch.randint(0, 2, (n,), generator=torch.Generator().manual_seed(0), dtype=torch.int8) * 2 - 1
