"""Where tokens start: natural text token by token, contrast prompts that must align, and warnings for the rest."""

import pytest
import torch

from leastpath.language.baselines import NEUTRAL_TEXTS, Natural, find_starts, guess_language, token_id
from leastpath.language.prompts import read_prompt
from leastpath.language.toy import toy_model

pytest.importorskip("transformers")

PROMPT = "the cat sat on the"


@pytest.fixture(scope="module")
def toy():
    return toy_model()


def starts(toy, baseline, free=None, prompt=PROMPT):
    model, tokenizer = toy
    read = read_prompt(tokenizer, prompt)
    free = torch.ones(1, len(read.ids), dtype=torch.bool) if free is None else free
    return find_starts(tokenizer, model.get_input_embeddings(), read, read.ids[None], free, baseline)


def embedded(toy, text):
    model, tokenizer = toy
    return model.get_input_embeddings()(torch.tensor(tokenizer(text)["input_ids"])).detach()


def test_natural_texts_are_cut_and_repeated(toy):
    found = starts(toy, Natural(["a dog ran", "the bird flew to the big red tree"]))
    assert found.vectors.shape == (2, 5, 16) and found.names[0] == "a dog ran"
    short, long = embedded(toy, "a dog ran"), embedded(toy, "the bird flew to the big red tree")
    torch.testing.assert_close(found.vectors[0], torch.cat([short, short[:2]]))
    torch.testing.assert_close(found.vectors[1], long[:5])


def test_what_is_not_free_stays_what_it_is(toy):
    free = torch.tensor([[False, True, True, False, True]])
    found = starts(toy, "a dog ran on the", free).vectors[0]
    expected = embedded(toy, "the dog ran on the")
    torch.testing.assert_close(found, expected)


def test_several_baselines_are_as_many_starts(toy):
    with pytest.warns(UserWarning, match="natural text"):
        found = starts(toy, [Natural(n=2), "zero", 3])
    assert found.vectors.shape[0] == 4 and (found.vectors[2] == 0).all()


@pytest.mark.parametrize("baseline", ["zero", "mean", "end", 5])
def test_what_is_no_text_warns_with_the_measured_reason(toy, baseline):
    with pytest.warns(UserWarning, match=r"missed the change of score.*docs/language.md"):
        starts(toy, baseline)


@pytest.mark.parametrize(
    ("baseline", "match"),
    [
        ("the big cat sat on the", r"has 6 tokens, the prompt 5: .* From token 1 on, \['Ġbig'\] stands where .* \[\]"),
        (PROMPT, "is the prompt itself"),
        ([], "baseline is empty"),
        (3.5, "baseline=3.5 is unknown"),
        ("mask", "the tokenizer has no mask token"),
        (Natural([]), "must be several texts"),
        (Natural("one"), "must be several texts"),
    ],
)
def test_errors(toy, baseline, match):
    with pytest.raises(ValueError, match=match):
        starts(toy, baseline)


def test_contrast_prompts_may_not_touch_what_is_fixed(toy):
    with pytest.raises(ValueError, match="differs in tokens that are fixed"):
        starts(toy, "the the cat", prompt="<end> the cat")


@pytest.mark.parametrize("language", [name for name in NEUTRAL_TEXTS])
def test_the_language_of_each_neutral_text_is_guessed(language):
    assert {guess_language(text) for text in NEUTRAL_TEXTS[language]} == {language}
    assert Natural().of(NEUTRAL_TEXTS[language][0]) == NEUTRAL_TEXTS[language]


def test_end_is_the_end_of_text_token(toy):
    assert token_id(toy[1], "end") == toy[1].eos_token_id
