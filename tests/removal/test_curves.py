"""The engine of removal against a loop over draws, fills, spans and examples, and what it runs."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
import scipy.ndimage
import torch
from hypothesis import given, settings, strategies as st

import leastpath as lp
from helpers import Counted, cnn, mlp
from leastpath.evaluation import MEASURES, symmetric_relevance_gain
from leastpath.evaluation.masking import MaskingMeasure
from leastpath.evaluation.measure import generators, given_attribution
from leastpath.evaluation.support import SymmetricRelevanceGain
from leastpath.removal import curves
from leastpath.removal.curves import (
    Blur,
    NoisyLinear,
    Order,
    Samples,
    class_log_odds,
    fill_rows,
    find_filler,
    group_strengths,
    judged_score,
    linear_imputation,
    measure_curves,
    removal_scores,
    round_counts,
    share_of_top,
)


def brute_force(score, inputs, order, spans, fills):
    """Every removal by itself: (draws, fills, spans, batch)."""
    found = torch.zeros(len(order.places), len(fills), len(spans), len(inputs), dtype=torch.float64)
    for d, f, s, b in torch.cartesian_prod(*(torch.arange(n) for n in found.shape)).tolist():
        places = order.of_features(torch.tensor([d]), torch.tensor([b]))[0]
        masked = (places >= spans[s, b, 0]) & (places < spans[s, b, 1])
        found[d, f, s, b] = score(torch.where(masked, fills[f][b], inputs[b])[None])[0]
    return found


@pytest.mark.parametrize("large", [False, True])
@pytest.mark.parametrize("labels", [None, "shared", "own"])
def test_draws_fills_and_spans_against_a_loop(labels, large, monkeypatch):
    monkeypatch.setattr(curves, "LARGE", 1 if large else 10**9)
    generator = torch.Generator().manual_seed(0)
    images = torch.rand(3, 2, 6, 6, generator=generator)
    groups = {
        None: None,
        "shared": torch.randint(-1, 5, (1, 2, 6, 6), generator=generator),
        "own": torch.randint(-1, 5, (3, 2, 6, 6), generator=generator),
    }[labels]
    order = Order.of(torch.randn(3, 2, 6, 6, generator=generator), groups, "signed")
    order = order.rank_anew(torch.randn(5, 3, order.places.shape[2], generator=generator))
    fills = [torch.zeros_like(images), torch.rand(3, 2, 6, 6, generator=generator)]
    spans = torch.cat([order.first((0.0, 0.2, 0.7)), order.last((0.2, 1.0)), order.all_but_first((0.4, 1.0))])
    score = lp.Score(cnn(), 1, batch_size=7)
    found = removal_scores(score.bind(images), order, spans, fills)
    torch.testing.assert_close(found, brute_force(score, images, order, spans, fills), rtol=1e-5, atol=1e-6)


def test_equal_removals_run_once_and_nothing_removed_is_the_input():
    model = Counted(mlp())
    score, inputs = lp.Score(model, 1, batch_size=5), torch.rand(2, 4)
    order = Order.of(torch.rand(2, 4), None, "magnitude").rank_anew(torch.rand(3, 2, 4))
    fills = [torch.zeros(2, 4), torch.ones(2, 4)]
    spans = torch.cat([order.first((0.0, 0.24, 0.26, 0.5)), order.all_but_first((1.0, 0.25))])
    removal_scores(score.bind(inputs), order, spans, fills)
    # One clean input per example; of each draw and fill: one, two, and all but one feature.
    assert model.value_rows == 2 * (1 + 3 * 2 * 3) and model.largest <= 5


# ---- orders of removal: places, ties, groups, and how shares become counts --------------------


def test_places_follow_the_strength_and_equals_share_theirs():
    order = Order.of(torch.tensor([[1.0, -3.0, 2.0, -2.0]]), None, "magnitude")
    assert order.places.tolist() == [[[3, 0, 1, 1]]] and order.sizes.tolist() == [4]
    assert Order.of(torch.tensor([[1.0, -3.0, 2.0]]), None, "signed").places.tolist() == [[[1, 2, 0]]]


def test_groups_have_one_place_and_what_stays_has_none():
    values, labels = torch.tensor([[1.0, -3.0, 2.5, 9.0]]), torch.tensor([[0, 0, 1, -1]])
    for rank, expected in (("magnitude", [0, 0, 1, -1]), ("net", [1, 1, 0, -1])):
        order = Order.of(values, labels, rank)
        only = torch.tensor([0])
        assert order.of_features(only, only).tolist() == [expected] and order.sizes.tolist() == [2]
    assert group_strengths(values, labels, "net").tolist() == [[2.0, 2.5]]


def test_halves_of_a_share_go_up_and_no_share_is_nothing():
    counts = round_counts((0.0, 0.01, 0.35, 0.5, 1.0), torch.tensor([10, 3]))
    assert counts.tolist() == [[0, 0], [1, 1], [4, 1], [5, 2], [10, 3]]


def test_what_is_removed_first_last_and_all_but_first():
    order = Order.of(torch.tensor([[3.0, 1.0, 2.0, 0.0]]), None, "magnitude")
    assert order.first((0.25, 1.0)).tolist() == [[[0, 1]], [[0, 4]]]
    assert order.last((0.25,)).tolist() == [[[3, 4]]] and order.all_but_first((0.25,)).tolist() == [[[1, 4]]]


def test_other_orders_keep_absent_groups_last():
    values, labels = torch.ones(2, 3), torch.tensor([[0, 1, 2], [0, 2, 2]])  # the second example has no group 1
    order = Order.of(values, labels, "magnitude")
    drawn = order.rank_anew(torch.tensor([[[1.0, 9.0, 2.0]], [[5.0, 9.0, 2.0]]]).expand(2, 2, 3))
    assert drawn.places[:, 0].tolist() == [[2, 0, 1], [1, 0, 2]]
    assert drawn.places[:, 1].tolist() == [[1, 2, 0], [0, 2, 1]]


# ---- the arithmetic of the symmetric relevance gain, in closed form --------------------


def test_log_odds_are_exact_where_the_softmax_is_rounded():
    logits = torch.tensor([[200.0, 0.0], [1.0, -1.0]])
    torch.testing.assert_close(class_log_odds(logits), torch.tensor([[200.0, -200.0], [2.0, -2.0]]))
    three = torch.randn(4, 3, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(class_log_odds(three), three.softmax(1).logit())


def test_the_gain_of_a_score_without_classes_counts_any_change():
    """−|f − f(x)|: the feature that moves the score by 4 against the one that moves it by 1, up or down."""
    for sign in (1, -1):
        score, scale = judged_score(lp.Score(lambda x, sign=sign: x @ torch.tensor([4.0, 1.0]) * sign))
        bound, black = score.bind(torch.ones(1, 2)), torch.zeros(1, 2)
        order = Order.of(torch.tensor([[4.0, 1.0]]), None, "magnitude")
        gain, _ = measure_curves(bound, scale, order, [black], shares=[0.5])
        assert scale == "score" and float(gain) == pytest.approx(3)


def test_values_that_are_all_zero_order_nothing():
    score, scale = judged_score(lp.Score(lambda x: x @ torch.tensor([4.0, 1.0])))
    bound, order = score.bind(torch.ones(1, 2)), Order.of(torch.zeros(1, 2), None, "magnitude")
    assert measure_curves(bound, scale, order, [torch.zeros(1, 2)])[0].tolist() == [[[0]]]


def test_a_softmax_without_a_class_is_refused():
    with pytest.raises(ValueError, match='probability="softmax" needs a class'):
        judged_score(lp.Score(lambda x: x), "softmax")


@pytest.mark.parametrize(
    ("target", "output", "expected"),
    [
        (0, "raw", ("log_odds", "softmax")), (0, "softmax", ("log_odds", "softmax")),
        (0, "sigmoid", ("log_odds", "sigmoid")), (None, "sigmoid", ("log_odds", "sigmoid")),
        (None, "raw", ("score", "")),
        (lambda out: out[:, 0], "sigmoid", ("score", "")), (lambda out: out[:, 0], "raw", ("score", "")),
    ],
)  # fmt: skip
def test_which_score_is_judged(target, output, expected):
    """One answer for all doors: the score's own sigmoid, else the softmax of a class, else the score."""
    logits = torch.tensor([[2.0, 1.0, -1.0]]) if target is not None else torch.tensor([[2.0]])
    judged, scale = judged_score(lp.Score(lambda x: logits.expand(len(x), -1), target, output))
    assert scale == expected[0]
    known = {"softmax": logits.softmax(1)[:, 0].logit(), "sigmoid": logits[:, 0]}
    if scale == "log_odds":
        torch.testing.assert_close(
            judged.bind(torch.ones(1, 2)).values(torch.ones(1, 2), torch.tensor([0])), known[expected[1]]
        )


