"""The integral: against closed forms, what fools a residual, budgets, shared segments, memory, interruption."""

import math
import re

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import leastpath as lp
from helpers import Counted, flat_points, mlp, moons_net
from leastpath import Outcome, Path, Score, integrate
from leastpath.evaluation import axioms

ONE = torch.ones(1, 2, dtype=torch.float64)
ZERO = torch.zeros(1, 2, dtype=torch.float64)
LINE = Path.straight(ZERO, ONE)


def relative_error(values, expected):
    """Σ|error| / Σ|expected| of each example."""
    return (values - expected).flatten(1).abs().sum(1) / expected.flatten(1).abs().sum(1)


# ---- against closed forms -------------------------------------------------------------------------------------------


def wave(x):
    return torch.sin(40 * x[:, 0]) - torch.sin(40 * x[:, 1]) + x[:, 0]


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
    result = integrate(Score(f), LINE, tolerance=tolerance)
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
    coarse = integrate(Score(wave), LINE, tolerance=None, n_steps=10)  # the trap is real: no gap, wrong values
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


@pytest.mark.parametrize("metric", [lp.Conformal(), lp.RankOne(), lp.NoCancellation(), lp.Euclidean()])
def test_length_of_a_linear_score_against_closed_form(metric):
    w = torch.tensor([[2.0, -1.0]], dtype=torch.float64)
    result = integrate(Score(lambda x: (x * w).sum(1)), Path.straight(ZERO, 3 * ONE), metric)
    assert float(result.length) == pytest.approx(float(metric.speed(ZERO, w, 3 * ONE)))
    assert float(result.length_error) < 1e-9


def test_errors_are_estimated_at_least_as_large_as_they_are():
    result = integrate(Score(wave), LINE)
    expected = torch.tensor([CLOSED_FORMS["wave"][1]])
    assert (result.values - expected).abs().sum() <= result.attribution_error
    fixed = integrate(Score(wave), LINE, tolerance=None, n_steps=9)
    assert fixed.attribution_error.isnan().all() and fixed.length_error.isnan().all()


# ---- inequalities and counter-examples of the theory -----------------------------------------------------------------


@given(st.integers(0, 10_000), st.integers(1, 4), st.integers(2, 5))
def test_inequalities_on_random_nets_and_polylines(seed, features, knots):
    """L₁ ≥ Σ|A| ≥ |Δf|, L₁ ≥ L_r ≥ |Δf|, L_c ≥ L_r."""
    path = Path.polyline(flat_points(2 * knots, features, seed, torch.float64).view(2, knots, features))
    score = Score(mlp(features, seed=seed).double(), torch.tensor([0, 1]))
    tolerance = 1e-4
    measured = axioms.lengths(score, path, tolerance=tolerance)
    for name, violation in measured.violations().items():
        # Both sides are measured, each with an error of its own of up to the tolerance.
        assert (violation <= 2 * tolerance).all(), name


def test_monotone_score_with_certificate_one_still_cancels():
    """f = 2x₀ − x₁ on the straight line: the rank-one certificate is 1, yet A = (2, −1)."""
    score = Score(lambda x: 2 * x[:, 0] - x[:, 1])
    result = integrate(score, LINE, lp.RankOne())
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


def test_length_is_never_below_the_change_of_score():
    """One node on a cliff sees nothing of it; the two ends do."""
    score = Score(lambda x: torch.sigmoid(1e4 * (x[:, 0] - 0.37)))
    for metric in (lp.Conformal(), lp.RankOne(), lp.NoCancellation()):
        result = integrate(score, LINE, metric, tolerance=None, n_steps=1)
        assert result.length >= result.change.abs()


