"""Run: seeds and progress display."""

import builtins

import pytest
import torch
from hypothesis import given, settings, strategies as st

import leastpath as lp
from helpers import Counted, flat_points, moons_net
from leastpath._support.checks import in_words
from leastpath.account.run import Budget, Clock, OutOfTime, Watch
from leastpath.methods import by_path
from leastpath.methods.by_path import planned_gradients
from leastpath.solvers.shorten import shortest_of


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
    watch = Watch(lp.Run(clock=Clock(10, lambda: now[0])), bound, lambda: (0, 50))
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


# ---- budget: the ledger of gradients. The oracle is arithmetic on the counts of the score itself ---------------------


EXAMPLES = 3


COUNTS = st.lists(st.integers(0, 60), min_size=EXAMPLES, max_size=EXAMPLES)


STRICTER = st.one_of(
    st.tuples(st.just("share"), st.floats(0.01, 1)),
    st.tuples(st.just("shared_by"), st.integers(1, 5)),
    st.tuples(st.just("at_most"), st.integers(0, 200)),
    st.tuples(st.just("keeping"), st.integers(0, 200)),
)


SOLVERS = {
    "line": lp.StraightLine(),
    "graph": lp.NeighborGraph(flat_points(40, seed=11), 6),
    "refined graph": lp.NeighborGraph(flat_points(40, seed=11), 6, refine=True),
    "descent": lp.Descent(),
    "guided": lp.GuidedIG(max_distance=0.1, n_steps=12),
}


def bound_score():
    return lp.Score(lambda x: x.sum(1)).bind(torch.ones(EXAMPLES, 1))


def spend(score, example: int, cost: int) -> None:
    score.gradients(torch.ones(cost, 1), torch.full((cost,), example))


def spent_already(counts: list[int]):
    score = bound_score()
    for example, cost in enumerate(counts):
        spend(score, example, cost)
    return score


def derived(budget: Budget, ways: list[tuple[str, float]]) -> Budget:
    for way, number in ways:
        budget = getattr(budget, way)(number)
    return budget


# ---- the ledger --------------------------------------------------------------------------------------------------


@given(
    st.integers(1, 300),
    st.integers(0, 100),
    st.lists(st.tuples(st.lists(STRICTER, max_size=2), st.integers(0, EXAMPLES - 1), st.integers(1, 40)), max_size=30),
)
def test_whoever_asks_first_never_spends_more_than_the_budget_and_never_what_is_reserved(limit, reserved, wishes):
    score = bound_score()
    budget = lp.Run(max_gradients=limit, reserved=reserved).budget(score)
    for ways, example, cost in wishes:
        if derived(budget, ways).affords(cost, example):
            spend(score, example, cost)
    assert (budget.spent() <= max(0, limit - reserved)).all()


@given(COUNTS, st.integers(1, 300), st.integers(0, 100), st.lists(STRICTER, min_size=1, max_size=4))
def test_a_derived_budget_is_never_larger_and_holds_nothing_of_the_reserve(counts, limit, reserved, ways):
    budget = lp.Run(max_gradients=limit, reserved=reserved).budget(spent_already(counts))
    stricter = derived(budget, ways)
    assert (stricter.left() <= budget.left() + 1e-9).all()
    assert (stricter.with_reserved.left() <= budget.left() + 1e-9).all()


@given(COUNTS, st.integers(1, 300), st.integers(1, 6), st.floats(0.01, 0.99), st.integers(0, 400))
def test_shares_add_up_to_what_is_left(counts, limit, n, part, cost):
    budget = lp.Run(max_gradients=limit).budget(spent_already(counts))
    left = budget.left()
    assert torch.equal(left, (limit - torch.tensor(counts, dtype=torch.float64)).clamp_min(0))
    torch.testing.assert_close(budget.share(part).left() + budget.share(1 - part).left(), left)
    torch.testing.assert_close(n * budget.shared_by(n).left(), left)
    torch.testing.assert_close(budget.at_most(cost).left() + budget.keeping(cost).left(), left)
    pooled = budget.pool(torch.tensor([1, 0])).left()
    assert pooled[0] == 0 and pooled[2] == 0 and float(pooled[1]) == float(left[0] + left[1])


def test_a_share_counts_the_reserve_in_the_whole_and_leaves_it_there():
    score = bound_score()
    assert lp.Run().budget(score).share(0.5).least_left() == float("inf")
    assert lp.Run(max_gradients=60).budget(score).share(0.5).least_left() == 30
    assert lp.Run(max_gradients=60, reserved=50).budget(score).share(0.5).least_left() == 10
    assert lp.Run(max_gradients=60, reserved=70).budget(score).share(0.75).least_left() == 0
    assert lp.Run(max_gradients=60, reserved=50).budget(score).with_reserved.least_left() == 60


def test_all_budgets_of_a_call_read_one_count():
    score = bound_score()
    budget = lp.Run(max_gradients=100).budget(score)
    half = budget.share(0.5)
    spend(score, 1, 40)
    assert budget.spent().tolist() == [0, 40, 0]
    assert budget.left().tolist() == [100, 60, 100] and half.left().tolist() == [50, 10, 50]
    assert half.affords(20).tolist() == [True, False, True]
    assert half.affords(20, torch.tensor([2, 1])).tolist() == [True, False]
    assert budget.share(0.5).left().tolist() == [50, 30, 50]  # of what is left now


