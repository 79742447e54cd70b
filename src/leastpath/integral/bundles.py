"""What pieces of path have added, kept in few sums: memory that does not grow with the number of gradients.

A piece that is cut is replaced by its parts, so what it added must be taken out again. While a path has few pieces,
each has a sum of its own. Beyond that, pieces whose errors are about equal share a sum, a *bundle*, and are cut
together: then the whole sum is dropped, and nothing is ever subtracted. Of a single piece only a sketch stays.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor

from leastpath._support.rows import flat_rows, taken

OWN_SUMS = 48  # pieces of a path that have a sum of their own
STRANDS = 2  # bundles of about equal errors: a budget that does not pay for both may pay for one
LEVELS = 8  # classes of error, each twice the one before
LOWEST = -4  # the first class: errors below 2⁻³ of what a piece may err by
NEVER = LEVELS * STRANDS  # the class of pieces that cannot be cut
CLASSES = NEVER + 1
ALONE = -1  # the class of pieces with a sum of their own
SKETCH = 127  # numbers that stay of a piece's attributions; a prime, so that rows of images do not fall on one number


@dataclass(frozen=True)
class Bundles:
    """Sums of attributions. A carrier is whoever walks all pieces of a bundle: an example, or a shared segment."""

    sums: Tensor  # (bundles, *features)
    carrier: Tensor  # (bundles,) on the CPU
    kind: Tensor  # (bundles,) its class of error, or `ALONE`

    def __len__(self) -> int:
        return self.carrier.shape[0]

    def take(self, rows: Tensor) -> Bundles:
        """Some of them (rows,)."""
        return Bundles(taken(self.sums, rows), taken(self.carrier, rows), taken(self.kind, rows))

    @classmethod
    def of(cls, attributions: Tensor, carrier: Tensor, kind: Tensor) -> tuple[Bundles, Tensor]:
        """Pieces (pieces, *features) with their carriers and classes (pieces,), and the bundle of each (pieces,)."""
        place = torch.arange(len(carrier))
        if bool((kind == ALONE).all()):
            return cls(attributions, carrier, kind), place
        key = torch.where(kind == ALONE, place - len(place), carrier * CLASSES + kind)  # negative keys are unique
        keys, row = torch.unique(key, return_inverse=True)
        if len(keys) == len(key):
            return cls(attributions, carrier, kind), place
        first = torch.empty(len(keys), dtype=torch.long).scatter_(0, row.flip(0), place.flip(0))
        sums = attributions.new_zeros(len(keys), *attributions.shape[1:])
        return cls(sums.index_add_(0, row.to(sums.device), attributions), carrier[first], kind[first]), row

    @classmethod
    def join(cls, parts: Sequence[Bundles]) -> tuple[Bundles, Tensor]:
        """Several as one, and the new row of each of their bundles, in order: bundles of one class become one."""
        if len(parts) == 1:
            return parts[0], torch.arange(len(parts[0]))
        columns = zip(*((part.sums, part.carrier, part.kind) for part in parts), strict=True)
        return cls.of(*(torch.cat(column) for column in columns))


def kinds_unverified(carrier: Tensor, n: int) -> Tensor:
    """(pieces,) classes of pieces that nothing is known of, by their carrier (pieces,) of n."""
    crowded = torch.bincount(carrier, minlength=n) > OWN_SUMS
    strand = rank_by(carrier) % STRANDS
    return torch.where(crowded[carrier], (LEVELS - 1) * STRANDS + strand, ALONE)


def kinds_of(excess: Tensor, can_cut: Tensor, rank: Tensor) -> Tensor:
    """(pieces,) classes of pieces whose errors are `excess` times what a piece may err by.

    `rank` (pieces,) numbers the pieces of a carrier: the same ones in a batch and alone.
    """
    level = torch.log2(excess).floor().clamp(LOWEST, LOWEST + LEVELS - 1).long() - LOWEST
    return torch.where(can_cut, level * STRANDS + rank % STRANDS, NEVER)


def rank_by(index: Tensor) -> Tensor:
    """(rows,) the place of each row among those with the same `index` (rows,), in order.

    Example:
        >>> rank_by(torch.tensor([5, 2, 5, 5, 2])).tolist()
        [0, 0, 1, 2, 1]
    """
    order = torch.argsort(index, stable=True)
    _, counts = torch.unique_consecutive(index[order], return_counts=True)
    first = (counts.cumsum(0) - counts).repeat_interleave(counts)
    return torch.empty_like(index).scatter_(0, order, torch.arange(len(index)) - first)


def sketched(attributions: Tensor) -> Tensor:
    """(pieces, *features) -> (pieces, at most `SKETCH`): differences of sketches are as large as those of pieces.

    Features are summed with random signs, which keeps Euclidean norms up to a few per cent, and on average exactly.
    Few features stay as they are.

    Example:
        >>> a = torch.ones(1, 10_000)
        >>> sketched(a).shape, bool((sketched(a).norm() / a.norm() - 1).abs() < 0.3)
        (torch.Size([1, 127]), True)
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
