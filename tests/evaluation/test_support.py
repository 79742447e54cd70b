"""The symmetric relevance gain. Oracle: brute force, one example and one share at a time."""

import math

import pytest
import torch

import leastpath as lp
from helpers import cnn, flat_points, mlp
from leastpath.evaluation import SymmetricRelevanceGain, compare, symmetric_relevance_gain
from leastpath.features.groups import patches


def brute_force(probability, point, strengths, groups, fill, shares):
    """Masks written out in Python: strengths by group number, groups (*shape), −1 for what stays."""
    ranked = sorted(strengths, key=lambda g: (-strengths[g], g))
    total = 0.0
    for share in shares:
        count = max(1, math.floor(share * len(ranked) + 0.5 + 1e-9))
        levels = []
        for removed in (ranked[len(ranked) - count :], ranked[:count]):
            masked = point.clone()
            for group in removed:
                masked[groups == group] = fill[groups == group]
            levels.append(float(probability(masked[None])[0].detach()))
        total += levels[0] - levels[1]
    return total / len(shares)


@pytest.mark.parametrize("rank", ["magnitude", "net", "signed"])
@pytest.mark.parametrize("features", ["values", "pixels", "labels"])
def test_against_brute_force(features, rank):
    generator = torch.Generator().manual_seed(1)
    model, images = cnn(), torch.rand(3, 2, 6, 6, generator=generator)
    values, fill = torch.randn(3, 2, 6, 6, generator=generator), torch.rand(3, 2, 6, 6, generator=generator)
    targets, shares = torch.tensor([0, 2, 1]), (0.15, 0.5, 1.0)
    labels = torch.randint(-1, 7, (3, 6, 6), generator=generator)
    groups = {
        "values": torch.arange(72).view(1, 2, 6, 6).expand(3, -1, -1, -1),
        "pixels": torch.arange(36).view(1, 1, 6, 6).expand(3, 2, 6, 6),
        "labels": labels[:, None].expand(3, 2, 6, 6),
    }[features]
    found = symmetric_relevance_gain(
        lp.Score(model, targets, "log_softmax"), images, values, fill=fill, shares=shares, rank=rank,
        groups=labels if features == "labels" else features,
    )  # fmt: skip
    for b in range(3):
        parts = {g: values[b][groups[b] == g] for g in groups[b].unique().tolist() if g >= 0}
        strength = {"magnitude": lambda v: v.abs().sum(), "net": lambda v: v.sum().abs(), "signed": lambda v: v.sum()}
        strengths = {g: float(strength[rank](v)) for g, v in parts.items()}
        expected = brute_force(
            lambda x, b=b: model(x).softmax(1)[:, targets[b]], images[b], strengths, groups[b], fill[b], shares
        )
        assert float(found[b]) == pytest.approx(expected, abs=1e-6)


def test_a_score_that_is_no_probability_by_sign_and_by_size():
    score, inputs = lp.Score(lambda x: x @ torch.tensor([-3.0, 1.0])), torch.ones(1, 2)
    given = score, inputs, torch.tensor([[-3.0, 1.0]])
    assert symmetric_relevance_gain(*given, shares=[0.5]).tolist() == [4.0]  # 1 without the last, −3 without the first
    either_way = symmetric_relevance_gain(*given, shares=[0.5], rank="magnitude")
    assert either_way.tolist() == [2.0]  # |−3| without the first, |1| without the second


def test_a_random_order_gains_nothing_in_expectation():
    model, inputs = mlp(12), torch.randn(1, 12, generator=torch.Generator().manual_seed(0)).expand(4000, 12)
    values = torch.randn(4000, 12, generator=torch.Generator().manual_seed(1))
    found = symmetric_relevance_gain(lp.Score(model, 1), inputs, values)
    assert abs(float(found.mean())) < 4 * float(found.std()) / 4000**0.5
    assert float(found.std()) > 0.01  # orders do differ


def test_the_reverse_order_has_the_opposite_gain():
    model, inputs, values = mlp(9), torch.rand(5, 9), torch.rand(5, 9) + 0.1
    score = lp.Score(model, 0)
    there, back = (symmetric_relevance_gain(score, inputs, v, shares=(1 / 3, 2 / 3)) for v in (values, 1 / values))
    torch.testing.assert_close(there, -back)


