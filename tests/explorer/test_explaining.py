"""Findings are what `attribute` gives, the first as it does by default; a stop keeps what is finished."""

from dataclasses import replace

import pytest
import torch

import leastpath as lp
from explorer_subjects import picture_source, table_source, text_source
from leastpath.explorer.explaining import (
    IMAGE_BUDGET,
    expected_rows,
    kind_of_subject,
    make_finding,
    offered_methods,
    opening_methods,
    settings_of,
)
from leastpath.explorer.meter import Meter
from leastpath.explorer.question import Question
from leastpath.methods import METHODS


@pytest.mark.parametrize("source", [picture_source, table_source, text_source])
def test_a_page_opens_with_what_the_verb_takes_by_default(source):
    """Oracle: `attribute` without a method, with its error control."""
    question = Question.about(source().subject(0))
    subject = question.subject
    methods = offered_methods(kind_of_subject(subject), None, subject.shape)
    name = opening_methods(methods)[-1]
    found = make_finding(question, methods[name], None, Meter(1))
    budget = {"max_gradients": IMAGE_BUDGET} if subject.kind == "image" and methods[name].role == "path" else {}
    known = lp.attribute(question.score, subject.inputs, question.baselines, groups=subject.groups, **budget)
    assert torch.allclose(found.result.values, known.values, atol=1e-5)
    gap = float(found.result.completeness_gap.abs())
    assert gap <= 0.02 * abs(float(known.score_change)) + 1e-4  # 41 fixed steps left 77 % of a photograph's score
    assert "fixed" not in found.result.status[0].value


def test_before_a_method_without_a_path_comes_one_that_can_be_walked():
    both = {name: METHODS[name] for name in ("staircase", "integrated_gradients")}
    assert opening_methods(both) == ["integrated_gradients", "staircase"]
    assert opening_methods(dict(reversed(both.items()))) == ["integrated_gradients"]
    assert opening_methods({"staircase": both["staircase"]}) == ["staircase"] and opening_methods({}) == []


def test_pictures_and_texts_start_from_several_baselines():
    """As docs/choosing.md recommends; padding or black alone is one choice of many."""
    assert list(Question.about(picture_source().subject(0)).starts) == ["black", "mean"]
    assert list(Question.about(text_source().subject(0)).starts) == ["pad", "mask"]
    assert list(Question.about(table_source().subject(0)).starts) == ["mean"]


def test_every_recommended_method_is_offered():
    for kind in ("few", "table", "image", "tokens"):
        assert {m.name for m in METHODS.fitting(kind) if kind in m.recommended} <= set(offered_methods(kind))
    assert "exact_shapley" in offered_methods("few")


@pytest.mark.slow
@pytest.mark.parametrize("source", [picture_source, table_source, text_source])
def test_every_method_that_is_offered_works(source):
    question = Question.about(source().subject(0))
    line = None
    for name, method in offered_methods(kind_of_subject(question.subject)).items():
        meter = Meter(expected_rows(question, method))
        found = make_finding(question, method, None, meter, line)
        assert torch.isfinite(found.result.values).all(), name
        assert set(found.curves) == set(question.curve_fills), name
        assert (found.walk is not None) == method.has_path, name
        assert not found.stopped
        if found.walk is not None:
            assert torch.allclose(found.walk.attributed[-1], found.result.values[0].to(found.walk.attributed)), name
        line = found if name == "integrated_gradients" else line
    # The two are measured in batches of other sizes, and a small net's support is as small as their rounding.
    assert float(found.result.stats["line_support"]) == pytest.approx(float(line.result.support), abs=1e-6)


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
