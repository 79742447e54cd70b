"""Tensors as a source: kinds, names, baselines as they were given, layers."""

import pytest
import torch

import leastpath as lp
from explorer_subjects import picture_net
from leastpath.explorer.question import Question
from leastpath.explorer.sources.tensors import TensorSource


def test_baselines_as_given_come_first():
    images, starts = torch.rand(2, 3, 12, 10), torch.rand(2, 3, 12, 10)
    source = TensorSource(lp.Score(picture_net()), images, starts)
    question = Question.about(source.subject(1))
    assert list(question.starts) == ["given"]
    assert torch.equal(question.baselines, starts[1:])
    several = TensorSource(lp.Score(picture_net()), images, lp.baselines.several("black", "mean")).subject(0)
    assert Question.about(several).baselines.shape == (1, 2, 3, 12, 10)


def test_pictures_beyond_0_and_1_start_at_zero():
    source = TensorSource(lp.Score(picture_net()), torch.randn(1, 3, 12, 10))
    assert list(source.subject(0).starts) == ["zero", "mean", "blur"]
    with pytest.raises(ValueError, match="from 0 to 1"):
        source.add("a.png", b"")


def test_tables_start_from_their_data():
    data = torch.randn(9, 2)
    subject = TensorSource(lp.Score(lambda x: x.sum(1)), torch.ones(1, 2), data=data).subject(0)
    assert list(subject.starts) == ["mean", "median", "samples", "zero"]
    assert torch.allclose(subject.starts["mean"].make(None)[0], data.mean(0))
    assert Question.about(subject, baseline=["samples"]).m == 5


def test_names_must_be_as_many_as_features():
    source = TensorSource(lp.Score(lambda x: x.sum(1)), torch.ones(1, 2), names=["a"])
    with pytest.raises(ValueError, match="names has 1"):
        source.subject(0)


def test_a_layer_gives_tokens_and_the_same_score():
    model = torch.nn.Sequential(torch.nn.Embedding(5, 3), torch.nn.Flatten(), torch.nn.Linear(6, 2)).eval()
    ids = torch.tensor([[1, 2], [3, 4]])
    score = lp.Score(model, 1, "softmax", layer=model[0])
    source = TensorSource(score, ids, 0, names=[["a", "b"], ["c", "d"]])
    question = Question.about(source.subject(1))
    assert question.subject.names == ("c", "d")
    assert question.score_here == pytest.approx(float(score(ids)[1]), abs=1e-6)
    zero = torch.zeros_like(ids)
    assert question.score_there == pytest.approx(float(score(zero)[1]), abs=1e-6)
