"""The test that a result carries. Oracles: additive scores, whose right order is known, and the public measure."""

import pytest
import torch
from hypothesis import given, settings, strategies as st
from scipy.stats import binomtest

import leastpath as lp
from helpers import Counted, Polyline, cnn, flat_points, mlp
from leastpath import Outcome
from leastpath.account.run import Clock, Run
from leastpath.evaluation.support import symmetric_relevance_gain
from leastpath.removal.chance import Tail
from leastpath.removal.referee import Referee
from leastpath.removal.verdict import Evidence, count_supported, headline, say

BENT = Polyline()
WEIGHTS = torch.tensor([3.0, 0.1, 1.0, 0.3])
MANY = torch.linspace(-1, 2, 24)[torch.randperm(24, generator=torch.Generator().manual_seed(0))]


def additive(weights=WEIGHTS, target=0, output="log_softmax"):
    """Two logits: the weighted sum of the features, and zero. Along any path a feature's part is known."""
    return lp.Score(lambda x: torch.stack([x @ weights, torch.zeros(len(x))], 1), target, output)


def note_of(values, score=None, line=None, **given):
    """The status of values (1, 24) that a solver might have returned, for an input of ones and a black baseline."""
    score, x = score or additive(MANY), torch.ones_like(values)
    starts, bent = torch.zeros_like(x)[:, None], torch.tensor([True])
    line = torch.full_like(values, torch.nan) if line is None else line
    return Referee.of_problem(score.bind(x), x, starts, None, Run()).judge_points(values, line, bent).status[0]


@pytest.mark.parametrize(
    ("beaten_by", "outcome"),
    [(24, Outcome.SUPPORTED), (25, Outcome.UNDECIDED), (99, Outcome.UNDECIDED), (100, Outcome.UNSUPPORTED)],
)
def test_what_nearly_passes_is_neither_confirmed_nor_refuted(beaten_by, outcome):
    """Oracle: p = (1 + as good) / 500 by hand; up to .05 it passes, up to .2 it is open, beyond that it fails."""
    found = Evidence(Tail(beaten_by, 499), Tail(1, 499), 0.04, is_decidable=True, is_moved=True)
    assert say(found, 0.47).outcome is outcome
    assert (f"better than {499 - beaten_by} of 499" in say(found, 0.47).sentence) == (
        outcome is not Outcome.UNSUPPORTED
    )


# ---- what the number says -----------------------------------------------------------------------------------------


@given(st.lists(st.floats(0.01, 3), min_size=2, max_size=8, unique=True))
@settings(max_examples=25, deadline=None)
def test_the_right_order_of_an_additive_score_has_positive_support(weights):
    weights = torch.tensor(weights)
    result = lp.attribute(additive(weights), torch.ones(1, len(weights)), method=BENT, support=True)
    if len(weights.unique()) > 1 and float(weights.max() - weights.min()) > 1e-2:
        assert float(result.support) > 0 and Outcome.UNSUPPORTED not in result.status[0]


def test_support_is_the_public_measure():
    x, base = flat_points(5, 4), flat_points(5, 4, seed=1)
    score = lp.Score(mlp(), 1, "log_softmax")
    result = lp.attribute(score, x, base, method=BENT)
    expected = symmetric_relevance_gain(score, x, result.values, base)
    torch.testing.assert_close(result.support.double(), expected, rtol=1e-5, atol=1e-6)


def test_a_reversed_explanation_is_not_supported():
    """The least important feature first: the status says so, first, with the number and what to try."""
    status = note_of(-MANY[None])
    assert status.outcomes == (Outcome.UNSUPPORTED,) and status.ok is False
    assert "does not confirm this explanation: support −" in status.value and "try another method" in status.value
    assert note_of(MANY[None]).ok


def test_an_explanation_that_the_line_beats_is_not_supported():
    """Clearly: by a paired test, and by a quarter of the line's support. A little less is noise."""
    noise = torch.randn(24, generator=torch.Generator().manual_seed(2))
    rough, close = (MANY + 1.0 * noise)[None], (MANY + 0.1 * noise)[None]
    assert note_of(rough).ok and note_of(close, line=MANY[None]).ok
    status = note_of(rough, line=MANY[None])
    assert status.ok is False and "removal confirms the straight line better" in status.value.lower()


