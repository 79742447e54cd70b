"""Tensors whose first dimensions are rows and whose last ones are features of any shape, and random ones of a seed."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


def flat_rows(tensor: Tensor) -> Tensor:
    """(n, *features) as (n, all features), also for n = 0 and for no feature dimension at all."""
    return tensor.reshape(tensor.shape[0], tensor.shape[1:].numel())  # −1 does not work for no rows


def norms(tensor: Tensor, dims: int) -> Tensor:
    """Euclidean norms over all but the first `dims` dimensions."""
    return torch.linalg.vector_norm(tensor.flatten(dims), dim=dims) if tensor.ndim > dims else tensor.abs()


def precise(tensor: Tensor) -> Tensor:
    """In double precision, in single precision on Apple's devices, which have no other."""
    return tensor.to(torch.float32 if tensor.device.type == "mps" else torch.float64)


def per_row(values: Tensor, other: Tensor) -> Tensor:
    """(rows, …) with trailing dimensions of size one, so that it multiplies `other` (rows, …, *features) row by row."""
    return values.reshape(*values.shape, *[1] * (other.ndim - values.ndim))


def draw_normal(seed: int, shape: tuple[int, ...], like: Tensor, draw: int = 0) -> Tensor:
    """Standard normal numbers of one draw, in the dtype and on the device of `like`."""
    return torch.randn(shape, **_source(seed, draw)).to(like.device, like.dtype)


def draw_uniform(seed: int, shape: tuple[int, ...], like: Tensor, draw: int = 0) -> Tensor:
    """Uniform numbers in [0, 1) of one draw, in the dtype and on the device of `like`."""
    return torch.rand(shape, **_source(seed, draw)).to(like.device, like.dtype)


def _source(seed: int, draw: int) -> dict[str, Any]:
    generator = torch.Generator("cpu").manual_seed((int(seed) * 1_000_003 + draw) % 2**63)
    return {"generator": generator, "dtype": torch.float32, "device": "cpu"}
