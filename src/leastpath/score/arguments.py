"""Extra arguments of a model: which belong to all examples, and which have one row for each example."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, Literal

import torch
from torch import Tensor

MOST_UNCLEAR = 6  # arguments without a mark: each has two readings, and all combinations are tried


@dataclass(frozen=True)
class Marked:
    """An extra argument with a mark. Made by `shared` and `per_example`."""

    value: Any
    reading: Literal["shared", "per example", "by length"]


def shared(value: Any) -> Any:
    """Mark an extra argument that all examples share, such as an adjacency matrix or prototypes.

    Args:
        value: passed to every call of the model unchanged. A tensor of any shape, or any object.

    Example:
        >>> import leastpath as lp, torch
        >>> prototypes = torch.rand(4, 6)  # as many as there are inputs
        >>> score = lp.Score(lambda x, p: -torch.cdist(x, p), 0, additional_forward_args=lp.shared(prototypes))
        >>> lp.attribute(score, torch.rand(4, 6)).values.shape
        torch.Size([4, 6])
    """
    return Marked(value, "shared")


def per_example(value: Tensor) -> Any:
    """Mark an extra argument that has one row for each example, such as a mask: (batch, …).

    Args:
        value: row b goes with example b in every call of the model.

    Example:
        >>> import leastpath as lp, torch
        >>> mask = torch.tensor([[1.0, 1.0, 0.0], [1.0, 0.0, 0.0]])
        >>> score = lp.Score(lambda x, m: (x * m).sum(1), additional_forward_args=lp.per_example(mask))
        >>> score(torch.ones(2, 3))
        tensor([2., 1.])
    """
    given: object = value
    if not isinstance(given, Tensor) or given.ndim == 0:
        got = f"shape {tuple(given.shape)}" if isinstance(given, Tensor) else type(given).__name__
        raise ValueError(f"lp.per_example got {got}, expected a tensor (batch, …): mark other arguments lp.shared(…)")
    return Marked(value, "per example")


def by_length(value: Any) -> Any:
    """Captum's rule: a tensor of the batch's length has one row for each example, anything else is shared."""
    return value if isinstance(value, Marked) else Marked(value, "by length")


def has_batch_length(value: Any, batch: int) -> bool:
    """Whether this is a tensor whose first dimension could be the batch."""
    return isinstance(value, Tensor) and value.ndim > 0 and len(value) == batch


def readings_of(args: Sequence[Any], batch: int) -> list[bool | None]:
    """Whether each argument has one row for each example; None where its shape allows both and it has no mark."""
    return [_reading(arg, i, batch) for i, arg in enumerate(args)]


def _reading(arg: Any, i: int, batch: int) -> bool | None:
    if not isinstance(arg, Marked):
        return None if has_batch_length(arg, batch) else False
    if arg.reading == "per example" and len(arg.value) != batch:
        raise ValueError(
            f"additional_forward_args[{i}] is marked lp.per_example and has {len(arg.value)} rows for a batch of "
            f"{batch}: give one row for each example, or mark it lp.shared(…)"
        )
    return arg.reading == "per example" or (arg.reading == "by length" and has_batch_length(arg.value, batch))


Answers = list[tuple[Tensor, Tensor | None]]
"""For some rows, each on its own: what the model returns, and the score, where there is one."""


def settle_readings(
    readings: Sequence[bool | None], batch: int, shapes: Sequence[str], answers: Callable[[list[bool]], Answers | None],
    allowed: float,
) -> list[bool]:  # fmt: skip
    """Readings without None: the only ones that the model can work with, or any, if all give the same answers.

    Args:
        readings: of each argument, from `readings_of`.
        batch: examples.
        shapes: of each argument, for the error.
        answers: runs the model under some readings; None where it cannot work with them.
        allowed: rounding error, relative to the largest number.

    ValueError where the answers differ, since nobody but the user knows which is meant.
    """
    unclear = [i for i, reading in enumerate(readings) if reading is None]
    if len(unclear) > MOST_UNCLEAR:
        raise ValueError(
            f"{len(unclear)} extra arguments have the batch's length {batch}: mark each of them, as in "
            "additional_forward_args=(lp.per_example(mask), lp.shared(weights))"
        )
    possible = [
        [dict(zip(unclear, chosen, strict=True)).get(i, bool(reading)) for i, reading in enumerate(readings)]
        for chosen in product((True, False), repeat=len(unclear))
    ]
    if len(possible) == 1:
        return possible[0]
    found = [(reading, answer) for reading in possible if (answer := answers(reading)) is not None]
    scored = [(reading, answer) for reading, answer in found if all(score is not None for _, score in answer)]
    found = scored or found
    if not found:
        return possible[0]  # the model's own error will come
    first, answer = found[0]
    for other, others in found[1:]:
        if not _same(answer, others, allowed, by_score=batch == 1):
            i = next(i for i in unclear if first[i] != other[i])
            raise ValueError(
                f"additional_forward_args[{i}] has shape {shapes[i]}, and the batch has {batch} examples too: it could "
                "be shared by all examples or have one row for each, and the answers differ. Mark it: lp.shared(…) or "
                "lp.per_example(…)"
            )
    return first


def _same(first: Answers, second: Answers, allowed: float, by_score: bool) -> bool:
    for (a, score_a), (b, score_b) in zip(first, second, strict=True):
        if a.shape == b.shape:
            same = _close(a, b, allowed)
        else:  # of one example, rows beside its own may add columns that no one asks for
            same = by_score and score_a is not None and score_b is not None and _close(score_a, score_b, allowed)
        if not same:
            return False
    return True


def _close(a: Tensor, b: Tensor, allowed: float) -> bool:
    both = torch.stack([a.detach().double(), b.detach().double()])
    largest = float(both.nan_to_num().abs().amax()) if both.numel() else 0.0
    return torch.allclose(both[0], both[1], rtol=0.0, atol=allowed * largest, equal_nan=True)
