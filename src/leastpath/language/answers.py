"""Answers: what is asked about, as token ids, and the module that gives their log-probabilities after a prompt."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from leastpath._support.threads import in_this_thread
from leastpath.language.prefix import SharedPrefix, new_cache_of
from leastpath.language.prompts import Prompt
from leastpath.score.score import Score

Answer = str | Sequence[int]


def read_answer(
    tokenizer: Any, prompt: Prompt, answer: Answer, name: str = "continuation", *, apart: bool = False
) -> Tensor:
    """The token ids (n,) of an answer that follows a prompt. A space is put between two words.

    Args:
        tokenizer: of the model.
        prompt: that it follows.
        answer: a text, or the token ids themselves.
        name: what errors call it.
        apart: the answer is a text of its own, a decoder's, with its end.
    """
    if not isinstance(answer, str):
        ids = torch.as_tensor(answer).flatten().long()
        if not len(ids):
            raise ValueError(f"{name} is empty: pass a text, or at least one token id")
        return ids
    if not answer.strip():
        raise ValueError(f"{name}={answer!r} is empty: pass a text such as ' Paris', or token ids")
    if apart:
        return torch.tensor(tokenizer(text_target=answer, add_special_tokens=False)["input_ids"])
    if answer[0].isalnum() and not prompt.text[-1].isspace():
        answer = f" {answer}"
    ids = tokenizer(prompt.text + answer, add_special_tokens=not prompt.turns)["input_ids"]
    n = len(prompt.ids)
    if ids[:n] != prompt.ids.tolist() or len(ids) <= n:
        first = next((i for i, (a, b) in enumerate(zip(ids, prompt.ids.tolist(), strict=False)) if a != b), n)
        there = tokenizer.convert_ids_to_tokens(ids[first : first + 3])
        raise ValueError(
            f"{name}={answer!r} does not tokenize back behind this prompt: together they are cut differently from "
            f"token {first} on, {there}. End the prompt with a whole word and begin the {name} with a space, or pass "
            f"{name} as token ids"
        )
    written = tokenizer.decode(ids[n:], clean_up_tokenization_spaces=False)
    if written.strip() != answer.strip():
        raise ValueError(
            f"{name}={answer!r} does not tokenize back: its tokens spell {written!r}. The tokenizer does not know all "
            f"of its signs; pass token ids, or another {name}"
        )
    return torch.tensor(ids[n:])


def generate_answer(
    model: nn.Module, tokenizer: Any, ids: Tensor, max_new_tokens: int, generation: Mapping[str, Any]
) -> Tensor:
    """What the model itself says next (n,): the most probable tokens, unless the settings of generation say otherwise.

    Args:
        model: that generates.
        tokenizer: its end-of-text token is left out.
        ids: (1, length) on the embedding's device.
        max_new_tokens: at most so many.
        generation: as for `model.generate`.
    """
    generate: Any = getattr(model, "generate", None)
    if has_encoder(model):
        settings = {"do_sample": False, "max_new_tokens": max_new_tokens, **generation}
        return _without_end(generate(ids, **settings)[0, 1:].cpu(), tokenizer)  # the first token begins every answer
    if generate is None or (max_new_tokens == 1 and not generation):
        logits = output_logits(model(input_ids=ids), 1)
        return logits[0, -1].argmax(-1, keepdim=True).cpu()
    settings = {"do_sample": False, "max_new_tokens": max_new_tokens, **generation}
    mask = torch.ones_like(ids)
    return _without_end(generate(ids, attention_mask=mask, **settings)[0, ids.shape[1] :].cpu(), tokenizer)


def _without_end(made: Tensor, tokenizer: Any) -> Tensor:
    end = getattr(tokenizer, "eos_token_id", None)
    return made[:-1] if len(made) > 1 and int(made[-1]) == end else made


def output_logits(output: Any, rows: int) -> Tensor:
    """The logits (rows, length, vocabulary) of a language model's output."""
    logits = getattr(output, "logits", output)
    if not isinstance(logits, Tensor) or logits.ndim != 3 or len(logits) != rows:
        got = tuple(logits.shape) if isinstance(logits, Tensor) else type(output).__name__
        raise ValueError(
            f"the model returned {got}, expected logits ({rows}, length, vocabulary): use a model that generates text, "
            "as AutoModelForCausalLM gives; leastpath.transformers.explain is for the other heads"
        )
    return logits


