"""What a command knows of its inputs, given to the methods that ask for it: the range of pictures, and data."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from torch import Tensor

from leastpath.features.groups import Kind
from leastpath.methods import Method

PICTURE_RANGE = (0.0, 1.0)
MOST_PICTURES, MOST_ROWS = 60, 500  # for methods that learn from data: more would not fit, or take too long


def stay_in_range(method: Method, kind: Kind) -> Method:
    """A method whose points stay within the range of pictures, where it has a setting for that."""
    is_wanted = kind == "image" and "limits" in method.defaults
    return method.with_settings(limits=PICTURE_RANGE) if is_wanted else method


def give_data(method: Method, data: Callable[[], Tensor], represent: object = None) -> Method:
    """A method that learns from data, with data (n, *features). Others stay as they are, and nothing is read.

    `represent` says where distances are taken, for methods that have such a setting.
    """
    if "points" not in method.defaults:
        return method
    where = {} if represent is None or "represent" not in method.defaults else {"represent": represent}
    return method.with_settings(points=data(), **where)


def spread(given: Sequence[Any], n: int) -> list[Any]:
    """At most n of them, evenly spread."""
    return [given[i * len(given) // n] for i in range(n)] if len(given) > n else list(given)
