"""What a command knows of its inputs, given to the methods that ask for it: the range of pictures, and data."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from torch import Tensor

from leastpath.methods import Method

PICTURE_RANGE = (0.0, 1.0)
MOST_DATA = {"pictures": 60, "rows": 500}  # of methods that learn from data: more would not fit, or take too long


def fitted(method: Method, *, is_table: bool) -> Method:
    """A method whose points stay within the range of pictures, where it has a setting for that.

    Example:
        >>> from leastpath.methods import METHODS
        >>> fitted(METHODS["mfaba"], is_table=False).defaults["limits"]
        (0.0, 1.0)
    """
    if is_table or "limits" not in method.defaults:
        return method
    return method.with_settings(limits=PICTURE_RANGE)


def with_data(method: Method, data: Callable[[], Tensor], represent: object = None) -> Method:
    """A method that learns from data, with data (n, *features). Others stay as they are, and nothing is read.

    Args:
        method: of the table.
        data: gives the data.
        represent: where distances are taken, for methods that have such a setting.

    Example:
        >>> import torch; from leastpath.methods import METHODS
        >>> with_data(METHODS["lpi"], lambda: torch.rand(5, 3)).defaults["points"].shape
        torch.Size([5, 3])
    """
    if "points" not in method.defaults:
        return method
    given: dict[str, Any] = {"points": data()}
    if represent is not None and "represent" in method.defaults:
        given["represent"] = represent
    return method.with_settings(**given)


def spread(given: Sequence[Any], n: int) -> list[Any]:
    """At most n of them, evenly spread.

    Example:
        >>> spread(range(10), 3)
        [0, 3, 6]
    """
    return [given[i * len(given) // n] for i in range(n)] if len(given) > n else list(given)
