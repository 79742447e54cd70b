"""explain(): the door. Read the prompt and the answer, choose where words start, ask the verb, put it together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

import torch
from torch import Tensor, nn

from leastpath._support.checks import check_integer
from leastpath.attribution import attribute
from leastpath.heads import check_generates, input_device
from leastpath.language.answers import (
    Answer,
    AnswerScores,
    TranslatedScores,
    generate_answer,
    has_encoder,
    read_answer,
    sum_columns,
    token_log_p,
)
from leastpath.language.baselines import Baseline, Natural, Token, find_starts
from leastpath.language.explanation import PromptExplanation, sum_features
from leastpath.language.prompts import Chat, Groups, Prompt, cut_features, read_prompt, sentence_starts
from leastpath.language.rows import leave_one_out, rows_along, token_staircase
from leastpath.language.size import check_gradients, checkpointed, frozen
from leastpath.methods.method import Method
from leastpath.methods.table import METHODS, method_of
from leastpath.result.attribution import Attribution
from leastpath.score.arguments import per_example
from leastpath.score.calls import leave_untouched
from leastpath.score.score import Score
from leastpath.solvers.solution import Solver
from leastpath.transformers import Piece, count_positions, embedding_of

OWN = {
    "by_surprise": leave_one_out,
    "leave_one_out": leave_one_out,
    "token_staircase": token_staircase,
    "staircase": token_staircase,
}
DEFAULT = leave_one_out  # what studies/language chose (docs/language.md)
FORWARDS = 560  # that an explanation takes at most by default, without its test


def explain(
    model: nn.Module,
    tokenizer: Any,
    prompt: str | Chat,
    continuation: Answer | None = None,
    *,
    contrast: Answer | None = None,
    baseline: Baseline | Sequence[Baseline] | None = None,
    groups: Groups = "words",
    method: str | Method | Solver | None = None,
    matrix: bool | None = None,
    max_new_tokens: int = 1,
    generation: Mapping[str, Any] | None = None,
    support: bool | Literal["full"] = True,
    keep_special: bool = True,
    checkpointing: bool = False,
    embedding: nn.Module | None = None,
    batch_size: int | None = None,
    **settings: Any,
) -> PromptExplanation:
    """Explain why a language model gives this answer to this prompt, in log-probability.

    Args:
        model: a causal language model of Hugging Face, or any module that takes `input_ids` and returns logits
            (batch, length, vocabulary).
        tokenizer: its fast tokenizer.
        prompt: a text, or the messages of a chat, [{"role": "user", "content": "…"}]; what the chat template adds is
            fixed.
        continuation: the answer that is explained, a text or token ids. A space is put between two words. None: what
            the model says, `max_new_tokens` of it.
        contrast: an answer that it is compared with: log p of the one minus log p of the other.
        baseline: where words start. None: natural text, four everyday sentences; `Natural([…])` for others. A contrast
            prompt with as many tokens, "The capital of Italy is": only the words that differ move. A token id,
            "end", "mask", "pad", "zero" or "mean", with a warning. Several in a list: the mean over them.
        groups: the features: "words", "tokens", "sentences", "turns" of a chat, or spans that you mark: pieces of the
            prompt in reading order, ["France", "is"], or (begin, end) in characters; all else is fixed.
        method: by default "by_surprise", and for long prompts "owen", whose cost does not grow. A word is left out, and
            what the score falls by is multiplied by the probability that another word would have stood there, after
            those before it. With a contrast that is also divided by 1 + the nats that both answers lose, and averaged
            with the fall itself. "leave_one_out" is the fall, for any baseline; "token_staircase",
            "integrated_gradients", "elastic_band", "lrp", or any other of `leastpath.attribute`.

    Rarely needed:
        matrix: what each feature and each earlier token of the answer does to each token of the answer. None: where the
            answer has several tokens.
        max_new_tokens: of the answer that the model gives itself.
        generation: further settings of `model.generate`, such as {"do_sample": True}.
        support: test the result by removal of features: p-values and verdict in `result` (docs/verdict.md).
        keep_special: special tokens are fixed.
        checkpointing: gradients take less memory and a third more time.
        embedding: the module that turns ids into vectors, where the model does not name it itself.
        batch_size: rows in one model call.
        settings: tolerance, n_steps, seed, progress, …: as in `leastpath.attribute`.

    Example:
        >>> import leastpath.language
        >>> from leastpath.language.toy import toy_model
        >>> model, tokenizer = toy_model()
        >>> explained = leastpath.language.explain(model, tokenizer, "the cat sat on the", support=False)
        >>> [piece.text for piece in explained.features]
        ['the', 'cat', 'sat', 'on', 'the']
    """
    check_integer("max_new_tokens", max_new_tokens, 1)
    embedding = embedding or embedding_of(model)
    with ExitStack() as stack:
        stack.enter_context(frozen(model))
        if checkpointing:
            stack.enter_context(checkpointed(model))
        question = ask(
            model, tokenizer, prompt, continuation, contrast=contrast, groups=groups, embedding=embedding,
            keep_special=keep_special, max_new_tokens=max_new_tokens, generation=generation or {},
            batch_size=batch_size,
        )  # fmt: skip
        starts = find_starts(tokenizer, embedding, question.prompt, question.ids, question.free, baseline)
        chosen = choose_method(method, len(question.features), len(starts.names))
        if chosen is leave_one_out and weighs_surprise(model, method, baseline):
            n_answer = None if question.contrast is None else len(question.continuation)
            chosen = chosen.with_settings(log_p=token_log_p(model, question.ids), n_answer=n_answer)
        elif chosen.name == "owen":
            chosen = chosen.with_settings(cuts=sentence_starts(question.prompt, question.features))
        check_gradients(model, chosen.has_path, chosen.name)
        labels = question.labels(starts.vectors, joined=chosen.name == "owen")
        result = attribute(
            question.score, question.ids, starts.vectors[None], groups=labels, method=chosen, support=support,
            **settings,
        )  # fmt: skip
        rows = None
        has_rows = len(question.continuation) > 1 and ("rows" in result.stats or result.path is not None)
        if has_rows if matrix is None else matrix:
            rows = _find_matrix(question, result, chosen, tokenizer, embedding, baseline, settings)
        return _put_together(tokenizer, question, starts.names, starts.vectors[None], labels[0, :, 0], result, rows)


def choose_method(method: str | Method | Solver | None, features: int = 1, baselines: int = 1) -> Method:
    """The method that is meant; those of this room first.

    Without a name: leaving out one feature after another or, where that took more than `FORWARDS`, Owen values:
    runs of sentences, then sentences, then words inside those that matter.
    """
    if method is None:
        if features * baselines <= FORWARDS:
            return DEFAULT
        return METHODS["owen"].with_settings(n_forwards=max(2, FORWARDS // baselines - 3))
    if isinstance(method, str):
        if method in OWN:
            return OWN[method]
        if method not in METHODS:
            raise ValueError(
                f"no method is called {method!r}: use one of {', '.join(OWN)}, or one of leastpath.METHODS"
            )
    return method_of(method)


def weighs_surprise(model: nn.Module, method: str | Method | Solver | None, baseline: Any) -> bool:
    """Whether falls count as far as words were not expected: by default where they start from natural text.

    A contrast prompt asks about words that it names itself.
    """
    if method == "by_surprise" and has_encoder(model):
        raise ValueError(
            'method="by_surprise" asks what a model expects of its prompt, and one with an encoder expects nothing: '
            'use method="leave_one_out"'
        )
    is_natural = baseline is None or isinstance(baseline, Natural)
    return method == "by_surprise" or (method is None and is_natural and not has_encoder(model))


@dataclass(frozen=True)
class Question:
    """A prompt and its answers as a score over token ids."""

    prompt: Prompt
    features: tuple[Piece, ...]
    continuation: Tensor  #: (n,) ids
    contrast: Tensor | None
    ids: Tensor  #: (1, length) of the prompt and of the continuation but its last token
    free: Tensor  #: (1, length) bool: tokens of features
    score: Score

    def labels(self, like: Tensor, *, joined: bool = False) -> Tensor:
        """(1, length, width) the feature of each token, −1 where it is fixed; `like` has the width.

        Joined: what is fixed, and never moves, goes with the feature before it, so that halves leave nothing over.
        """
        numbers = torch.full((self.ids.shape[1],), -1)
        for k, piece in enumerate(self.features):
            numbers[list(piece.positions)] = k
        numbers = numbers.cummax(0).values.clamp_min(0) if joined else numbers
        return numbers[None, :, None].expand(1, -1, like.shape[-1])

    def of_answer(self) -> Question:
        """The same score as a question about the answer's own tokens but the last; the prompt is fixed."""
        first = len(self.prompt.ids)
        free = torch.zeros_like(self.free)
        free[:, first:] = True
        pieces = tuple(Piece(str(k), "", (first + k,)) for k in range(len(self.continuation) - 1))
        return replace(
            self, features=pieces, free=free, score=replace(self.score, additional_forward_args=(per_example(free),))
        )


