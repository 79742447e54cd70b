"""What methods share that walk as an adversarial attack does: classes, and the range of the values."""

from __future__ import annotations

import numbers
from typing import Any

from torch import Tensor

Limits = tuple[float, float] | None


def clip_to(points: Tensor, limits: Limits) -> Tensor:
    """Points within the range of their values; None: as they are."""
    return points if limits is None else points.clamp(*limits)


def check_limits(limits: Limits) -> None:
    """Raise unless limits are None or a lower and an upper end."""
    ends: Any = limits
    is_pair = isinstance(ends, (tuple, list)) and len(ends) == 2 and all(isinstance(end, numbers.Real) for end in ends)
    if ends is not None and not (is_pair and ends[0] < ends[1]):
        raise ValueError(f"limits={limits} must be the lower and the upper end of the values, as in (0, 1), or None")


def check_logits(outputs: Tensor, asked_by: str) -> Tensor:
    """The model's outputs (n, classes), or an error where they are no classes."""
    if outputs.ndim != 2 or outputs.shape[1] < 2:
        raise ValueError(
            f"{asked_by} needs a classifier with outputs (batch, classes ≥ 2), the model returned "
            f"{tuple(outputs.shape)}: use another method, or return one logit a class"
        )
    return outputs
