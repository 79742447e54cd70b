"""The verb: blocks, memory, interruption, and what it refuses."""

import copy
import math
import re

import pytest
import torch
from hypothesis import given, strategies as st

import axiom_oracles as oracle
import leastpath as lp
from helpers import Counted, flat_points, mlp, moons_net, relative_error, wave
from leastpath import Outcome, Path, Score, integrate
from leastpath.integral.integrator import _first_pieces
from leastpath.integral.pieces import KnownSegments, Pieces, quadrature

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


# ---- error control: against closed forms and brute force, what fools a residual, inequalities, budgets ---------------


ONE = torch.ones(1, 2, dtype=torch.float64)


ZERO = torch.zeros(1, 2, dtype=torch.float64)


WAVE_LINE = Path.straight(ZERO, ONE)


# ---- against closed forms ------------------------------------------------------------------------------------------


def logistic(x):
    return torch.sigmoid(30 * (x[:, 0] + x[:, 1] - 1.1)) * 2


CLOSED_FORMS = {
    "polynomial": (lambda x: x[:, 0] ** 5 * x[:, 1] + x[:, 1] ** 2, [5 / 6, 1 / 6 + 1]),
    "wave": (wave, [math.sin(40) + 1, -math.sin(40)]),
    "exponential": (lambda x: torch.exp(3 * x[:, 0] - x[:, 1]), [1.5 * (math.e**2 - 1), -0.5 * (math.e**2 - 1)]),
    "cliff": (logistic, [1 / (1 + math.exp(-27)) - 1 / (1 + math.exp(33))] * 2),
    "kink": (lambda x: (x[:, 0] - 0.3).abs() * 2 + x[:, 1], [0.8, 1]),
}


@pytest.mark.parametrize("tolerance", [1e-2, 1e-4, 1e-6])
@pytest.mark.parametrize(("f", "expected"), CLOSED_FORMS.values(), ids=CLOSED_FORMS)
def test_tolerance_is_honoured_against_closed_form(f, expected, tolerance):
    result = integrate(Score(f), WAVE_LINE, tolerance=tolerance)
    expected = torch.tensor([expected], dtype=torch.float64)
    assert result.notes[0].outcome is Outcome.REACHED
    assert relative_error(result.values, expected) <= tolerance
    allowed = tolerance * max(result.change.abs(), 0.01 * (result.high - result.low)) + 64 * 2.3e-16 * result.high.abs()
    assert result.gap.abs() <= allowed


@pytest.mark.parametrize("tolerance", [1e-2, 1e-3])
def test_wave_that_cancels_in_the_residual_against_closed_form(tolerance):
    """sin 40x₀ − sin 40x₁ + x₀: on the diagonal the two waves cancel at every node, so that no residual sees them."""
    result = integrate(Score(wave), Path.straight(ZERO.float(), ONE.float()), tolerance=tolerance)
    assert relative_error(result.values, torch.tensor([CLOSED_FORMS["wave"][1]])) <= tolerance
    coarse = integrate(Score(wave), WAVE_LINE, tolerance=None, n_steps=10)  # the trap is real: no gap, wrong values
    assert coarse.gap.abs() < 1e-12 and relative_error(coarse.values, torch.tensor([CLOSED_FORMS["wave"][1]])) > 0.1


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("centre", [0.5, 0.37])
@pytest.mark.parametrize("width", [0.3, 0.1, 0.05, 0.02, 0.01, 0.005])
def test_narrow_symmetric_bump_against_closed_form(width, centre, dtype):
    """x₁ · bump(x₀) begins and ends at zero: A₁ = ∫ bump = −A₀ (up to the tails), while Δf says nothing of either."""

    def bump(x):
        return torch.exp(-((x - centre) ** 2) / (2 * width**2))

    path = Path.straight(ZERO.to(dtype), ONE.to(dtype))
    result = integrate(Score(lambda x: bump(x[:, 0]) * x[:, 1]), path)
    area = width * math.sqrt(math.pi / 2)
    area *= math.erf((1 - centre) / width / math.sqrt(2)) + math.erf(centre / width / math.sqrt(2))
    tail = math.exp(-((1 - centre) ** 2) / (2 * width**2))
    assert result.notes[0].outcome is Outcome.REACHED
    assert relative_error(result.values, torch.tensor([[tail - area, area]])) <= 0.01


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("centre", [0.5, 0.37])
@pytest.mark.parametrize("width", [0.1, 0.03, 0.01])
def test_length_of_a_bump_is_its_total_variation(width, centre, dtype):
    """Up and down again: Δf and every attribution vanish, the rank-one length does not. It must end, too."""
    path = Path.straight(ZERO.to(dtype), ONE.to(dtype))
    score = Score(lambda x: torch.exp(-((x.mean(1) - centre) ** 2) / (2 * width**2)))
    result = integrate(score, path, lp.RankOne())
    ends = sum(math.exp(-(t**2) / (2 * width**2)) for t in (centre, 1 - centre))
    assert result.notes[0].outcome is Outcome.REACHED
    assert float(result.length) == pytest.approx(2 - ends, rel=0.01)
    assert (result.length - (2 - ends)).abs() <= 0.01 * result.length and result.n_gradients < 1000