# ---- fills against direct definitions; ROAD's imputation against a dense solve and against Quantus


def images(batch=2, channels=3, height=6, width=7, seed=0):
    return torch.rand(batch, channels, height, width, generator=torch.Generator().manual_seed(seed))


def prepared(fill, points, baselines=None, seed=0):
    start = torch.zeros_like(points) if baselines is None else baselines
    return find_filler(fill)[1].prepare(points, start, generators(points, seed))


def dense_solution(image, mask):
    """The definition, pixel by pixel: image and mask (height, width)."""
    height, width = image.shape
    matrix, right = np.eye(height * width), image.astype(float).ravel().copy()
    for y, x in itertools.product(range(height), range(width)):
        if not mask[y, x]:
            continue
        row, neighbors = y * width + x, {}
        for dy, dx in itertools.product((-1, 0, 1), repeat=2):
            if (dy, dx) != (0, 0) and 0 <= y + dy < height and 0 <= x + dx < width:
                neighbors[(y + dy) * width + x + dx] = 1 / 6 if 0 in (dy, dx) else 1 / 12
        matrix[row, list(neighbors)] = -np.array(list(neighbors.values())) / sum(neighbors.values())
        right[row] = 0
    return np.linalg.solve(matrix, right).reshape(height, width)


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
def test_linear_imputation_against_dense_solve(share):
    x = images(3)
    masked = torch.rand(3, 3, 6, 7, generator=torch.Generator().manual_seed(1)) < share
    masked[1] = masked[1, :1]  # one whose channels share a mask
    found = linear_imputation(x, masked)
    for b, c in itertools.product(range(3), repeat=2):
        expected = dense_solution(x[b, c].numpy(), masked[b, c].numpy())
        np.testing.assert_allclose(found[b, c], expected, atol=1e-6)


