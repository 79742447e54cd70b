"""One unit of work, and how it travels. What it computes is tested in test_driver."""

import pickle
import sys
import threading

import pytest
import torch

import leastpath as lp
import toy_jobs
from leastpath._support.store import StoreMismatch
from leastpath.jobs import Explanations, Job, shards, source_of
from leastpath.jobs.shards import CUT, Assignment, Done, Worker, key_of, kind_of_failure, run_shard
from leastpath.methods import METHODS, register

pytest.importorskip("pyarrow")
pytest.importorskip("safetensors")


def a_job(out, **changes):
    given = {"source": source_of(toy_jobs.Numbered(10)), "model_factory": toy_jobs.model, "method": lp.StraightLine()}
    return Job(**({**given, "out": out, "shard_size": 4, "target": 0} | changes))


class Ticks:
    """A clock that only a method moves."""

    now = 0.0

    def time(self):
        return self.now

    perf_counter = time


TICKS = Ticks()


def a_second_a_row(score, inputs, baselines, seed):
    TICKS.now += len(inputs)
    return lp.attribute(score, inputs, baselines, method=lp.StraightLine(), seed=seed)


@pytest.fixture
def clock(monkeypatch):
    TICKS.now = 0.0
    monkeypatch.setattr(shards, "time", TICKS)
    return TICKS


def test_rows_that_there_is_no_time_for_wait_for_the_next_start(tmp_path, clock):
    """Batches of two rows at a second a row: 2 + 2 + 1 rows fit in 5.5 seconds, then none."""
    told = []
    job = a_job(tmp_path, method=a_second_a_row, shard_size=6, batch_size=2)
    config = job.config()
    work = Assignment(job, config, 5.5, lambda rows, seconds: told.append((rows, seconds)))
    worker = work.worker()
    assert worker.do(0).rows == 5 and told == [(2, 2.0), (4, 4.0), (5, 5.0)]
    assert worker.do(1) == Done(1, 0) and key_of(1) not in worker.store  # nothing was begun, nothing is written
    found = Explanations(tmp_path)
    assert (found.done, found.cut, found.failed, found.finished) == (5, 1, 0, False)
    assert found.table()["failure"].dropna().tolist() == [CUT] and found.values(0, 6)[5].isnan().all()
    again = Assignment(job, config).worker()
    clock.now = 0.0
    assert (again.do(0).rows, again.do(1).rows) == (6, 4) and clock.now == 1 + 4  # the one row that was left
    found = Explanations(tmp_path)
    assert (found.done, found.cut, found.finished) == (10, 0, True) and found.values(0, 10).isfinite().all()


def test_the_first_rows_are_begun_if_the_time_is_not_over(tmp_path, clock):
    job = a_job(tmp_path, method=a_second_a_row, batch_size=4)
    config = job.config()
    assert Assignment(job, config, 0.5).worker().do(0).rows == 4
    assert clock.now == 4 and Assignment(job, config, 0.5).worker().do(1).rows == 0


def test_work_travels_as_bytes_and_a_shard_is_done_once(tmp_path):
    job = a_job(tmp_path)
    pickled = pickle.loads(pickle.dumps(Assignment(job, job.config()).pickled))
    done = run_shard(pickled, 2)
    assert (done.shard, done.rows, done.was_there) == (2, 2, False) and done.gradients > 0
    again = run_shard(pickled, 2)
    assert again.was_there and again.gradients == done.gradients and again.seconds == done.seconds


def test_a_worker_need_not_know_the_name_of_a_users_own_method(tmp_path, monkeypatch):
    """The worker stands for another process: its table has the methods of leastpath alone."""
    with monkeypatch.context() as here:
        here.setattr(METHODS, "_things", dict(METHODS._things))
        register(toy_jobs.four_steps, "mine")
        job = a_job(tmp_path, method="mine")
        pickled = Assignment(job, job.config()).pickled
    assert "mine" not in METHODS
    assert run_shard(pickled, 2).gradients == 2 * 4  # rows of the last shard, steps


def test_a_users_own_method_that_cannot_travel_is_said(tmp_path, monkeypatch):
    monkeypatch.setattr(METHODS, "_things", dict(METHODS._things))
    monkeypatch.setitem(sys.modules, "cloudpickle", None)
    register(lambda score, inputs, baselines=None, *, seed=0, progress=False: None, "mine")
    with pytest.raises(ValueError, match="define its data, factory and method at the top of a module"):
        _ = Assignment(a_job(tmp_path, method="mine"), {}).pickled


def test_what_cannot_travel_is_said(tmp_path, monkeypatch):
    job = a_job(tmp_path, method=lambda score, inputs, baselines, seed: threading.Lock())
    monkeypatch.setitem(sys.modules, "cloudpickle", None)
    with pytest.raises(ValueError, match="cannot be sent to a worker"):
        _ = Assignment(job, {}).pickled


def test_a_worker_that_sees_other_data_refuses(tmp_path):
    config = a_job(tmp_path).config()
    with pytest.raises(StoreMismatch, match="data are not what they were"):
        Worker(a_job(tmp_path, source=source_of(toy_jobs.Numbered(11))), config)


def test_a_worker_whose_factory_makes_another_model_refuses(tmp_path):
    job = a_job(tmp_path, model_factory=lambda: torch.nn.Linear(4, 2))  # new random weights at every call
    with pytest.raises(StoreMismatch, match=r"made another model .*model\.weights is .*torch\.manual_seed"):
        Worker(job, job.config())


def test_baselines_for_single_rows_are_refused(tmp_path):
    job = a_job(tmp_path, baselines=torch.zeros(10, 4), fail_fast=True)
    with pytest.raises(ValueError, match="all inputs of a job share theirs"):
        Worker(job, job.config()).do(0)


def test_several_shared_baselines_are_averaged(tmp_path):
    several = torch.randn(1, 3, 4, generator=torch.Generator().manual_seed(0))
    job = a_job(tmp_path, baselines=several)
    worker = Worker(job, job.config())
    worker.do(0)
    inputs = torch.stack([toy_jobs.Numbered()[i][0] for i in range(4)])
    expected = lp.attribute(lp.Score(toy_jobs.model().eval(), 0), inputs, several, method=lp.StraightLine())
    assert torch.equal(worker.store.read(key_of(0)).arrays["values"], expected.values)


@pytest.mark.parametrize(
    ("failure", "reason"),
    [
        ("ValueError: example 17 is nan", "ValueError: example … is nan"),
        ("E: -1.5e-3 and 2\nsecond line", "E: … and …"),
        ("support −0.2, straight line 1,306.5", "support …, straight line …"),
        ("float32 cannot resolve 0.5", "float32 cannot resolve …"),
        ("wrong by 4.8 × 10⁻⁷ (0.01 allowed)", "wrong by … (… allowed)"),
        ("x" * 200, "x" * 140),
    ],
)
def test_failures_of_one_kind_have_one_reason(failure, reason):
    assert kind_of_failure(failure) == reason