def against_brute_force(path, output, n_steps):
    """(examples,) Σ|error| / Σ|A| beside many midpoints on the same curve, through a trained classifier with cliffs.

    Examples along which the score moves by less than 1e-6 are left out: there brute force is rounding.
    """
    score = Score(moons_net(torch.float64), torch.arange(len(path)) % 2, output)
    result = integrate(score, path)
    brute = integrate(score, path, tolerance=None, n_steps=n_steps, rule="midpoint")
    moves = result.high - result.low > 1e-6
    assert {note.outcome for note, moving in zip(result.notes, moves, strict=True) if moving} == {Outcome.REACHED}
    torch.testing.assert_close(result.length[moves], brute.length[moves], rtol=0.02, atol=0)
    return relative_error(result.values, brute.values)[moves]


@pytest.mark.parametrize("output", ["softmax", "log_softmax", "raw"])
def test_lines_through_a_classifier_against_brute_force(output):
    ends = 1.5 * flat_points(400, 2, 0, torch.float64)
    errors = against_brute_force(Path.straight(ends[:200], ends[200:]), output, 10_000)
    assert (errors <= 0.01).double().mean() >= 0.99 and errors.max() <= 0.05


@pytest.mark.parametrize("output", ["softmax", "log_softmax", "raw"])
def test_polylines_through_a_classifier_against_brute_force(output):
    """Random polylines cross the cliffs back and forth, so that most of what is summed cancels."""
    errors = against_brute_force(
        Path.polyline((2 * flat_points(160, 2, 1, torch.float64)).view(40, 4, 2)), output, 40_000
    )
    # Error control samples: a kink between all its nodes can hide. 95 % is what it reaches here, with none far out.
    assert (errors <= 0.01).double().mean() >= 0.95 and errors.max() <= 0.05


@pytest.mark.parametrize("output", ["softmax", "log_softmax"])
@pytest.mark.parametrize("knots", [2, 9])
def test_many_features_against_brute_force(output, knots):
    """Where errors of pieces are averaged, the tolerance still holds, and the error estimates are not too small."""
    net = copy.deepcopy(mlp(20, seed=5)).double()
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.mul_(2)
    path = Path.polyline(flat_points(10 * knots, 20, 2, torch.float64).view(10, knots, 20))
    score = Score(net, torch.arange(10) % 2, output)
    found = integrate(score, path)
    fine = integrate(score, path, tolerance=None, n_steps=4000, rule="midpoint")
    difference = found.values - fine.values
    error = torch.minimum(difference.abs().sum(1), 2 * difference.norm(dim=1))
    assert (error <= 0.01 * fine.values.abs().sum(1)).all() and (error <= found.attribution_error + 1e-4).all()
    assert ((found.length / fine.length - 1).abs() <= 0.01).all()


@pytest.mark.parametrize("metric", [lp.Conformal(), lp.RankOne(), lp.NoCancellation(), lp.Euclidean()])
def test_length_of_a_linear_score_against_closed_form(metric):
    w = torch.tensor([[2.0, -1.0]], dtype=torch.float64)
    result = integrate(Score(lambda x: (x * w).sum(1)), Path.straight(ZERO, 3 * ONE), metric)
    assert float(result.length) == pytest.approx(float(metric.speed(ZERO, w, 3 * ONE)))
    assert float(result.length_error) < 1e-9


