"""Sessions: choices, results that belong to them, removal, files that are added."""

import gc
import io
import threading

import numpy as np
import pytest
import torch
from PIL import Image

import leastpath as lp
from explorer_subjects import finished, picture_net, picture_source, session_over, table_source, text_source
from leastpath.explorer import explaining, tasks
from leastpath.explorer.arrays import pack, unpack
from leastpath.explorer.question import Question
from leastpath.explorer.saved import SavedSession
from leastpath.explorer.session import MOST_QUESTIONS, session_of
from leastpath.explorer.tasks import Unknown


def test_results_belong_to_their_choices():
    with session_over(picture_source()) as session:
        key = finished(session, "integrated_gradients")
        assert session.state()["results"] == [key]
        first, second = (one["index"] for one in session.state()["classes"][:2])
        assert session.state({"target": second})["results"] == []
        assert session.state({"target": first})["results"] == [key]
        assert session.state({"sample": 1})["title"] == "example 1"
        assert session.state({"baseline": ["blur", "white"]})["baseline"] == ["blur", "white"]
        assert session.state({"output": "logit_margin"})["output"] == "logit_margin"
        assert session.state()["results"] == [key]  # nothing that was asked for in between is kept


def test_a_change_keeps_the_other_choices_as_far_as_they_fit():
    with session_over(picture_source(baselines=torch.zeros(2, 3, 12, 10))) as session:
        about = session.choose({"change": {"baseline": ["given", "blur"], "output": "logit_margin"}})["about"]
        other = session.choose({"about": {**about, "target": 3}, "change": {"sample": 1}})
        assert (other["output"], other["baseline"], other["sample"]) == ("logit_margin", ["given", "blur"], 1)
        file = io.BytesIO()
        Image.fromarray(np.zeros((9, 9, 3), np.uint8)).save(file, "PNG")
        added = session.add("a.png", file.getvalue(), about)
        assert (added["baseline"], added["output"]) == (["blur"], "logit_margin")  # a file has no given baseline


def test_a_finished_result_is_not_computed_again():
    with session_over(table_source()) as session:
        key = finished(session, "integrated_gradients")
        before = session.finding(key)
        assert finished(session, "integrated_gradients") == key
        assert session.finding(key) is before


def test_what_is_shown_first_says_that_removal_is_still_measured(monkeypatch):
    gate, real = threading.Event(), explaining._test

    def waiting(*given, **more):
        gate.wait(10)
        return real(*given, **more)

    monkeypatch.setattr(explaining, "_test", waiting)
    with session_over(picture_source()) as session:
        session.start_first()
        task = session.start({"method": "integrated_gradients"})  # the page asks for what has begun
        assert session.task(task.name, patience=10)["state"] == "running"
        early = session.result(task.result)
        assert (early["tested"], early["curves"], early["trusted"]) == (False, {}, None)
        assert "being measured" in early["headline"]
        assert session.state()["results"] == []
        gate.set()
        assert session.task(task.name, task.result, patience=10)["state"] == "done"
        whole = session.result(task.result)
        assert whole["tested"]
        assert whole["values"] == early["values"]


def test_stiffness_makes_another_result():
    with session_over(table_source()) as session:
        keys = {finished(session, "elastic_band", s) for s in (None, 1.0, 3)}
        assert len(keys) == 2
        for wrong in (-1, "soft", True, float("nan")):
            with pytest.raises(ValueError, match="stiffness"):
                session.start({"method": "elastic_band", "stiffness": wrong})


@pytest.mark.parametrize(
    "choice",
    [{"sample": 7}, {"sample": "0"}, {"target": 1.5}, {"output": 3}, {"baseline": "black"}, {"colour": 1}],
)
def test_wrong_choices_are_sentences_and_change_nothing(choice):
    with session_over(picture_source()) as session:
        before = session.state()
        with pytest.raises(ValueError, match=r"."):
            session.state(choice)
        with pytest.raises(ValueError, match=r"."):
            session.choose({"change": choice})
        assert session.state() == before


