"""Planning: what an explanation of a prompt will take, in forwards and in memory, before it is begun."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from leastpath.language.answers import Answer
from leastpath.language.baselines import Natural
from leastpath.language.explaining import FORWARDS, ask
from leastpath.language.prompts import Chat, Groups
from leastpath.language.size import checkpointed, count_saved_bytes, frozen
from leastpath.score.calls import leave_untouched
from leastpath.transformers import embedding_of

SHARE = 0.5  # of the memory that is free, which activations may take


@dataclass(frozen=True)
class PromptPlan:
    """What `explain` will take. Bytes are counted, not guessed: one gradient of the prompt is begun."""

    tokens: int
    features: int
    forwards: int  #: of the default method, without its test
    weights: int  #: bytes
    gradient: int  #: bytes of activations that a gradient of one row keeps
    checkpointed: int  #: the same with `checkpointing=True`
    batch_size: int | None  #: that fits into half of the memory that is free; None where that is not known

    def __repr__(self) -> str:
        mega = [f"{size / 2**20:.0f} MB" for size in (self.weights, self.gradient, self.checkpointed)]
        fits = "" if self.batch_size is None else f"; batch_size={self.batch_size} fits"
        return (
            f"PromptPlan({self.tokens} tokens, {self.features} features: {self.forwards} forwards; weights {mega[0]}, "
            f"a gradient {mega[1]}, checkpointed {mega[2]}{fits})"
        )


def plan(
    model: nn.Module,
    tokenizer: Any,
    prompt: str | Chat,
    continuation: Answer | None = None,
    *,
    groups: Groups = "words",
) -> PromptPlan:
    """What an explanation of this prompt will take: forwards of the default, and memory of a gradient.

    Args:
        model: as for `explain`.
        tokenizer: its own.
        prompt: as for `explain`.
        continuation: as for `explain`.
        groups: as for `explain`.

    Example:
        >>> from leastpath.language.toy import toy_model
        >>> plan(*toy_model(), "the cat sat on the").forwards
        36
    """
    with frozen(model):
        question = ask(
            model, tokenizer, prompt, continuation, contrast=None, groups=groups, embedding=embedding_of(model)
        )
        with leave_untouched(model, question.ids):
            bound = question.score.bind(question.ids)
            point = bound.space.points().detach()

            def begin() -> Any:
                return bound.evaluate(point.clone().requires_grad_(), torch.tensor([0]))

            plain = count_saved_bytes(begin, model)
            try:
                with checkpointed(model):
                    saving = count_saved_bytes(begin, model)
            except ValueError:  # no blocks to run again
                saving = plain
    texts = len(Natural().of(question.prompt.text))
    forwards = min(FORWARDS, len(question.features) * texts) + 4 * texts
    weights = sum(p.numel() * p.element_size() for p in model.parameters())
    free = _free_bytes(question.ids.device)
    rows = None if free is None else max(1, int(SHARE * free / max(1, plain)))
    return PromptPlan(question.ids.shape[1], len(question.features), forwards, weights, plain, saving, rows)


def _free_bytes(device: torch.device) -> int | None:
    """Memory that is free where the model runs."""
    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[0])
    try:
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (ValueError, OSError, AttributeError):
        return None