def test_errors_are_estimated_at_least_as_large_as_they_are():
    result = integrate(Score(wave), WAVE_LINE)
    expected = torch.tensor([CLOSED_FORMS["wave"][1]])
    assert (result.values - expected).abs().sum() <= result.attribution_error
    fixed = integrate(Score(wave), WAVE_LINE, tolerance=None, n_steps=9)
    assert fixed.attribution_error.isnan().all() and fixed.length_error.isnan().all()


# ---- inequalities and counter-examples of the theory ---------------------------------------------------------------


@given(st.integers(0, 10_000), st.integers(1, 4), st.integers(2, 5))
def test_inequalities_on_random_nets_and_polylines(seed, features, knots):
    """L₁ ≥ Σ|A| ≥ |Δf|, L₁ ≥ L_r ≥ |Δf|, L_c ≥ L_r."""
    path = Path.polyline(flat_points(2 * knots, features, seed, torch.float64).view(2, knots, features))
    score = Score(mlp(features, seed=seed).double(), torch.tensor([0, 1]))
    tolerance = 1e-4
    measured = oracle.lengths(score, path, tolerance=tolerance)
    for name, violation in measured.violations().items():
        # Both sides are measured, each with an error of its own of up to the tolerance.
        assert (violation <= 2 * tolerance).all(), name


def test_monotone_score_with_certificate_one_still_cancels():
    """f = 2x₀ − x₁ on the straight line: the rank-one certificate is 1, yet A = (2, −1)."""
    score = Score(lambda x: 2 * x[:, 0] - x[:, 1])
    result = integrate(score, WAVE_LINE, lp.RankOne())
    torch.testing.assert_close(result.values, torch.tensor([[2.0, -1.0]], dtype=torch.float64))
    torch.testing.assert_close(result.length / result.change, torch.ones(1, dtype=torch.float64))


def test_no_cancellation_without_a_shortest_path():
    """f = x₀ along 0 → 2 → 1: A = 1 = Δf, yet the rank-one length is 3."""
    knots = torch.tensor([[[0.0, 0.0], [2.0, 0.0], [1.0, 0.0]]], dtype=torch.float64)
    result = integrate(Score(lambda x: x[:, 0]), Path.polyline(knots), lp.RankOne())
    torch.testing.assert_close(result.values, torch.tensor([[1.0, 0.0]], dtype=torch.float64))
    assert float(result.length) == pytest.approx(3)


@given(st.integers(0, 1000))
def test_additive_score_has_the_same_attributions_on_every_path(seed):
    """f = x₀ − x₁: A = (1, −1) and Δf = 0, whatever the path. No-Cancellation Completeness is not attainable."""
    inner = flat_points(3, 2, seed, torch.float64)
    path = Path.polyline(torch.cat([ZERO, inner, ONE])[None])
    result = integrate(Score(lambda x: x[:, 0] - x[:, 1]), path)
    torch.testing.assert_close(result.values, torch.tensor([[1.0, -1.0]], dtype=torch.float64))
    assert float(result.change) == 0


# ---- budgets, and what cannot be resolved --------------------------------------------------------------------------


@pytest.mark.parametrize("budget", [1, 2, 3, 4, 5, 10, 11, 36, 50, 137])
@pytest.mark.parametrize("tolerance", [1e-2, 1e-6])
def test_budget_is_never_exceeded(budget, tolerance):
    model = Counted(wave)
    path = Path.straight(torch.zeros(3, 2), flat_points(3))
    result = integrate(Score(model), path, tolerance=tolerance, max_gradients=budget)
    assert (result.n_gradients >= 1).all() and (result.n_gradients <= budget).all()
    assert model.gradient_rows == result.n_gradients.sum()
    for note in result.notes:
        assert note.outcome is Outcome.BUDGET_SPENT
        assert re.search(rf"stopped after \d+ gradients? \(max_gradients={budget}\), before tolerance", note.sentence)
        assert re.search(r"was reached: the (attributions|errors|completeness gap) .*; raise", note.sentence)
        assert "inf" not in note.sentence
        assert "raise max_gradients or tolerance" in note.sentence


