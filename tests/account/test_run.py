"""Run: seeds and progress display."""

import builtins

import pytest
import torch

import leastpath as lp
from helpers import flat_points, moons_net
from leastpath._support.numbers import in_words
from leastpath.account.budget import Clock, OutOfTime
from leastpath.account.run import Watch
from leastpath.methods import by_path
from leastpath.methods.by_path import planned_gradients


@pytest.mark.parametrize("draw", ["noise", "uniform"])
def test_same_seed_same_numbers_and_no_global_state(draw):
    like, before = torch.zeros(1), torch.get_rng_state()
    numbers = [getattr(lp.Run(seed=seed), draw)((50,), like, n) for seed, n in ((1, 0), (1, 0), (1, 1), (2, 0))]
    assert torch.equal(numbers[0], numbers[1])
    assert not torch.equal(numbers[0], numbers[2]) and not torch.equal(numbers[0], numbers[3])
    assert torch.equal(before, torch.get_rng_state())


def test_numbers_are_in_the_dtype_asked_for():
    assert lp.Run().noise((3,), torch.zeros(1, dtype=torch.float64)).dtype == torch.float64
    uniform = lp.Run().uniform((1000,), torch.zeros(1))
    assert uniform.min() >= 0 and uniform.max() < 1
    assert abs(float(lp.Run().noise((10_000,), torch.zeros(1)).std()) - 1) < 0.05


def test_silent_unless_asked(capsys):
    with lp.Run().bar("walking", 3) as bar:
        bar.advance(2, "note")
    assert capsys.readouterr() == ("", "")


def test_one_line_where_rich_is_absent(monkeypatch, capsys):
    real = builtins.__import__
    monkeypatch.setattr(
        builtins, "__import__",
        lambda name, *rest: (_ for _ in ()).throw(ImportError(name)) if name.startswith("rich") else real(name, *rest),
    )  # fmt: skip
    with lp.Run(progress=True).bar("walking", 4) as bar:
        bar.advance(1, "slowly")
        bar.advance(3)
    shown = capsys.readouterr().err
    assert "walking  25% slowly" in shown and "walking 100%" in shown and shown.endswith("\n")


def test_progress_of_attribute_ends_at_all(capsys):
    pytest.importorskip("rich")
    lp.attribute(lp.Score(lambda x: x.prod(1)), torch.rand(3, 2), method=lp.StraightLine(), progress=True)
    assert "100%" in capsys.readouterr().out


def test_budget_is_that_of_the_run():
    score = lp.Score(lambda x: x.prod(1)).bind(torch.ones(2, 3))
    assert lp.Run(max_gradients=60, reserved=50).budget(score).left().tolist() == [10, 10]
    assert not lp.Run(reserved=50).budget(score).limited


def test_bars_are_shown_by_a_function_of_ones_own_in_its_thread_only():
    import threading

    from leastpath.account.run import shown_by

    seen, elsewhere = [], []
    with shown_by(lambda what, share: seen.append((what, share))):
        with lp.Run().bar("solving", 2) as bar:
            bar.advance()
            bar.advance(5)

        def other():
            with lp.Run().bar("other", 2) as bar:
                elsewhere.append(type(bar).__name__)

        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
    assert seen == [("solving", 0.0), ("solving", 0.5), ("solving", 1.0)]
    assert elsewhere == ["Bar"]
    with lp.Run().bar("after", 1) as bar:
        bar.advance()
    assert len(seen) == 3


# ---- planning: the sentence before the work, and a search that ends in time --------------------


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
