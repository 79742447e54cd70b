"""Executors: by name, and on a real Ray cluster that loses a node."""

import functools
import time
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import pytest

import toy_jobs
from leastpath import jobs
from leastpath.jobs import Processes, executors
from leastpath.jobs.executors import FAILED, UNGUARDED, _exit_code, _OneWorker, end_pool, executor_of

pytest.importorskip("pyarrow")
pytest.importorskip("safetensors")


def test_by_name_with_settings():
    assert executor_of("inline") == jobs.InProcess()
    assert executor_of("processes", workers=3) == jobs.Processes(workers=3)
    assert executor_of("ray", num_gpus=0.5) == jobs.Ray(num_gpus=0.5)
    given = jobs.Processes(1)
    assert executor_of(given) is given


@pytest.mark.parametrize(
    ("name", "settings", "match"),
    [
        ("slurm", {}, "use one of inline, processes, ray"),
        ("inline", {"workers": 2}, "does not take"),
        (jobs.InProcess(), {"workers": 2}, "belong to the executor"),
    ],
)
def test_mistakes_are_said(name, settings, match):
    with pytest.raises(ValueError, match=match):
        executor_of(name, **settings)


def test_spawned_workers_do_the_same(tmp_path):
    """The default way to start a worker: a fresh interpreter, which gets the job as bytes."""
    data = toy_jobs.Numbered(8)
    run = functools.partial(jobs.explain, data, toy_jobs.model, target=0, shard_size=8, show=False)
    one = run(out=tmp_path / "one")
    spawned = run(out=tmp_path / "spawned", executor="processes", workers=1)
    assert spawned.values(0, 8).equal(one.values(0, 8))


def test_nothing_more_is_begun_once_stopping(tmp_path):
    class Assignment:
        job, config = None, None

    assert list(jobs.Processes(workers=1).run(Assignment(), [1, 2], lambda: True)) == []


class _Ending:
    """A process whose exit code is known only at the third look, as while another thread collects it."""

    def __init__(self, code):
        self.looks, self.code = 0, code

    @property
    def exitcode(self):
        self.looks += 1
        return self.code if self.looks > 2 else None


def replaced(code, *, begun):
    """What becomes of a worker that died with this code, known only at the third look."""
    flag = SimpleNamespace(value=int(begun))
    pool = SimpleNamespace(_processes={1: _Ending(code)}, shutdown=lambda wait: None)
    return Processes(workers=1)._replacement(_OneWorker(pool, flag))


@pytest.mark.parametrize(
    ("code", "begun", "words"),
    [
        (UNGUARDED, False, "put the call under"),
        (FAILED, False, "which failed: its error stands above"),
        (255, False, "put the call under"),  # what a fork server says whose answer another thread has read
        (-9, False, None),
        (-9, True, None),
        (FAILED, True, None),
    ],
)
def test_a_script_that_no_worker_can_import_is_told_from_a_worker_that_died(code, begun, words):
    if words is None:
        end_pool(replaced(code, begun=begun).pool)
        return
    with pytest.raises(ValueError, match=words):
        replaced(code, begun=begun)


def test_a_worker_says_that_it_began_without_a_lock():
    """A worker that is killed while it holds a lock keeps it, and whoever asks then waits for ever."""
    worker = Processes(workers=1, start_method="fork")._worker()
    try:
        assert worker.pool.submit(int, "1").result() == 1
        assert worker.begun.value == 1 and not hasattr(worker.begun, "get_lock")
    finally:
        end_pool(worker.pool)


def test_a_worker_that_never_began_needs_no_exit_code(monkeypatch):
    monkeypatch.setattr(executors, "_exit_code", lambda process: None)
    with pytest.raises(ValueError, match="put the call under"):
        replaced(None, begun=False)


def test_a_process_that_does_not_end_has_no_exit_code():
    assert _exit_code(_Ending(None), patience=0.02) is None


class FakeRay:
    """As much of Ray as says how many tasks can run."""

    def __init__(self, **have):
        self.have = have

    def cluster_resources(self):
        return self.have


@pytest.mark.parametrize(
    ("executor", "have", "window"),
    [
        (jobs.Ray(), {"CPU": 8}, 10),
        (jobs.Ray(), {"CPU": 1}, 2),
        (jobs.Ray(), {}, 2),
        (jobs.Ray(num_cpus=2), {"CPU": 8}, 5),
        (jobs.Ray(num_gpus=0.5), {"CPU": 64, "GPU": 4}, 10),
        (jobs.Ray(num_cpus=0), {"CPU": 8}, 2),
        (jobs.Ray(in_flight=3), {"CPU": 64}, 3),
    ],
)
def test_ray_is_given_a_little_more_than_it_can_run(executor, have, window):
    assert executor._window(FakeRay(**have)) == window


@pytest.fixture
def cluster(tmp_path):
    pytest.importorskip("ray")
    import ray
    from ray.cluster_utils import Cluster

    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    yield cluster
    ray.shutdown()
    cluster.shutdown()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::DeprecationWarning", "ignore::FutureWarning")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_ray_cluster_loses_a_node_and_nothing_else(tmp_path, cluster):
    """A head and a node of one worker each, on loopback; the node is killed while both are at work."""
    node = cluster.add_node(num_cpus=1)
    log = tmp_path / "log"
    killed: list[int] = []

    class Killing:
        """The executor, and someone who pulls a plug when three shards are done."""

        def run(self, work, shards, stop):
            for done, one in enumerate(jobs.Ray(address=cluster.address).run(work, shards, stop), 1):
                yield one
                if done == 3:
                    end = time.monotonic() + 30
                    while len(toy_jobs.pids_of(log)) < 2 and time.monotonic() < end:
                        time.sleep(0.05)
                    killed.append(len(toy_jobs.line_of(log)))
                    cluster.remove_node(node, allow_graceful=False)

    job = jobs.Job(
        jobs.source_of("toy_jobs:numbered", settings={"n": 80}),
        "toy_jobs:model",
        "toy_jobs:logged",
        tmp_path / "out",
        method_settings={"log": str(log), "seconds": 0.1},
        target="predicted",
        shard_size=8,
        batch_size=4,
        threads=1,
        python_path=(str(Path(toy_jobs.__file__).parent),),
    )
    found = jobs.run_job(job, Killing(), show=False)
    assert killed and found.finished and found.verify() == []
    assert found.table(["index"])["index"].tolist() == list(range(80))
    twice = Counter(toy_jobs.line_of(log)) - Counter(range(80))
    assert len(twice) <= 8 and len({row // 8 for row in twice}) <= 1  # the shard in progress on the dead node
    assert all(count == 1 for count in twice.values())
