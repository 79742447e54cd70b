"""Prompts in the explorer: what an answer rests on, and how the next token's probabilities move with a word.

It asks `leastpath.language`, in the background; the page is `page/prompt.html`.
"""

from __future__ import annotations

import hashlib
import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from leastpath._support.threads import in_this_thread
from leastpath._support.version import __version__
from leastpath.explorer.findings import evidence
from leastpath.explorer.meter import Meter
from leastpath.explorer.tasks import EMPTY, Task, Working, check_mapping
from leastpath.explorer.uploads import text_from
from leastpath.heads import input_device
from leastpath.language import PromptExplanation, explain
from leastpath.language.answers import output_logits
from leastpath.language.explaining import OWN, ask
from leastpath.methods import METHODS
from leastpath.removal.verdict import headline
from leastpath.score.calls import leave_untouched
from leastpath.transformers import embedding_of

GROUPS = ("words", "tokens", "sentences")
METHODS_OFFERED = ("leave_one_out", "token_staircase", "integrated_gradients")
RECOMMENDED = "Each word left out, weighted by how little it was expected; Owen values for long prompts."
MOST_LETTERS = 20_000  # of a prompt
MOST_NEW_TOKENS = 64
SHOWN = 8  # next tokens
TEST_ROWS = 480  # that the test by removal takes, roughly: for the bar of progress only
DEFAULTS: Mapping[str, Any] = {
    "prompt": "", "continuation": "", "contrast": "", "groups": "words", "method": "", "max_new_tokens": 1,
    "chat": False,
}  # fmt: skip


@dataclass(frozen=True)
class PromptSource:
    """A language model, its tokenizer, and the prompt that the page begins with.

    Example:
        >>> from leastpath.language.toy import toy_model
        >>> source = PromptSource(*toy_model(), "the capital of France is", "Paris", contrast="Rome")
        >>> source.about["contrast"]
        'Rome'
    """

    model: nn.Module
    """As `leastpath.language.explain` takes it."""
    tokenizer: Any
    prompt: str
    continuation: str | None = None
    """The answer; None: what the model says."""
    contrast: str | None = None
    """An answer that it is compared with."""
    groups: str = "words"
    max_new_tokens: int = 1
    """Of the answer that the model gives itself."""
    recipe: Sequence[str] = field(default=("# model, tokenizer: as you gave them to PromptSource",))
    """Python lines that make `model` and `tokenizer`."""

    @property
    def about(self) -> dict[str, Any]:
        """What the page asks first."""
        own = {"continuation": self.continuation or "", "contrast": self.contrast or "", "groups": self.groups}
        return {**DEFAULTS, "prompt": self.prompt, **own, "max_new_tokens": self.max_new_tokens}


@dataclass(frozen=True)
class Asked:
    """An explanation with what was asked, and the ids of its answers."""

    about: Mapping[str, Any]
    shown: dict[str, Any]


