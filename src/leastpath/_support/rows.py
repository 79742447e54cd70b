"""Tensors whose first dimensions are rows and whose last ones are features of any shape."""

from __future__ import annotations

import torch
from torch import Tensor


def flat_rows(tensor: Tensor) -> Tensor:
    """(n, *features) as (n, all features), also for n = 0 and for no feature dimension at all."""
    return tensor.reshape(tensor.shape[0], tensor.shape[1:].numel())  # −1 does not work for no rows


def taken(tensor: Tensor, rows: Tensor) -> Tensor:
    """`tensor[rows]` for row numbers (n,) of any device: several times as fast.

    Example:
        >>> taken(torch.tensor([5, 6, 7]), torch.tensor([2, 0])).tolist()
        [7, 5]
    """
    return tensor.index_select(0, rows if rows.device == tensor.device else rows.to(tensor.device))


def norms(tensor: Tensor, dims: int) -> Tensor:
    """Euclidean norms over all but the first `dims` dimensions."""
    return torch.linalg.vector_norm(tensor.flatten(dims), dim=dims) if tensor.ndim > dims else tensor.abs()


def per_row(values: Tensor, other: Tensor) -> Tensor:
    """(rows, …) with trailing dimensions of size one, so that it multiplies `other` (rows, …, *features) row by row.

    Example:
        >>> per_row(torch.ones(2), torch.ones(2, 3, 4)).shape
        torch.Size([2, 1, 1])
    """
    return values.reshape(*values.shape, *[1] * (other.ndim - values.ndim))
