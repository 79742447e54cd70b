"""Groups: which features of an input move together."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from leastpath._support.checks import check_integer
from leastpath.features.maps import maps_over

Groups = Literal["pixel", "token"] | int | Tensor | None
ADVICE = 'pass "pixel", "token", a whole number of pixels, an integer tensor of labels, or None'


def check_groups(groups: object) -> None:
    """Refuse what no input could be grouped by."""
    if isinstance(groups, Tensor):
        if groups.is_floating_point() or groups.is_complex() or groups.dtype == torch.bool:
            raise ValueError(f"groups has dtype {groups.dtype}, expected whole numbers, one a group: groups.long()")
    elif isinstance(groups, str):
        if groups not in ("pixel", "token"):
            raise ValueError(f"groups={groups!r} is unknown: {ADVICE}")
    else:
        check_integer("groups", groups, 1, or_none=" of pixels a side", advice=ADVICE)


def group_labels(groups: Groups, shape: torch.Size, inputs: int) -> Tensor:
    """The group of each feature, numbered from 0: (1, all features), or (inputs, all features) where they differ.

    Example:
        >>> group_labels(2, torch.Size([1, 2, 4]), inputs=3)
        tensor([[0, 0, 1, 1, 0, 0, 1, 1]])
    """
    labels = _labels(groups, shape, inputs)
    labels = labels.expand(len(labels), *shape).reshape(len(labels), shape.numel())
    return torch.stack([torch.unique(row, return_inverse=True)[1] for row in labels])


def _labels(groups: Groups, shape: torch.Size, inputs: int) -> Tensor:
    """(1 or inputs, *shape), with 1 for dimensions that a group reaches across."""
    if groups is None:
        return torch.arange(shape.numel()).view(1, *shape)
    if isinstance(groups, Tensor):
        return maps_over(groups.detach().cpu().long(), inputs, shape, "groups have")
    if groups == "token":
        if len(shape) != 2:
            raise ValueError(
                f'groups="token" needs inputs (batch, tokens, width), got features of shape {tuple(shape)}: {ADVICE}'
            )
        return torch.arange(shape[0]).view(1, -1, 1)
    if len(shape) != 3:
        raise ValueError(
            f"groups={groups!r} needs images (batch, channels, height, width), got features of shape {tuple(shape)}: "
            f"{ADVICE}"
        )
    side = 1 if groups == "pixel" else int(groups)
    row, column = (torch.arange(length) // side for length in shape[1:])
    return (row[:, None] * shape[2] + column)[None, None]