class AnswerScores(nn.Module):
    """The log-probabilities of answers after a prompt: (rows, length) ids -> (rows, columns).

    One column for each token of the continuation and, with the sign turned, for each token of the contrast. Embeddings
    of free tokens pass through a probe: explaining the probe explains them, and nothing else can move. A token whose
    vector is NaN is deleted: those behind it move up.

    Args:
        model: a causal language model.
        embedding: its module that turns ids into vectors.
        length: of the prompt. The ids are the prompt and the continuation without its last token.
        continuation: (n,) ids.
        contrast: (m,) ids; None for none.
        absent: the token that stands where a whole prompt was deleted.
    """

    def __init__(
        self, model: nn.Module, embedding: nn.Module, length: int, continuation: Tensor, contrast: Tensor | None = None,
        absent: int = 0,
    ) -> None:  # fmt: skip
        super().__init__()
        self.model = model
        self.embedding = embedding
        self.length, self.absent = length, absent
        self.continuation, self.contrast = continuation, contrast
        self.probe = nn.Identity()
        self.training = model.training
        accepted = inspect.signature(model.forward).parameters
        self._keeps_logits = "logits_to_keep" in accepted
        self._settings = {"use_cache": False} if "use_cache" in accepted else {}
        new_cache = new_cache_of(model) if self._keeps_logits and "past_key_values" in accepted else None
        self._shared = None if new_cache is None else SharedPrefix(self._run_model, new_cache)

    def forward(self, ids: Tensor, free: Tensor) -> Tensor:
        """See the class; `free` (rows, length) bool."""
        own = self.embedding(ids)
        vectors = torch.where(free[..., None], self.probe(own), own)  # (rows, length, width)
        continuation = self.continuation.to(ids.device)
        if self.contrast is None:
            return self._columns(ids, vectors, [continuation])
        contrast = self.contrast.to(ids.device)
        if len(continuation) == len(contrast) == 1:
            both = self._columns(ids, vectors, [continuation, contrast])
            return both * both.new_tensor([1.0, -1.0])
        # Another answer follows the same prompt.
        other = torch.cat([ids[:, : self.length], contrast[:-1].expand(len(ids), -1)], 1)
        behind = self.embedding(other[:, self.length :])
        vectors_of_other = torch.cat([vectors[:, : self.length], behind], 1)
        columns = self._columns(ids, vectors, [continuation]), -self._columns(other, vectors_of_other, [contrast])
        return torch.cat(columns, 1)

    def _columns(self, ids: Tensor, vectors: Tensor, answers: list[Tensor]) -> Tensor:
        """Log-probabilities (rows, n) of answers of n tokens each, of which the ids hold all but the last."""
        n, gone = len(answers[0]), vectors.isnan().any(-1)
        kept = torch.full((len(ids),), ids.shape[1], device=ids.device)
        if gone.any():
            vectors, kept = self._move_up(ids, vectors, gone, n)
        at = kept[:, None] - n + torch.arange(n, device=ids.device)  # (rows, n) the places that predict the answer
        wanted, where = at.unique(return_inverse=True)
        logits = self._share(ids, vectors, wanted) if not gone.any() else None
        logits = self._run(ids, vectors, wanted) if logits is None else logits
        predicted = logits.gather(1, where[..., None].to(logits.device).expand(-1, -1, logits.shape[-1]))
        return pick_answers(predicted, answers).to(ids.device)

    def _move_up(self, ids: Tensor, vectors: Tensor, gone: Tensor, n: int) -> tuple[Tensor, Tensor]:
        """Without deleted tokens; what fills the end is never read, since no token sees those behind it."""
        bare = gone[:, : ids.shape[1] - n + 1].all(1)  # nothing is left to predict from
        if bare.any():
            end = self.embedding(torch.tensor([self.absent], device=ids.device))[0]
            vectors = torch.cat([torch.where(bare[:, None], end, vectors[:, 0])[:, None], vectors[:, 1:]], 1)
            gone = torch.cat([gone[:, :1] & ~bare[:, None], gone[:, 1:]], 1)
        order = gone.int().argsort(dim=1, stable=True)
        moved = vectors.gather(1, order[..., None].expand_as(vectors)).nan_to_num(0.0)
        return moved, (~gone).sum(1)

    def _share(self, ids: Tensor, vectors: Tensor, wanted: Tensor) -> Tensor | None:
        """The same as `_run`, with what rows have in common run once; None where that does not go, or not pay."""
        if self._shared is None or torch.is_grad_enabled():
            return None
        return self._shared.logits(ids, self.embedding(ids), vectors, wanted)

    def _run(self, ids: Tensor, vectors: Tensor, wanted: Tensor) -> Tensor:
        """Logits (rows, wanted, vocabulary) of a sequence of vectors."""
        logits = output_logits(self._run_model(ids, vectors, wanted), len(ids))
        return logits if self._keeps_logits else logits[:, wanted.to(logits.device)]

    def _run_model(self, ids: Tensor, vectors: Tensor, wanted: Tensor, **settings: Any) -> Any:
        def put_in(_module: nn.Module, _args: Any, output: Tensor) -> Tensor:
            return vectors.to(output)

        kept = {"logits_to_keep": wanted} if self._keeps_logits else {}
        with self.embedding.register_forward_hook(in_this_thread(put_in)):
            return self.model(input_ids=ids, **(self._settings | kept | settings))