def test_budget_of_a_path_with_more_segments_takes_one_gradient_each():
    model = Counted(wave)
    result = integrate(Score(model), WAVE_LINE.subdivide(20), max_gradients=7)
    assert result.n_gradients == model.gradient_rows == 20
    assert result.notes[0].outcome is Outcome.BUDGET_SPENT


def test_budget_an_example_of_its_own():
    path = Path.straight(torch.zeros(3, 2), torch.ones(3, 2))
    result = integrate(Score(wave), path, tolerance=1e-5, max_gradients=torch.tensor([10, 100, 1000]))
    for n, budget in zip(result.n_gradients, (10, 100, 1000), strict=True):
        assert budget / 4 < n <= budget


def test_more_budget_is_not_worse():
    expected = torch.tensor([CLOSED_FORMS["wave"][1]])
    errors = [
        relative_error(integrate(Score(wave), WAVE_LINE, max_gradients=n).values, expected) for n in (36, 100, 1000)
    ]
    assert errors[2] < 0.01 and errors[2] <= errors[1] and errors[2] <= errors[0]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_jump_is_unresolved(dtype):
    """No gradient sees a step; the residual does, and says so without spending the whole budget."""
    score = Score(lambda x: (x[:, 0] > 0.3).to(x) + 0.1 * x.sum(1))
    result = integrate(score, Path.straight(ZERO.to(dtype), ONE.to(dtype)))
    assert result.notes[0].outcome is Outcome.UNRESOLVED
    assert re.search(r"float\d\d .*resolve.* completeness gap is 1 \(.* allowed\); ", result.notes[0].sentence)
    assert float(result.gap) == pytest.approx(-1, abs=1e-5) and result.n_gradients < 2000


def test_one_hard_example_does_not_hold_up_the_others():
    score = Score(lambda x: (x[:, 0] > 0.3).to(x) + 0.1 * x.sum(1))
    path = Path.straight(torch.zeros(2, 2), torch.tensor([[1.0, 1.0], [0.2, 1.0]]))
    result = integrate(score, path)
    assert [n.outcome for n in result.notes] == [Outcome.UNRESOLVED, Outcome.REACHED]
    alone = integrate(score, path.select(torch.tensor([1])))
    assert result.n_gradients[1] == alone.n_gradients[0] < result.n_gradients[0]


def test_closing_the_gap_takes_few_gradients_and_costs_no_accuracy(monkeypatch):
    """A rough score whose attributions cancel: they are known long before their sum is. Oracle: 8,000 midpoints."""
    generator = torch.Generator().manual_seed(0)
    weights = torch.randn(400, 32, dtype=torch.float64, generator=generator)
    offsets = 3 * torch.randn(400, dtype=torch.float64, generator=generator)
    signs = torch.randn(400, dtype=torch.float64, generator=generator)
    score = Score(lambda x: (2 * x @ weights.T + offsets).sin().abs() @ signs)
    path = Path.straight(torch.zeros(4, 32).double(), torch.rand(4, 32, dtype=torch.float64, generator=generator))
    exact = integrate(score, path, tolerance=None, n_steps=8_000, rule="midpoint").values
    few = integrate(score, path)
    monkeypatch.setattr("leastpath.integral.integrator.GAP_STEP", math.inf)
    many = integrate(score, path)
    for found in (few, many):
        assert (found.values.sum(1) - found.change).abs().le(0.01 * found.change.abs() + 1e-3).all()
        assert ((found.values - exact).norm(dim=1) * 2 <= 0.01 * exact.abs().sum(1)).all()
    assert few.n_gradients.sum() < many.n_gradients.sum()