def test_support_counts_signs_where_a_probability_is_tested():
    """A word that speaks against the class belongs last: an order of magnitudes would put it first."""
    weights = torch.tensor([2.0, -3.0, 1.0, 0.5])
    score = lp.Score(lambda x: torch.stack([x @ weights, torch.zeros(len(x))], 1), 0)
    result = lp.attribute(score, torch.ones(1, 4), method=lp.StraightLine(), support=True)
    by_size = symmetric_relevance_gain(score, torch.ones(1, 4), result.values, 0.0, rank="magnitude")
    assert float(result.support) > 0.2 and float(by_size) < float(result.support) - 0.1


def test_the_sign_turns_where_the_input_scores_below_its_baseline():
    """The same explanation of the other class: what lowered the score is what matters."""
    x = torch.ones(2, 4)
    up, down = (lp.attribute(additive(target=target), x, method=BENT) for target in (0, 1))
    torch.testing.assert_close(up.support, down.support)
    assert (down.score_change < 0).all() and (down.support > 0).all()


def test_a_score_without_classes_is_tested_in_its_own_unit():
    result = lp.attribute(lp.Score(lambda x: x @ WEIGHTS), torch.ones(1, 4), method=BENT)
    gain = symmetric_relevance_gain(lp.Score(lambda x: x @ WEIGHTS), torch.ones(1, 4), result.values)
    torch.testing.assert_close(result.support.double(), gain)


def test_one_feature_has_no_order_to_test():
    result = lp.attribute(lp.Score(lambda x: x[:, 0] ** 2), torch.ones(2, 1), method=BENT)
    assert result.support.isnan().all() and Outcome.UNSUPPORTED not in result.status[0]
    assert result.status[0].value.endswith(
        "The explanation was not tested: removal needs at least two features with finite values."
    )


# ---- when it is measured ------------------------------------------------------------------------------------------


def test_straight_lines_are_tested_unless_told_not_to():
    x, score = torch.ones(2, 24), additive(MANY)
    quiet = lp.attribute(score, x, method=lp.StraightLine(), support=False)
    asked = lp.attribute(score, x, method=lp.StraightLine())
    assert quiet.support.isnan().all() and quiet.stats["line_support"].isnan().all()
    assert (asked.support > 0).all() and asked.n_forwards[0] > quiet.n_forwards[0]
    torch.testing.assert_close(asked.support.double(), asked.stats["line_support"])
    assert Outcome.SUPPORTED in asked.status[0] and Outcome.SUPPORTED not in quiet.status[0]


def test_bent_paths_are_tested_beside_the_line_unless_told_not_to():
    x = torch.ones(2, 4)
    result = lp.attribute(additive(), x, method=BENT)
    torch.testing.assert_close(result.stats["line_support"], result.support.double())  # additive: the same order
    assert "(straight line" in result.status[0].value
    silent = lp.attribute(additive(), x, method=BENT, support=False)
    assert silent.support.isnan().all() and Outcome.SUPPORTED not in silent.status[0]
    assert torch.equal(silent.values, result.values) and (silent.n_forwards < result.n_forwards).all()


def test_labels_are_removed_together_and_those_below_zero_never():
    x, labels = torch.ones(2, 4), torch.tensor([[0, 0, 1, -1]])
    result = lp.attribute(additive(), x, method=BENT, groups=labels)
    expected = symmetric_relevance_gain(additive(), x, result.values, groups=labels)
    torch.testing.assert_close(result.support.double(), expected)
    each = torch.tensor([[0, 0, 1, -1], [0, 1, 2, 3]])
    whole = lp.attribute(additive(), x, method=BENT)
    mixed = lp.attribute(additive(), x, method=BENT, groups=each)
    assert mixed.support.tolist() == pytest.approx([float(result.support[0]), float(whole.support[1])])