def ask(
    model: nn.Module, tokenizer: Any, prompt: str | Chat, continuation: Answer | None, *, contrast: Answer | None,
    groups: Groups, embedding: nn.Module, keep_special: bool = True, max_new_tokens: int = 1,
    generation: Mapping[str, Any] | None = None, batch_size: int | None = None,
) -> Question:  # fmt: skip
    """Prompt, features and answers, read and checked. See `explain`."""
    check_generates(model)
    read = read_prompt(tokenizer, prompt, keep_special)
    features = cut_features(read, groups)
    device = input_device(model, embedding)
    ids = read.ids[None].to(device)
    if continuation is not None and (max_new_tokens > 1 or generation):
        raise ValueError("a continuation is given, so nothing is generated: leave out max_new_tokens and generation")
    if continuation is None:
        with leave_untouched(model, ids):
            answer = generate_answer(model, tokenizer, ids, max_new_tokens, generation or {})
    else:
        answer = read_answer(tokenizer, read, continuation, apart=has_encoder(model))
    other = None if contrast is None else read_answer(tokenizer, read, contrast, "contrast", apart=has_encoder(model))
    if other is not None and torch.equal(other, answer):
        raise ValueError(f"contrast={contrast!r} is the continuation itself: pass the answer that it is compared with")
    for name, some in (("continuation", answer), ("contrast", other)):
        rows = getattr(embedding, "num_embeddings", torch.inf)
        if some is not None and not 0 <= int(some.min()) <= int(some.max()) < rows:
            raise ValueError(f"{name}={some.tolist()} has an id outside of the model's 0 to {rows - 1}")
    ids = torch.cat([ids, answer[None, :-1].to(device)], 1)
    longest = ids.shape[1] if other is None else max(ids.shape[1], len(read.ids) + len(other) - 1)
    if longest > count_positions(model):
        raise ValueError(
            f"prompt and answer have {longest} tokens, and the model has positions for {count_positions(model)}: "
            "shorten the prompt"
        )
    free = torch.zeros(ids.shape, dtype=torch.bool)
    for piece in features:
        free[0, list(piece.positions)] = True
    end = getattr(tokenizer, "eos_token_id", None)
    kind = TranslatedScores if has_encoder(model) else AnswerScores
    wrapped = kind(model, embedding, len(read.ids), answer, other, 0 if end is None else int(end))
    free = free.to(device)
    score = Score(
        wrapped, sum_columns, layer=wrapped.probe, additional_forward_args=(per_example(free),), batch_size=batch_size
    )
    return Question(read, features, answer, other, ids, free, score)