def test_linear_imputation_against_quantus():
    functions = pytest.importorskip("quantus.functions.perturb_func")
    x = images(1, 3, 8, 8)
    masked = torch.rand(8, 8, generator=torch.Generator().manual_seed(2)) < 0.4
    rows = np.flatnonzero(masked.numpy())
    theirs = functions.noisy_linear_imputation(arr=x[0].numpy().copy(), indices=rows, noise=0.0)
    ours = linear_imputation(x, masked.expand(1, 3, 8, 8))
    np.testing.assert_allclose(ours[0], theirs, atol=1e-5)


def test_linear_imputation_restores_a_ramp_inside():
    ramp = (torch.arange(7.0) + 2 * torch.arange(6.0)[:, None]).expand(1, 1, 6, 7)
    masked = torch.zeros(1, 1, 6, 7, dtype=torch.bool)
    masked[..., 1:5, 1:6] = True
    torch.testing.assert_close(linear_imputation(ramp, masked), ramp)


def test_linear_imputation_keeps_what_is_known_and_its_input():
    x = images()
    masked = torch.rand(2, 3, 6, 7) < 0.3
    before = x.clone()
    found = linear_imputation(x, masked)
    assert torch.equal(found[~masked], x[~masked]) and torch.equal(x, before)
    assert torch.equal(linear_imputation(x, torch.zeros_like(masked)), x)


def test_noise_of_the_linear_fill_has_its_deviation_and_belongs_to_the_example():
    x, masked = images(2, 3, 20, 20), torch.rand(2, 3, 20, 20) < 0.5
    noisy = fill_rows(prepared(NoisyLinear(0.1), x), torch.tensor([0, 1]), masked)
    noise = noisy - linear_imputation(x, masked)
    assert noise.std() == pytest.approx(0.1, rel=0.1)
    assert not torch.equal(noise[0], noise[1])
    torch.testing.assert_close(fill_rows(prepared(NoisyLinear(0.1), x[1:]), torch.tensor([0]), masked[1:]), noisy[1:])


def test_blur_against_scipy():
    x = images(1, 2, 30, 40)
    for fill, sigma in ((Blur(2.0), 2.0), ("blur", 1.5)):  # a twentieth of 30 pixels
        expected = [scipy.ndimage.gaussian_filter(c, sigma, mode="nearest") for c in x[0].double().numpy()]
        np.testing.assert_allclose(fill_rows(prepared(fill, x), torch.tensor([0]), None)[0], expected, atol=1e-5)


def test_mean_and_noise_by_channel():
    x = images(2, 3, 40, 40)
    mean = fill_rows(prepared("mean", x), torch.tensor([1]), torch.ones(1, 3, 40, 40, dtype=torch.bool))
    torch.testing.assert_close(mean[0], x[1].mean((1, 2))[:, None, None].expand(3, 40, 40))
    noise = fill_rows(prepared("noise", x * torch.tensor([1.0, 2, 4])[:, None, None]), torch.arange(2), None)
    np.testing.assert_allclose(noise.std((2, 3)), (x.std((2, 3)) * torch.tensor([1.0, 2, 4])), rtol=0.08)
    table = torch.rand(3, 4)
    torch.testing.assert_close(fill_rows(prepared("mean", table), torch.arange(3), None)[:, 0], table.mean(1))


def test_baseline_number_and_callable():
    x, rows = images(), torch.tensor([1, 0])
    assert torch.equal(fill_rows(prepared("baseline", x, x + 1), rows, None), (x + 1)[rows])
    assert (fill_rows(prepared(0.25, x), rows, None) == 0.25).all()
    assert torch.equal(fill_rows(prepared(lambda points: -points, x), rows, None), -x[rows])


