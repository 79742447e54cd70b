"""compare(): the same numbers as a loop, winners that are known, and nothing lost when it is killed."""

import functools
import multiprocessing
import os
import signal
import sys
import time
from dataclasses import dataclass, replace

import numpy as np
import pytest
import torch

import leastpath as lp
from helpers import TextNet, flat_points, mlp, seeded
from leastpath._support.store import StoreMismatch
from leastpath.account.run import Clock
from leastpath.evaluation.axioms import Cancellation, Certificate, CompletenessGap
from leastpath.evaluation.measure import Measured
from leastpath.evaluation.pairs import compare
from leastpath.methods import METHODS

pytest.importorskip("pandas")
pytest.importorskip("safetensors")
pytestmark = pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")

INPUTS = flat_points(6, 4)
SCORE = lp.Score(mlp(), torch.arange(6) % 3, "log_softmax")
TIMES = ["seconds", "measuring_seconds"]


@dataclass(frozen=True)
class Magnitude:
    """Σ|A|^power, with a curve."""

    name: str = "magnitude"
    higher_is_better: bool = False
    power: float = 1.0

    def __call__(self, score, inputs, baselines, result, *, seed=0):
        values = result.values.flatten(1).abs() ** self.power
        curves = {"x": torch.linspace(0, 1, values.shape[1]), "sorted": values.sort(1).values}
        return Measured.of(values.sum(1), curves, n_forwards=2, n_gradients=1)


@dataclass(frozen=True)
class Again:
    """How much the attributions change with another seed."""

    name: str = "again"
    higher_is_better: bool = False
    needs_method: bool = True

    def __call__(self, score, inputs, baselines, result, *, seed=0, explain):
        other = explain(score, inputs, baselines, seed + 1)
        return Measured.of((other.values - result.values).flatten(1).norm(dim=1))


@dataclass(frozen=True)
class Known:
    """How far from the right answer, which it holds for each example."""

    answer: torch.Tensor
    name: str = "error"
    higher_is_better: bool = False

    def select(self, rows):
        return replace(self, answer=self.answer[rows.start : rows.stop])

    def __call__(self, score, inputs, baselines, result, *, seed=0):
        return Measured.of((result.values - self.answer).flatten(1).norm(dim=1))


def line(score, inputs, baselines, seed):
    return lp.attribute(score, inputs, baselines, method=lp.StraightLine(), seed=seed)


def noisy(score, inputs, baselines, seed, scale=1.0):
    result = line(score, inputs, baselines, seed)
    noise = torch.randn(result.values.shape[1:], generator=torch.Generator().manual_seed(seed))
    return replace(result, values=result.values + scale * noise)


def picky(score, inputs, baselines, seed):
    if (inputs == INPUTS[2]).all(1).any():
        raise RuntimeError("not this one")
    return line(score, inputs, baselines, seed)


def without_times(table):
    return table.drop(columns=TIMES)


def equal(a, b):
    return without_times(a.per_example).equals(without_times(b.per_example)) and a.curves.equals(b.curves)


# ---- numbers -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("batch_size", [1, 4, 6])
def test_values_equal_a_loop_over_methods(batch_size):
    found = compare(
        {"line": line, "noisy": noisy}, SCORE, INPUTS, 0.1, [Magnitude(), Again()], batch_size=batch_size, seed=3
    )
    for name, method in (("line", line), ("noisy", noisy)):
        result = method(SCORE, INPUTS, 0.1, 3)
        rows = found.per_example[found.per_example["method"] == name]
        np.testing.assert_allclose(rows["magnitude"], result.values.abs().sum(1), rtol=1e-5)
        np.testing.assert_allclose(rows["cancellation"], result.cancellation, rtol=1e-4, atol=1e-6)
        again = (method(SCORE, INPUTS, 0.1, 4).values - result.values).norm(dim=1)
        np.testing.assert_allclose(rows["again"], again, atol=1e-5)
        assert (rows["measuring_forwards"] == 2).all() and (rows["measuring_gradients"] == 1).all()
        curve = found.curves.query("method == @name and input == 4")
        np.testing.assert_allclose(curve["value"], result.values[4].abs().sort().values, rtol=1e-5)
        np.testing.assert_allclose(curve["x"], np.linspace(0, 1, 4), rtol=1e-6)