def _find_matrix(
    question: Question, result: Attribution, method: Method, tokenizer: Any, embedding: nn.Module, baseline: Any,
    settings: Mapping[str, Any],
) -> Tensor:  # fmt: skip
    """(columns, features + continuation): what the prompt does given the answer so far, and the answer so far given the
    prompt, each by the same method."""
    prompt_part = sum_features(_rows_of(question, result), question.features)
    n = len(question.continuation)
    part = torch.zeros(len(prompt_part), n, dtype=prompt_part.dtype)
    if n > 1:
        own = question.of_answer()
        start = find_starts(tokenizer, embedding, own.prompt, own.ids, own.free, _without_contrast(baseline)).vectors
        kept = {name: value for name, value in settings.items() if name in ("seed", "progress", "tolerance", "n_steps")}
        found = attribute(
            own.score, own.ids, start[None], groups=own.labels(start), method=method, support=False, **kept
        )
        part[:, : n - 1] = sum_features(_rows_of(own, found), own.features)
        part[n:] = 0.0  # a contrast does not follow the continuation
    return torch.cat([prompt_part, part], 1)


def _without_contrast(baseline: Any) -> Any:
    """What an answer's tokens start from: a contrast prompt says nothing of them."""
    is_kept = isinstance(baseline, (Natural, int)) or baseline in get_args(Token)
    return baseline if is_kept else None