class PromptSession(Working[Asked]):
    """Prompts and their explanations. It keeps no choice: every request says what it is about."""

    page = "prompt.html"

    def __init__(self, source: PromptSource, sentence: str = "") -> None:
        super().__init__()
        self.source, self.sentence = source, sentence
        self.answers = {"next": self.next}
        self._wanted(self.source.about)

    def state(self, about: Mapping[str, Any] = EMPTY) -> dict[str, Any]:
        """What is asked, all that may be chosen, and which of the `results` that a page names are here."""
        wanted = self._wanted(about)
        named = about.get("results", [])
        mine = [key for key in named if self._found.get(key)] if isinstance(named, list) else []
        return {
            "kind": "prompt", "title": wanted["prompt"], "sentence": self.sentence, "version": __version__,
            "offline": False, "about": wanted, "groups": list(GROUPS), "methods": _describe_methods(),
            "has_chat": getattr(self.source.tokenizer, "chat_template", None) is not None,
            "results": mine or ([self._key(wanted)] if self._found.get(self._key(wanted)) else []),
        }  # fmt: skip

    def start(self, wanted: Mapping[str, Any]) -> Task:
        """Begin to explain what is wanted. What is finished already is so at once."""
        about = self._wanted(check_mapping("about", wanted.get("about", {})))
        key = self._key(about)

        def work(task: Task) -> tuple[str, bool]:
            if self._found.get(key) is None:
                self._found.put(key, Asked(about, self._explain(key, about, task.meter)))
            return key, False

        return self._worker.begin(work, Meter(4 * len(about["prompt"].split()) + TEST_ROWS), key)

    def start_first(self) -> list[Task]:
        """Begin with what the page asks for first, before it asks."""
        return [self.start({})]

    def result(self, key: str) -> dict[str, Any]:
        """What was found, as the page reads it."""
        return self._found.ask(key).shown

    def next(self, wanted: Mapping[str, Any]) -> dict[str, Any]:
        """What follows a prompt: the most probable next tokens, and how probable some answers are. Two forwards.

        `wanted` has "about" and, optionally, "answers", lists of token ids, and "tokens" whose probabilities are
        asked for in any case.
        """
        about = self._wanted(check_mapping("about", wanted.get("about", {})))
        answers = [_check_ids(ids) for ids in _check_list("answers", wanted.get("answers", []))][:2]
        return self._next(about, answers, _check_ids(wanted.get("tokens", [])))

    def code(self, about: Mapping[str, Any] = EMPTY) -> str:
        """Python that reproduces what is shown."""
        wanted = self._wanted(about)
        settings = {name: wanted[name] for name in DEFAULTS if wanted[name] != DEFAULTS[name] and name != "chat"}
        prompt, answer = settings.pop("prompt"), settings.pop("continuation", None)
        given = [repr(_chat(prompt) if wanted["chat"] else prompt), *([] if answer is None else [repr(answer)])]
        more = [f"{name}={value!r}" for name, value in settings.items()]
        call = f"leastpath.language.explain(model, tokenizer, {', '.join([*given, *more])})"
        lines = ["import leastpath.language", "", *self.source.recipe, "", f"explained = {call}", "print(explained)"]
        return "\n".join([*lines, "print(list(zip(explained.features, explained.values.tolist())))"]) + "\n"

    def add(self, name: str, content: bytes, about: Mapping[str, Any] = EMPTY) -> dict[str, Any]:
        """A text file becomes the prompt."""
        return self.state({**about, "prompt": text_from(name, content)})

    def save(self, key: str) -> bytes:
        """Refused: the numbers of a prompt are its JSON."""
        raise ValueError("an explanation of a prompt is saved as JSON, or by leastpath.language.explain(…).save(path)")

    # ---- asking the model ----------------------------------------------------------------------------------------

    def _wanted(self, about: Mapping[str, Any]) -> dict[str, Any]:
        """What is asked, checked and complete."""
        given = {**self.source.about, **{name: value for name, value in about.items() if name != "results"}}
        for name, value in given.items():
            if type(value) is not type(DEFAULTS.get(name)):
                known = ", ".join(f"{name} ({type(default).__name__})" for name, default in DEFAULTS.items())
                raise ValueError(f"{name}={value!r:.200} cannot be asked: a prompt has {known}")
        if not 0 < len(given["prompt"].strip()) <= MOST_LETTERS:
            raise ValueError(f"the prompt has {len(given['prompt'])} letters, expected 1 to {MOST_LETTERS:,}")
        if not 1 <= given["max_new_tokens"] <= MOST_NEW_TOKENS:
            raise ValueError(f"max_new_tokens={given['max_new_tokens']} is not from 1 to {MOST_NEW_TOKENS}")
        for name, offered in (("groups", GROUPS), ("method", ("", *METHODS_OFFERED))):
            if given[name] not in offered:
                raise ValueError(f"{name}={given[name]!r:.200} is unknown: use one of {', '.join(offered)}")
        return given | {"max_new_tokens": 1} if given["continuation"] else given  # nothing is generated then

    def _key(self, about: Mapping[str, Any]) -> str:
        return f"prompt-{hashlib.sha256(repr(sorted(about.items())).encode()).hexdigest()[:12]}"

    def _read(self, about: Mapping[str, Any]) -> Any:
        return _chat(about["prompt"]) if about["chat"] else about["prompt"]

    def _explain(self, key: str, about: Mapping[str, Any], meter: Meter) -> dict[str, Any]:
        began, source = time.monotonic(), self.source

        def count(_module: nn.Module, given: tuple[Any, ...], settings: Mapping[str, Any]) -> None:
            rows = settings.get("input_ids", given[0] if given else None)
            meter.count(len(rows) if isinstance(rows, Tensor) else 1)

        with source.model.register_forward_pre_hook(in_this_thread(count), with_kwargs=True), meter.show_bars():
            found = explain(
                source.model, source.tokenizer, self._read(about), about["continuation"] or None,
                contrast=about["contrast"] or None, groups=about["groups"], method=about["method"] or None,
                max_new_tokens=about["max_new_tokens"], progress=True,
            )  # fmt: skip
            meter.stage = "asking for the next token"
            answers: Any = found.score.model
            ids = [part.tolist() for part in (answers.continuation, answers.contrast) if part is not None]
            after = self._next(about, ids)
        return {**as_prompt_result(key, about, found, time.monotonic() - began), "ids": ids, "next": after}

    def _next(self, about: Mapping[str, Any], answers: Sequence[list[int]], tokens: Sequence[int] = ()) -> Any:
        model, tokenizer = self.source.model, self.source.tokenizer
        embedding = embedding_of(model)
        question = ask(
            model, tokenizer, self._read(about), answers[0] if answers else [0],
            contrast=answers[1] if len(answers) > 1 else None, groups="tokens", embedding=embedding,
        )  # fmt: skip
        ids = question.prompt.ids[None].to(input_device(model, embedding))
        begin = getattr(getattr(model, "config", None), "decoder_start_token_id", None)
        written = {} if begin is None else {"decoder_input_ids": torch.full_like(ids[:, :1], begin)}
        with leave_untouched(model, ids):
            logits = output_logits(model(input_ids=ids, **written), 1)[0, -1]
            columns = question.score.outputs(question.ids)[0].double().cpu()
        chances = logits.double().softmax(-1).cpu()  # (vocabulary,)
        known = [i for i in tokens if i < len(chances)]
        best = list(dict.fromkeys([*chances.topk(min(SHOWN, len(chances))).indices.tolist(), *known]))
        n = len(answers[0]) if answers else 0
        parts = (columns[:n], -columns[n:]) if len(answers) > 1 else (columns[:n],)
        return {
            "tokens": [{"id": i, "text": _spell(tokenizer, i), "probability": float(chances[i])} for i in best],
            "log_probabilities": [float(part.sum()) for part in parts] if answers else [],
        }


