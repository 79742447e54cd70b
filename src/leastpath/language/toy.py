"""A tiny language model with random weights and a tokenizer of words, for examples and tests: nothing to download."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from leastpath._support.checks import seed_of
from leastpath._support.optional import import_optional

WORDS = (
    "the a cat dog bird sat ran flew on in to mat house tree . , is of and was red blue big small capital France Italy "
    "Paris Rome Mary John gave book"
)


def toy_model(seed: int = 0, **settings: Any) -> tuple[nn.Module, Any]:
    """A Llama of two layers over some thirty words, and its tokenizer. Needs transformers.

    Args:
        seed: of the weights.
        settings: of its `LlamaConfig`.

    Example:
        >>> model, tokenizer = toy_model()
        >>> tokenizer.decode(tokenizer("the cat sat")["input_ids"])
        'the cat sat'
    """
    library = import_optional("transformers", "language models need transformers", "transformers")
    tokenizers = import_optional("tokenizers", "language models need transformers", "transformers")
    words = ["<end>", "<unk>", *(f"Ġ{word}" for word in WORDS.split()), *WORDS.split()]
    inner = tokenizers.Tokenizer(
        tokenizers.models.WordLevel({word: i for i, word in enumerate(words)}, unk_token="<unk>")
    )
    inner.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    inner.decoder = tokenizers.decoders.ByteLevel()
    tokenizer = library.PreTrainedTokenizerFast(tokenizer_object=inner, eos_token="<end>", unk_token="<unk>")
    size = {"max_position_embeddings": 512, "initializer_range": 0.6, "intermediate_size": 24}
    size |= {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "num_key_value_heads": 1}
    config = library.LlamaConfig(
        vocab_size=len(words), eos_token_id=0, bos_token_id=None, pad_token_id=None, **{**size, **settings},
    )  # fmt: skip
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed_of(seed))
        model = library.LlamaForCausalLM(config)
    return model.eval(), tokenizer