@pytest.mark.parametrize(
    ("labels", "sentence"),
    [
        (torch.zeros(1, 4), "groups have dtype torch.float32, expected integers"),
        (torch.ones(1, 4, dtype=torch.bool), "groups have dtype torch.bool, expected integers"),
        (
            torch.zeros(5).long(),
            r"groups have shape \(5,\), the inputs \(2, 4\): expected one for all examples, \(4,\)",
        ),
        (torch.zeros(3, 4).long(), r"groups have shape \(3, 4\), the inputs \(2, 4\): expected one for all examples"),
        ("patches", r"groups='patches' needs inputs \(batch, channels, height, width\)"),
        ("words", "groups='words' is unknown"),
    ],
)
def test_wrong_groups_are_refused_before_the_solver_works(labels, sentence):
    model = Counted(lambda x: x @ WEIGHTS)
    with pytest.raises(ValueError, match=sentence):
        lp.attribute(lp.Score(model), torch.ones(2, 4), method=BENT, groups=labels)
    assert model.gradient_rows == 0


def test_words_and_labels_group_the_test_and_the_method_alike():
    series, score = flat_points(2, 60).view(2, 3, 20), lp.Score(lambda x: mlp(60)(x.flatten(1)), 1)
    steps = torch.arange(20).expand(3, 20)
    by_kind, by_word, by_labels = (
        lp.attribute(score, series, method="staircase", n_orders=1, groups=groups) for groups in (None, "steps", steps)
    )
    assert torch.equal(by_kind.values, by_word.values) and torch.equal(by_word.values, by_labels.values)
    assert torch.equal(by_kind.support, by_word.support) and torch.equal(by_word.support, by_labels.support)
    assert torch.equal(by_word.values[:, 0], by_word.values[:, 2])  # the channels of a time share its gain
    known = symmetric_relevance_gain(score, series, by_word.values, groups="steps")
    torch.testing.assert_close(by_word.support.double(), known, rtol=1e-5, atol=1e-6)


def test_images_are_removed_in_patches():
    images, score = flat_points(2, 72).view(2, 2, 6, 6), lp.Score(cnn(), 1, "softmax")
    result = lp.attribute(score, images, method=BENT)
    gain = symmetric_relevance_gain(score, images, result.values, groups="patches")
    expected = torch.where(result.score_change < 0, -gain, gain)
    torch.testing.assert_close(result.support.double(), expected, rtol=1e-5, atol=1e-6)


def test_several_baselines_replace_features_in_turn():
    """The mean over the baselines of what the measure gives with each."""
    x, bases = flat_points(2, 4), flat_points(6, 4, seed=3).view(2, 3, 4)
    score = lp.Score(mlp(), 1, "log_softmax")
    result = lp.attribute(score, x, bases, method=BENT)
    gains = [symmetric_relevance_gain(score, x, result.values, bases[:, j]) for j in range(3)]
    expected = torch.stack(gains).mean(0)
    torch.testing.assert_close(result.support.double(), expected.double(), rtol=1e-5, atol=1e-6)


def test_batch_equals_loop():
    x, base = flat_points(4, 4), flat_points(4, 4, seed=1)
    score = lp.Score(mlp(), 1, "log_softmax")
    batch = lp.attribute(score, x, base, method=BENT)
    for b in range(4):
        one = lp.attribute(score, x[b : b + 1], base[b : b + 1], method=BENT)
        assert float(one.support) == pytest.approx(float(batch.support[b]), abs=1e-5)
        assert float(one.stats["line_support"]) == pytest.approx(float(batch.stats["line_support"][b]), abs=1e-5)


# ---- cost and failure ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("budget", [20, 60, 100, 1000])
@pytest.mark.parametrize("baselines", [1, 2])
def test_removals_cost_at_most_half_of_the_budget(budget, baselines):
    """A forward is a third of a gradient. Forty removals, and the supports of path and line, are the least."""
    x = flat_points(2, 4)
    score, bases = lp.Score(mlp(), 1, "log_softmax"), flat_points(2 * baselines, 4, seed=1).view(2, baselines, 4)
    with_test, without = (
        lp.attribute(score, x, bases, method=BENT, max_gradients=budget, support=asked) for asked in (True, False)
    )
    spent = with_test.n_forwards - without.n_forwards
    assert torch.equal(with_test.n_gradients, without.n_gradients)
    measured = 2 * 9 * (baselines + 2 + baselines)  # supports by all fills, and the line's by the baselines
    assert (spent > 0).all() and (spent <= max(80, 0.5 * budget * 3) + measured).all()


