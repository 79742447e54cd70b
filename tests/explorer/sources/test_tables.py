"""Frames as a source: names, categories, and the model's own numbers."""

import pytest
import torch
from sklearn.compose import make_column_transformer
from sklearn.ensemble import RandomForestClassifier
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

from explorer_subjects import table_frame, table_source
from leastpath.explorer.question import Question
from leastpath.explorer.sources.tables import TableSource
from leastpath.tabular import Encoding


def test_names_and_categories():
    subject = table_source().subject(1)
    assert subject.names == ("age", "job")
    assert subject.details[1] == {"text": "pilot", "category": "pilot"}
    assert float(subject.details[0]["text"]) == pytest.approx(table_frame()["age"][1], rel=1e-4)


def test_the_model_is_given_the_columns_themselves():
    source = table_source()
    subject = source.subject(0)
    plain = Encoding.fit(table_frame(), standardize=False).transform(table_frame()[:1])
    expected = source._score.model.model(plain).softmax(1)[0].detach()
    question = Question.about(subject)
    assert question.score_here == pytest.approx(float(expected.max()), abs=1e-5)
    assert question.classes()[0]["label"] in ("poor", "rich")


def test_baselines_are_means_and_typical_rows():
    subject = table_source().subject(0)
    mean = subject.decode(subject.starts["mean"].make(None))[0]
    assert float(mean[0]) == pytest.approx(table_frame()["age"].mean(), rel=1e-4)
    typical = subject.decode(subject.starts["median"].make(None))[0]
    assert float(typical[0]) == pytest.approx(table_frame()["age"].median(), rel=1e-4)
    assert subject.starts["samples"].make(None).shape == (1, 5, 4)
    assert torch.isfinite(Question.about(subject, baseline=["samples"]).baselines).all()


def test_whole_pipelines_are_walked_and_trees_refused():
    """Oracle: the pipeline's own probability, of a row with an empty cell."""
    frame = table_frame().assign(age=table_frame()["age"].mask(table_frame().index == 1))
    prepare = make_column_transformer((SimpleImputer(), ["age"]), (OneHotEncoder(), ["job"]))
    pipeline = make_pipeline(prepare, LogisticRegression()).fit(frame, frame["job"] == "pilot")
    subject = TableSource(pipeline, frame[:3], frame).subject(1)
    assert subject.details[0] == {"text": "–", "category": None}
    assert Question.about(subject).score_here == pytest.approx(pipeline.predict_proba(frame[1:2]).max(), abs=1e-5)
    forest = make_pipeline(prepare, RandomForestClassifier(3)).fit(frame, frame["job"] == "pilot")
    with pytest.raises(ValueError, match=r"Pipeline has no gradients to walk along: use leastpath\.tabular\.explain"):
        TableSource(forest, frame)


def test_files_with_other_columns_are_refused():
    source = table_source()
    with pytest.raises(ValueError, match="lacks the columns job"):
        source.add("a.csv", b"age\n3\n")
    assert source.add("a.csv", b"age,job\n3,cook\n4,nurse\n") == 3
    assert source.samples[3:] == ["a.csv, row 0", "a.csv, row 1"]
