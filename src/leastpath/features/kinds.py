"""Kinds: what an input is, and so what a default or a test may assume of it. Nobody else decides what an image is."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

from leastpath.score.bound import BoundScore

Kind = Literal["few", "table", "image", "tokens", "series"]
FEW_FEATURES = 20  # up to here all of the space between two points can be searched


def kind_of(bound: BoundScore) -> Kind:
    """The kind of what a bound score explains. See `kind_of_shape`.

    Example:
        >>> import torch, leastpath as lp
        >>> kind_of(lp.Score(lambda x: x.flatten(1).sum(1)).bind(torch.rand(1, 3, 8, 8)))
        'image'
    """
    return kind_of_shape(bound.shape, of_layer=bound.score.layer is not None)


def kind_of_shape(shape: Sequence[int], *, of_layer: bool = False) -> Kind:
    """The kind of inputs with features of this shape, without the batch.

    Images are (channels, height, width) with more than one pixel per side. A layer's (length, width) are tokens. Of
    all others, up to 20 features are few; more are a series where they are (channels, time), and else a table.

    Example:
        >>> [kind_of_shape(shape) for shape in ((4,), (30,), (3, 8, 8), (2, 50))]
        ['few', 'table', 'image', 'series']
    """
    if len(shape) == 3 and min(shape[1:]) > 1:
        return "image"
    if of_layer and len(shape) == 2:
        return "tokens"
    if math.prod(shape) <= FEW_FEATURES:
        return "few"
    return "series" if len(shape) == 2 and shape[1] > 1 else "table"
