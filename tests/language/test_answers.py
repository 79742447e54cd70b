"""Log-probabilities of answers against the model's own logits; deletion against a shorter text."""

import pytest
import torch
from torch import nn

from helpers import seeded
from leastpath.language.answers import (
    AnswerScores,
    TranslatedScores,
    generate_answer,
    output_logits,
    read_answer,
    token_log_p,
)
from leastpath.language.prompts import read_prompt
from leastpath.language.toy import toy_model

hf = pytest.importorskip("transformers")

PROMPT = "the cat sat on the"


@pytest.fixture(scope="module")
def toy():
    return toy_model()


def gpt2(vocabulary):
    config = hf.GPT2Config(vocab_size=vocabulary, n_embd=16, n_layer=2, n_head=2, n_positions=64, initializer_range=0.5)
    return seeded(lambda: hf.GPT2LMHeadModel(config)).eval()


def log_p(model, ids, answer):
    """The chain rule, token by token."""
    total = []
    for token in answer.tolist():
        total.append(model(input_ids=ids).logits[0, -1].log_softmax(-1)[token])
        ids = torch.cat([ids, torch.tensor([[token]])], 1)
    return torch.stack(total).detach()


def scores_of(model, prompt, answer, contrast=None):
    ids = torch.cat([prompt.ids[None], answer[None, :-1]], 1)
    module = AnswerScores(model, model.get_input_embeddings(), len(prompt.ids), answer, contrast)
    return module, ids, torch.ones_like(ids, dtype=torch.bool)


