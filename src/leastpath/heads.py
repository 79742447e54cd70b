"""Heads of Hugging Face models: whatever a model answers becomes (rows, classes), one row for each thing to explain.

A tagger has a row for each entity that it finds, a reader one for the span that it answers with, a masked model one for
the word at the mask, a model of several choices one for the chosen text, and two texts that are compared have one each.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from leastpath._support.threads import in_this_thread
from leastpath.score.calls import Output
from leastpath.score.score import Score

Text = str | tuple[str, str]


def input_device(model: nn.Module, embedding: nn.Module) -> torch.device:
    """Where ids go: to the embedding, also of a model that is spread over devices or whose weights lie on a disk."""
    hook = getattr(embedding, "_hf_hook", None) or getattr(model, "_hf_hook", None)
    placed = getattr(hook, "execution_device", None)
    if placed is not None:
        return torch.device(placed if not isinstance(placed, int) else f"cuda:{placed}")
    weight = next(embedding.parameters(), None)
    weight = next(model.parameters(), None) if weight is None else weight
    return torch.device("cpu") if weight is None or weight.device.type == "meta" else weight.device


class ReplacedTokens(nn.Module):
    """The model over token ids, whose free tokens' embeddings pass through a probe: explaining the probe explains
    them, and nothing else can move.

    Args:
        model: that takes `input_ids`.
        embedding: its module that turns ids into vectors.
        names: of further arguments that the model takes, in the order in which they are given.
        read: what is made of the model's output and of the arguments behind those: (rows, classes).
    """

    def __init__(
        self, model: nn.Module, embedding: nn.Module, names: Sequence[str], read: Callable[..., Any] | None = None
    ) -> None:
        super().__init__()
        self.model = model
        self.embedding = embedding
        self.names = tuple(names)
        self.read = read
        self.probe = nn.Identity()
        self.training = model.training

    cuts = False  # whether a call ends where its longest text does: set where padding is known to change nothing

    def row_lengths(self, ids: Tensor, free: Tensor, *others: Tensor) -> Tensor | None:
        """(rows,) how far each text reaches, if calls are cut: rows of like length then share a call."""
        if not self.cuts or "attention_mask" not in self.names:
            return None
        there = others[self.names.index("attention_mask")] != 0
        return (there * torch.arange(1, ids.shape[1] + 1, device=ids.device)).amax(1)

    def forward(self, ids: Tensor, free: Tensor, *others: Tensor) -> Any:
        named, extra, reach = others[: len(self.names)], others[len(self.names) :], self.row_lengths(ids, free, *others)
        n = ids.shape[1] if reach is None else int(reach.max())
        every = self.embedding(ids)  # the probe sees all of them: what is explained has one length for all calls
        moved = torch.where(free[..., None], self.probe(every), every)[:, :n]
        ids, named = ids[:, :n], tuple(part[:, :n] for part in named)

        waiting = [moved]

        def through(_module: nn.Module, _args: Any, vectors: Tensor) -> Tensor:
            if not waiting or vectors.shape != moved.shape:
                raise ValueError("layer ran 2 times in one forward pass: the model embeds more than the tokens given")
            return waiting.pop()

        with self.embedding.register_forward_hook(in_this_thread(through)):
            output = self.model(input_ids=ids, **dict(zip(self.names, named, strict=True)))
        return output if self.read is None else self.read(output, *extra)


class ReplacedChoice(ReplacedTokens):
    """The same for a model that compares several texts: those of one choice move, the others are what they are."""

    def forward(self, ids: Tensor, free: Tensor, *others: Tensor) -> Any:
        *_, every, masks, which = others  # (rows, choices, length) twice, (rows,)
        rows = torch.arange(len(ids), device=ids.device)

        def through(_module: nn.Module, _args: Any, vectors: Tensor) -> Tensor:
            grid = vectors.reshape(*every.shape, -1)
            own = grid[rows, which]
            moved = torch.where(free[..., None], self.probe(own), own)
            return grid.index_put((rows, which), moved.to(grid)).reshape(vectors.shape)

        with self.embedding.register_forward_hook(in_this_thread(through)):
            return self.model(input_ids=every, attention_mask=masks)


class ReplacedSide(ReplacedTokens):
    """The cosine of two texts' mean vectors, of which one moves: (rows, 1)."""

    def forward(self, ids: Tensor, free: Tensor, *others: Tensor) -> Any:
        *_, mask, other, other_mask = others
        with torch.set_grad_enabled(False):
            fixed = mean_vector(self.model(input_ids=other, attention_mask=other_mask), other_mask)
        named = others[: len(self.names)]
        moving = mean_vector(super().forward(ids, free, *named), mask)
        return nn.functional.cosine_similarity(moving, fixed)[:, None]


def mean_vector(output: Any, mask: Tensor) -> Tensor:
    """The mean over a text's tokens of what a model without a head returns: (rows, width)."""
    states = output.last_hidden_state
    weights = mask[:, : states.shape[1]].to(states)[..., None]
    return (states * weights).sum(1) / weights.sum(1)


