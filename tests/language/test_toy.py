"""The toy model is the same every time, and leaves the global generator alone."""

import pytest
import torch

from leastpath.language.toy import toy_model

pytest.importorskip("transformers")


def test_same_seed_same_weights_and_no_global_draws():
    before = torch.get_rng_state()
    first, second = toy_model()[0], toy_model()[0]
    assert torch.equal(before, torch.get_rng_state())
    for one, other in zip(first.parameters(), second.parameters(), strict=True):
        assert torch.equal(one, other)


def test_texts_tokenize_back():
    tokenizer = toy_model()[1]
    text = "the capital of France is Paris"
    assert tokenizer.decode(tokenizer(text)["input_ids"]) == text