@pytest.mark.parametrize("architecture", ["llama", "gpt2"])
@pytest.mark.parametrize("contrast", [None, " house", " house in the tree"])
@pytest.mark.parametrize("answer", [" mat", " mat . the dog"])
def test_columns_against_the_chain_rule(toy, architecture, answer, contrast):
    model, tokenizer = toy
    model = model if architecture == "llama" else gpt2(model.config.vocab_size)
    prompt = read_prompt(tokenizer, PROMPT)
    ids = read_answer(tokenizer, prompt, answer)
    other = None if contrast is None else read_answer(tokenizer, prompt, contrast)
    expected = log_p(model, prompt.ids[None], ids)
    if other is not None:
        expected = torch.cat([expected, -log_p(model, prompt.ids[None], other)])
    module, given, free = scores_of(model, prompt, ids, other)
    torch.testing.assert_close(module(given, free)[0].detach(), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("architecture", ["llama", "gpt2"])
def test_a_token_that_is_nan_is_deleted(toy, architecture):
    """Against the shorter text itself, several rows of different length at once."""
    model, tokenizer = toy
    model = model if architecture == "llama" else gpt2(model.config.vocab_size)
    prompt = read_prompt(tokenizer, PROMPT)
    answer = read_answer(tokenizer, prompt, " mat . the")
    module, ids, free = scores_of(model, prompt, answer)
    vectors = module.embedding(ids).repeat(3, 1, 1)
    gone = [[1], [4], [0, 2, 3]]
    for row, places in enumerate(gone):
        vectors[row, places] = torch.nan
    with module.probe.register_forward_hook(lambda *_: vectors):
        found = module(ids.expand(3, -1), free.expand(3, -1)).detach()
    for row, places in enumerate(gone):
        kept = [i for i in range(len(prompt.ids)) if i not in places]
        torch.testing.assert_close(found[row], log_p(model, prompt.ids[kept][None], answer), rtol=1e-4, atol=1e-5)


def test_where_all_is_deleted_an_end_of_text_token_stands(toy):
    model, tokenizer = toy
    prompt = read_prompt(tokenizer, "the cat")
    answer = read_answer(tokenizer, prompt, " sat")
    module, ids, free = scores_of(model, prompt, answer)
    with module.probe.register_forward_hook(lambda _m, _a, out: torch.full_like(out, torch.nan)):
        found = module(ids, free)[0].detach()
    torch.testing.assert_close(found, log_p(model, torch.tensor([[0]]), answer), rtol=1e-4, atol=1e-5)


def test_half_precision_gives_log_probabilities_in_float32(toy):
    model, tokenizer = toy_model(seed=1)
    prompt = read_prompt(tokenizer, PROMPT)
    answer = read_answer(tokenizer, prompt, " mat")
    full = scores_of(model, prompt, answer)
    expected = full[0](*full[1:]).detach()
    half = scores_of(model.to(torch.bfloat16), prompt, answer)
    found = half[0](*half[1:]).detach()
    assert found.dtype == torch.float32
    torch.testing.assert_close(found, expected, rtol=0.1, atol=0.3)  # bfloat16 has 8 bits


def test_a_space_is_put_between_two_words(toy):
    prompt = read_prompt(toy[1], PROMPT)
    assert torch.equal(read_answer(toy[1], prompt, "mat"), read_answer(toy[1], prompt, " mat"))
    assert read_answer(toy[1], prompt, [5, 6]).tolist() == [5, 6]


def test_what_the_model_says_is_its_greedy_choice(toy):
    model, tokenizer = toy
    prompt = read_prompt(tokenizer, PROMPT)
    with torch.no_grad():
        made = generate_answer(model, tokenizer, prompt.ids[None], 3, {})
        ids = prompt.ids[None]
        for token in made.tolist():
            assert int(model(input_ids=ids).logits[0, -1].argmax()) == token
            ids = torch.cat([ids, torch.tensor([[token]])], 1)
        assert torch.equal(generate_answer(model, tokenizer, prompt.ids[None], 1, {}), made[:1])


@pytest.mark.parametrize(
    ("answer", "match"),
    [
        ("", "continuation='' is empty"),
        ([], "continuation is empty"),
        (" zebra", "does not tokenize back: its tokens spell"),
    ],
)
def test_errors_of_answers(toy, answer, match):
    with pytest.raises(ValueError, match=match):
        read_answer(toy[1], read_prompt(toy[1], PROMPT), answer)


def test_an_answer_that_joins_the_last_token_is_refused(toy):
    prompt = read_prompt(toy[1], "the .")
    with pytest.raises(ValueError, match=r"cut differently from token 1 on, .*pass\s+continuation as token ids"):
        read_answer(toy[1], prompt, "..")


@pytest.mark.parametrize("output", [torch.zeros(1, 3), "text"])
def test_logits_of_the_wrong_shape_are_refused(output):
    with pytest.raises(ValueError, match=r"expected logits \(1, length, vocabulary\): use a model that generates text"):
        output_logits(output, 1)


def test_any_module_with_logits_will_do(toy):
    class Bag(nn.Module):
        def __init__(self):
            super().__init__()
            self.embedding, self.head = nn.Embedding(80, 4), nn.Linear(4, 80)

        def forward(self, input_ids):
            return self.head(self.embedding(input_ids).cumsum(1))

    model = seeded(Bag)
    ids, answer = torch.tensor([[1, 2, 3]]), torch.tensor([7])
    module = AnswerScores(model, model.embedding, 3, answer)
    expected = model(ids)[:, -1].log_softmax(-1)[:, answer]
    torch.testing.assert_close(module(ids, torch.ones_like(ids).bool()), expected)


@pytest.mark.parametrize("name", ["T5", "Bart"])
def test_encoder_and_decoder_against_the_chain_rule(name):
    """And a deleted word against the shorter text."""
    settings = {
        "T5": {"d_model": 16, "d_kv": 8, "d_ff": 24, "num_layers": 2, "num_heads": 2, "decoder_start_token_id": 0},
        "Bart": {
            "d_model": 16, "encoder_layers": 1, "decoder_layers": 1, "encoder_attention_heads": 2,
            "decoder_attention_heads": 2, "encoder_ffn_dim": 24, "decoder_ffn_dim": 24, "scale_embedding": True,
            "max_position_embeddings": 32, "decoder_start_token_id": 2,
        },
    }[name]  # fmt: skip
    config = getattr(hf, f"{name}Config")(vocab_size=80, **settings)
    model = seeded(lambda: getattr(hf, f"{name}ForConditionalGeneration")(config)).eval()
    prompt, answer = torch.tensor([[5, 6, 7, 8]]), torch.tensor([9, 10, 11])

    def log_p(prompt):
        begin = torch.tensor([[config.decoder_start_token_id, *answer[:-1].tolist()]])
        logits = model(input_ids=prompt, decoder_input_ids=begin).logits[0]
        return logits.log_softmax(-1)[range(3), answer].detach()

    module = TranslatedScores(model, model.get_input_embeddings(), 4, answer)
    ids = torch.cat([prompt, answer[None, :-1]], 1)
    found = module(ids, torch.ones_like(ids).bool())[0].detach()
    torch.testing.assert_close(found, log_p(prompt), rtol=1e-4, atol=1e-5)
    vectors = module.embedding(ids).detach().clone()
    vectors[0, 1] = torch.nan
    with module.probe.register_forward_hook(lambda *_: vectors):
        shorter = module(ids, torch.ones_like(ids).bool())[0].detach()
    torch.testing.assert_close(shorter, log_p(prompt[:, [0, 2, 3]]), rtol=1e-4, atol=1e-5)


def test_log_p_of_each_token_after_those_before_it(toy):
    model, tokenizer = toy
    ids = read_prompt(tokenizer, PROMPT).ids
    found = token_log_p(model, ids[None])
    assert found[0] == -torch.inf
    torch.testing.assert_close(found[1:], log_p(model, ids[None, :1], ids[1:]), rtol=1e-4, atol=1e-5)
