"""Planted answers are true, measures follow their definitions, and on planted answers the oracle wins everything."""

import zlib
from typing import get_args

import numpy as np
import pytest
import scipy.stats
import sklearn.metrics
import torch

import leastpath as lp
from leastpath.evaluation import masking
from leastpath.evaluation.ground_truth import (
    KnownAnswers,
    Localization,
    LocalizationKind,
    RankCorrelation,
    planted_cancellation,
    planted_patch,
    planted_piecewise,
)
from leastpath.evaluation.measure import Measure, given_attribution, measure_all
from leastpath.evaluation.statistics import bootstrap_interval, paired_test


@pytest.mark.parametrize("make", [planted_patch, planted_piecewise])
def test_closed_form_against_an_integrated_path(make):
    problem = make(n=3)
    result = lp.attribute(problem.score, problem.inputs, problem.baselines, method=lp.StraightLine(), tolerance=1e-4)
    torch.testing.assert_close(result.values, problem.attributions, atol=2e-3, rtol=1e-3)
    change = problem.score(problem.inputs) - problem.score(problem.baselines)
    torch.testing.assert_close(problem.attributions.flatten(1).sum(1), change, atol=1e-4, rtol=1e-4)


def test_score_ignores_what_is_outside_the_mask():
    for make in (planted_patch, planted_cancellation, planted_piecewise):
        problem = make(n=4)
        moved = torch.where(problem.mask, problem.inputs, problem.inputs + 5)
        torch.testing.assert_close(problem.score(moved), problem.score(problem.inputs))
        assert (problem.attributions[:, ~problem.mask] == 0).all()


def test_cancelled_pairs_sum_to_nothing():
    problem = planted_cancellation(n=8, pairs=3, idle=2)
    x, c = problem.attributions[:, :3], problem.attributions[:, 3:6]
    on = problem.inputs[:, 3:6] == 1
    assert torch.equal((x + c)[on], torch.zeros(int(on.sum()))) and (c[~on] == 0).all() and (x != 0).all()
    line = lp.attribute(problem.score, problem.inputs, method=lp.StraightLine(), tolerance=1e-4).values
    torch.testing.assert_close(line[:, 3:6], c / 2, atol=1e-3, rtol=1e-3)  # half each on the straight line


# ---- the oracle wins and the random ranking loses ------------------------------------------------------------------


def test_on_a_planted_answer_the_oracle_wins_every_measure_and_random_loses():
    problem = planted_patch(n=24)
    patch = masking.Masking(fill="baseline")
    full = masking.Masking(masking.FULL_AREAS, "pixels")
    measures = [
        *(kind(patch) for kind in (masking.Comprehensiveness, masking.LogOdds, masking.LogProbRatio)),
        *(kind(full) for kind in (masking.Sufficiency, masking.Insertion, masking.Deletion)),
        *(Localization(problem.mask, kind) for kind in get_args(LocalizationKind)),
        RankCorrelation(KnownAnswers(problem.inputs, problem.attributions)),
    ]
    generator = torch.Generator().manual_seed(1)
    random = torch.randn(problem.inputs.shape, generator=generator)
    blurred_oracle = problem.attributions * torch.rand(random.shape, generator=generator)  # right place, wrong order
    rivals = {"oracle": problem.attributions, "middling": blurred_oracle + 0.02 * random, "random": random}
    found = {
        name: measure_all(measures, problem.score, problem.inputs, problem.baselines, given_attribution(values))
        for name, values in rivals.items()
    }
    for i, measure in enumerate(measures):
        sign = 1 if measure.higher_is_better else -1
        oracle, middling, worst = (bootstrap_interval(sign * found[name][i].values, resamples=999) for name in rivals)
        assert oracle.low > worst.high, measure.name
        assert oracle.mean >= middling.mean >= worst.mean, measure.name
        test = paired_test(sign * found["oracle"][i].values, sign * found["random"][i].values, resamples=999)
        assert test.low > 0 and test.p_value <= 0.001, measure.name


@pytest.mark.parametrize("fill", ["mean", "blur", "noise", "linear"])
def test_oracle_beats_random_with_every_fill(fill):
    problem = planted_patch(n=16)
    settings = masking.Masking((0.05, 0.1, 0.2), "pixels", fill)
    random = torch.randn(problem.inputs.shape, generator=torch.Generator().manual_seed(1))
    ours, theirs = (
        masking.Comprehensiveness(settings)(problem.score, problem.inputs, None, given_attribution(values)).values
        for values in (problem.attributions, random)
    )
    assert bootstrap_interval(ours, resamples=999).low > bootstrap_interval(theirs, resamples=999).high


@pytest.mark.parametrize("make", [planted_cancellation, planted_piecewise])
def test_order_of_the_answer_is_found_by_the_oracle_and_by_a_line_but_not_by_chance(make):
    problem = make(n=24)
    measure = RankCorrelation(problem.attributions, signed=True)
    line = lp.attribute(problem.score, problem.inputs, problem.baselines, method=lp.StraightLine())
    chance = given_attribution(torch.randn(problem.inputs.shape, generator=torch.Generator().manual_seed(1)))
    oracle, ours, random = (
        measure(problem.score, problem.inputs, problem.baselines, result).values
        for result in (given_attribution(problem.attributions), line, chance)
    )
    torch.testing.assert_close(oracle, torch.ones_like(oracle))
    assert bootstrap_interval(ours, resamples=999).low > bootstrap_interval(random, resamples=999).high


# ---- definitions ---------------------------------------------------------------------------------------------------


def measured(measure, values, inputs=None):
    x = torch.zeros_like(values) if inputs is None else inputs
    return measure(lp.Score(lambda x: x.flatten(1).sum(1)), x, None, given_attribution(values)).values


