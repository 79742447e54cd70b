"""The door: targets, baselines and features as they are asked for, against Captum and against the model itself."""

import pytest
import torch
from torch import nn

import leastpath as lp
from helpers import left_untouched
from leastpath.language import Natural, explain, explaining
from leastpath.language.explaining import choose_method
from leastpath.language.toy import toy_model

hf = pytest.importorskip("transformers")

PROMPT, TEXT = "the cat sat on the", Natural(["a dog ran to a big house"])


@pytest.fixture(scope="module")
def toy():
    return toy_model()


def test_integrated_gradients_against_captum(toy):
    from captum.attr import LayerIntegratedGradients

    model, tokenizer = toy
    found = explain(
        model, tokenizer, PROMPT, " mat", baseline=TEXT, method="integrated_gradients", tolerance=None, n_steps=20,
        groups="tokens", support=False,
    )  # fmt: skip
    ids, token = torch.tensor([tokenizer(PROMPT)["input_ids"]]), tokenizer(" mat")["input_ids"][0]
    start = torch.tensor([tokenizer(TEXT.texts[0])["input_ids"][:5]])
    captum = LayerIntegratedGradients(
        lambda ids: model(input_ids=ids).logits[:, -1].log_softmax(-1), model.get_input_embeddings()
    )
    theirs = captum.attribute(ids, start, target=token, n_steps=20, method="gausslegendre").sum(-1)[0]
    torch.testing.assert_close(found.values, theirs.double(), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("method", [None, "token_staircase", "integrated_gradients"])
def test_complete_and_untouched(toy, method):
    model, tokenizer = toy
    with left_untouched(model):
        found = explain(model, tokenizer, PROMPT, " mat", contrast=" house", baseline=TEXT, method=method)
    assert all(parameter.requires_grad for parameter in model.parameters())
    if method is not None:
        assert float(found.values.sum()) == pytest.approx(float(found.result.score_change), abs=0.05)
    margin = float(found.log_probabilities[0] - found.log_probabilities[1])
    assert float(found.score(found.inputs)) == pytest.approx(margin, abs=1e-5)


def test_greedy_answer_generation_and_texts_agree(toy):
    model, tokenizer = toy
    made = explain(model, tokenizer, PROMPT, max_new_tokens=3, support=False)
    ids = [tokenizer.convert_tokens_to_ids(tokenizer.tokenize(word))[0] for word in made.continuation]
    given = explain(model, tokenizer, PROMPT, ids, support=False)
    torch.testing.assert_close(made.values, given.values)
    one = explain(model, tokenizer, PROMPT, support=False)
    assert one.continuation == made.continuation[:1] and one.matrix is None
    drawn = explain(model, tokenizer, PROMPT, max_new_tokens=2, generation={"do_sample": True}, support=False)
    assert len(drawn.continuation) in (1, 2)


def test_the_status_counts_what_was_left_out(toy):
    found = explain(*toy, "the cat sat on the mat . a dog ran .", groups="sentences", support=False)
    assert len(found.features) == 2 and "each of 2 groups of tokens left out once" in found.result.status[0].value


def test_features_of_sentences_sum_what_is_left_out_together(toy):
    model, tokenizer = toy
    text = "the cat sat . a dog ran"
    by_word = explain(model, tokenizer, text, " on", baseline=TEXT, method="integrated_gradients", support=False)
    by_sentence = explain(
        model, tokenizer, text, " on", baseline=TEXT, method="integrated_gradients", groups="sentences", support=False
    )
    torch.testing.assert_close(by_sentence.values[0], by_word.values[:4].sum())


def test_several_baselines_are_averaged_and_spread(toy):
    model, tokenizer = toy
    texts = ["a dog ran to a big house", "red bird flew in the blue tree"]
    both = explain(model, tokenizer, PROMPT, " mat", baseline=Natural(texts), support=False)
    each = [explain(model, tokenizer, PROMPT, " mat", baseline=Natural([t]), support=False).values for t in texts]
    torch.testing.assert_close(both.values, torch.stack(each).mean(0), atol=1e-5, rtol=1e-4)
    torch.testing.assert_close(both.spread, torch.stack(each).std(0), atol=1e-4, rtol=1e-3)


def test_gpt2_and_bfloat16(toy):
    tokenizer = toy[1]
    config = hf.GPT2Config(vocab_size=80, n_embd=16, n_layer=1, n_head=2, n_positions=64)
    model = hf.GPT2LMHeadModel(config).eval()
    assert explain(model, tokenizer, PROMPT, " mat", baseline=TEXT).values.shape == (5,)
    half = model.to(torch.bfloat16)
    found = explain(half, tokenizer, PROMPT, " mat", baseline=TEXT, method="integrated_gradients", max_gradients=40)
    assert torch.isfinite(found.values).all()


def test_the_test_by_removal_is_the_houses(toy):
    model, tokenizer = toy
    found = explain(model, tokenizer, PROMPT, " mat")
    assert torch.isfinite(found.result.support).all() and found.result.status[0].value


@pytest.mark.parametrize(
    ("settings", "match"),
    [
        ({"contrast": " mat"}, "is the continuation itself"),
        ({"max_new_tokens": 0}, "max_new_tokens=0 must be at least 1"),
        ({"max_new_tokens": 4}, "a continuation is given, so nothing is generated"),
        ({"contrast": [70000]}, r"contrast=\[70000\] has an id outside of the model's 0 to"),
        ({"method": "leave_one"}, "no method is called 'leave_one': use one of by_surprise, leave_one_out"),
        ({"baseline": "the cat"}, "has 2 tokens, the prompt 5"),
        ({"method": "kernel_shap", "matrix": True}, "kernel_shap explains one number at a time"),
    ],
)
def test_errors(toy, settings, match):
    with pytest.raises(ValueError, match=match):
        explain(*toy, PROMPT, " mat", support=False, **settings)


def test_more_tokens_than_positions():
    model, tokenizer = toy_model(max_position_embeddings=4)
    with pytest.raises(ValueError, match="have 5 tokens, and the model has positions for 4"):
        explain(model, tokenizer, PROMPT, " mat")


def test_a_model_without_an_embedding_or_with_other_logits(toy):
    class Odd(nn.Module):
        def forward(self, input_ids):
            return torch.zeros(1, 2)

    with pytest.raises(ValueError, match="the model is the name 'gpt2': load it first"):
        explain("gpt2", toy[1], PROMPT)
    with pytest.raises(ValueError, match="does not name its embedding: pass it"):
        explain(Odd(), toy[1], PROMPT)
    with pytest.raises(ValueError, match="expected logits"):
        explain(Odd(), toy[1], PROMPT, embedding=nn.Embedding(80, 4))


def test_methods_by_name_object_and_default():
    assert choose_method(None).name == "leave_one_out"
    assert choose_method("staircase").name == "token_staircase"
    assert choose_method(lp.StraightLine()).has_path


def test_long_prompts_take_a_budget_and_find_what_matters(toy, monkeypatch):
    """Owen values add up; a budget without end would give every word its own value."""
    monkeypatch.setattr(explaining, "FORWARDS", 60)
    model, tokenizer = toy
    text = " ".join(["the cat sat on the mat ."] * 12)
    found = explain(model, tokenizer, text, " the dog", baseline=TEXT, support=False)
    assert found.result.method.startswith("owen") and int(found.result.n_forwards) <= 60 + 8
    assert float(found.values.sum()) == pytest.approx(float(found.result.score_change), abs=1e-3)
    assert found.matrix is None and len(found.features) == 84


def test_a_translator_is_explained_on_both_sides(toy):
    config = hf.T5Config(
        vocab_size=80, d_model=16, d_kv=8, d_ff=24, num_layers=1, num_heads=2, decoder_start_token_id=0
    )
    model = hf.T5ForConditionalGeneration(config).eval()
    found = explain(model, toy[1], PROMPT, " a dog ran", method="token_staircase", support=False)
    assert found.matrix.shape == (3, 8) and found.matrix[2, 6] != 0
    assert float(found.values.sum()) == pytest.approx(float(found.result.score_change), abs=1e-3)
    assert len(explain(model, toy[1], PROMPT, max_new_tokens=3, support=False).continuation) in (1, 2, 3)
    with pytest.raises(ValueError, match="one with an encoder expects nothing: use method"):
        explain(model, toy[1], PROMPT, " a", method="by_surprise")