def _chat(prompt: str) -> list[dict[str, str]]:
    return [{"role": "user", "content": prompt}]


def _spell(tokenizer: Any, token: int) -> str:
    return str(tokenizer.decode([token], clean_up_tokenization_spaces=False))


def _check_list(name: str, given: Any) -> list[Any]:
    if not isinstance(given, list) or len(given) > 10 * MOST_NEW_TOKENS:
        raise ValueError(f"{name} is no list, or a very long one: expected token ids")
    return given


def _check_ids(given: Any) -> list[int]:
    ids = _check_list("tokens", given)
    if not all(type(i) is int and 0 <= i < 2**31 for i in ids):
        raise ValueError("tokens are not whole numbers from 0: expected token ids")
    return ids


def _describe_methods() -> list[dict[str, str]]:
    methods = [OWN.get(name) or METHODS[name] for name in METHODS_OFFERED]
    own = [{"name": one.name, "label": one.title, "sentence": one.summary} for one in methods]
    return [{"name": "", "label": "As recommended", "sentence": RECOMMENDED}, *own]


def as_prompt_result(
    key: str, about: Mapping[str, Any], found: PromptExplanation, seconds: float = math.nan
) -> dict[str, Any]:
    """An explanation as the page reads it: the prompt in segments, of which some are features, and their numbers."""
    status, said = found.result.status[0], headline(found.result.status)
    n, logs = len(found.continuation), found.log_probabilities.tolist()
    tokens = [{"text": text, "log_probability": log} for text, log in zip(found.continuation, logs, strict=False)]
    other = [{"text": text, "log_probability": log} for text, log in zip(found.contrast, logs[n:], strict=True)]
    return {
        "key": key, "about": dict(about), "label": found.result.method.partition("(")[0], "heading": found.heading,
        "headline": f"{said[:1].upper()}{said[1:]}.", "status": status.value,
        "trusted": None if math.isnan(float(found.result.support[0])) else status.ok,
        "evidence": evidence(found.result, seconds), "baselines": list(found.baselines),
        "change": float(found.result.score_change[0]),
        "segments": cut_segments(about["prompt"], [piece.text for piece in found.features]),
        "values": found.values.tolist(), "spread": found.spread.tolist(), "continuation": tokens, "contrast": other,
        "matrix": None if found.matrix is None else found.matrix.tolist(),
    }  # fmt: skip


def cut_segments(text: str, features: Sequence[str]) -> list[dict[str, Any]]:
    """A text as its features, by number, and what lies between them.

    Example:
        >>> [segment["text"] for segment in cut_segments("a cat, a dog", ["cat", "dog"])]
        ['a ', 'cat', ', a ', 'dog']
    """
    segments: list[dict[str, Any]] = []
    at = 0
    for number, feature in enumerate(features):
        begin = max(text.find(feature, at), at)
        segments += [{"text": text[at:begin], "feature": None}, {"text": feature, "feature": number}]
        at = begin + len(feature)
    segments.append({"text": text[at:], "feature": None})
    return [segment for segment in segments if segment["text"]]