class TranslatedScores(AnswerScores):
    """The same for an encoder and a decoder, as T5 and BART have: the prompt is read, the answer written.

    The ids hold the prompt and, behind it, the answer without its last token.
    """

    def _columns(self, ids: Tensor, vectors: Tensor, answers: list[Tensor]) -> Tensor:
        config: Any = self.model.config
        read, there = vectors[:, : self.length], torch.ones_like(ids[:, : self.length])
        gone = read.isnan().any(-1)
        if gone.any():
            read, kept = self._move_up(ids[:, : self.length], read, gone, 1)
            there = (torch.arange(self.length, device=ids.device) < kept[:, None]).to(ids)
        begin = self.embedding(torch.full_like(ids[:, :1], int(config.decoder_start_token_id)))
        written = torch.cat([begin, vectors[:, self.length :]], 1)
        output = self.model(inputs_embeds=read, attention_mask=there, decoder_inputs_embeds=written, **self._settings)
        return pick_answers(output_logits(output, len(ids)), answers).to(ids.device)


def pick_answers(logits: Tensor, answers: list[Tensor]) -> Tensor:
    """Log-probabilities of answers of n tokens each, from logits (rows, n, vocabulary): (rows, answers · n)."""
    if logits.dtype in (torch.float16, torch.bfloat16):
        logits = logits.float()
    logs = logits.log_softmax(-1)
    index = torch.stack(answers).T.to(logs.device)  # (n, answers)
    picked = logs.gather(-1, index.expand(len(logs), -1, -1))  # (rows, n, answers)
    return picked.transpose(1, 2).flatten(1)


def token_log_p(model: nn.Module, ids: Tensor) -> Tensor:
    """Log p of each token after those before it (length,); −inf for the first, which nothing stands before.

    Args:
        model: a causal language model.
        ids: (1, length).
    """
    logits = Score(lambda ids: output_logits(model(input_ids=ids), 1)).outputs(ids)
    known = pick_answers(logits[:, :-1], [ids[0, 1:]])[0]
    return torch.cat([known.new_full((1,), -torch.inf), known]).cpu()


def has_encoder(model: nn.Module) -> bool:
    """Whether a model reads with an encoder and writes with a decoder."""
    return bool(getattr(getattr(model, "config", None), "is_encoder_decoder", False))


def sum_columns(columns: Tensor) -> Tensor:
    """The score: log p of the continuation, minus log p of the contrast: (rows, columns) -> (rows,)."""
    return columns.sum(1)
