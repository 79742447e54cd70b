"""Tensors whose first dimensions are rows and whose last ones are features of any shape."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor


def flat_rows(tensor: Tensor) -> Tensor:
    """(n, *features) as (n, all features), also for n = 0 and for no feature dimension at all."""
    return tensor.reshape(tensor.shape[0], tensor.shape[1:].numel())  # −1 does not work for no rows


def take_rows(tensor: Tensor, rows: Tensor) -> Tensor:
    """`tensor[rows]` for row numbers (n,) of any device: several times as fast."""
    return tensor.index_select(0, rows if rows.device == tensor.device else rows.to(tensor.device))


def norms(tensor: Tensor, dims: int) -> Tensor:
    """Euclidean norms over all but the first `dims` dimensions."""
    return torch.linalg.vector_norm(tensor.flatten(dims), dim=dims) if tensor.ndim > dims else tensor.abs()


def per_row(values: Tensor, other: Tensor) -> Tensor:
    """(rows, …) with trailing dimensions of size one, so that it multiplies `other` (rows, …, *features) row by row."""
    return values.reshape(*values.shape, *[1] * (other.ndim - values.ndim))


# ---- rows that belong together -------------------------------------------------------------------------------------


def sum_by(values: Tensor, index: Tensor, n: int) -> Tensor:
    """Sums of `values` (rows, …) by `index` (rows,): (n, …)."""
    return values.new_zeros(n, *values.shape[1:]).index_add_(0, index, values)


def share_by(sizes: Tensor, index: Tensor, n: int) -> Tensor:
    """(rows,) each row's share of the sum by `index` (rows,); equal shares if the sum is zero."""
    total = sum_by(sizes, index, n)[index]
    count = sum_by(torch.ones_like(sizes), index, n)[index]
    return torch.where(total > 0, sizes / total.clamp_min(1e-300), 1 / count)


def extreme_by(values: Tensor, index: Tensor, n: int, reduce: Literal["amin", "amax"]) -> Tensor:
    """Smallest or largest of `values` (rows,) by `index` (rows,): (n,); ±inf if there is none."""
    empty = torch.inf if reduce == "amin" else -torch.inf
    return values.new_full((n,), empty).scatter_reduce_(0, index, values, reduce)


def rank_by(index: Tensor) -> Tensor:
    """(rows,) the place of each row among those with the same `index` (rows,), in order."""
    order = torch.argsort(index, stable=True)
    _, counts = torch.unique_consecutive(index[order], return_counts=True)
    first = (counts.cumsum(0) - counts).repeat_interleave(counts)
    return torch.empty_like(index).scatter_(0, order, torch.arange(len(index)) - first)