def test_what_is_not_there_is_unknown():
    with session_over(table_source()) as session:
        for ask in (session.result, session.finding, session.task, session.stop, session.save):
            with pytest.raises(Unknown, match="no "):
                ask("nothing")
        with pytest.raises(ValueError, match="not offered"):
            session.start({"method": "magic"})


def test_removal_is_the_model_without_the_pixels():
    with session_over(picture_source()) as session:
        mask = torch.zeros(12, 10, dtype=torch.uint8)
        mask[:6] = 1
        found = session.remove({"removed": pack(mask), "about": {"baseline": ["black"]}})
        image = picture_source().subject(0).inputs.clone()
        image[:, :, :6] = 0
        chances = picture_net()(image).softmax(1)[0]
        assert found["score"] == pytest.approx(float(chances[session.state()["target"]]), abs=1e-5)
        assert found["classes"][0]["probability"] == pytest.approx(float(chances.max()), abs=1e-5)
        assert unpack(found["picture"])[:6].max() == 0
        with pytest.raises(ValueError, match="fill"):
            session.remove({"removed": pack(mask), "fill": "magic"})


def test_removed_words_are_shown():
    with session_over(text_source()) as session:
        found = session.remove({"removed": pack(torch.tensor([1, 0, 1, 0, 0, 1], dtype=torch.uint8)), "fill": "mask"})
        assert found["text"] == "a [mask] films"
        assert found["picture"] is None


def test_a_picture_a_row_and_a_text_can_be_added():
    file = io.BytesIO()
    Image.fromarray(np.zeros((9, 9, 3), np.uint8)).save(file, "PNG")
    with session_over(picture_source()) as session:
        state = session.add("<b>.png", file.getvalue())
        assert (state["title"], state["sample"]) == ("<b>.png", 2)
        with pytest.raises(ValueError, match="picture"):
            session.add("x", b"nothing")
    with session_over(table_source()) as session:
        assert session.add("new.csv", b"job,age\nnurse,50\n")["features"][1]["category"] == "nurse"
        with pytest.raises(ValueError, match="categories"):
            session.add("new.csv", b"job,age\nking,50\n")
        assert len(session.state()["samples"]) == 4
    with session_over(text_source()) as session:
        assert session.add("note", b"a bad film")["features"][2]["name"] == "bad"


def test_old_results_go_first(monkeypatch):
    monkeypatch.setattr(tasks, "MOST_KEPT", 1)
    with session_over(table_source()) as session:
        first = finished(session, "integrated_gradients")
        second = finished(session, "idgi")
        assert session.state()["results"] == [second]
        with pytest.raises(Unknown):
            session.result(first)


def test_a_score_a_source_and_a_result():
    score = lp.Score(lambda x: x.prod(1))
    for given in ((score, torch.ones(1, 2)), (table_source(),)):
        session = session_of(*given)
        assert session.state()["kind"] == "table"
        session.close()
    assert isinstance(session_of(lp.attribute(score, torch.ones(1, 2), method=lp.StraightLine())), SavedSession)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ((3,), "expected a Score"), ((lp.Score(lambda x: x.sum(1)),), "needs inputs"),
        ((lp.Score(lambda x: x.sum(1)), (torch.ones(1, 2),)), "one tensor"),
        ((lp.Score(lambda x: x.sum((1, 2))), torch.ones(1, 2, 3)), "expected pictures"),
    ],
)  # fmt: skip
def test_what_cannot_be_explored_is_a_sentence(given, words):
    with pytest.raises(ValueError, match=words):
        session_of(*given)


def test_what_is_kept_is_small(monkeypatch):
    """Oracle: the questions that are alive. A walk's points are as large as forty pictures; the page has its own."""
    monkeypatch.setattr(tasks, "MOST_KEPT", 2)
    with session_over(picture_source()) as session:
        first = finished(session, "integrated_gradients")
        assert session.finding(first).walk is None and session.result(first)["walk"] is not None
        for target in range(4):
            for output in ("softmax", "log_softmax", "logit_margin", "raw"):
                finished(session, "integrated_gradients", target=target, output=output)
        gc.collect()
        alive = sum(type(one) is Question for one in gc.get_objects())
        assert alive <= MOST_QUESTIONS + 2 + 1