# ---- fixed steps ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rule", ["gauss_legendre", "midpoint", "trapezoid"])
@pytest.mark.parametrize("n", [1, 2, 7, 50])
def test_fixed_steps_are_exactly_n_rows(rule, n):
    model = Counted(mlp(2))
    path = Path.straight(torch.zeros(3, 2), flat_points(3))
    result = integrate(Score(model, 1), path, tolerance=None, n_steps=n, rule=rule)
    assert result.n_gradients.tolist() == [n] * 3 and model.gradient_rows == 3 * n
    assert result.notes[0].outcome is Outcome.FIXED_STEPS and f"{n} fixed steps" in result.notes[0].sentence


@given(st.integers(0, 1000), st.integers(2, 6), st.integers(1, 30))
def test_fixed_steps_are_spread_over_segments_by_length(seed, knots, n):
    """They sum to n_steps, or to one a segment where n_steps are fewer; and lengths order them."""
    knots = flat_points(knots, 2, seed)[None]
    model = Counted(mlp(2))
    result = integrate(Score(model, 1), Path.polyline(knots), tolerance=None, n_steps=n)
    assert model.gradient_rows == result.n_gradients == max(n, knots.shape[1] - 1)


def test_fixed_steps_against_brute_force_segment_by_segment():
    """Segments of length 3 and 1 take 6 and 2 of 8 nodes."""
    knots = torch.tensor([[0.0, 0.0], [3.0, 0.0], [3.0, 1.0]], dtype=torch.float64)
    score = Score(lambda x: torch.exp(x[:, 0] / 2) * x[:, 1].cos())
    whole = integrate(score, Path.polyline(knots[None]), tolerance=None, n_steps=8)
    parts = [
        integrate(score, Path.straight(knots[i : i + 1], knots[i + 1 : i + 2]), tolerance=None, n_steps=n)
        for i, n in ((0, 6), (1, 2))
    ]
    torch.testing.assert_close(whole.values, parts[0].values + parts[1].values)
    torch.testing.assert_close(whole.length, parts[0].length + parts[1].length)


def test_n_steps_with_a_tolerance_is_where_refinement_starts():
    few, many = (integrate(Score(lambda x: x.prod(1)), LINE, n_steps=n).n_gradients for n in (2, 60))
    assert few < 36 and many >= 60


# ---- budgets and statuses -------------------------------------------------------------------------------------------


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
        assert re.search(rf"stopped at \d+ of max_gradients={budget}: completeness gap", note.sentence)
        assert "raise max_gradients or tolerance" in note.sentence


def test_budget_of_a_path_with_more_segments_takes_one_gradient_each():
    model = Counted(wave)
    result = integrate(Score(model), LINE.subdivide(20), max_gradients=7)
    assert result.n_gradients == model.gradient_rows == 20
    assert result.notes[0].outcome is Outcome.BUDGET_SPENT


def test_budget_an_example_of_its_own():
    path = Path.straight(torch.zeros(3, 2), torch.ones(3, 2))
    result = integrate(Score(wave), path, tolerance=1e-5, max_gradients=torch.tensor([10, 100, 1000]))
    for n, budget in zip(result.n_gradients, (10, 100, 1000), strict=True):
        assert budget / 4 < n <= budget


def test_more_budget_is_not_worse():
    expected = torch.tensor([CLOSED_FORMS["wave"][1]])
    errors = [relative_error(integrate(Score(wave), LINE, max_gradients=n).values, expected) for n in (36, 100, 1000)]
    assert errors[2] < 0.01 and errors[2] <= errors[1] and errors[2] <= errors[0]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_jump_is_unresolved(dtype):
    """No gradient sees a step; the residual does, and says so without spending the whole budget."""
    score = Score(lambda x: (x[:, 0] > 0.3).to(x) + 0.1 * x.sum(1))
    result = integrate(score, Path.straight(ZERO.to(dtype), ONE.to(dtype)))
    assert result.notes[0].outcome is Outcome.UNRESOLVED
    assert re.search(r"float\d\d .*resolve.* completeness gap 1 where .*; ", result.notes[0].sentence)
    assert float(result.gap) == pytest.approx(-1, abs=1e-5) and result.n_gradients < 2000


