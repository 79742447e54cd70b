"""Tensors as pictures that a screen can show."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import interpolate

LARGEST = 224  # pixels a side of the frames along a path


def value_range(inputs: Tensor) -> tuple[float, float]:
    """What is shown as black and as white: 0 and 1 where the values lie between them, else their own ends."""
    low, high = float(inputs.min()), float(inputs.max())
    return (0.0, 1.0) if low >= 0 and high <= 1 else (low, high)


def pictures_of(images: Tensor, ends: tuple[float, float], largest: int | None = None) -> Tensor:
    """(n, channels, height, width) -> (n, height, width, 3) uint8: three channels in colour, others as grey."""
    colours = images.detach().float().cpu()
    if colours.shape[1] != 3:
        colours = colours.mean(1, keepdim=True).expand(-1, 3, -1, -1)
    side = max(colours.shape[2:])
    if largest is not None and side > largest:
        size = [max(1, round(s * largest / side)) for s in colours.shape[2:]]
        colours = interpolate(colours, size, mode="area")
    low, high = ends
    shares = ((colours - low) / max(high - low, 1e-12)).clamp(0, 1)
    return (shares * 255).round().to(torch.uint8).permute(0, 2, 3, 1).contiguous()