def failing(error, allowed):
    """An additive model that raises at inputs that lack some features; paths go through all of them at once."""

    def model(x):
        if not torch.is_grad_enabled() and bool(((x == 0).any(1) & (x == 1).any(1)).any()) and not allowed:
            raise error
        return x @ WEIGHTS

    return lp.Score(model)


@pytest.mark.parametrize("error", [ValueError("no such row"), RuntimeError("no such row"), KeyError("no such row")])
def test_a_model_that_refuses_removed_features_leaves_the_explanation(error):
    result = lp.attribute(failing(error, False), torch.ones(2, 4), method=BENT)
    expected = lp.attribute(failing(error, True), torch.ones(2, 4), method=BENT)
    assert torch.equal(result.values, expected.values) and result.support.isnan().all()
    assert Outcome.UNSUPPORTED in result.status[0] and not result.status[0].ok
    assert result.status[0].value.startswith("Support is not known: ") and "no such row" in result.status[0].value


def test_a_clock_that_has_run_out_is_said():
    """Between the support and the removals, too."""
    x, late = torch.ones(1, 24), Run(clock=Clock(1e-9))
    referee = Referee.of_problem(additive(MANY).bind(x), x, torch.zeros(1, 1, 24), None, late)
    found = referee.judge_points(MANY[None])
    assert found.status[0].outcomes == (Outcome.BUDGET_SPENT,) and found.p_value.isnan().all()
    assert "raise max_seconds" in found.status[0].value


def test_an_interruption_leaves_the_explanation_and_is_not_kept_as_finished():
    score = failing(KeyboardInterrupt(), False)
    result = lp.attribute(score, torch.ones(2, 4), method=BENT, on_interrupt="return")
    assert result.values.isfinite().all() and result.support.isnan().all()
    assert all(Outcome.INTERRUPTED in status for status in result.status)


# ---- in words -----------------------------------------------------------------------------------------------------


def test_the_headline_names_the_verdict_first():
    kinds = (Outcome.REACHED, Outcome.UNSUPPORTED, Outcome.SUPPORTED, Outcome.BUDGET_SPENT)
    within, bad, good, spent = (lp.Status((lp.Note(kind, "a sentence"),)) for kind in kinds)
    assert headline([within]) == "the explanation was not tested"
    assert headline([bad]) == "unsupported: a sentence"
    assert headline([lp.Status((*good.notes, *spent.notes))]) == "supported: a sentence; a sentence"
    assert headline([good, bad]) == "supported: 1 of 2 (95 % interval 0.095 to 0.91), unsupported 1"
    assert headline([good, spent]).endswith("; 1 to look at, e.g.: A sentence.")


def test_the_share_of_supported_ones_has_an_interval():
    """Wilson's, of scipy; what was not tested does not count."""
    good, untested = (lp.Status((lp.Note(kind, "x"),)) for kind in (Outcome.SUPPORTED, Outcome.NOT_TESTED))
    low, high = binomtest(20, 20).proportion_ci(method="wilson")
    assert count_supported([good] * 20 + [untested]) == f"supported: 20 of 20 (95 % interval {low:.2g} to {high:.2g})"


def test_a_status_says_what_was_not_tested():
    """An integral within tolerance is no verdict on the explanation."""
    x, score = torch.ones(2, 4), lp.Score(mlp(), 1)
    untested = lp.attribute(score, x, method=lp.StraightLine(), support=False).status[0]
    assert untested.value.startswith("The integral is within tolerance 0.01, after ")
    assert untested.value.endswith(". The explanation was not tested: support=True tests it.")
    assert untested.outcomes == (Outcome.REACHED, Outcome.NOT_TESTED) and untested.ok
    asked = lp.attribute(score, x, method=lp.StraightLine(), support=True).status[0]
    assert Outcome.NOT_TESTED not in asked and "not tested" not in asked.value
