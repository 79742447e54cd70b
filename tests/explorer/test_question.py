"""Questions: what is chosen when nobody chooses, what is refused, and scores that are the model's own."""

import pytest
import torch

import leastpath as lp
from explorer_subjects import picture_net, picture_source, table_source
from leastpath.explorer.question import Question
from leastpath.explorer.sources.tensors import TensorSource


def test_the_predicted_class_and_the_first_baseline_are_chosen():
    subject = picture_source().subject(0)
    question = Question.about(subject)
    chances = picture_net()(subject.inputs).softmax(1)[0]
    assert question.target == int(chances.argmax())
    assert question.score_here == pytest.approx(float(chances.max()), abs=1e-6)
    assert (question.output, list(question.starts)) == ("softmax", ["black", "mean"])
    starts = torch.cat([torch.zeros_like(subject.inputs), lp.baselines.baseline("mean", subject.inputs)])
    known = picture_net()(starts).softmax(1)[:, question.target].mean()
    assert question.score_there == pytest.approx(float(known), abs=1e-6)
    assert [c["index"] for c in question.classes()] == chances.argsort(descending=True).tolist()


def test_a_score_with_a_class_keeps_it():
    source = TensorSource(lp.Score(picture_net(), [2, 1], "logit_margin"), torch.rand(2, 3, 12, 10))
    question = Question.about(source.subject(1))
    assert (question.target, question.output) == (1, "logit_margin")


def test_a_model_of_one_output_has_no_classes():
    subject = TensorSource(lp.Score(lambda x: x.sum(1, keepdim=True)), torch.ones(1, 3)).subject(0)
    question = Question.about(subject, output="sigmoid")
    assert (question.target, question.classes()) == (None, [])
    assert question.score_here == pytest.approx(float(torch.tensor(3.0).sigmoid()))


def test_a_function_as_target_is_kept():
    score = lp.Score(picture_net(), lambda output: output[:, 0] - output[:, 1])
    question = Question.about(TensorSource(score, torch.rand(1, 3, 12, 10)).subject(0))
    assert question.outputs == ("raw",)
    assert question.classes() == []


def test_several_baselines_are_joined():
    question = Question.about(picture_source().subject(0), baseline=["black", "white", "black"])
    assert question.m == 2
    assert question.baselines.shape == (1, 2, 3, 12, 10)
    assert "black" in question.fills and "black" not in question.curve_fills


@pytest.mark.parametrize(
    ("choice", "words"),
    [({"target": 9}, "class 9"), ({"output": "sigmoid"}, "does not fit"), ({"baseline": ["red"]}, "unknown")],
)
def test_what_is_not_there_is_refused(choice, words):
    with pytest.raises(ValueError, match=words):
        Question.about(picture_source().subject(0), **choice)


def test_a_model_that_fails_is_a_sentence():
    def broken(x):
        raise RuntimeError("no such kernel\nsecond line")

    subject = TensorSource(lp.Score(broken), torch.ones(1, 3)).subject(0)
    with pytest.raises(ValueError, match=r"the model fails on example 0: no such kernel$"):
        Question.about(subject)


def test_keys_tell_questions_apart():
    subject = table_source().subject(0)
    one, other = Question.about(subject, 0), Question.about(subject, 1)
    assert one.key(0, "idgi", None) == Question.about(subject, 0).key(0, "idgi", None)
    keys = {one.key(0, "idgi", None), other.key(0, "idgi", None), one.key(1, "idgi", None), one.key(0, "idgi", 2.0)}
    assert len(keys) == 4
