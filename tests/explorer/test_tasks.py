"""Tasks: one after the other, their errors are sentences, and a stop is told."""

import gc
import threading
import weakref

import pytest

from leastpath.explorer import meter, tasks
from leastpath.explorer.meter import Meter
from leastpath.explorer.tasks import MOST_WAITING, Kept, Unknown, Worker, Working, check_mapping


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


class Held:
    """As large as a photograph and its question."""


def test_a_job_that_is_over_holds_nothing_and_is_forgotten_in_time(work, monkeypatch):
    monkeypatch.setattr(tasks, "MOST_TOLD", 3)
    alive = weakref.WeakSet()

    def begun():
        held = Held()
        alive.add(held)
        return work.begin(lambda task: (str(id(held)), False), Meter(1))

    names = []
    for _ in range(10):
        task = begun()
        assert task.finished.wait(10)
        names.append(task.name)
    del task
    gc.collect()
    assert not alive
    assert work.find(names[-1]).state == "done"
    with pytest.raises(Unknown, match="no task"):
        work.find(names[0])


def test_a_job_ends_when_nobody_waits_for_it(monkeypatch):
    monkeypatch.setattr(meter, "MOST_SILENCE", 0.4)
    monkeypatch.setattr(meter, "LAST_SECONDS", 0.1)
    session, working = Working(), threading.Event()

    def long(task):
        working.set()
        while not task.finished.wait(0.01):
            task.meter.count(1)
        return "a", False

    asked = session._worker.begin(long, Meter(1))
    assert working.wait(10)
    for _ in range(10):
        assert session.task(asked.name, patience=0.1)["state"] == "running"  # somebody asks again and again
    session.leave(asked.name)
    assert asked.finished.wait(10) and asked.state == "stopped"
    waiting = session._worker.begin(long, Meter(1))  # nobody asks at all
    assert waiting.finished.wait(10) and waiting.state == "stopped"
    session.close()


def test_the_oldest_of_what_was_found_goes_first(monkeypatch):
    monkeypatch.setattr(tasks, "MOST_KEPT", 2)
    kept = Kept()
    for key in "abc":
        kept.put(key, key.upper())
    assert kept.items() == [("b", "B"), ("c", "C")] and kept.get("a") is None
    with pytest.raises(Unknown, match="explain first"):
        kept.ask("a")


@pytest.mark.parametrize("wrong", [None, 3, "about", ["about"]])
def test_what_must_be_an_object_is_refused_otherwise(wrong):
    with pytest.raises(ValueError, match="expected an object"):
        check_mapping("about", wrong)