def test_one_hard_example_does_not_hold_up_the_others():
    score = Score(lambda x: (x[:, 0] > 0.3).to(x) + 0.1 * x.sum(1))
    path = Path.straight(torch.zeros(2, 2), torch.tensor([[1.0, 1.0], [0.2, 1.0]]))
    result = integrate(score, path)
    assert [n.outcome for n in result.notes] == [Outcome.UNRESOLVED, Outcome.REACHED]
    alone = integrate(score, path.select(torch.tensor([1])))
    assert result.n_gradients[1] == alone.n_gradients[0] < result.n_gradients[0]


@pytest.mark.parametrize("settings", [{}, {"tolerance": None, "n_steps": 5}])
def test_flat_score_says_so(settings):
    result = integrate(Score(lambda x: 0 * x.sum(1) + 3), LINE, **settings)
    assert result.notes[0].outcome is Outcome.FLAT and not result.values.any()


@pytest.mark.parametrize("settings", [{}, {"tolerance": None, "n_steps": 5}])
def test_path_of_one_knot_costs_nothing(settings):
    path = Path(torch.eye(2), torch.tensor([0, 0, 1]), torch.tensor([0, 1, 3]))
    model = Counted(wave)
    result = integrate(Score(model), path, **settings)
    assert result.n_gradients[0] == 0 and not result.values[0].any() and result.length[0] == 0
    assert model.gradient_rows == result.n_gradients[1] > 0
    alone = integrate(Score(wave), path.select(torch.tensor([0])), **settings)
    assert not alone.values.any() and alone.n_gradients == 0


# ---- shared segments ------------------------------------------------------------------------------------------------

POOL = torch.tensor([[0.0, 0.0], [1.0, 0.2], [0.4, 1.0], [1.5, 1.5]], dtype=torch.float64)


def routes(*rows):
    offsets = torch.tensor([0, *(len(r) for r in rows)]).cumsum(0)
    return Path(POOL, torch.tensor([i for r in rows for i in r]), offsets)


@pytest.mark.parametrize("settings", [{}, {"tolerance": None, "n_steps": 30}, {"max_gradients": 50}])
def test_shared_segments_are_integrated_once_and_split(settings):
    """Example 1 walks example 0's route backwards, example 2 a part of it, example 3 its own way there and back."""
    path = routes([0, 1, 2, 3], [3, 2, 1, 0], [1, 2], [0, 2, 0])
    model = Counted(wave)
    result = integrate(Score(model), path, **settings)
    assert model.gradient_rows == pytest.approx(float(result.n_gradients.sum()))
    torch.testing.assert_close(result.values[1], -result.values[0])
    torch.testing.assert_close(result.length[1], result.length[0])
    torch.testing.assert_close(result.values[3], torch.zeros(2, dtype=torch.float64), rtol=0, atol=1e-12)
    assert model.gradient_rows < sum(float(integrate(Score(wave), path.select(torch.tensor([b])), **settings)
                                           .n_gradients) for b in range(4))  # fmt: skip


def test_segments_of_other_targets_are_not_shared():
    path, model = routes([0, 1, 2], [0, 1, 2], [2, 1, 0]), Counted(mlp(2).double())
    result = integrate(Score(model, torch.tensor([0, 1, 1])), path)
    assert model.gradient_rows == pytest.approx(float(result.n_gradients.sum()))
    torch.testing.assert_close(result.values[1], -result.values[2])
    for b, target in enumerate((0, 1, 1)):
        alone = integrate(Score(mlp(2).double(), target), path.select(torch.tensor([b])))
        assert relative_error(result.values[b : b + 1], alone.values) <= 0.02  # both within 1 %


@pytest.mark.parametrize("budget", [3, 10, 40, 100])
def test_budget_holds_for_every_walker_of_a_shared_segment(budget):
    """Example 3 walks only segments that others own: it pays its part of each."""
    path = routes([0, 1], [1, 2], [2, 3], [0, 1, 2, 3])
    model = Counted(wave)
    result = integrate(Score(model), path, tolerance=1e-5, max_gradients=budget)
    assert (result.n_gradients <= budget + 1e-6).all()
    assert model.gradient_rows == pytest.approx(float(result.n_gradients.sum()))


