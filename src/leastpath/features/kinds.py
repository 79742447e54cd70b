"""Kinds of input: what a default or a test may assume of them."""

from __future__ import annotations

from typing import Literal

from leastpath.score.bound import BoundScore

Kind = Literal["few", "table", "image", "tokens"]
FEW_FEATURES = 20  # up to here all of the space between two points can be searched


def kind_of(bound: BoundScore) -> Kind:
    """Tokens: a layer's output (tokens, width). Images: (channels, height, width). Tables: the rest; few: up to 20.

    Example:
        >>> import torch, leastpath as lp
        >>> kind_of(lp.Score(lambda x: x.flatten(1).sum(1)).bind(torch.rand(1, 3, 8, 8)))
        'image'
    """
    if bound.score.layer is not None and len(bound.shape) == 2:
        return "tokens"
    if len(bound.shape) == 3 and min(bound.shape[-2:]) > 1:
        return "image"
    return "few" if bound.n_features <= FEW_FEATURES else "table"