def test_a_planted_winner_wins_and_a_planted_tie_is_a_tie():
    score, inputs = lp.Score(lambda x: x @ torch.arange(1.0, 5.0)), flat_points(12, 4)
    answer = inputs * torch.arange(1.0, 5.0)
    methods = {"bad": functools.partial(noisy, scale=2.0), "good": line, "alike": lp.StraightLine()}
    found = compare(methods, score, inputs, None, [Known(answer)], reference="bad", batch_size=5)
    winner = found.winners().loc["error"]
    assert winner["best"] in ("good", "alike") and len(winner["tied"]) == 1 and "bad" not in winner["tied"]
    assert not winner["clear"] and winner["beats_reference"] and winner["p_reference"] < 0.05
    assert compare({"bad": methods["bad"], "good": line}, score, inputs, None, [Known(answer)]).winners()["clear"].all()


def test_methods_by_name_object_and_solver():
    fixed = METHODS["integrated_gradients"].with_settings(tolerance=None, n_steps=8)
    found = compare(["integrated_gradients", lp.Descent(n_rounds=2)], SCORE, INPUTS)
    assert found.methods == ("integrated_gradients", "Descent") and found.reference == "integrated_gradients"
    named = compare({"eight": fixed, "ours": lp.StraightLine()}, SCORE, INPUTS, None, [Magnitude()])
    assert named.per_example.query("method == 'eight'")["gradients"].eq(8).all()
    exact = METHODS["integrated_gradients"](SCORE, INPUTS).values.abs().sum(1)
    np.testing.assert_allclose(named.per_example.query("method == 'ours'")["magnitude"], exact, rtol=1e-3)


def test_layers_tuples_arguments_and_baselines_go_along_row_by_row():
    net = seeded(TextNet).eval()
    ids, mask = torch.arange(20).reshape(4, 5) % 11, (torch.rand(4, 5) > 0.3).float()
    score = lp.Score(net, torch.tensor([0, 1, 2, 0]), layer=net.embedding, additional_forward_args=(mask,))
    found = compare({"line": line}, score, ids, 0, [Magnitude()])
    np.testing.assert_allclose(
        found.per_example["magnitude"], line(score, ids, 0, 0).values.flatten(1).abs().sum(1), rtol=1e-4
    )
    pair = (flat_points(3, 2), flat_points(3, 2, seed=1))
    score = lp.Score(lambda a, b: (a * b).sum(1) ** 2)
    several = (flat_points(6, 2, seed=2).reshape(3, 2, 2), torch.zeros(1, 2, 2))
    for baselines in (None, several):
        found = compare({"line": line}, score, pair, baselines)
        np.testing.assert_allclose(
            found.per_example["cancellation"], line(score, pair, baselines, 0).cancellation, rtol=1e-4
        )


# ---- failures ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("batch_size", [1, 3])
def test_a_failure_becomes_a_row_with_its_reason(batch_size, tmp_path):
    call = functools.partial(compare, {"line": line, "picky": picky}, SCORE, INPUTS, None, [Magnitude()])
    found = call(batch_size=batch_size, store=tmp_path)
    assert found.failures.to_dict("records") == [
        {"method": "picky", "input": 2, "name": "2", "failure": "RuntimeError: not this one"}
    ]
    assert found.table().loc["picky", ("inputs", "failed")] == 1 and found.table().loc["picky", ("magnitude", "n")] == 5
    assert found.tests()["n"].eq(5).all()
    with pytest.raises(RuntimeError, match="not this one"):
        call(fail_fast=True)


def test_a_method_that_always_fails_has_no_mean_and_never_wins():
    def broken(score, inputs, baselines, seed):
        raise ValueError("no")

    found = compare({"broken": broken, "line": line}, SCORE, INPUTS, None, [Magnitude()])
    assert np.isnan(found.table().loc["broken", ("magnitude", "mean")])
    assert found.winners().loc["magnitude", "best"] == "line" and not found.winners().loc["magnitude", "clear"]
    str(found)


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"methods": "integrated_gradients"}, "is one name"),
        ({"methods": []}, "methods is empty"),
        ({"methods": ["no such"]}, "no method is called 'no such'"),
        ({"methods": [line]}, "needs a name"),
        ({"methods": [3]}, "is not a method"),
        ({"methods": [lp.StraightLine]}, "is a class"),
        ({"methods": [lp.StraightLine(), lp.StraightLine()]}, "two methods are called 'StraightLine'"),
        ({"score": mlp()}, "expected a Score"),
        ({"measures": [Magnitude]}, "is a class"),
        ({"measures": Magnitude()}, "also for a single one"),
        ({"measures": [3]}, "is not a measure"),
        ({"measures": [Magnitude(), Magnitude()]}, "two measures are called"),
        ({"measures": [replace(Magnitude(), name="seconds")]}, "called 'seconds', as another column is"),
        ({"batch_size": 0}, "at least 1"),
        ({"names": ["a"]}, "1 names for 6 inputs"),
        ({"reference": "no"}, "is not compared"),
        ({"inputs": INPUTS.long()}, "has no gradient"),
    ],
)
def test_mistakes_are_said_before_any_work(change, match):
    call = {"methods": {"line": line}, "score": SCORE, "inputs": INPUTS, "measures": [Magnitude()]} | change
    with pytest.raises(ValueError, match=match):
        compare(call.pop("methods"), call.pop("score"), call.pop("inputs"), **call)