def test_samples_are_other_inputs():
    pool = images(3)
    filled = fill_rows(Samples(pool).prepare(pool, pool, generators(pool, 0)), torch.arange(3), None)
    for b in range(3):
        others = [i for i in range(3) if i != b]
        assert any(torch.equal(filled[b], pool[i]) for i in others)


@pytest.mark.parametrize("fill", ["noise", "linear", Blur(1.5), "mean"])
def test_batch_equals_loop(fill):
    x, masked = images(3), torch.rand(3, 3, 6, 7) < 0.4
    whole = fill_rows(prepared(fill, x), torch.arange(3), masked)
    for b in range(3):
        one = fill_rows(prepared(fill, x[b : b + 1]), torch.tensor([0]), masked[b : b + 1])
        torch.testing.assert_close(one[0], whole[b])


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: find_filler("grey"), "is unknown"),
        (lambda: find_filler("samples"), "needs other inputs"),
        (lambda: find_filler(float("nan")), "is unknown"),
        (lambda: find_filler(None), "is unknown"),
        (lambda: prepared("blur", torch.rand(2, 5)), "needs images"),
        (lambda: prepared(Blur(-1), images()), "sigma=-1 must be from 0 to 10000"),
        (lambda: prepared("linear", torch.rand(2, 5)), "needs images"),
        (lambda: prepared(lambda x: x[:, :1], images()), "one fill per value"),
        (lambda: prepared(Samples(torch.rand(3, 5)), images()), "pool of samples has shape"),
        (lambda: prepared(Samples(images()[:1]), images()[:1]), "nothing but the example"),
    ],
)
def test_errors_say_what_to_do(call, words):
    with pytest.raises(ValueError, match=words):
        call()


def test_every_named_fill_is_listed():
    assert set(curves.FILLS) == {"baseline", "mean", "blur", "noise", "linear"}


# ---- equals: no answer depends on how features are numbered ---------------------------------------------------------


def test_equal_values_everywhere_have_no_support_wherever_the_important_feature_stands():
    for place in range(6):
        weights = torch.nn.functional.one_hot(torch.tensor(place), 6) * 8.0
        score = lp.Score(lambda x, w=weights: torch.stack([x @ w, torch.zeros(len(x))], 1), 0)
        assert symmetric_relevance_gain(score, torch.ones(1, 6), torch.ones(1, 6)) == 0
        assert lp.verdict(score, torch.ones(1, 6), torch.ones(1, 6)).support == 0


WAVY = mlp(12, 3)


@settings(max_examples=5)
@given(seed=st.integers(0, 10_000), scale=st.sampled_from([lp.Score(WAVY, 0), lp.Score(WAVY, 1, "sigmoid")]))
def test_renumbered_features_have_the_same_removals(seed, scale):
    numbers = torch.Generator().manual_seed(seed)
    values = torch.randint(-2, 3, (1, 12), generator=numbers).float()  # many equals
    x, renumbered = torch.randn(1, 12, generator=numbers), torch.randperm(12, generator=numbers)
    other = replace(scale, model=lambda x: WAVY(x[:, renumbered.argsort()]))
    for kind in MEASURES.values():
        if issubclass(kind, (MaskingMeasure, SymmetricRelevanceGain)):
            first, second = (
                kind()(score, inputs, None, given_attribution(given)).values
                for score, inputs, given in ((scale, x, values), (other, x[:, renumbered], values[:, renumbered]))
            )
            torch.testing.assert_close(first, second, rtol=1e-5, atol=1e-6, equal_nan=True)


def test_a_mirrored_picture_with_its_mirrored_map_has_the_same_support():
    numbers = torch.Generator().manual_seed(0)
    weights = torch.randn(2, 3 * 16 * 16, generator=numbers).T
    picture = torch.rand(1, 3, 16, 16, generator=numbers)
    values = torch.randn(1, 3, 4, 4, generator=numbers).repeat_interleave(4, 2).repeat_interleave(4, 3)  # equals

    def gain(turn):
        score = lp.Score(lambda x: (turn(x).flatten(1) @ weights).tanh(), 0)
        return symmetric_relevance_gain(score, turn(picture), turn(values), groups="pixels")

    torch.testing.assert_close(gain(lambda x: x.flip(-1)), gain(lambda x: x))


@pytest.mark.parametrize("count", [0, 1, 2, 3, 4])
def test_shares_of_the_top_add_up_to_it(count):
    shares = share_of_top(torch.tensor([[3.0, 1.0, 1.0, 0.0]]), count)
    assert float(shares.sum()) == count and shares[0, 1] == shares[0, 2]
