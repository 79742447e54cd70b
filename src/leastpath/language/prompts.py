"""Prompts: the text or chat that a model reads, as tokens, and these as features: words, sentences, marked spans."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import torch
from torch import Tensor

from leastpath.transformers import Piece

Chat = Sequence[Mapping[str, str]]
Word = Literal["tokens", "words", "sentences", "turns"]
Span = str | tuple[int, int]
Groups = Word | Sequence[Span]

# A sign of Chinese, Japanese or Korean; letters and digits, also around an apostrophe or hyphen; other signs in a row.
WORDS = re.compile(
    r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]|[^\W\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]+(?:['’-]\w+)*|[^\w\s]+"
)
SENTENCES = re.compile(r"\S.*?(?:[.!?…]+[\"'”’)]*(?=\s|$)|[。！？]|(?=\n)|$)")


@dataclass(frozen=True)
class Prompt:
    """A prompt as its tokens.

    Example:
        >>> Prompt("a b", torch.tensor([0, 1]), ("a", "b"), ((0, 1), (2, 3)), torch.tensor([True, True]), ()).text
        'a b'
    """

    text: str  #: as the model reads it, with what a chat template adds
    ids: Tensor  #: (length,)
    tokens: tuple[str, ...]  #: as the tokenizer writes them
    extents: tuple[tuple[int, int], ...]  #: where each token stands in the text, without white space around it
    free: Tensor  #: (length,) bool; False for special tokens and for the template's own
    turns: tuple[tuple[int, int], ...]  #: of a chat: where each message stands in the text


def read_prompt(tokenizer: Any, prompt: str | Chat, keep_special: bool = True) -> Prompt:
    """The tokens of a text or of a chat, and which of them are explained.

    Args:
        tokenizer: of the model, a fast one of Hugging Face.
        prompt: a text, or the messages of a chat, [{"role": "user", "content": "…"}].
        keep_special: special tokens are no features.

    Example:
        >>> read_prompt(None, "")
        Traceback (most recent call last):
        ...
        ValueError: the prompt is empty: pass a text, or messages such as [{"role": "user", "content": "Why?"}]
    """
    if not isinstance(prompt, str):
        given: Any = prompt  # callers need not keep to the types
        if not isinstance(given, Sequence) or not all(isinstance(message, Mapping) for message in given):
            _refuse(f"the prompt is {type(prompt).__name__}")
        return _read_chat(tokenizer, list(prompt), keep_special)
    if not prompt.strip():
        _refuse()
    return _read_text(tokenizer, prompt, (), keep_special)


def _refuse(found: str = "the prompt is empty") -> None:
    raise ValueError(found + ': pass a text, or messages such as [{"role": "user", "content": "Why?"}]')


def _read_chat(tokenizer: Any, messages: list[Mapping[str, str]], keep_special: bool) -> Prompt:
    for message in messages:
        if not all(isinstance(message.get(name), str) for name in ("role", "content")):
            _refuse(f"the message {message!r:.80} has no role, or no text as its content")
    if not any(message["content"].strip() for message in messages):
        _refuse()
    if getattr(tokenizer, "chat_template", None) is None:
        raise ValueError(
            "the prompt is a chat and the tokenizer has no chat template: set tokenizer.chat_template, or pass a text"
        )

    def write(contents: Sequence[str]) -> str:
        told = [{**message, "content": content} for message, content in zip(messages, contents, strict=True)]
        return str(tokenizer.apply_chat_template(told, tokenize=False, add_generation_prompt=True))

    text, turns, at = write([message["content"] for message in messages]), [], 0
    marks = [f"<message {k}>" for k in range(len(messages))]
    marked = write(marks)  # a message may also stand in what the template says itself
    for message, mark in zip(messages, marks, strict=True):
        content, (before, _, marked) = message["content"].strip(), marked.partition(mark)
        begin = text.find(content, at + len(before) if text.startswith(before, at) else at)
        if begin < 0:
            raise ValueError(f"the chat template changes the message {content[:40]!r}: pass what it writes as a text")
        turns.append((begin, at := begin + len(content)))
    return _read_text(tokenizer, text, tuple(turns), keep_special)


def _read_text(tokenizer: Any, text: str, turns: tuple[tuple[int, int], ...], keep_special: bool) -> Prompt:
    if not getattr(tokenizer, "is_fast", False):
        raise ValueError(
            f"{type(tokenizer).__name__} does not say where its tokens stand in the text: use a fast tokenizer, as "
            "AutoTokenizer.from_pretrained(…, use_fast=True) gives"
        )
    encoded = tokenizer(text, return_offsets_mapping=True, add_special_tokens=not turns)
    ids = encoded["input_ids"]
    if not ids:
        _refuse()
    special = set(tokenizer.all_special_ids)
    extents = tuple(_trim(text, *offsets) for offsets in encoded["offset_mapping"])
    free = [not (keep_special and i in special) and begin < end for i, (begin, end) in zip(ids, extents, strict=True)]
    if turns:
        inside = [any(first <= begin and end <= last for first, last in turns) for begin, end in extents]
        free = [one and other for one, other in zip(free, inside, strict=True)]
    if not any(free):
        raise ValueError("the prompt has no token to explain, only special ones: explain them with keep_special=False")
    tokens = tuple(tokenizer.convert_ids_to_tokens(ids))
    return Prompt(text, torch.tensor(ids), tokens, extents, torch.tensor(free), turns)


def _trim(text: str, begin: int, end: int) -> tuple[int, int]:
    """An extent without the white space around it, unless it holds nothing else."""
    part = text[begin:end]
    if not part.strip():
        return begin, end
    return begin + len(part) - len(part.lstrip()), begin + len(part.rstrip())


def cut_features(prompt: Prompt, groups: Groups) -> tuple[Piece, ...]:
    """The features of a prompt: pieces of its text with the positions of their tokens, in reading order.

    Args:
        prompt: of `read_prompt`.
        groups: "tokens", "words", "sentences", "turns" of a chat, or spans that the user marks: pieces of the text as
            they stand in it, one after another, or (begin, end) in characters. What lies outside of them is fixed.
    """
    places = prompt.free.nonzero()[:, 0].tolist()
    if isinstance(groups, str) and groups == "tokens":
        return _pieces(prompt, [(place,) for place in places])
    ranges = _ranges(prompt, groups)
    marked = not isinstance(groups, str)
    found: dict[tuple[int, int], list[int]] = {}
    for place in places:
        begin, end = prompt.extents[place]
        if prompt.text[begin:end].isspace() and "\n" not in prompt.text[begin:end]:
            begin = end  # a space that is a token of its own goes with the word behind it
        middle = (begin + end) / 2
        own = next((one for one in ranges if one[0] <= middle < one[1]), None)
        if own is None and marked:
            continue
        own = own or prompt.extents[place]  # a line break, for instance, is a feature of its own
        found.setdefault(own, []).append(place)
    missing = [one for one in ranges if one not in found]
    if marked and missing:
        raise ValueError(
            f"the span {prompt.text[slice(*missing[0])]!r} holds no token of its own: mark whole words that are no "
            "part of another span or of the template"
        )
    return _pieces(prompt, [tuple(own) for own in found.values()])


def sentence_starts(prompt: Prompt, features: Sequence[Piece]) -> tuple[int, ...]:
    """The numbers of the features that begin a sentence, but the first."""
    firsts = {sentence.positions[0] for sentence in cut_features(prompt, "sentences")}
    return tuple(k for k, piece in enumerate(features) if k and piece.positions[0] in firsts)


def _ranges(prompt: Prompt, groups: Groups) -> list[tuple[int, int]]:
    if isinstance(groups, str):
        if groups == "turns":
            return list(prompt.turns) or [(0, len(prompt.text))]
        if groups not in get_args(Word):
            raise ValueError(f"groups={groups!r} is unknown: use one of {list(get_args(Word))}, or spans of the text")
        pattern = WORDS if groups == "words" else SENTENCES
        return [(match.start(), match.end()) for match in pattern.finditer(prompt.text)]
    found, at = [], 0
    for span in groups:
        if isinstance(span, str):
            begin = prompt.text.find(span, at)
            if begin < 0:
                raise ValueError(
                    f"groups: {span!r} does not stand in the prompt{' behind the span before it' * bool(at)}: pass "
                    "pieces of the prompt in reading order, or (begin, end) in characters"
                )
            found.append((begin, begin + len(span)))
        else:
            found.append((int(span[0]), int(span[1])))
        at = found[-1][1]
    return found


def _pieces(prompt: Prompt, groups: list[tuple[int, ...]]) -> tuple[Piece, ...]:
    pieces = []
    for group in groups:
        begin, end = prompt.extents[group[0]][0], prompt.extents[group[-1]][1]
        space = re.match(r"\s*", prompt.text[end:])
        text = prompt.text[begin:end]
        pieces.append(Piece(text.lstrip(" ") or text, space.group() if space else "", group))
    return tuple(pieces)
