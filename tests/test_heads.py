"""Every head with random weights: scores against the model itself, complete values, sentences where it cannot serve."""

import pytest
import torch

import leastpath as lp
import leastpath.language
from helpers import seeded
from leastpath.heads import HEADS, _best_span, find_head
from leastpath.transformers import explain
from test_transformers import ARCHITECTURES, SMALL, tokenizer

hf = pytest.importorskip("transformers")
STRAIGHT = {"method": lp.StraightLine(), "baseline": "mask", "support": False}
TEXT, PAIR = "a good unfunny film", ("good film", "not a bad film")


def bert(head, **settings):
    config = hf.BertConfig(**(SMALL | ARCHITECTURES["Bert"] | settings))
    return seeded(lambda: getattr(hf, f"Bert{head}")(config)).eval()


def check_complete(explained):
    for b, values in enumerate(explained.values):
        total = float(explained.base_values[b] + values.sum())
        assert total == pytest.approx(float(explained.scores[b]), abs=0.02 * abs(float(values.abs().sum())) + 1e-3)


def test_taggers_have_an_explanation_for_each_entity():
    labels = {0: "O", 1: "B-LOC", 2: "I-LOC"}
    model, words = (
        bert("ForTokenClassification", id2label=labels, label2id={n: i for i, n in labels.items()}),
        tokenizer(),
    )
    model.classifier.bias.data = torch.tensor([-3.0, 2.0, 0.0])
    found = explain(model, words, [TEXT, "bad"], **STRAIGHT)
    check_complete(found)
    logs = model(**words(TEXT, return_tensors="pt")).logits[0].log_softmax(-1).detach()
    places = [i for i, w in enumerate(words(TEXT).word_ids()) if w is not None]
    begins = [i for i in places if logs[i].argmax() == 1]
    assert found.target_names[0].endswith(": LOC") and float(found.scores[0]) == pytest.approx(
        float(logs[begins[0], 1]), abs=1e-4
    )
    assert len(found.values) == len(found.target_names) >= 2
    with pytest.raises(ValueError, match="finds no entity of label 'PER'"):
        explain(model, words, TEXT, "PER", **STRAIGHT)


@pytest.mark.parametrize("target", [None, "bad film"])
def test_readers_explain_the_start_and_the_end_of_an_answer(target):
    model, words = bert("ForQuestionAnswering", num_labels=2), tokenizer()
    found = explain(model, words, PAIR, target, **STRAIGHT)
    check_complete(found)
    output = model(**words(*PAIR, return_tensors="pt"))
    sums = output.start_logits.log_softmax(-1)[0][:, None] + output.end_logits.log_softmax(-1)[0][None]
    if target is not None:
        encoded = words(*PAIR)
        first, last = encoded.char_to_token(0, 6, 1), encoded.char_to_token(0, 13, 1)
        assert float(found.scores[0]) == pytest.approx(float(sums[first, last].detach()), abs=1e-4)
        assert found.target_names == ("answer “bad film”",)
    with pytest.raises(ValueError, match="does not stand in the context"):
        explain(model, words, PAIR, "zebra", **STRAIGHT)
    with pytest.raises(ValueError, match="reads pairs"):
        explain(model, words, TEXT, **STRAIGHT)


def test_best_span_against_brute_force():
    generator = torch.Generator().manual_seed(0)
    start, end = torch.randn(2, 6, generator=generator)
    inside = torch.tensor([False, True, True, True, True, False])
    best = max(
        ((i, j) for i in range(6) for j in range(i, 6) if inside[i] and inside[j]),
        key=lambda p: start[p[0]] + end[p[1]],
    )
    assert _best_span(start, end, inside) == best


def test_masked_models_explain_the_word_at_the_mask():
    model, words = bert("ForMaskedLM"), tokenizer()
    text = "a [MASK] film"
    found = explain(model, words, text, "good", **(STRAIGHT | {"baseline": "pad"}))
    check_complete(found)
    ids = words(text, return_tensors="pt")
    logs = model(**ids).logits.log_softmax(-1)[0, ids["input_ids"][0] == words.mask_token_id][0].detach()
    assert float(found.scores[0]) == pytest.approx(float(logs[words.convert_tokens_to_ids("good")]), abs=1e-4)
    predicted = explain(model, words, text, **(STRAIGHT | {"baseline": "pad"}))
    assert float(predicted.scores[0]) == pytest.approx(float(logs.max()), abs=1e-4)
    with pytest.raises(ValueError, match=r"fills \[MASK\]: write it"):
        explain(model, words, TEXT, **STRAIGHT)
    with pytest.raises(ValueError, match="is 2 tokens, and one mask stands for one"):
        explain(model, words, text, "unfunny", **STRAIGHT)


def test_of_several_choices_the_chosen_one_moves():
    model, words = bert("ForMultipleChoice"), tokenizer()
    choices = ["good", "bad film", "not funny"]
    for target in (None, 1):
        found = explain(model, words, ("a film", choices), target, **STRAIGHT)
        check_complete(found)
        encoded = words(["a film"] * 3, choices, padding=True, return_tensors="pt")
        logits = model(
            input_ids=encoded["input_ids"][None], attention_mask=encoded["attention_mask"][None]
        ).logits.detach()[0]
        chosen = int(logits.argmax()) if target is None else target
        assert found.target_names == (choices[chosen],)
        assert float(found.scores[0]) == pytest.approx(float(logits.log_softmax(0)[chosen]), abs=1e-4)
    with pytest.raises(ValueError, match="reads a text and its choices"):
        explain(model, words, PAIR, **STRAIGHT)


def test_embeddings_explain_the_similarity_of_two_texts_from_both_sides():
    model, words = bert("Model"), tokenizer()
    found = explain(model, words, [PAIR], **STRAIGHT)
    check_complete(found)
    means = [model(**words(side, return_tensors="pt")).last_hidden_state[0].mean(0) for side in PAIR]
    cosine = float(torch.nn.functional.cosine_similarity(*means, dim=0).detach())
    assert found.scores.tolist() == pytest.approx([cosine, cosine], abs=1e-4)
    assert found.words[0] == ("[CLS]", "good", "film", "[SEP]") and "bad" in found.words[1]


def test_what_generates_text_is_sent_to_its_own_door():
    with pytest.raises(ValueError, match=r"generates text.*leastpath.language.explain"):
        explain(bert("LMHeadModel", is_decoder=True), tokenizer(), TEXT)


@pytest.mark.parametrize("head", ["ForMaskedLM", "ForSequenceClassification", "ForTokenClassification"])
def test_what_does_not_generate_text_is_sent_here(head):
    with pytest.raises(ValueError, match=r"does not generate text: use leastpath.transformers.explain"):
        leastpath.language.explain(bert(head), tokenizer(), TEXT, "good")


def test_a_classifier_is_what_is_left():
    head = find_head(torch.nn.Linear(2, 2), None, [TEXT], 1, None, None)
    assert head.texts == [TEXT] and head.target == 1 and head.read is None and len(HEADS) == 7
