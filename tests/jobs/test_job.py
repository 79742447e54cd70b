"""Job: settings that are checked at once, shards that cover every row, and what the results depend on."""

import pickle

import numpy as np
import pytest
import torch
from hypothesis import given, strategies as st
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import leastpath as lp
import toy_jobs
from leastpath import jobs
from leastpath.commands.case import table_case
from leastpath.commands.model_files import make_model
from leastpath.jobs import Job, source_of
from leastpath.score.baselines import Several


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


def test_a_table_starts_from_its_mean_as_the_command_explain_does(tmp_path):
    """Oracle: `table_case` of the command line, on the same file: the same units and the same baseline."""
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame({"a": [0.0, 200.0, 400.0, 100.0], "b": [0.0, 0.2, 0.5, 0.1]})
    frame.to_csv(tmp_path / "rows.csv", index=False)
    job = a_job(source=source_of(tmp_path / "rows.csv"))
    case = table_case(frame, 1, torch.nn.Linear(2, 3).eval(), target=0)
    mean, unit, _ = job.measured
    torch.testing.assert_close(unit, case.score.model.unit)
    torch.testing.assert_close(job.chosen_baselines() / unit, case.baselines)
    of = {name: a_job(source=job.source, baselines=name).chosen_baselines() for name in ("mean", "zero", "samples")}
    assert torch.equal(of["mean"], mean) and of["zero"] == 0 and of["samples"].shape == (1, 4, 2)
    assert isinstance(a_job(baselines="black,mean").chosen_baselines(), Several)
    with pytest.raises(ValueError, match="use mean, zero, samples"):
        a_job(source=job.source, baselines="black").chosen_baselines()
    (tmp_path / "broken.csv").write_text((tmp_path / "rows.csv").read_text() + "1,2,3\n")
    assert torch.equal(a_job(source=source_of(tmp_path / "broken.csv")).measured[0], mean)  # without the row of 3 cells
    frame[:1].to_csv(tmp_path / "one.csv", index=False)
    with pytest.raises(ValueError, match=r'one row, so its mean is that row.*baselines = "zero"'):
        a_job(source=source_of(tmp_path / "one.csv")).chosen_baselines()


def test_units_of_a_table_do_not_change_its_line(tmp_path):
    """Oracle: Integrated Gradients from the mean, in the table's own units; and the names of the columns."""
    frame = pytest.importorskip("pandas").DataFrame(torch.rand(6, 3).numpy() * [1, 10, 100], columns=["a", "b", "c"])
    frame.to_csv(tmp_path / "rows.csv", index=False)
    job = {"dataset": tmp_path / "rows.csv", "model_factory": lambda: lambda x: (x**2).sum(1)}
    found = jobs.explain(**job, method="integrated_gradients", out=tmp_path / "out", show=False)
    np.testing.assert_allclose(found.frame(0, 6), frame**2 - frame.mean() ** 2, rtol=1e-3, atol=1e-3)
    assert list(found.frame(0, 6).columns) == ["a", "b", "c"]


def fitted():
    rows = np.random.default_rng(0).normal(size=(40, 3))
    return make_pipeline(StandardScaler(), LogisticRegression()).fit(rows, rows[:, 0] > 0)


def test_estimators_are_models():
    """Oracle: the estimator itself. Jobs and --factory serve what can be written as a module, and refuse the rest."""
    rows = torch.randn(5, 3, dtype=torch.float64)
    wanted = torch.as_tensor(fitted().predict_proba(rows.numpy()))
    for model in (a_job(model_factory=fitted).model(torch.device("cpu")), make_model(f"{__name__}:fitted")):
        assert torch.allclose(model(rows).softmax(1), wanted)
    with pytest.raises(ValueError, match="not fitted"):
        make_model("sklearn.linear_model:Ridge")
    with pytest.raises(ValueError, match="makes a dict, expected a model"):
        make_model("builtins:dict")
