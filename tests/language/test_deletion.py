"""Removal from texts against texts that were changed by hand."""

import pytest
import torch

from leastpath.language import Natural, explain
from leastpath.language.deletion import measure_removal
from leastpath.language.toy import toy_model
from leastpath.removal.referee import ORDER_SHARES

pytest.importorskip("transformers")


@pytest.mark.parametrize("removal", ["natural", "end", "deleted"])
def test_gain_against_changed_texts(removal):
    model, tokenizer = toy_model()
    prompt, text = "the cat sat on the red mat in a house", "a dog ran to a big tree of the book"
    words = prompt.split()
    found = explain(model, tokenizer, prompt, " .", baseline=Natural([text]), support=False)
    token = tokenizer(" .")["input_ids"][0]

    def log_p(gone):
        fills = {"natural": text.split(), "end": ["<end>"] * 10, "deleted": [None] * 10}[removal]
        ids = []
        for k, word in enumerate(words):
            kept = word if k not in gone else fills[k]
            if kept is not None:
                ids += tokenizer(kept if k == 0 or kept == "<end>" else f" {kept}")["input_ids"]
        return float(model(input_ids=torch.tensor([ids])).logits[0, -1].log_softmax(-1)[token].detach())

    order = found.values.argsort(descending=True).tolist()
    gains = []
    for share in ORDER_SHARES:
        k = int(share * 10 + 0.5)
        gains.append(log_p(order[10 - k :]) - log_p(order[:k]))
    assert found.removal_gain(removal) == pytest.approx(sum(gains) / len(gains), abs=1e-3)
    assert measure_removal(
        found.score, found.inputs, found.token_values, found.starts, found.labels, removal
    ) == pytest.approx(found.removal_gain(removal))
