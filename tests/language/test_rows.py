"""Leaving out and staircases against brute force; every row of the matrix against its own explanation."""

import itertools

import pytest
import torch

import leastpath as lp
from leastpath.language import Natural, explain
from leastpath.language.rows import leave_one_out, token_staircase
from leastpath.language.toy import toy_model

pytest.importorskip("transformers")

PROMPT, TEXTS = "the cat sat on", Natural(["a dog ran to the house", "big red bird flew in"])
ANSWERS = " the", " mat"


@pytest.fixture(scope="module")
def toy():
    return toy_model()


def test_leave_one_out_against_brute_force(toy):
    """Words replaced in the text itself."""
    model, tokenizer = toy
    found = explain(model, tokenizer, PROMPT, " the", baseline=TEXTS, method="leave_one_out", support=False)

    def log_p(words):
        ids = torch.tensor([tokenizer(" ".join(words))["input_ids"]])
        token = tokenizer(" the")["input_ids"][0]
        return float(model(input_ids=ids).logits[0, -1].log_softmax(-1)[token].detach())

    words = PROMPT.split()
    for k, value in enumerate(found.values.tolist()):
        falls = []
        for text in TEXTS.texts:
            other = [*words]
            other[k] = text.split()[k]
            falls.append(log_p(words) - log_p(other))
        assert value == pytest.approx(sum(falls) / 2, abs=1e-4)


def test_a_word_counts_as_far_as_it_was_not_expected(toy):
    """By default: the fall times the probability of something else; that of two tokens is the product of theirs."""
    model, tokenizer = toy
    settings = {"groups": ["the cat", "sat", "on"], "baseline": TEXTS, "support": False}
    found = explain(model, tokenizer, PROMPT, " the", **settings)
    plain = explain(model, tokenizer, PROMPT, " the", method="leave_one_out", **settings)
    logs = model(input_ids=found.inputs).logits[0].log_softmax(-1).detach()
    likely = [float(logs[k - 1, found.inputs[0, k]].exp()) for k in (2, 3)]
    surprise = torch.tensor([1.0, 1 - likely[0], 1 - likely[1]], dtype=torch.float64)  # nothing stands before the first
    torch.testing.assert_close(found.values, plain.values * surprise, atol=1e-5, rtol=1e-4)
    named = explain(model, tokenizer, PROMPT, " the", method="by_surprise", **settings)
    torch.testing.assert_close(named.values, found.values)


def test_with_a_contrast_half_of_a_value_leaves_out_of_account_what_both_answers_lose(toy):
    """Against the two answers' own falls: their mean with the weighted ones, of one size; exchange turns the sign."""
    model, tokenizer = toy
    settings = {"baseline": TEXTS, "support": False}
    own, other = (explain(model, tokenizer, PROMPT, a, method="leave_one_out", **settings).values for a in ANSWERS)
    found = explain(model, tokenizer, PROMPT, ANSWERS[0], contrast=ANSWERS[1], **settings)
    plain = explain(model, tokenizer, PROMPT, ANSWERS[0], method="by_surprise", **settings)
    surprise = plain.values / own
    both = ((own + other) / 2).clamp_min(0)
    weighted = surprise * (own - other) / (1 + both)
    joined = (own - other + weighted * (own - other).abs().sum() / weighted.abs().sum()) / 2
    torch.testing.assert_close(found.values, joined, atol=1e-4, rtol=1e-3)
    turned = explain(model, tokenizer, PROMPT, ANSWERS[1], contrast=ANSWERS[0], **settings)
    torch.testing.assert_close(turned.values, -found.values, atol=1e-5, rtol=1e-4)


