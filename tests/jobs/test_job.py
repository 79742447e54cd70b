"""Job: settings that are checked at once, shards that cover every row, and what the results depend on."""

import pickle

import pytest
import torch
from hypothesis import given, strategies as st

import leastpath as lp
import toy_jobs
from leastpath.jobs import Job, source_of


def a_job(**changes):
    given = {"source": source_of(toy_jobs.Numbered()), "model_factory": toy_jobs.model, "method": lp.StraightLine()}
    return Job(**({**given, "out": "out"} | changes))


@given(st.integers(1, 100), st.integers(1, 40))
def test_shards_cover_every_row_once(n, size):
    job = a_job(source=source_of(toy_jobs.Numbered(n)), shard_size=size)
    assert [i for shard in range(job.n_shards) for i in job.rows(shard)] == list(range(n))


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"batch_size": 0}, "batch_size=0"),
        ({"keep": "all"}, "keep='all'"),
        ({"target": "best"}, "target='best'"),
        ({"dtype": "half-ish"}, "dtype='half-ish'"),
    ],
)
def test_mistakes_are_said_at_once(change, match):
    with pytest.raises(ValueError, match=match):
        a_job(**change)


def test_a_model_in_place_of_its_factory_is_refused():
    with pytest.raises(ValueError, match="model_factory is a model"):
        a_job(model_factory=toy_jobs.model()).config()


def test_models_are_put_in_evaluation_mode():
    assert not a_job().model(torch.device("cpu")).training


@pytest.mark.parametrize(
    ("method", "name"),
    [
        ("integrated_gradients", "integrated_gradients"),
        (lp.Descent(), "Descent"),
        (toy_jobs.Logged("x"), "Logged"),
        ("toy_jobs:logged", "toy_jobs:logged"),
        (toy_jobs.logged, "logged"),
    ],
)
def test_every_kind_of_method(method, name):
    settings = {"log": "x"} if method == "toy_jobs:logged" else {}
    assert a_job(method=method, method_settings=settings).explainer().name == name


def test_baselines_by_value_list_and_name(monkeypatch):
    monkeypatch.setattr(toy_jobs, "zeros", lambda: torch.zeros(1, 4), raising=False)
    assert a_job(baselines=0.5).chosen_baselines() == 0.5 and a_job().chosen_baselines() is None
    assert a_job(baselines=[1.0, 2.0]).chosen_baselines().tolist() == [[1.0, 2.0]]
    assert a_job(baselines="toy_jobs:zeros").chosen_baselines().shape == (1, 4)


def test_the_configuration_names_all_that_matters_and_nothing_else():
    plain = a_job().config()
    changes = [{"seed": 1}, {"target": 0}, {"output": "softmax"}, {"baselines": 1.0}, {"keep": "nothing"}]
    changes += [{"shard_size": 5}, {"method": lp.Descent()}, {"source": source_of(toy_jobs.Numbered(9))}]
    for change in changes:
        assert a_job(**change).config() != plain
    for change in ({"batch_size": 5}, {"threads": 1}, {"out": "other"}, {"fail_fast": True}):
        assert a_job(**change).config() == plain
    assert pickle.loads(pickle.dumps(a_job())).config() == plain