@dataclass(frozen=True)
class Head:
    """What is explained of a model's answer, row by row."""

    texts: list[Text]
    """One for each row."""
    target: Any = None
    """As the user gave it, or a class for each row."""
    names: tuple[str, ...] | None = None
    """What each row explains; None: the model's names of classes."""
    read: Callable[..., Any] | None = None
    extra: tuple[Tensor, ...] = ()
    wrapper: type[ReplacedTokens] = ReplacedTokens
    output: Output | None = None


Encode = Callable[[list[Text]], Any]


def find_head(model: nn.Module, tokenizer: Any, texts: Sequence[Any], target: Any, encode: Encode, run: Any) -> Head:
    """The head that a model has, recognised by the name of its class, and the rows that it makes of some texts.

    Args:
        model: of Hugging Face, or any other, which is taken for a classifier of texts.
        tokenizer: its own.
        texts: as the user gave them.
        target: as the user gave it.
        encode: texts to the tokenizer's answer.
        run: the tokenizer's answer to the model's.
    """
    names = [kind.__name__ for kind in type(model).__mro__]
    for ending, find in HEADS.items():
        if any(name.endswith(ending) for name in names):
            return find(model, tokenizer, list(texts), target, encode, run)
    is_bare = names[0].endswith("Model") and hasattr(model, "base_model_prefix")
    if is_bare:
        if not all(isinstance(text, tuple) and len(text) == 2 for text in texts):
            raise ValueError(
                f"{names[0]} has no head: pass pairs of texts, whose similarity is explained, or a model with a "
                "classification head, as AutoModelForSequenceClassification gives"
            )
        return _find_sides(tokenizer, list(texts), encode)
    return Head(list(texts), target)


def _refuse_generation(model: nn.Module, *_: Any) -> Head:
    raise ValueError(
        f"{type(model).__name__} generates text, and this explains classes: use "
        "leastpath.language.explain(model, tokenizer, prompt)"
    )


def check_generates(model: nn.Module) -> None:
    """Refuse a model whose head is not one that generates text; a masked one has logits of the same shape."""
    others = ("ForSequenceClassification", *(end for end, find in HEADS.items() if find is not _refuse_generation))
    if any(kind.__name__.endswith(others) for kind in type(model).__mro__):
        raise ValueError(
            f"{type(model).__name__} does not generate text: use leastpath.transformers.explain(model, tokenizer, text)"
        )


def _find_entities(model: nn.Module, tokenizer: Any, texts: list[Any], target: Any, encode: Encode, run: Any) -> Head:
    """A row for each entity: words in a row whose label is the same, apart from B- and I-; "O" is none.

    A target is a label: only entities of that label.
    """
    encoded = encode(texts)
    logits = run(encoded).logits  # (texts, length, labels)
    config: Any = model.config
    labels = {int(i): str(name) for i, name in config.id2label.items()}
    rows, places, classes, names = [], [], [], []
    for b, text in enumerate(texts):
        last: tuple[str, int | None] = ("O", None)
        for place, word in enumerate(encoded.word_ids(b)):
            if word is None:
                last = ("O", None)
                continue
            label = labels[int(logits[b, place].argmax())]
            kind = label.partition("-")[2] or label
            begins = kind not in ("O", "LABEL_O") and word != last[1] and (kind != last[0] or label.startswith("B-"))
            if begins and target in (None, label, kind):
                rows.append(text)
                places.append(place)
                classes.append(int(logits[b, place].argmax()))
                names.append(f"{_word_at(text, encoded, b, word)}: {kind}")
            last = (kind, word)
    if not rows:
        wanted = "" if target is None else f" of label {target!r}"
        raise ValueError(f"the model finds no entity{wanted} in these texts: pass others, or target=None")

    def read(output: Any, place: Tensor) -> Tensor:
        return output.logits[torch.arange(len(place), device=place.device), place]

    return Head(rows, classes, tuple(names), read, (torch.tensor(places),))


def _word_at(text: str, encoded: Any, b: int, word: int) -> str:
    begin, end = encoded.word_to_chars(b, word)
    return text[begin:end]


def _find_span(model: nn.Module, tokenizer: Any, texts: list[Any], target: Any, encode: Encode, run: Any) -> Head:
    """A row for each (question, context): log p of the start plus log p of the end of the answer.

    A target is the answer itself, as it stands in the context.
    """
    if not all(isinstance(text, tuple) and len(text) == 2 for text in texts):
        raise ValueError('a model that answers questions reads pairs: explain(model, tokenizer, ("Who?", "Mary did."))')
    encoded = encode(texts)
    answer = run(encoded)
    spans, names = [], []
    for b, (_, context) in enumerate(texts):
        inside = torch.tensor([i == 1 for i in encoded.sequence_ids(b)])
        if target is None:
            first, last = _best_span(answer.start_logits[b].cpu(), answer.end_logits[b].cpu(), inside)
        else:
            at = context.find(str(target))
            if at < 0:
                raise ValueError(f"target={target!r} does not stand in the context {context[:60]!r}: pass words of it")
            first = encoded.char_to_token(b, at, 1)
            last = encoded.char_to_token(b, at + len(str(target)) - 1, 1)
        spans.append((first, last))
        begin, end = encoded.token_to_chars(b, first), encoded.token_to_chars(b, last)
        names.append(f"answer “{context[begin.start : end.end]}”")

    def read(output: Any, span: Tensor, there: Tensor) -> Tensor:
        """No answer begins or ends in padding, which a text has only beside longer ones."""
        rows = torch.arange(len(span), device=span.device)
        ends = (output.start_logits, output.end_logits)
        logs = [
            logits.float().masked_fill(~there[:, : logits.shape[1]].bool(), -torch.inf).log_softmax(-1)
            for logits in ends
        ]
        return (logs[0][rows, span[:, 0]] + logs[1][rows, span[:, 1]])[:, None]

    return Head(list(texts), None, tuple(names), read, (torch.tensor(spans), encoded["attention_mask"]), output="raw")