def test_axioms_as_measures_equal_the_evidence():
    axioms = [CompletenessGap(), Cancellation(), Certificate()]
    found = compare({"line": line, "noisy": noisy}, SCORE, INPUTS, measures=axioms)
    plain = compare({"line": line, "noisy": noisy}, SCORE, INPUTS).per_example
    assert not found.per_example.columns.duplicated().any()
    assert found.per_example["completeness_gap"].equals(plain["completeness_gap"].abs())
    assert found.per_example[["cancellation", "certificate"]].equals(plain[["cancellation", "certificate"]])
    assert found.winners().index.tolist() == [axiom.name for axiom in axioms]
    assert "certificate" in str(found)


@pytest.mark.parametrize("result", [None, "short"])
def test_what_is_no_result_is_a_failure(result):
    def odd(score, inputs, baselines, seed):
        return result and replace(line(score, inputs, baselines, seed), status=())

    assert compare({"odd": odd}, SCORE, INPUTS).failures["failure"].str.contains("returned").all()


# ---- resuming ----------------------------------------------------------------------------------------------------


def test_finished_pairs_are_not_computed_again_and_more_may_be_added(tmp_path):
    score = lp.Score(mlp(), 0)
    with_store = functools.partial(compare, measures=[Magnitude()], store=tmp_path)
    first = with_store({"line": line}, score, INPUTS[:4])
    again = with_store({"line": line}, score, INPUTS[:4])
    assert first.per_example.equals(again.per_example)  # times too: they were read, not measured
    more = with_store({"noisy": noisy, "line": line}, score, INPUTS)
    rows = more.per_example.query("method == 'line' and input < 4")
    assert rows["seconds"].tolist() == first.per_example["seconds"].tolist()
    assert equal(more, compare({"noisy": noisy, "line": line}, score, INPUTS, None, [Magnitude()]))
    assert len(list((tmp_path / "units").iterdir())) == 12


def test_other_settings_of_a_method_are_another_unit_and_other_scores_are_refused(tmp_path):
    score = lp.Score(mlp(), 0)
    call = functools.partial(compare, inputs=INPUTS[:2], store=tmp_path)
    first = call({"noisy": noisy}, score=score, measures=[Magnitude()])
    louder = call({"noisy": functools.partial(noisy, scale=5.0)}, score=score, measures=[Magnitude()])
    assert (louder.per_example["magnitude"] != first.per_example["magnitude"]).all()
    for change, key in (
        ({"score": lp.Score(mlp(seed=1), 0)}, r"model\.weights"),
        ({"score": lp.Score(mlp(), 1)}, "target is 0 there and 1 here"),
        ({"measures": [Magnitude(power=2.0)]}, r"measures\.magnitude\.power is 1\.0 there and 2\.0 here"),
        ({"seed": 1}, "seed is 0 there and 1 here"),
    ):
        with pytest.raises(StoreMismatch, match=key):
            call({"noisy": noisy}, **({"score": score, "measures": [Magnitude()]} | change))


def slow_compare(folder, log):
    def slow(score, inputs, baselines, seed):
        with open(log, "a") as file:
            file.write("x")
        time.sleep(0.05)
        return noisy(score, inputs, baselines, seed)

    return compare({"slow": slow, "line": line}, SCORE, INPUTS, None, [Magnitude()], store=folder, batch_size=1)


@pytest.mark.skipif(sys.platform == "win32", reason="fork and SIGKILL are POSIX")
def test_sigkill_loses_at_most_the_unit_in_progress_and_changes_nothing(tmp_path):
    log, folder = tmp_path / "log", tmp_path / "store"
    child = multiprocessing.get_context("fork").Process(target=slow_compare, args=(folder, log))
    child.start()
    while not log.exists() or log.stat().st_size < 3:
        time.sleep(0.002)
    os.kill(child.pid, signal.SIGKILL)
    child.join()
    begun, kept = log.stat().st_size, len(list((folder / "units").glob("*.safetensors")))
    assert 2 <= kept < 6 and kept >= begun - 1
    resumed = slow_compare(folder, log)
    assert log.stat().st_size <= 6 + 1  # one was begun twice
    whole = slow_compare(tmp_path / "other", tmp_path / "other log")
    assert equal(resumed, whole) and resumed.tests().equals(whole.tests())


