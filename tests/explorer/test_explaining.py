"""Findings are what `attribute` gives; the first picture costs 41 gradients; a stop keeps what is finished."""

from dataclasses import replace

import pytest
import torch

import leastpath as lp
from explorer_subjects import picture_source, table_source, text_source
from leastpath.explorer.explaining import (
    PLACES,
    expected_rows,
    make_finding,
    offered_methods,
    settings_of,
    straight,
)
from leastpath.explorer.meter import Meter
from leastpath.explorer.question import Question
from leastpath.methods import METHODS


def test_the_first_picture_is_attribute_with_fixed_steps():
    question = Question.about(picture_source().subject(0))
    result, walk = straight(question, question.score)
    known = lp.attribute(
        question.score, question.subject.inputs, question.baselines, method=lp.StraightLine(), tolerance=None,
        n_steps=PLACES, rule="trapezoid",
    )  # fmt: skip
    assert torch.allclose(result.values, known.values, atol=1e-6)
    for name in ("completeness_gap", "cancellation", "length", "certificate", "score_change"):
        assert torch.allclose(getattr(result, name), getattr(known, name), rtol=1e-3, atol=1e-6), name
    assert int(result.n_gradients) == PLACES
    assert torch.equal(walk.attributed[-1], result.values[0])


def test_several_baselines_are_averaged():
    question = Question.about(picture_source().subject(0), baseline=["black", "white"])
    result, _ = straight(question, question.score)
    known = lp.attribute(
        question.score, question.subject.inputs, question.baselines, method=lp.StraightLine(), tolerance=None,
        n_steps=PLACES, rule="trapezoid",
    )  # fmt: skip
    assert torch.allclose(result.values, known.values, atol=1e-6)
    assert torch.allclose(result.baseline_spread, known.baseline_spread, atol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("source", [picture_source, table_source, text_source])
def test_every_method_that_is_offered_works(source):
    question = Question.about(source().subject(0))
    line = None
    for name, method in offered_methods(question.subject.kind).items():
        meter = Meter(expected_rows(question, method))
        found = make_finding(question, method, None, meter, line)
        assert torch.isfinite(found.result.values).all(), name
        assert set(found.curves) == set(question.curve_fills), name
        assert (found.walk is not None) == method.has_path, name
        assert not found.stopped
        if found.walk is not None:
            assert torch.allclose(found.walk.attributed[-1], found.result.values[0].to(found.walk.attributed)), name
        line = line or found
    assert float(found.result.stats["line_support"]) == pytest.approx(float(line.result.support))


def test_the_support_is_that_of_attribute():
    question = Question.about(picture_source().subject(0))
    found = make_finding(question, METHODS["elastic_band"], 0.5, Meter(1))
    known = METHODS["elastic_band"](
        question.score, question.subject.inputs, question.baselines, stiffness=0.5, support=True, max_gradients=1000
    )
    assert torch.allclose(found.result.values, known.values, atol=1e-5)
    assert float(found.result.support) == pytest.approx(float(known.support), abs=1e-5)


@pytest.mark.parametrize("name", ["integrated_gradients", "elastic_band"])
def test_the_picture_is_shown_before_removal_is_measured(name):
    question, early = Question.about(picture_source().subject(0)), []
    found = make_finding(question, METHODS[name], None, Meter(1), show=early.append)
    (first,) = early
    assert not first.is_tested
    assert first.curves == {}
    assert first.result.support.isnan().all()
    assert found.is_tested
    assert torch.equal(first.result.values, found.result.values)
    assert first.walk is found.walk


def test_a_stop_gives_what_is_finished():
    question, meter = Question.about(picture_source().subject(0)), Meter(1)

    class Stops(torch.nn.Module):
        calls = 0

        def forward(self, x):
            self.calls += 1
            if self.calls == 8:
                meter.stop()
            return question.score.model(x)

    stopping = replace(question, score=replace(question.score, model=Stops().eval()))
    found = make_finding(stopping, METHODS["elastic_band"], 1.0, meter)
    assert found.stopped
    assert torch.isfinite(found.result.values).all()
    assert "nterrupted" in found.result.status[0].value
    assert list(found.curves) == ["baseline"]


def test_a_stop_after_the_result_does_not_take_it_away():
    question, meter = Question.about(table_source().subject(0)), Meter(1)
    method = METHODS["input_x_gradient"]

    def stopping(*given, **settings):
        result = method.explain(*given, **settings)
        meter.stop()
        return result

    found = make_finding(question, replace(method, explain=stopping), None, meter)
    assert found.stopped
    assert list(found.curves) == ["baseline"]


def test_methods_follow_the_kind_and_the_wish():
    assert "blur_ig" in offered_methods("image")
    assert "blur_ig" not in offered_methods("table")
    assert list(offered_methods("table", ("idgi",))) == ["idgi"]
    with pytest.raises(ValueError, match="magic"):
        offered_methods("table", ("magic",))


def test_occlusion_hides_a_category_as_a_whole():
    subject = table_source().subject(0)
    question = Question.about(subject)
    found = make_finding(question, METHODS["occlusion"], None, Meter(1))
    score, start = question.score, question.baselines
    for column in range(2):
        hidden = torch.where(subject.feature_of == column, start, subject.inputs)
        fall = score(subject.inputs) - score(hidden)
        assert torch.allclose(subject.by_feature(found.result.values)[:, column], fall, atol=1e-5)


def test_columns_and_tokens_move_together():
    subject = table_source().subject(0)
    for name in ("occlusion", "elastic_band"):
        assert torch.equal(settings_of(subject, METHODS[name], 2.0)["groups"][0], subject.feature_of)
    assert settings_of(subject, METHODS["elastic_band"], 2.0)["stiffness"] == 2.0