def _best_span(start: Tensor, end: Tensor, inside: Tensor, longest: int = 30) -> tuple[int, int]:
    """The most probable span inside the context, not turned round and not too long."""
    n = len(start)
    total = start[:, None] + end[None, :]
    places = torch.arange(n)
    allowed = inside[:, None] & inside[None, :] & (places[:, None] <= places) & (places - places[:, None] < longest)
    best = int(torch.where(allowed, total, -math.inf).argmax())
    return best // n, best % n


def _find_mask(model: nn.Module, tokenizer: Any, texts: list[Any], target: Any, encode: Encode, run: Any) -> Head:
    """A row for each text with a mask: log p of the word that stands there. A target is a word, or its token id."""
    encoded = encode(texts)
    is_mask = encoded["input_ids"] == tokenizer.mask_token_id
    if tokenizer.mask_token_id is None or not bool(is_mask.any(1).all()):
        raise ValueError(f"a masked language model fills {tokenizer.mask_token}: write it where a word is asked for")
    places = is_mask.int().argmax(1)
    logits = run(encoded).logits
    classes = logits[torch.arange(len(texts)), places].argmax(-1).cpu()
    if isinstance(target, str):
        ids = tokenizer(target, add_special_tokens=False)["input_ids"]
        if len(ids) != 1:
            raise ValueError(f"target={target!r} is {len(ids)} tokens, and one mask stands for one: pass another word")
        classes = torch.full((len(texts),), ids[0])
    elif target is not None:
        classes = torch.as_tensor(target).expand(len(texts))
    names = tuple(tokenizer.convert_ids_to_tokens(classes.tolist()))

    def read(output: Any, place: Tensor) -> Tensor:
        return output.logits[torch.arange(len(place), device=place.device), place]

    return Head(list(texts), classes.tolist(), names, read, (places,))


def _find_choice(model: nn.Module, tokenizer: Any, texts: list[Any], target: Any, encode: Encode, run: Any) -> Head:
    """A row for each (context, choices): the chosen one moves, the others stay. A target is the number of a choice."""
    for text in texts:
        if not isinstance(text, tuple) or len(text) != 2 or isinstance(text[1], str) or len(text[1]) < 2:
            raise ValueError(
                'multiple choice reads a text and its choices: ("It rained.", ["He is wet.", "He is dry."])'
            )
    if len({len(choices) for _, choices in texts}) > 1:
        raise ValueError("texts have different numbers of choices: explain them in calls of their own")
    flat = encode([(context, choice) for context, choices in texts for choice in choices])
    shape = (len(texts), len(texts[0][1]), -1)
    ids, masks = flat["input_ids"].reshape(shape), flat["attention_mask"].reshape(shape)
    logits = Score(lambda ids, masks: model(input_ids=ids, attention_mask=masks)).outputs((ids, masks))
    which = logits.argmax(1).cpu() if target is None else torch.as_tensor(target).expand(len(texts))
    rows: list[Text] = [(context, choices[int(k)]) for (context, choices), k in zip(texts, which, strict=True)]
    return Head(rows, which.tolist(), tuple(pair[1] for pair in rows), None, (ids, masks, which), ReplacedChoice)


def _find_sides(tokenizer: Any, texts: list[Any], encode: Encode) -> Head:
    """Two rows for each pair: what each text's words do to the cosine of their mean vectors, the other as it is."""
    rows = [side for pair in texts for side in pair]
    encoded = encode(rows)
    ids, mask = encoded["input_ids"], encoded["attention_mask"]
    turned = torch.arange(len(rows)) ^ 1
    names = tuple("cosine similarity" for _ in rows)
    return Head(rows, None, names, None, (mask, ids[turned], mask[turned]), ReplacedSide, output="raw")


HEADS: dict[str, Callable[..., Head]] = {
    "ForTokenClassification": _find_entities,
    "ForQuestionAnswering": _find_span,
    "ForMaskedLM": _find_mask,
    "ForMultipleChoice": _find_choice,
    "ForCausalLM": _refuse_generation,
    "LMHeadModel": _refuse_generation,
    "ForConditionalGeneration": _refuse_generation,
}
"""The endings of class names, and what finds the rows of a model with such a head."""
