"""Maps: numbers over the features, such as masks, segments or groups, one for all examples or one for each."""

from __future__ import annotations

import torch
from torch import Tensor


def maps_over(given: Tensor, batch: int, shape: torch.Size, what: str, *, each: bool = False) -> Tensor:
    """Numbers over the features, such as masks or segments, as (1 or batch, *shape) with 1 for a dimension left out.

    Args:
        given: shaped like an input, `shape`, like one without channels, `shape[1:]`, or like one without width,
            `(*shape[:-1], 1)`; one for all examples, or one each.
        batch: how many examples there are.
        shape: of an input.
        what: the words that an error begins with, as in "segments have".
        each: there is one map for each example, also where the shape would fit one map for all.

    Example:
        >>> maps_over(torch.zeros(8, 8), 2, torch.Size([3, 8, 8]), "masks have").shape
        torch.Size([1, 1, 8, 8])
    """
    got, own = tuple(given.shape), tuple(shape)
    shapes = [own] if len(own) < 2 else [own, (1, *own[1:]), (*own[:-1], 1)]
    own_each = [given for one in shapes if got == (batch, *one)]
    for_all = [given for one in shapes if got == (1, *one)] + [given[None] for one in shapes if got == one]
    if len(own) > 1:
        own_each += [given[:, None]] if got == (batch, *own[1:]) else []
        for_all += [given[None, None]] if got == own[1:] else []
    readings = own_each if each and own_each else own_each + for_all
    if not readings:
        raise ValueError(
            f"{what} shape {got}, the inputs {(batch, *own)}: expected one for all examples, {own}"
            + (f" or without channels {own[1:]}" if len(own) > 1 else "")
            + f", or one for each example, ({batch}, …)"
        )
    if not all(torch.equal(r.expand(batch, *own), readings[0].expand(batch, *own)) for r in readings[1:]):
        raise ValueError(
            f"{what} shape {got}, which is one map for each of {batch} examples or one for all inputs of shape {own}: "
            "pass maps[:, None] for one each, or maps[None] for one that all share"
        )
    return readings[0]
