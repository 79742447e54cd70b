"""A plan against what an explanation took, and against itself on longer prompts."""

import pytest

from leastpath.language import explain, plan
from leastpath.language.toy import toy_model

pytest.importorskip("transformers")
PROMPT = "the cat sat on the"


def test_forwards_are_those_that_it_takes():
    model, tokenizer = toy_model()
    planned = plan(model, tokenizer, PROMPT, " mat")
    taken = int(explain(model, tokenizer, PROMPT, " mat", support=False).result.n_forwards)
    assert abs(planned.forwards - taken) <= 4 and planned.tokens == planned.features == 5


def test_memory_grows_with_the_prompt_and_shrinks_with_checkpoints():
    model, tokenizer = toy_model(num_hidden_layers=4)
    short, long = plan(model, tokenizer, PROMPT), plan(model, tokenizer, " ".join([PROMPT] * 4))
    assert 3 < long.gradient / short.gradient < 8 and long.checkpointed < long.gradient
    assert long.weights == sum(4 * p.numel() for p in model.parameters())
    assert (long.batch_size is None or long.batch_size < short.batch_size) and "batch_size" in repr(long)
    assert all(p.requires_grad for p in model.parameters())