def test_without_a_limit_everything_is_affordable_and_the_integrator_keeps_its_own_default():
    budget = lp.Run().budget(bound_score())
    for way in (budget, budget.share(0.1), budget.shared_by(3), budget.keeping(torch.tensor(torch.inf))):
        assert not way.limited and way.affords(1e9).all() and way.grant() is None
    assert budget.at_most(5).grant().tolist() == [5, 5, 5]
    assert lp.Run(max_gradients=3).budget(spent_already([3, 7, 1])).grant().tolist() == [1, 1, 2]


@given(COUNTS, COUNTS)
def test_settling_keeps_the_sum(counts, later):
    score = spent_already(counts)
    budget = lp.Run().budget(score)
    before = budget.spent()
    for example, cost in enumerate(later):
        spend(score, example, cost)
    shares = torch.full((EXAMPLES,), sum(later) / EXAMPLES, dtype=torch.float64)
    score.settle(before, shares)
    torch.testing.assert_close(budget.spent(), torch.tensor(counts).double() + shares)
    score.settle(budget.spent(), shares + 1)  # an interrupted integral: nothing was counted since
    assert float(budget.spent().sum()) == pytest.approx(sum(counts) + sum(later))


# ---- calls -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("solver", SOLVERS.values(), ids=SOLVERS)
@settings(max_examples=8, deadline=None)
@given(st.integers(40, 3000), st.booleans())
def test_no_call_spends_more_than_its_budget_and_counts_what_the_model_did(solver, max_gradients, fixed):
    model = Counted(moons_net())
    steps = {"tolerance": None, "n_steps": 20} if fixed else {}
    result = lp.attribute(
        lp.Score(model, 1, "softmax"), flat_points(4), flat_points(1, seed=1), method=solver,
        max_gradients=max_gradients, **steps,
    )  # fmt: skip
    assert int(result.n_gradients.sum()) == model.gradient_rows
    assert (result.n_gradients <= max_gradients + 1).all()  # split gradients are rounded to whole ones


class OneRoute:
    """A solver for tests: all examples walk the same two segments."""

    def solve(self, score, metric, start, end, run) -> lp.Solution:
        points = torch.stack([start[0], torch.lerp(start[0], end[0], 0.5) + 0.3, end[0]])
        batch = len(start)
        return lp.Solution(lp.Path(points, torch.arange(3).repeat(batch), 3 * torch.arange(batch + 1)))


@pytest.mark.parametrize("max_gradients", [None, 30])
def test_segments_that_examples_share_are_paid_for_by_all_of_them(max_gradients):
    model, x, baseline = Counted(moons_net()), flat_points(1).expand(3, 2), flat_points(1, seed=1)
    score = lp.Score(model, 1, "softmax")
    result = lp.attribute(score, x, baseline, method=OneRoute(), max_gradients=max_gradients)
    assert int(result.n_gradients.sum()) == model.gradient_rows
    bound = score.bind(x)
    path = OneRoute().solve(bound, None, *bound.space.ends(baseline), None).path
    shortest_of(bound, lp.Conformal(), [path, path], lp.Run(max_gradients=max_gradients))
    assert bound.gradients_spent.max() - bound.gradients_spent.min() < 1e-9  # one example walks first for all of them


# ---- time --------------------------------------------------------------------------------------------------------


def test_nothing_is_left_when_the_time_is_used_up():
    now = [0.0]
    score = bound_score()
    budget = lp.Run(max_gradients=100, clock=Clock(10, lambda: now[0])).budget(score)
    half = budget.share(0.5)
    assert budget.left().tolist() == [100] * 3 and not budget.out_of_time
    now[0] = 10.0
    assert budget.out_of_time and budget.limited and not budget.affords(1).any() and not half.at_most(5).left().any()
    assert budget.grant().tolist() == [1] * 3  # a look at each segment is always taken


def test_a_clock_against_arithmetic():
    now = [100.0]
    clock = Clock(20, lambda: now[0])
    now[0] = 105.0
    assert (clock.spent(), clock.left()) == (5, 15)
    part = clock.part(0.2)
    assert part.left() == 3 and part.asked == 20 and "max_seconds=20" in part.words
    assert clock.affordable(10) == 30 and clock.affordable(0) == torch.inf  # 2 gradients a second
    now[0] = 200.0
    assert clock.left() == part.left() == clock.affordable(10) == clock.affordable(0) == 0
    free = Clock(None, lambda: now[0])
    assert free.left() == free.part(0.1).left() == free.affordable(7) == torch.inf


# ---- what a call may spend --------------------


@pytest.mark.parametrize("wrong", [0, -1, "soon", float("nan")])
def test_seconds_that_are_none_are_refused(wrong):
    with pytest.raises(ValueError, match="must be a positive number of seconds, or None"):
        lp.Limits(max_seconds=wrong)


@pytest.mark.parametrize("wrong", [0, 2.5, True])
def test_gradients_that_are_none_are_refused(wrong):
    with pytest.raises(ValueError, match="max_gradients"):
        lp.Limits(max_gradients=wrong)
