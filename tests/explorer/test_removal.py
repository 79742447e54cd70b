"""Removal curves against the public measure, and one removal against the model itself."""

import pytest
import torch

import leastpath as lp
from explorer_subjects import picture_source, table_source
from leastpath.evaluation import symmetric_relevance_gain
from leastpath.explorer.question import Question
from leastpath.explorer.removal import removal_curve, removal_order, remove_features
from leastpath.explorer.sources.tensors import TensorSource


@pytest.mark.parametrize("output", ["softmax", "log_softmax"])
def test_support_is_the_symmetric_relevance_gain(output):
    subject = picture_source().subject(0)
    question = Question.about(subject, output=output, baseline=["black"])
    values = torch.randn(1, *subject.shape)
    for fill in question.fills.values():
        curve = removal_curve(subject, question.score, values, fill)
        known = symmetric_relevance_gain(question.score, subject.inputs, values, fill=fill, groups="patches")
        assert curve.support == pytest.approx(float(known), abs=1e-6)
        means = torch.tensor(curve.least).mean() - torch.tensor(curve.most).mean()
        assert curve.support == pytest.approx(float(means), abs=1e-6)


def test_columns_are_removed_whole():
    subject = table_source().subject(0)
    question = Question.about(subject)
    values = torch.tensor([[0.1, 2.0, -1.0, 0.0]])
    curve = removal_curve(subject, question.score, values, question.fills["baseline"])
    known = symmetric_relevance_gain(
        question.score, subject.inputs, values, fill=question.fills["baseline"], groups=subject.units
    )
    assert curve.support == pytest.approx(float(known), abs=1e-6)


@pytest.mark.parametrize("rank", ["signed", "net", "magnitude"])
def test_the_order_of_removal_against_sums_by_hand(rank):
    subject = picture_source().subject(0)
    values = torch.randn(1, *subject.shape, generator=torch.Generator().manual_seed(0))
    sums = {}
    for unit in subject.units.unique().tolist():
        inside = values[0][subject.units == unit].double()
        sums[unit] = {"signed": inside.sum(), "net": inside.sum().abs(), "magnitude": inside.abs().sum()}[rank]
    assert removal_order(subject, values, rank) == sorted(sums, key=lambda unit: -sums[unit])
    assert removal_order(subject, values / 0, rank) == []


def test_a_score_without_classes_is_compared_by_its_changes():
    weights = torch.tensor([3.0, 0.0, 1.0])
    source = TensorSource(lp.Score(lambda x: x @ weights), torch.ones(1, 3))
    subject = source.subject(0)
    question = Question.about(subject)
    curve = removal_curve(subject, question.score, weights[None], question.fills["baseline"])
    known = symmetric_relevance_gain(question.score, subject.inputs, weights[None])
    assert curve.support == pytest.approx(float(known), abs=1e-6)


def test_several_fills_are_averaged():
    subject = picture_source().subject(0)
    question = Question.about(subject, baseline=["black", "white"])
    values = torch.randn(1, *subject.shape)
    both = removal_curve(subject, question.score, values, question.fills["baseline"])
    each = [removal_curve(subject, question.score, values, f).support for f in question.starts.values()]
    assert both.support == pytest.approx(sum(each) / 2, abs=1e-6)


def test_without_is_the_model_on_the_filled_input():
    subject = picture_source().subject(0)
    question = Question.about(subject)
    mask = torch.zeros(subject.shape, dtype=torch.bool)
    mask[:, :3] = True
    filled, logits = remove_features(subject, question.score, mask, question.fills["mean"])
    by_hand = subject.inputs.clone()
    by_hand[:, :, :3] = subject.inputs.mean((2, 3), keepdim=True)
    assert torch.allclose(filled, by_hand)
    assert torch.allclose(logits, subject.score.model(by_hand), atol=1e-6)