def test_a_length_takes_few_gradients_where_attributions_are_known(monkeypatch):
    """A rough score of 4,000 features: a few pieces make most of the error. Oracle: 2,000 midpoints."""
    generator = torch.Generator().manual_seed(0)
    weights = 0.12 * torch.randn(100, 4000, dtype=torch.float64, generator=generator)
    offsets, signs = (torch.randn(100, dtype=torch.float64, generator=generator) for _ in range(2))
    score = Score(lambda x: (x @ weights.T + 3 * offsets).sin().abs() @ signs)
    path = Path.straight(torch.zeros(4, 4000).double(), torch.rand(4, 4000, dtype=torch.float64, generator=generator))
    exact = integrate(score, path, tolerance=None, n_steps=2_000, rule="midpoint")
    few = integrate(score, path, length_tolerance=0.002)
    monkeypatch.setattr("leastpath.integral.integrator.LENGTH_STEP", math.inf)
    many = integrate(score, path, length_tolerance=0.002)
    for found in (few, many):
        assert ((found.length - exact.length).abs() <= 0.002 * exact.length).all()
        assert ((found.values - exact.values).norm(dim=1) * 2 <= 0.01 * exact.values.abs().sum(1)).all()
    assert few.n_gradients.sum() < many.n_gradients.sum()


def test_batch_equals_loop():
    """In double precision: where error control cuts follows, near a threshold, the rounding of a batch."""
    model, x = moons_net(torch.float64), 2 * flat_points(6).double()
    targets = torch.tensor([0, 1, 0, 1, 1, 0])
    path = Path.polyline(torch.stack([torch.zeros_like(x), x.flip(1), x], 1))
    together = integrate(Score(model, targets, "softmax"), path)
    for b in range(6):
        alone = integrate(Score(model, targets[b], "softmax"), path.select(torch.tensor([b])))
        torch.testing.assert_close(together.values[b], alone.values[0], rtol=1e-3, atol=1e-5)
        torch.testing.assert_close(together.length[b], alone.length[0], rtol=1e-3, atol=1e-5)
        assert together.n_gradients[b] == alone.n_gradients[0]


# ---- the first measurement -----------------------------------------------------------------------------------------


def test_n_steps_with_a_tolerance_is_where_refinement_starts():
    few, many = (integrate(Score(lambda x: x.prod(1)), WAVE_LINE, n_steps=n).n_gradients for n in (2, 60))
    assert few < 36 and many >= 60


def test_known_segments_are_verified_and_not_measured_again():
    """Two gradients on each of 40 segments, one of them walked backwards: as if the integrator had measured it."""
    path, model = WAVE_LINE.subdivide(40), Counted(wave)
    bound = Score(wave).bind(path.end)
    tail, head, example = torch.arange(40), torch.arange(1, 41), torch.zeros(40, dtype=torch.long)
    tail[7], head[7] = 8, 7
    whole = torch.zeros(40).double(), torch.ones(40).double()
    estimate = quadrature(bound, Pieces(path.points, tail, head, example, *whole), lp.Conformal(), "gauss_legendre", 2)
    without = integrate(Score(wave), path)
    result = integrate(Score(model), path, known=KnownSegments(tail, head, example, estimate))
    torch.testing.assert_close(result.values, without.values)
    assert model.gradient_rows == result.n_gradients == without.n_gradients - 80


@pytest.mark.parametrize(("pieces", "saved"), [(6, 12), (3, 0)])
@pytest.mark.parametrize("backwards", [False, True])
def test_a_segment_that_is_known_in_pieces_is_verified_and_not_measured_again(pieces, saved, backwards):
    """As if the integrator had measured it, if there are as many pieces as it would take; fewer are not enough."""
    _, t0, t1 = _first_pieces(torch.tensor([pieces]), torch.tensor([True]))
    tail, head = (torch.full((pieces,), end) for end in ((1, 0) if backwards else (0, 1)))
    t0, t1 = (1 - t1, 1 - t0) if backwards else (t0, t1)
    bound, example = Score(wave).bind(WAVE_LINE.end), torch.zeros(pieces).long()
    estimate = quadrature(
        bound, Pieces(WAVE_LINE.points, tail, head, example, t0, t1), lp.Conformal(), "gauss_legendre", 2
    )
    known = KnownSegments(tail, head, example, estimate, torch.stack([t0, t1], 1))
    without, result = (
        integrate(Score(wave), WAVE_LINE),
        integrate(Score(wave), WAVE_LINE, known=known),
    )
    torch.testing.assert_close(result.values, without.values)
    assert result.n_gradients == without.n_gradients - saved
