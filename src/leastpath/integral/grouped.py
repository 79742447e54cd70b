"""Rows collected by an index: what the pieces of a segment, or the legs of a route, come to together."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor


def total_by(values: Tensor, index: Tensor, n: int) -> Tensor:
    """Sums of `values` (rows, …) by `index` (rows,): (n, …).

    Example:
        >>> total_by(torch.tensor([1.0, 2.0, 4.0]), torch.tensor([0, 2, 0]), 3)
        tensor([5., 0., 2.])
    """
    return values.new_zeros(n, *values.shape[1:]).index_add_(0, index, values)


def share_by(sizes: Tensor, index: Tensor, n: int) -> Tensor:
    """(rows,) each one's share of the sum by `index` (rows,); equal shares where the sum is zero."""
    total = total_by(sizes, index, n)[index]
    count = total_by(torch.ones_like(sizes), index, n)[index]
    return torch.where(total > 0, sizes / total.clamp_min(1e-300), 1 / count)


def extreme_by(values: Tensor, index: Tensor, n: int, reduce: Literal["amin", "amax"]) -> Tensor:
    """Smallest or largest of `values` (rows,) by `index` (rows,): (n,); ±inf where there is none."""
    empty = torch.inf if reduce == "amin" else -torch.inf
    return values.new_full((n,), empty).scatter_reduce_(0, index, values, reduce)
