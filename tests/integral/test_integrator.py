"""The verb: blocks, memory, interruption, and what it refuses."""

import math

import pytest
import torch

from helpers import Counted, flat_points, wave
from leastpath import Outcome, Path, Score, integrate

LINE = Path.straight(torch.zeros(1, 2, dtype=torch.float64), torch.ones(1, 2, dtype=torch.float64))


class Interrupting:
    """Ctrl-C arrives once, during the n-th gradient call."""

    def __init__(self, call: int) -> None:
        self.left = call

    def __call__(self, x):
        if torch.is_grad_enabled():
            self.left -= 1
            if self.left == 0:
                raise KeyboardInterrupt
        return wave(x)


def test_blocks_do_not_change_the_result(monkeypatch):
    """Batches too large to refine at once are refined in blocks; a smaller limit shows them in a small test."""
    path = Path.straight(torch.zeros(7, 2), flat_points(7))
    whole = integrate(Score(wave, batch_size=20), path)
    per_block = 3
    small = per_block * integrate.__globals__["PIECES_EXPECTED"] * 2  # features
    monkeypatch.setitem(integrate.__globals__, "BLOCK_ELEMENTS", small)
    blocks = integrate(Score(wave, batch_size=20), path)
    torch.testing.assert_close(whole.values, blocks.values)
    assert torch.equal(whole.n_gradients, blocks.n_gradients)
    assert [n.sentence for n in whole.notes] == [n.sentence for n in blocks.notes]


@pytest.mark.parametrize("settings", [{"tolerance": None, "n_steps": 100}, {"tolerance": 1e-3}])
def test_no_call_is_larger_than_batch_size(settings):
    model = Counted(wave)
    integrate(Score(model, batch_size=6), Path.straight(torch.zeros(4, 2), flat_points(4)), **settings)
    assert model.largest <= 6


def test_interruption_returns_what_is_known_and_says_so():
    result = integrate(Score(Interrupting(3)), LINE)
    assert result.notes[0].outcome is Outcome.INTERRUPTED
    assert "interrupted after 36 gradients" in result.notes[0].sentence and "run it again" in result.notes[0].sentence
    assert result.values.isfinite().all()


def test_interruption_before_anything_is_known_propagates():
    with pytest.raises(KeyboardInterrupt):
        integrate(Score(Interrupting(1)), LINE)


def test_interruption_of_one_block_leaves_the_others_at_a_first_look(monkeypatch):
    monkeypatch.setitem(integrate.__globals__, "BLOCK_ELEMENTS", 1)
    result = integrate(Score(Interrupting(3), batch_size=12), Path.straight(torch.zeros(3, 2), torch.ones(3, 2)))
    assert [n.outcome for n in result.notes] == [Outcome.INTERRUPTED] * 3
    assert result.n_gradients[1:].tolist() == [12, 12]


@pytest.mark.parametrize("settings", [{}, {"tolerance": None, "n_steps": 8}], ids=["tolerance", "fixed steps"])
def test_interruption_of_a_first_look_keeps_the_blocks_that_are_finished(settings, monkeypatch):
    monkeypatch.setitem(integrate.__globals__, "BLOCK_ELEMENTS", 1)
    path = Path.straight(torch.zeros(3, 2), torch.ones(3, 2))
    counting = Interrupting(10**9)
    first = integrate(Score(counting, batch_size=12), path.select(torch.tensor([0])), **settings)
    result = integrate(Score(Interrupting(10**9 - counting.left + 1), batch_size=12), path, **settings)
    assert torch.equal(result.values[0], first.values[0]) and result.values[1:].isnan().all()
    assert [n.outcome is Outcome.INTERRUPTED for n in result.notes] == [False, True, True]


# ---- errors --------------------------------------------------------------------------------------------------------


class Incomplete:
    complete = False

    def weigh(self, gradient, step):
        return gradient**2

    def finish(self, total, step):
        return total


ERRORS = {
    "n_steps": ({"n_steps": 0}, "n_steps=0 must be at least 1"),
    "neither": ({"tolerance": None}, "tolerance=None means fixed steps, but n_steps is None: pass n_steps=50"),
    "a tolerance in words": ({"tolerance": "0.1"}, "tolerance='0.1' must be a number between 0 and 1"),
    "half a step": ({"n_steps": 10.5}, "n_steps=10.5 must be a whole number"),
    "tolerance 0": ({"tolerance": 0.0}, "tolerance=0.0 must lie between 0 and 1, or be None"),
    "tolerance 1": ({"tolerance": 1.0}, "tolerance=1.0 must lie between 0 and 1"),
    "tolerance nan": ({"tolerance": math.nan}, "tolerance=nan must lie between 0 and 1"),
    "rule": ({"rule": "simpson"}, "rule='simpson' is unknown: use one of .*'midpoint'"),
    "budget": ({"max_gradients": 0}, "max_gradients=0 must be at least 1"),
    "steps over budget": (
        {"tolerance": None, "n_steps": 9, "max_gradients": 5},
        "n_steps=9 do not fit in max_gradients=5",
    ),
    "incomplete": ({"weighting": Incomplete()}, "Incomplete is not complete, .*: pass tolerance=None, n_steps=50"),
}


@pytest.mark.parametrize(("settings", "match"), ERRORS.values(), ids=ERRORS)
def test_errors(settings, match):
    with pytest.raises(ValueError, match=match):
        integrate(Score(wave), LINE, **settings)


def test_score_over_another_batch():
    with pytest.raises(ValueError, match="a path of 1 examples for a score over 2: they must match"):
        integrate(Score(wave).bind(torch.zeros(2, 2)), LINE)


def test_incomplete_weightings_run_at_fixed_steps():
    """Σ of squared gradients: 4 for f = 2x₀, whatever the step."""
    result = integrate(Score(lambda x: 2 * x[:, 0]), LINE, tolerance=None, n_steps=3, weighting=Incomplete())
    torch.testing.assert_close(result.values, torch.tensor([[4.0, 0.0]], dtype=torch.float64))
