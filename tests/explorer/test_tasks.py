"""Tasks: one after the other, their errors are sentences, and a stop is told."""

import threading

import pytest

from leastpath.explorer.meter import Meter
from leastpath.explorer.tasks import MOST_WAITING, Worker


@pytest.fixture
def work():
    made = Worker()
    yield made
    made.close()


def test_one_job_at_a_time(work):
    gate, order = threading.Event(), []

    def first(task):
        gate.wait(10)
        order.append("first")
        return "a", False

    def second(task):
        order.append("second")
        return "b", False

    tasks = [work.begin(first, Meter(1)), work.begin(second, Meter(1))]
    assert tasks[1].status()["sentence"] == "waiting for the computation before"
    gate.set()
    assert all(task.finished.wait(10) for task in tasks)
    assert order == ["first", "second"]
    assert tasks[0].status() == {"task": tasks[0].name, "state": "done", "done": 1.0, "sentence": "", "result": "a"}


def test_an_error_is_a_sentence(work):
    def broken(task):
        raise RuntimeError("the model ran out of paper\ntraceback")

    task = work.begin(broken, Meter(1))
    assert task.finished.wait(10)
    assert (task.state, task.said) == ("failed", "the model ran out of paper")


def test_a_stop_before_the_first_call_gives_nothing(work):
    ready, gate = threading.Event(), threading.Event()

    def long(task):
        ready.set()
        gate.wait(10)
        task.meter.count(1)
        return "a", False

    task = work.begin(long, Meter(1))
    assert ready.wait(10)
    task.meter.stop()
    assert "stopping" in work.find(task.name).status()["sentence"]
    gate.set()
    assert task.finished.wait(10)
    assert (task.state, task.result) == ("stopped", None)


def test_what_was_cut_short_is_stopped_with_a_result(work):
    task = work.begin(lambda task: ("a", True), Meter(1))
    assert task.finished.wait(10)
    assert (task.state, task.result) == ("stopped", "a")


def test_too_many_jobs_are_refused(work):
    gate = threading.Event()

    def waits(task):
        gate.wait(10)
        return "a", False

    with pytest.raises(ValueError, match="waiting already"):
        for _ in range(MOST_WAITING + 2):
            work.begin(waits, Meter(1))
    gate.set()


def test_what_is_there_early_can_be_seen_while_the_work_goes_on(work):
    gate = threading.Event()

    def work_of(task):
        task.show("a")
        gate.wait(10)
        return "a", False

    task = work.begin(work_of, Meter(1))
    task.wait_for_news(None, 10)
    assert (task.status()["state"], task.status()["result"]) == ("running", "a")
    task.wait_for_news("a", 0)
    assert not task.finished.is_set()
    gate.set()
    task.wait_for_news("a", 10)
    assert task.state == "done"


def test_one_job_for_one_purpose_unless_it_was_stopped(work):
    gate = threading.Event()

    def waits(task):
        gate.wait(10)
        return "a", False

    first = work.begin(waits, Meter(1), "the same")
    assert work.begin(waits, Meter(1), "the same") is first
    assert work.begin(waits, Meter(1), "another") is not first
    first.meter.stop()
    assert work.begin(waits, Meter(1), "the same") is not first
    gate.set()
