"""Planning: the sentence before the work, and a search that ends in time. The clock is a fake one."""

import pytest
import torch

import leastpath as lp
from helpers import flat_points, moons_net
from leastpath._support.numbers import in_words
from leastpath.account.budget import Clock, OutOfTime
from leastpath.account.planning import Watch
from leastpath.methods import by_path
from leastpath.methods.by_path import planned_gradients

X = flat_points(3)


class Ticking:
    """A clock on which every gradient takes one second, however many there are in a call."""

    def __init__(self) -> None:
        self.now = 0.0

    def model(self, net):
        def run(x):
            self.now += len(x) * torch.is_grad_enabled()
            return net(x)

        return run


@pytest.fixture
def ticking(monkeypatch):
    clock = Ticking()
    monkeypatch.setattr(by_path, "Clock", lambda max_seconds: Clock(max_seconds, lambda: clock.now))
    return clock


def explained(ticking, **how):
    return lp.attribute(lp.Score(ticking.model(moons_net()), 1, "softmax"), X, flat_points(3, seed=1), **how)


@pytest.mark.parametrize("solver", [lp.StraightLine(), lp.ElasticBand(), lp.Descent(), lp.Variational(n_iterations=40)])
@pytest.mark.parametrize("seconds", [1, 30, 200, 600])
def test_time_ends_the_work_and_the_status_says_what_was_cut(ticking, solver, seconds):
    """A gradient takes a second. What is always taken: one gradient a segment, and the model call that has begun."""
    result = explained(ticking, method=solver, max_seconds=seconds, tolerance=1e-6)
    largest_call = 3 * 70  # a round of the solver, or one look at every segment, for all examples
    assert ticking.now <= seconds + 2 * largest_call and torch.isfinite(result.values).all()
    assert ticking.now == result.n_gradients.sum()
    for status in result.status:
        assert lp.Outcome.BUDGET_SPENT in status and lp.Outcome.INTERRUPTED not in status
        assert f"max_seconds={seconds}" in status.value or "max_seconds left no time" in status.value


def test_without_a_limit_time_changes_nothing(ticking):
    free, timed = explained(ticking, method=lp.Descent()), explained(ticking, method=lp.Descent(), max_seconds=1e9)
    assert torch.equal(free.values, timed.values) and torch.equal(free.n_gradients, timed.n_gradients)


def test_fixed_steps_that_time_does_not_pay_for(ticking):
    result = explained(ticking, method=lp.ElasticBand(), max_seconds=100, tolerance=None, n_steps=500)
    assert "max_seconds=100 left no more" in result.status[0].value


def test_the_plan_is_said_once_after_the_first_gradients(ticking, capsys):
    explained(ticking, method=lp.ElasticBand(), progress=True)
    said = capsys.readouterr().err
    assert said.count("about") == 1 and "130 gradients to find a path and 200 to measure it" in said
    assert "for each of 3 examples, at 1 s per gradient" in said
    assert "about 16 min 30 s" in said  # 3 · (130 + 200) seconds
    explained(ticking, method=lp.ElasticBand())
    assert not capsys.readouterr().err


def test_the_plan_respects_the_budget():
    assert planned_gradients(lp.Descent(), lp.Accuracy(), 100) == (50, 50)
    assert planned_gradients(lp.StraightLine(), lp.Accuracy(), None) == (0, by_path.OF_LINE)
    assert planned_gradients(lp.ElasticBand(), lp.Accuracy(None, 40), None) == (130, 50)


def test_a_watch_names_the_limit():
    now = [0.0]
    bound = lp.Score(lambda x: x.sum(1)).bind(torch.ones(1, 2))
    watch = Watch(lp.Run(clock=Clock(10, lambda: now[0])), bound, (0, 50))
    assert watch.sentence(0.5) == "about 25 s, and no more than max_seconds=10: 50 gradients, at 500 ms per gradient"
    now[0] = 6.0
    watch()  # no solver works: nothing is ended
    with pytest.raises(OutOfTime), watch.over_solver(bound):
        watch()


def test_times_are_easy_to_read():
    assert [in_words(s) for s in (0.001, 1.4, 60, 3599.9)] == ["1 ms", "1 s", "1 min 0 s", "1 h 0 min"]


@pytest.mark.parametrize("wrong", [0, -1, "10", float("nan")])
def test_what_is_no_time_is_refused(wrong):
    with pytest.raises(ValueError, match=r"max_seconds=.* must be a positive number"):
        lp.Limits(max_seconds=wrong)