@given(st.integers(0, 100), st.integers(1, 4))
def test_shared_routes_equal_separate_polylines(seed, n):
    generator = torch.Generator().manual_seed(seed)
    rows = [torch.randint(4, (4,), generator=generator).tolist() for _ in range(n)]
    path = routes(*rows)
    separate = Path.polyline(torch.stack([path[b] for b in range(n)]))
    score = Score(lambda x: torch.sin(5 * x[:, 0]) * x[:, 1])
    a, b = integrate(score, path, tolerance=1e-4), integrate(score, separate, tolerance=1e-4)
    torch.testing.assert_close(a.values, b.values, rtol=1e-3, atol=1e-4)
    torch.testing.assert_close(a.change, b.change)
    torch.testing.assert_close(a.length, b.length, rtol=1e-3, atol=1e-4)


# ---- batches, memory, interruption ----------------------------------------------------------------------------------


def test_batch_equals_loop():
    model, x = moons_net(), 2 * flat_points(6)
    targets = torch.tensor([0, 1, 0, 1, 1, 0])
    path = Path.polyline(torch.stack([torch.zeros_like(x), x.flip(1), x], 1))
    together = integrate(Score(model, targets, "softmax"), path)
    for b in range(6):
        alone = integrate(Score(model, targets[b], "softmax"), path.select(torch.tensor([b])))
        torch.testing.assert_close(together.values[b], alone.values[0], rtol=1e-3, atol=1e-5)
        torch.testing.assert_close(together.length[b], alone.length[0], rtol=1e-3, atol=1e-5)
        assert together.n_gradients[b] == alone.n_gradients[0]


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


def test_gradients_are_accumulated_not_kept():
    """The largest live set of gradients does not grow with the number of steps."""

    def peak(n_steps):
        seen, alive = [], []

        def hook(x):
            if torch.is_grad_enabled():
                x.register_hook(lambda g: alive.append(torch.UntypedStorage._weak_ref(g.untyped_storage())))
                seen.append(sum(not torch.UntypedStorage._expired(ref) for ref in alive))
            return (x**2).sum(1)

        integrate(Score(hook, batch_size=4), LINE, tolerance=None, n_steps=n_steps)
        return max(seen)

    assert peak(400) <= peak(20) + 1


class Interrupting:
    """Ctrl-C arrives during the n-th gradient call."""

    def __init__(self, call: int) -> None:
        self.left = call

    def __call__(self, x):
        if torch.is_grad_enabled():
            self.left -= 1
            if self.left == 0:
                raise KeyboardInterrupt
        return wave(x)


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


# ---- errors ---------------------------------------------------------------------------------------------------------


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


def test_status_says_when_rounding_and_not_the_tolerance_was_reached():
    score = lp.Score(lambda x: (x**2).sum(1) + 1000)  # in float32 a change of 2 is known to 1e-4 at best
    path = lp.Path.straight(torch.zeros(1, 2), torch.ones(1, 2))
    (note,) = lp.integrate(score, path, tolerance=1e-6).notes
    assert note.outcome is lp.Outcome.REACHED and "as exact as float32 rounds this score" in note.sentence
    (note,) = lp.integrate(score, path, tolerance=0.1).notes
    assert note.sentence.startswith("reached tolerance 0.1")


def test_status_says_when_segments_took_more_than_the_fixed_steps():
    path = lp.Path.polyline(torch.linspace(0, 1, 9)[None, :, None].expand(1, 9, 2))
    (note,) = lp.integrate(lp.Score(lambda x: x.sum(1)), path, tolerance=None, n_steps=3).notes
    assert "8 fixed steps where n_steps=3 were asked for" in note.sentence