def test_a_broken_unit_is_computed_again(tmp_path):
    call = functools.partial(compare, {"line": line}, SCORE, INPUTS, None, [Magnitude()], store=tmp_path)
    whole = call()
    victim = sorted((tmp_path / "units").iterdir())[2]
    victim.write_bytes(victim.read_bytes()[:-3])
    with pytest.warns(UserWarning, match="is broken"):
        assert equal(call(), whole)


@pytest.mark.parametrize("swallowed", [False, True], ids=["raised", "swallowed by a solver"])
@pytest.mark.parametrize("stored", [False, True])
def test_ctrl_c_returns_what_is_finished_and_says_how_to_resume(tmp_path, swallowed, stored):
    log = tmp_path / "log"  # a counter in memory would be part of the method, and change it

    def interrupted(score, inputs, baselines, seed):
        result = line(score, inputs, baselines, seed)
        with log.open("a") as file:
            file.write("x")
        if log.stat().st_size != 4:
            return result
        if not swallowed:
            raise KeyboardInterrupt
        return replace(result, status=(lp.Status((lp.Note(lp.Outcome.INTERRUPTED, "interrupted"),)),))

    call = functools.partial(
        compare,
        {"mine": interrupted, "line": line},
        SCORE,
        INPUTS,
        None,
        [Magnitude()],
        store=tmp_path / "store" if stored else None,
    )
    with pytest.warns(UserWarning, match=r"3 of 12 .* (call compare again|give store=folder)"):
        found = call()
    assert not found.finished and len(found.per_example) == 3 and "interrupted" in repr(found)
    if stored:
        assert call().finished and log.stat().st_size == 4 + 3


def test_without_measures_evidence_and_costs_remain():
    found = compare({"line": line}, SCORE, INPUTS, progress=True)
    assert found.table().columns.get_level_values(0).unique().tolist() == ["verdict", "evidence", "cost", "inputs"]
    assert found.winners().empty and found.tests().empty and found.finished
    assert found.table().loc["line", ("cost", "gradients")] == line(SCORE, INPUTS, None, 0).n_gradients.double().mean()


@pytest.mark.parametrize("level", [95, 1.0, 0, -0.5])
def test_an_impossible_level_is_refused_before_the_work(level):
    asked = []
    with pytest.raises(ValueError, match=f"level={level} must lie between 0 and 1"):
        compare({"mine": lambda *of: asked.append(of)}, lp.Score(lambda x: x.prod(1)), torch.ones(1, 2), level=level)
    assert not asked


def test_time_ends_the_comparison_and_says_so(monkeypatch):
    """Every explanation takes a second on a fake clock: three of six fit in three seconds."""
    import sys

    now = [0.0]
    monkeypatch.setattr(sys.modules[compare.__module__], "Clock", lambda most: Clock(most, lambda: now[0]))

    def slow(score, inputs, baselines, seed):
        now[0] += 1
        return lp.attribute(score, inputs, baselines, method=lp.StraightLine())

    with pytest.warns(UserWarning, match=r"stopped after 3 seconds \(max_seconds=3\) with 3 of \d+ .* pairs finished"):
        found = compare({"slow": slow}, SCORE, INPUTS, max_seconds=3)
    assert not found.finished and len(found.per_example) == 3


def test_controls_stand_last_with_verdicts_on_the_removals_that_all_share():
    net = mlp(12)
    inputs, counted = flat_points(3, 12, 5), []
    hook = net.register_forward_hook(lambda module, given, output: counted.append(len(output)))
    score = lp.Score(net, net(inputs).argmax(1))
    line = METHODS["integrated_gradients"].with_settings(tolerance=None, n_steps=8)
    found = compare({"random": "random", "line": line}, score, inputs, controls=True, batch_size=3)
    hook.remove()
    assert found.methods == ("line", "random", "input_alone", "untrained", "other_class")
    assert found.table()["verdict", "n"].tolist() == [3] * 5
    alone = lp.Referee(score, inputs)
    alone.stops_early = False
    for name in found.methods:  # oracle: a referee of one's own
        values = (line if name == "line" else METHODS[name])(score, inputs, support=False).values
        own, rows = alone.judge(values), found.per_example.query("method == @name")
        np.testing.assert_allclose(rows["p_value"], own.p_value)
        np.testing.assert_allclose(rows["p_model"], own.p_model)
        assert rows["outcome"].tolist() == [status.outcomes[0].value for status in own.status]
    assert sum(counted) < 2 * 3 * 600  # removals of one test, not of five
