"""Variants of a score: the same but for some of its arguments."""

from __future__ import annotations

import inspect
from typing import Any

from leastpath.score import Score


def changed(score: Score, **arguments: Any) -> Score:
    """A score made anew with some other arguments; whatever else a `Score` takes stays as it is.

    Example:
        >>> import torch
        >>> changed(Score(torch.nn.Linear(2, 3), 1, "softmax", batch_size=8), target=2).batch_size
        8
    """
    kept = {name: getattr(score, name) for name in inspect.signature(Score).parameters}
    return Score(**kept | arguments)