def test_localization_against_brute_force():
    values = torch.randn(4, 3, 5, 5, generator=torch.Generator().manual_seed(0))
    masks = torch.rand(4, 5, 5, generator=torch.Generator().manual_seed(1)) < 0.3
    strength = values.abs().sum(1).flatten(1).double().numpy()
    for b, (row, mask) in enumerate(zip(strength, masks.flatten(1).numpy(), strict=True)):
        top = set(sorted(range(25), key=lambda i: -row[i])[: mask.sum()])
        inside = set(np.flatnonzero(mask))
        expected = {
            "mass": row[mask].sum() / row.sum(),
            "pointing": float(mask[row.argmax()]),
            "iou": len(top & inside) / len(top | inside),
            "roc_auc": sklearn.metrics.roc_auc_score(mask, row),
        }
        for kind, number in expected.items():
            assert measured(Localization(masks, kind), values)[b].item() == pytest.approx(number, abs=1e-6)


def test_rank_correlation_against_scipy():
    values, truth = torch.randn(2, 3, 12, generator=torch.Generator().manual_seed(0)).round(decimals=1)
    for b in range(3):
        expected = scipy.stats.spearmanr(values[b].abs(), truth[b].abs()).statistic
        assert measured(RankCorrelation(truth), values)[b].item() == pytest.approx(expected)
        expected = scipy.stats.spearmanr(values[b], truth[b]).statistic
        assert measured(RankCorrelation(truth, signed=True), values)[b].item() == pytest.approx(expected)


def test_ties_count_half_in_roc_auc():
    mask = torch.tensor([True, True, False, False])
    assert measured(Localization(mask, "roc_auc"), torch.tensor([[1.0, 1, 1, 1]])).item() == 0.5


def test_zero_attributions_have_no_place():
    mask = torch.tensor([True, False])
    for kind in get_args(LocalizationKind):
        assert measured(Localization(mask, kind), torch.tensor([[0.0, 0.0], [1.0, 0.0]])).isnan().tolist() == [
            True,
            False,
        ]
    assert measured(RankCorrelation(torch.tensor([1.0, 2.0])), torch.zeros(1, 2)).isnan().all()


def test_answers_are_found_again_in_any_batch():
    inputs = torch.rand(4, 6, generator=torch.Generator().manual_seed(0))
    answers = torch.rand(4, 6, generator=torch.Generator().manual_seed(1)) > 0.5
    measure, values = Localization(KnownAnswers(inputs, answers)), torch.rand(4, 6)
    whole = measured(measure, values, inputs)
    for b in (2, 0):
        assert measured(measure, values[b : b + 1], inputs[b : b + 1])[0] == whole[b]


def test_they_are_measures():
    assert isinstance(Localization(torch.ones(2)), Measure) and isinstance(RankCorrelation(torch.ones(2)), Measure)
    assert Localization(torch.ones(2), "iou").name == "localization_iou"


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: Localization(torch.ones(2), "overlap"), "is unknown"),
        (lambda: measured(Localization(torch.ones(3, dtype=torch.bool)), torch.ones(2, 2)), "answer has shape"),
        (lambda: measured(Localization(torch.ones(2)), torch.ones(2, 2)), "expected a bool mask"),
        (lambda: measured(Localization(torch.tensor([True, True])), torch.ones(1, 2)), "nothing or everything"),
        (lambda: measured(RankCorrelation(torch.ones(2)), torch.full((1, 2), torch.nan)), "NaN"),
        (lambda: KnownAnswers(torch.ones(2, 2), torch.ones(3, 2)), "one per input"),
        (lambda: KnownAnswers(torch.ones(2, 2), torch.ones(2, 2))(torch.zeros(1, 2)), "no known answer"),
        (lambda: planted_patch(size=4, patch=4), "smaller than the image"),
    ],
)
def test_errors_say_what_to_do(call, words):
    with pytest.raises(ValueError, match=words):
        call()


def test_known_answers_belong_to_their_own_input():
    """Short checksums are shared by some of this many rows."""
    inputs = torch.rand(100_000, 4, generator=torch.Generator().manual_seed(0))
    same = {}
    for row, x in enumerate(inputs.numpy()):
        same.setdefault(zlib.crc32(x.tobytes()), []).append(row)
    rows = next(rows for rows in same.values() if len(rows) > 1)
    assert not torch.equal(*inputs[rows])
    assert KnownAnswers(inputs[rows], torch.tensor(rows))(inputs[rows]).tolist() == rows


def test_known_answers_of_any_dtype():
    inputs = torch.rand(3, 4).bfloat16()
    assert KnownAnswers(inputs, torch.arange(3))(inputs[1:]).tolist() == [1, 2]


def test_as_many_masks_as_channels_are_one_each_by_any_clear_spelling():
    """What a batch of two, which cannot be misread, says of its examples."""
    generator = torch.Generator().manual_seed(0)
    values, inputs = torch.rand(3, 3, 8, 8, generator=generator), torch.rand(3, 3, 8, 8, generator=generator)
    masks = torch.rand(3, 8, 8, generator=generator) > 0.5
    score = lp.Score(lambda x: x.flatten(1).sum(1))

    def found(answer, n):
        return Localization(answer)(score, inputs[:n], None, given_attribution(values[:n])).values

    with pytest.raises(ValueError, match=r"maps\[:, None\].*maps\[None\]"):
        found(masks, 3)
    for answer in (masks[:, None], KnownAnswers(inputs, masks)):
        assert torch.equal(found(answer, 3)[:2], found(masks[:2], 2))
    assert torch.equal(found(masks[None], 3)[:2], found(masks, 2))
