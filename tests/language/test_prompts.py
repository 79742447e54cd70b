"""Prompts as tokens and features: what is free, what belongs together, and the sentences where nothing fits."""

import pytest
import torch

from leastpath.language.prompts import SENTENCES, WORDS, Prompt, cut_features, read_prompt, sentence_starts
from leastpath.language.toy import toy_model

pytest.importorskip("transformers")

TEMPLATE = "{% for m in messages %}<end> {{ m['role'] }} : {{ m['content'] }} . {% endfor %}"
TEMPLATE += "{% if add_generation_prompt %} was{% endif %}"


@pytest.fixture(scope="module")
def tokenizer():
    return toy_model()[1]


def test_words_against_a_hand_cut():
    text = "Don't split well-known words, but 中文 is cut (1732)."
    expected = ["Don't", "split", "well-known", "words", ",", "but", "中", "文", "is", "cut", "(", "1732", ")."]
    assert WORDS.findall(text) == expected


def test_sentences_against_a_hand_cut():
    text = 'It is 3.5 miles. "Really?" Yes!\nA new line'
    assert SENTENCES.findall(text) == ["It is 3.5 miles.", '"Really?"', "Yes!", "A new line"]


def test_every_feature_is_a_piece_of_the_text_and_every_token_has_one(tokenizer):
    prompt = read_prompt(tokenizer, "the cat sat . a dog ran on")
    for groups in ("tokens", "words", "sentences"):
        pieces = cut_features(prompt, groups)
        assert [p for piece in pieces for p in piece.positions] == list(range(len(prompt.ids)))
        assert "".join(piece.text + piece.space for piece in pieces) == prompt.text
    assert [piece.text for piece in cut_features(prompt, "sentences")] == ["the cat sat .", "a dog ran on"]


def test_spans_are_what_the_user_marks_and_all_else_is_fixed(tokenizer):
    prompt = read_prompt(tokenizer, "the cat sat on the mat")
    marked = cut_features(prompt, ["cat", "the mat"])
    assert [piece.positions for piece in marked] == [(1,), (4, 5)]
    assert cut_features(prompt, [(4, 7), (15, 22)]) == marked


def test_of_a_chat_only_the_messages_are_free(tokenizer):
    tokenizer.chat_template = TEMPLATE
    try:
        chat = [{"role": "the", "content": "the cat sat"}, {"role": "a", "content": "on the mat"}]
        prompt = read_prompt(tokenizer, chat)
        assert [prompt.text[slice(*turn)] for turn in prompt.turns] == ["the cat sat", "on the mat"]
        free = [prompt.text[slice(*e)] for e, is_free in zip(prompt.extents, prompt.free, strict=True) if is_free]
        assert free == ["the", "cat", "sat", "on", "the", "mat"]
        assert [piece.text for piece in cut_features(prompt, "turns")] == ["the cat sat", "on the mat"]
        # The template's own words are no message, though they read alike.
        prompt = read_prompt(tokenizer, [{"role": "the", "content": "the"}, {"role": "cat", "content": "cat"}])
        first, second = (begin for begin, _ in prompt.turns)
        assert first > prompt.text.index("the") and prompt.text.index("cat") < second
    finally:
        tokenizer.chat_template = None


def test_special_tokens_are_fixed_unless_asked(tokenizer):
    assert read_prompt(tokenizer, "<end> the cat").free.tolist() == [False, True, True]
    assert bool(read_prompt(tokenizer, "<end> the cat", keep_special=False).free.all())


@pytest.mark.parametrize(
    ("prompt", "groups", "match"),
    [
        ("  ", "words", "the prompt is empty: pass a text"),
        ([], "words", "the prompt is empty"),
        (5, "words", "the prompt is int: pass a text"),
        ([{"content": "the cat"}], "words", "has no role, or no text as its content: pass a text"),
        ([{"role": "user", "content": [{"text": "the cat"}]}], "words", "has no role, or no text as its content"),
        ([{"role": "user", "content": "the cat"}], "words", "the tokenizer has no chat template: set"),
        ("<end>", "words", "only special ones: explain them with keep_special=False"),
        ("the cat", "letters", "groups='letters' is unknown: use one of"),
        ("the cat", ["dog"], "'dog' does not stand in the prompt: pass"),
        ("the cat", ["cat", "the"], "behind the span before it"),
        ("the cat", [(0, 3), (1, 2)], "holds no token of its own"),
    ],
)
def test_errors(tokenizer, prompt, groups, match):
    with pytest.raises(ValueError, match=match):
        cut_features(read_prompt(tokenizer, prompt), groups)


def test_slow_tokenizers_are_refused():
    with pytest.raises(ValueError, match="use a fast tokenizer"):
        read_prompt(object(), "the cat")


def test_ids_are_the_tokenizers(tokenizer):
    assert torch.equal(read_prompt(tokenizer, "the cat").ids, torch.tensor(tokenizer("the cat")["input_ids"]))


def test_a_space_that_is_a_token_goes_with_the_word_behind_it():
    prompt = Prompt("in 17\n", torch.arange(5), ("in", "_", "1", "7", "n"), ((0, 2), (2, 3), (3, 4), (4, 5), (5, 6)),
                    torch.ones(5, dtype=torch.bool), ())  # fmt: skip
    assert [piece.positions for piece in cut_features(prompt, "words")] == [(0,), (1, 2, 3), (4,)]


def test_sentences_begin_at_features(tokenizer):
    prompt = read_prompt(tokenizer, "the cat sat . a dog ran . the bird flew")
    assert sentence_starts(prompt, cut_features(prompt, "words")) == (4, 8)