def test_all_orders_of_a_staircase_are_shapley_values(toy):
    """Against the mean over all 24 orders; sampled orders come near it."""
    model, tokenizer = toy
    settings = {"baseline": Natural(["a dog ran to"]), "support": False}
    found = explain(model, tokenizer, PROMPT, " the", method="token_staircase", n_orders=60, **settings)
    bound = found.score.bind(found.inputs)
    start, end = found.starts[0, 0], bound.space.points()[0]

    def value(present):
        here = torch.tensor([k in present for k in range(4)])[:, None]
        return float(bound.values(torch.where(here, end, start)[None], torch.tensor([0])))

    known = {s: value(s) for n in range(5) for s in map(frozenset, itertools.combinations(range(4), n))}
    exact = torch.zeros(4, dtype=torch.float64)
    for order in itertools.permutations(range(4)):
        for place, k in enumerate(order):
            exact[k] += (known[frozenset(order[: place + 1])] - known[frozenset(order[:place])]) / 24
    torch.testing.assert_close(found.values, exact, atol=0.35, rtol=0.1)
    assert float(found.values.sum()) == pytest.approx(float(exact.sum()), abs=1e-4)


@pytest.mark.parametrize("method", ["leave_one_out", "token_staircase", "integrated_gradients", lp.ElasticBand()])
def test_rows_add_up_to_the_answer_and_are_those_of_single_tokens(toy, method):
    """The row of a token against an explanation of that token alone, the answer before it in the prompt and fixed."""
    model, tokenizer = toy
    path = not isinstance(method, str) or method == "integrated_gradients"
    settings = {"baseline": TEXTS, "support": False, "method": method}
    whole = explain(model, tokenizer, PROMPT, " the mat .", **settings)
    prompt_part = whole.matrix[:, :4]
    torch.testing.assert_close(prompt_part.sum(0), whole.values, atol=0.1 if path else 1e-5, rtol=0.1 if path else 1e-5)
    assert (whole.matrix[0, 4:] == 0).all() and (whole.matrix[1, 5:] == 0).all() and whole.matrix[2, 5] != 0
    if method == "leave_one_out":
        last = explain(model, tokenizer, f"{PROMPT} the mat", " .", groups=PROMPT.split(), **settings)
        torch.testing.assert_close(prompt_part[2], last.values, atol=1e-5, rtol=1e-4)
    if method == "integrated_gradients":
        last = explain(model, tokenizer, f"{PROMPT} the mat", " .", groups=PROMPT.split(), **settings)
        torch.testing.assert_close(prompt_part[2], last.values, atol=0.1, rtol=0.1)


def test_one_pass_serves_every_row(toy):
    """As many forwards for three tokens of an answer as for one."""
    model, tokenizer = toy
    settings = {"baseline": TEXTS, "support": False, "matrix": False}
    counts = [
        explain(model, tokenizer, PROMPT, answer, **settings).result.n_forwards for answer in (" the", " the mat .")
    ]
    assert torch.equal(*counts)


def test_what_equals_its_baseline_costs_nothing(toy):
    model, tokenizer = toy
    few = explain(model, tokenizer, PROMPT, " the", baseline="the dog sat on", support=False)
    assert (few.values != 0).tolist() == [False, True, False, False]
    many = explain(model, tokenizer, PROMPT, " the", baseline="a dog ran in", support=False)
    assert int(many.result.n_forwards) - int(few.result.n_forwards) == 3


def test_names():
    assert (leave_one_out.name, token_staircase.name) == ("leave_one_out", "token_staircase")


def test_the_matrix_against_captums_llm_attribution(toy):
    """Leaving out tokens for one token id is Captum's feature ablation: sums and single tokens agree to 1e-4."""
    from captum.attr import FeatureAblation, LLMAttribution, TextTokenInput

    model, tokenizer = toy
    token = tokenizer(" dog")["input_ids"][0]
    theirs = LLMAttribution(FeatureAblation(model), tokenizer).attribute(
        TextTokenInput(PROMPT, tokenizer, baselines=token), target=" the mat .",
        use_cached_outputs=False,  # with transformers 5 its cache grows in place, and later tokens get other numbers
    )  # fmt: skip
    with pytest.warns(UserWarning, match="one repeated token"):
        ours = explain(model, tokenizer, PROMPT, " the mat .", baseline=token, groups="tokens", support=False)
    torch.testing.assert_close(ours.values.float(), theirs.seq_attr.cpu(), atol=1e-4, rtol=1e-4)
    torch.testing.assert_close(ours.matrix[:, :4].float(), theirs.token_attr.cpu(), atol=1e-4, rtol=1e-4)
