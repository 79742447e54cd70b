"""Random numbers from a seed of one's own: drawn in float32 on the CPU, whatever the program's defaults are."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


def draw_normal(seed: int, shape: tuple[int, ...], like: Tensor, draw: int = 0) -> Tensor:
    """Standard normal numbers of one draw, in the dtype and on the device of `like`."""
    return torch.randn(shape, **_source(seed, draw)).to(like.device, like.dtype)


def draw_uniform(seed: int, shape: tuple[int, ...], like: Tensor, draw: int = 0) -> Tensor:
    """Uniform numbers in [0, 1) of one draw, in the dtype and on the device of `like`."""
    return torch.rand(shape, **_source(seed, draw)).to(like.device, like.dtype)


def _source(seed: int, draw: int) -> dict[str, Any]:
    generator = torch.Generator("cpu").manual_seed((int(seed) * 1_000_003 + draw) % 2**63)
    return {"generator": generator, "dtype": torch.float32, "device": "cpu"}