def test_values_that_order_nothing_gain_nothing():
    assert symmetric_relevance_gain(lp.Score(mlp(), 0), torch.rand(2, 4), torch.zeros(2, 4)).tolist() == [0.0, 0.0]


def test_a_batch_gives_what_a_loop_gives():
    images = torch.rand(3, 2, 6, 6, generator=torch.Generator().manual_seed(2))
    values, model = images - 0.5, cnn()
    together = symmetric_relevance_gain(lp.Score(model, 1), images, values, groups="pixels", fill="linear")
    alone = [
        symmetric_relevance_gain(
            lp.Score(model, 1), images[b : b + 1], values[b : b + 1], groups="pixels", fill="linear"
        )
        for b in range(3)
    ]
    torch.testing.assert_close(together, torch.cat(alone))


def test_it_costs_two_forwards_per_share_and_equal_removals_run_once():
    score, inputs = lp.Score(mlp(10), 0), torch.rand(2, 10)
    result = lp.attribute(score, inputs, method=lp.StraightLine())
    assert SymmetricRelevanceGain(shares=(0.2, 0.4, 0.6))(score, inputs, None, result).n_forwards.tolist() == [6, 6]
    few = lp.attribute(lp.Score(mlp(), 0), inputs[:, :4], method=lp.StraightLine())
    measure = SymmetricRelevanceGain(shares=(0.2, 0.4, 0.6))  # one, two and two of four features
    assert measure(lp.Score(mlp(), 0), inputs[:, :4], None, few).n_forwards.tolist() == [4, 4]


def test_it_is_a_column_of_a_comparison():
    found = compare(["integrated_gradients"], lp.Score(mlp(), 0), torch.rand(3, 4), None, [SymmetricRelevanceGain()])
    assert "symmetric_relevance_gain" in str(found.table().columns)


def test_patches_are_square_cells():
    labels = patches(128, 96)
    assert labels.shape == (1, 128, 96) and int(labels.max()) + 1 == 16 * 12
    assert (labels[0, :8, :8] == 0).all() and int(labels[0, 0, 8]) == 1


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"shares": (0.0,)}, "must lie above 0"),
        ({"groups": "words"}, "groups='words' is unknown: use one of"),
        ({"groups": "patches"}, r"'patches' needs inputs \(batch, channels, height, width\)"),
        ({"groups": torch.ones(4)}, r"groups have dtype torch.float32, expected integers"),
        ({"rank": "largest"}, "rank='largest' is unknown"),
        ({"fill": "pink"}, "fill='pink' is unknown"),
    ],
)
def test_mistakes(given, sentence):
    with pytest.raises(ValueError, match=sentence):
        symmetric_relevance_gain(lp.Score(mlp(), 0), torch.rand(2, 4), torch.rand(2, 4), **given)


# ---- one question has one answer: the support of a result is this measure of it -------------------------------------

TARGETS = {"a class": 1, "classes": torch.tensor([2, 0]), "a function": lambda out: out[:, 0] - out[:, 1]}
OUTPUTS = {name: name for name in ("raw", "softmax", "log_softmax", "sigmoid", "logit_margin")} | {
    "a function": lambda out: out.tanh()
}


@pytest.mark.parametrize("method", ["integrated_gradients", "occlusion"])
@pytest.mark.parametrize("output", OUTPUTS)
@pytest.mark.parametrize("target", TARGETS)
def test_the_support_of_a_result_is_this_measure_of_it(target, output, method):
    if output == "logit_margin" and callable(TARGETS[target]):
        pytest.skip("a margin is that of a class")
    score, x = lp.Score(mlp(8), TARGETS[target], OUTPUTS[output]), flat_points(2, 8)
    result = lp.attribute(score, x, 0.1, method=method)
    measured = symmetric_relevance_gain(score, x, result.values, 0.1)
    torch.testing.assert_close(result.support.double(), measured, rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(lp.verdict(score, x, result.values, 0.1).support, measured, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("output", ["log_softmax", "sigmoid"])
def test_the_support_of_an_image_is_this_measure_by_patches(output):
    score, x = lp.Score(cnn(), 1, output), torch.rand(2, 2, 6, 6, generator=torch.Generator().manual_seed(0))
    result = lp.attribute(score, x, method="integrated_gradients")
    measured = symmetric_relevance_gain(score, x, result.values, groups="patches")
    torch.testing.assert_close(result.support.double(), measured, rtol=1e-5, atol=1e-6)
