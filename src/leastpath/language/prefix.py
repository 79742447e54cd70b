"""Prefix: what rows of a prompt have in common is run once. Keys and values of the words before the first change."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor, nn

PARTS = 4  # a prompt is cut into so many parts; rows whose first change lies in one part share what is before it
TOLERANCE = 1e-3  # in logits, relative to the largest: what sharing may change on the first trial

Run = Callable[..., Any]


class SharedPrefix:
    """Runs rows of vectors that begin like one prompt, from the first vector that differs on.

    Only without gradients, and only for models whose cache holds keys and values of every position. The first call is
    compared with a whole run; a model whose answers differ is run as a whole from then on.

    Args:
        run: `run(ids, vectors, wanted, **settings)` gives the model's output, with logits at the wanted places only.
        cache: makes an empty cache.
    """

    def __init__(self, run: Run, cache: Callable[[], Any]) -> None:
        self._run, self._new_cache = run, cache
        self._kept: tuple[Tensor, list[tuple[Tensor, Tensor]]] | None = None
        self._is_trusted: bool | None = None  # None: not yet tried

    def logits(self, ids: Tensor, own: Tensor, vectors: Tensor, wanted: Tensor) -> Tensor | None:
        """Logits (rows, wanted, vocabulary); None where nothing can be shared.

        Args:
            ids: (rows, length).
            own: (rows, length, width) the embeddings of the ids.
            vectors: (rows, length, width) what the model is to see.
            wanted: (n,) places, in ascending order.
        """
        if self._is_trusted is False or len(ids) < 2 or not bool((ids == ids[:1]).all()):
            return None
        length = ids.shape[1]
        differs = (vectors != own).any(-1)
        first = torch.where(differs.any(1), differs.int().argmax(1), length).clamp_max(int(wanted[0]))
        if int(first.max()) < max(2, length // PARTS):
            return None
        try:
            found = self._in_parts(ids, own, vectors, wanted, first)
        except (AttributeError, TypeError, IndexError, RuntimeError, ValueError):
            if self._is_trusted:
                raise
            self._is_trusted = False
            return None
        if self._is_trusted is None:
            row = int(first.argmax())
            whole = self._run(ids[row : row + 1], vectors[row : row + 1], wanted).logits[0]
            apart = float((found[row] - whole).abs().max())
            self._is_trusted = apart <= TOLERANCE * max(1.0, float(whole.abs().max()))
        return found if self._is_trusted else None

    def _in_parts(self, ids: Tensor, own: Tensor, vectors: Tensor, wanted: Tensor, first: Tensor) -> Tensor:
        found: Tensor | None = None
        for rows in _share_alike(first, ids.shape[1]):
            prefix = int(first[rows].min())
            settings = (
                {} if prefix == 0 else {"past_key_values": self._cache(ids, own, prefix, len(rows)), "use_cache": True}
            )
            logits = self._run(ids[rows, prefix:], vectors[rows, prefix:], wanted - prefix, **settings).logits
            if found is None:
                found = logits.new_empty(len(ids), *logits.shape[1:])
            found[rows.to(found.device)] = logits
        assert found is not None
        return found

    def _cache(self, ids: Tensor, own: Tensor, prefix: int, rows: int) -> Any:
        """A cache of the prompt's first positions, for some rows."""
        if self._kept is None or not torch.equal(self._kept[0], ids[0]):
            last = torch.tensor([ids.shape[1] - 1], device=ids.device)
            cache = self._run(ids[:1], own[:1], last, use_cache=True).past_key_values
            layers = [(layer.keys, layer.values) for layer in cache.layers]
            if any(keys.shape[-2] != ids.shape[1] for keys, _ in layers):
                raise ValueError("the cache does not hold every position")
            self._kept = ids[0].clone(), layers
        cache = self._new_cache()
        for number, (keys, values) in enumerate(self._kept[1]):
            cache.update(*(part[:, :, :prefix].expand(rows, -1, -1, -1) for part in (keys, values)), number)
        return cache


def _share_alike(first: Tensor, length: int) -> Iterator[Tensor]:
    """Rows (n,) by the part of the prompt in which their first change lies."""
    part = first * PARTS // max(1, length)
    for number in part.unique():
        yield (part == number).nonzero()[:, 0]


def new_cache_of(model: nn.Module) -> Callable[[], Any] | None:
    """What makes an empty cache for a model of Hugging Face; None for other models."""
    config = getattr(model, "config", None)
    if config is None or not hasattr(model, "prepare_inputs_for_generation"):
        return None
    try:
        from transformers import DynamicCache
    except ImportError:
        return None
    return DynamicCache