def _rows_of(question: Question, result: Attribution) -> Tensor:
    """(columns, length) what each token does to each token of the answers."""
    if "rows" in result.stats:
        return torch.as_tensor(result.stats["rows"])[0]
    if result.path is None:
        raise ValueError(
            f"{result.method.partition('(')[0]} explains one number at a time, so it has no matrix: pass matrix=False, "
            'or method="leave_one_out", "token_staircase" or one with a path'
        )
    m = len(result.path)
    bound = question.score.bind(question.ids, m)
    with leave_untouched(question.score.model, question.ids):
        return rows_along(bound, result.path, range(m), max(16, int(result.n_gradients[0]) // m))


def _without_fixed(of_tokens: Tensor, owners: Tensor, features: tuple[Piece, ...]) -> Tensor:
    """(length,) what fixed tokens got as a part of a feature goes to that feature's own tokens."""
    found = torch.zeros_like(of_tokens)
    for k, piece in enumerate(features):
        found[list(piece.positions)] = of_tokens[owners == k].sum() / len(piece.positions)
    return found


def _put_together(
    tokenizer: Any, question: Question, names: tuple[str, ...], starts: Tensor, owners: Tensor, result: Attribution,
    rows: Tensor | None,
) -> PromptExplanation:  # fmt: skip
    assert isinstance(result.values, Tensor)
    n, m = len(question.prompt.ids), len(names)
    of_tokens = result.values[0].double().sum(-1).cpu()  # (length,)
    of_tokens = of_tokens if bool((owners < 0).any()) else _without_fixed(of_tokens, owners, question.features)
    spread = torch.full((len(question.features),), torch.nan, dtype=torch.float64)
    if isinstance(result.baseline_spread, Tensor) and m > 1:
        spread = sum_features(result.baseline_spread[0].double().sum(-1).cpu(), question.features)
    columns = question.score.outputs(question.ids)[0].double().cpu()
    columns[len(question.continuation) :] *= -1

    def spell(ids: Tensor) -> tuple[str, ...]:
        return tuple(tokenizer.decode([i], clean_up_tokenization_spaces=False) for i in ids.tolist())

    return PromptExplanation(
        text=question.prompt.text,
        features=question.features,
        values=sum_features(of_tokens, question.features),
        spread=spread,
        tokens=question.prompt.tokens,
        token_values=of_tokens[:n],
        continuation=spell(question.continuation),
        contrast=() if question.contrast is None else spell(question.contrast),
        log_probabilities=columns,
        matrix=rows,
        baselines=names,
        result=result,
        score=question.score,
        inputs=question.ids,
        starts=starts,
        labels=question.labels(starts),
    )
