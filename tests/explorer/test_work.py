"""Jobs: one after the other, their errors are sentences, and a stop is told."""

import threading

import pytest

from leastpath.explorer.watch import Watch
from leastpath.explorer.work import MOST_WAITING, Work


@pytest.fixture
def work():
    made = Work()
    yield made
    made.close()


def test_one_job_at_a_time(work):
    gate, order = threading.Event(), []

    def first(job):
        gate.wait(10)
        order.append("first")
        return "a", False

    def second(job):
        order.append("second")
        return "b", False

    jobs = [work.begin(first, Watch(1)), work.begin(second, Watch(1))]
    assert jobs[1].status()["sentence"] == "waiting for the computation before"
    gate.set()
    assert all(job.finished.wait(10) for job in jobs)
    assert order == ["first", "second"]
    assert jobs[0].status() == {"job": jobs[0].name, "state": "done", "done": 1.0, "sentence": "", "result": "a"}


def test_an_error_is_a_sentence(work):
    def broken(job):
        raise RuntimeError("the model ran out of paper\ntraceback")

    job = work.begin(broken, Watch(1))
    assert job.finished.wait(10)
    assert (job.state, job.said) == ("failed", "the model ran out of paper")


def test_a_stop_before_the_first_call_gives_nothing(work):
    ready, gate = threading.Event(), threading.Event()

    def long(job):
        ready.set()
        gate.wait(10)
        job.watch.passing(1)
        return "a", False

    job = work.begin(long, Watch(1))
    assert ready.wait(10)
    assert "stopping" in work.stop(job.name).status()["sentence"]
    gate.set()
    assert job.finished.wait(10)
    assert (job.state, job.result) == ("stopped", None)


def test_what_was_cut_short_is_stopped_with_a_result(work):
    job = work.begin(lambda job: ("a", True), Watch(1))
    assert job.finished.wait(10)
    assert (job.state, job.result) == ("stopped", "a")


def test_too_many_jobs_are_refused(work):
    gate = threading.Event()

    def waits(job):
        gate.wait(10)
        return "a", False

    with pytest.raises(ValueError, match="waiting already"):
        for _ in range(MOST_WAITING + 2):
            work.begin(waits, Watch(1))
    gate.set()


def test_what_is_there_early_can_be_seen_while_the_work_goes_on(work):
    gate = threading.Event()

    def task(job):
        job.show("a")
        gate.wait(10)
        return "a", False

    job = work.begin(task, Watch(1))
    job.wait_for_news(None, 10)
    assert (job.status()["state"], job.status()["result"]) == ("running", "a")
    job.wait_for_news("a", 0)
    assert not job.finished.is_set()
    gate.set()
    job.wait_for_news("a", 10)
    assert job.state == "done"


def test_one_job_for_one_purpose_unless_it_was_stopped(work):
    gate = threading.Event()

    def waits(job):
        gate.wait(10)
        return "a", False

    first = work.begin(waits, Watch(1), "the same")
    assert work.begin(waits, Watch(1), "the same") is first
    assert work.begin(waits, Watch(1), "another") is not first
    work.stop(first.name)
    assert work.begin(waits, Watch(1), "the same") is not first
    gate.set()
