"""Texts and a Hugging Face model: tokens, and the words that they are parts of."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from leastpath.explorer.subject import LayerAsInput, Start, Subject
from leastpath.explorer.uploads import keep_together, text_from
from leastpath.heads import ReplacedTokens
from leastpath.score.arguments import per_example
from leastpath.score.score import Score
from leastpath.transformers import baseline_id, embedding_of, start_vectors, token_pieces, tokenize

STARTS = {"pad": "padding token", "mask": "mask token", "zero": "zeros"}


class TextSource:
    """A text classifier, its tokenizer and the texts to look at.

    Args:
        model: a model for sequence classification, or any module that takes `input_ids` and returns logits.
        tokenizer: its tokenizer.
        texts: what is explained.
        target: the class; None: the predicted one.
        recipe: Python lines that make `model` and `tokenizer`; None: a comment says that they are yours.
    """

    kind: Any = "text"

    def __init__(
        self,
        model: nn.Module,
        tokenizer: Any,
        texts: Sequence[str],
        *,
        target: int | None = None,
        recipe: Sequence[str] | None = None,
    ) -> None:
        self._model, self._tokenizer, self._texts = model, tokenizer, list(texts)
        if not self._texts:
            raise ValueError("texts is empty: pass one text at least, TextSource(model, tokenizer, ['a fine film'])")
        self._embedding = embedding_of(model)
        self._target = target
        given = ("# model, tokenizer: as you gave them to TextSource",) if recipe is None else recipe
        self._recipe = ("from leastpath.explorer.sources.texts import TextSource", *given)
        labels = getattr(getattr(model, "config", None), "id2label", None) or {}
        self._classes = [str(labels[i]) for i in range(len(labels))] if set(labels) == set(range(len(labels))) else None
        # Held by whoever calls the model or its embedding: the points of one thread must not reach another.
        self._one_at_a_time = threading.RLock()

    @property
    def samples(self) -> list[str]:
        """The texts, cut short."""
        return list(map(_cut, self._texts))

    def subject(self, sample: int) -> Subject:
        """One text."""
        return self._subject(self._texts[sample])

    def _subject(self, text: str) -> Subject:
        encoded, names = tokenize(self._model, self._tokenizer, [text], None)
        device = next(self._model.parameters()).device
        ids = encoded["input_ids"].to(device)
        free = (encoded["attention_mask"] * (1 - encoded["special_tokens_mask"])).bool().to(device)
        with self._one_at_a_time:
            vectors = Score(self._embedding).outputs(ids)
        wrapped = ReplacedTokens(self._model, self._embedding, names)
        over = LayerAsInput(wrapped, wrapped.probe, self._one_at_a_time)
        others = tuple(encoded[name].to(device) for name in names)
        score = Score(over, self._target, additional_forward_args=tuple(map(per_example, (ids, free, *others))))
        features = torch.arange(ids.shape[1])[:, None].expand(vectors.shape[1:])
        units = torch.where(free[0].cpu()[:, None], features, -1)
        tokens = self._tokens(encoded, text, free)
        return Subject(
            "text", _cut(text), score, vectors, self._starts(ids, free), units,
            tuple(str(token["name"]) for token in tokens), features, details=tokens, classes=self._classes,
            recipe=(*self._recipe, f"subject = TextSource(model, tokenizer, [{text!r}]).subject(0)"),
        )  # fmt: skip

    def add(self, name: str, content: bytes, check: Callable[[Subject], Any] | None = None) -> int:
        """One more text."""
        text = text_from(name, content)
        tokenize(self._model, self._tokenizer, [text], None)  # refuses what is too long for the model
        if check is not None:
            check(self._subject(text))
        return keep_together(self._texts, [text])

    def _starts(self, ids: Tensor, free: Tensor) -> Mapping[str, Start]:
        starts = {}
        for name, label in STARTS.items():
            try:
                token = baseline_id(name, self._tokenizer)  # type: ignore[arg-type]
            except ValueError:  # the tokenizer has no such token
                continue
            starts[name] = Start(label, partial(self._start, ids, free, token), is_usual=token is not None)
        return starts

    def _start(self, ids: Tensor, free: Tensor, token: int | None, score: Any) -> Tensor:
        with self._one_at_a_time:
            return start_vectors(self._embedding, ids, free, token)

    def _tokens(self, encoded: Any, text: str, free: Tensor) -> tuple[Mapping[str, Any], ...]:
        pieces = token_pieces(self._tokenizer, encoded, 0, text)
        words = encoded.word_ids(0) if getattr(self._tokenizer, "is_fast", False) else list(range(len(pieces)))
        found, number, last = [], -1, object()
        for i, piece in enumerate(pieces):
            number += words[i] is None or words[i] != last
            last = words[i] if words[i] is not None else object()
            special = not bool(free[0, i])
            found.append({"name": piece.text, "space": piece.space, "word": number, "special": special})
        return tuple(found)


def _cut(text: str) -> str:
    return text if len(text) <= 60 else f"{text[:57]}…"
