"""Texts as a source: tokens, words, special tokens, and the same numbers as `leastpath.transformers.explain`."""

import threading

import pytest
import torch

import leastpath as lp
from explorer_subjects import text_parts, text_source
from leastpath.explorer.explaining import make_finding
from leastpath.explorer.meter import Meter
from leastpath.explorer.question import Question
from leastpath.explorer.sources.texts import TextSource
from leastpath.methods import METHODS


def test_tokens_know_their_words():
    subject = text_source().subject(0)
    assert subject.names == ("[CLS]", "a", "good", "film", "s", "[SEP]")
    assert [token["word"] for token in subject.details] == [0, 1, 2, 3, 3, 4]
    assert [token["special"] for token in subject.details] == [True, False, False, False, False, True]
    assert [token["space"] for token in subject.details][3:5] == ["", " "]
    assert list(subject.starts) == ["pad", "mask", "zero"]


def test_values_are_those_of_transformers_explain():
    from leastpath.transformers import explain

    model, tokenizer = text_parts()
    question = Question.about(TextSource(model, tokenizer, ["a good films"]).subject(0), 1, "log_softmax")
    found = make_finding(question, METHODS["elastic_band"], 1.0, Meter(1))
    known = explain(model, tokenizer, "a good films", 1, method=lp.ElasticBand(groups="tokens"))
    assert torch.allclose(found.result.values[0].sum(1), known.values[0], atol=1e-5)
    assert float(found.result.support) == pytest.approx(float(known.result.support), abs=1e-5)


def test_special_tokens_are_never_removed():
    subject = text_source().subject(0)
    mask = subject.mask(torch.ones(6))
    assert mask.any(1).tolist() == [False, True, True, True, True, False]


def test_no_texts_is_a_sentence():
    with pytest.raises(ValueError, match="texts is empty"):
        TextSource(*text_parts(), [])


def test_starts_are_right_while_the_model_is_at_work():
    subject = text_source().subject(0)
    expected, points = subject.starts["mask"].make(None), torch.full_like(subject.inputs, 9.0)
    ids, *others = (marked.value for marked in subject.score.additional_forward_args)
    wrong, done = [], threading.Event()

    def work():
        while not done.is_set():
            subject.score.model(points, ids, *others)

    thread = threading.Thread(target=work)
    thread.start()
    for _ in range(100):
        if not torch.equal(subject.starts["mask"].make(None), expected):
            wrong.append(1)
    done.set()
    thread.join()
    assert not wrong
