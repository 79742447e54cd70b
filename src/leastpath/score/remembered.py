"""Pictures that were asked for once are not asked for again: what a model said, by the content of its input."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import blake2b
from typing import Any

import torch
from torch import Tensor

MOST_BYTES = 2**28  # of outputs that are kept
_HERE = threading.local()


class Outputs:
    """What a model returned for each of the inputs that it was given, (classes,) each; how often that was of use."""

    def __init__(self, model: Any) -> None:
        self.model, self.rows, self.n_bytes, self.n_saved = model, dict[bytes, Tensor](), 0, 0
        self.is_safe = False  # whether rows are known to be independent: before that, nothing is remembered

    def ask(self, bound: Any, points: Tensor, examples: Tensor) -> Tensor:
        """The model's output (n, …) for points (n, *shape), in full batches of those that it has not seen yet."""
        keys = [_key(point) for point in points]
        missing = {key: i for i, key in enumerate(keys) if key not in self.rows}
        new = torch.tensor(list(missing.values()), dtype=torch.long)
        found = dict(zip(missing, bound.outputs(points[new.to(points.device)], examples[new]), strict=True))
        self.n_saved += len(keys) - len(missing)
        answer = torch.stack([found[key] if key in found else self.rows[key].to(points.device) for key in keys])
        if self.n_bytes + sum(row.nbytes for row in found.values()) <= MOST_BYTES:
            self.rows.update((key, row.cpu()) for key, row in found.items())
            self.n_bytes += sum(row.nbytes for row in found.values())
        return answer


def _key(point: Tensor) -> bytes:
    return blake2b(point.cpu().contiguous().view(torch.uint8).numpy().data, digest_size=16).digest()


@contextmanager
def remember_outputs(model: Any) -> Iterator[Outputs]:
    """Inside, in this thread, the model is not run twice on the same input, as long as no gradient is asked for.

    For models in which a row is all that its output depends on: scores with a layer or with arguments of their own for
    each example are asked as ever.

    Example:
        >>> import leastpath as lp
        >>> score = lp.Score(torch.nn.Linear(2, 2).eval(), 0)
        >>> with remember_outputs(score.model):
        ...     found = [lp.attribute(score, torch.ones(1, 2), method="occlusion", support=False) for _ in range(2)]
        >>> [int(result.n_forwards) for result in found]
        [8, 0]
    """
    outer, _HERE.outputs = getattr(_HERE, "outputs", None), Outputs(model)
    try:
        yield _HERE.outputs
    finally:
        _HERE.outputs = outer


def memory_of(model: Any) -> Outputs | None:
    """Where outputs of a model are remembered here, None where they are not."""
    found: Outputs | None = getattr(_HERE, "outputs", None)
    return found if found is not None and found.model is model else None
