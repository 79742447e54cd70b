"""Masking curves against a brute-force loop over examples, fills and areas, and the errors of bad input."""

import dataclasses
import math

import numpy as np
import pytest
import torch

import leastpath as lp
from helpers import Counted, TextNet, cnn, flat_points, mlp
from leastpath.evaluation.ground_truth import KnownAnswers
from leastpath.evaluation.masking import (
    FULL_AREAS,
    PAPER_AREAS,
    AbsoluteChange,
    Comprehensiveness,
    Deletion,
    Insertion,
    LogOdds,
    LogProbRatio,
    Masking,
    Sufficiency,
)
from leastpath.evaluation.measure import Measure, generators, given_attribution, measure_all
from leastpath.removal import curves
from leastpath.removal.curves import Samples, class_log_odds, fill_rows, find_filler

MEASURES = [Comprehensiveness, Sufficiency, LogOdds, LogProbRatio, Insertion, Deletion]
IMAGES = torch.rand(3, 2, 6, 6, generator=torch.Generator().manual_seed(0))
VALUES = torch.randn(3, 2, 6, 6, generator=torch.Generator().manual_seed(1))
TARGETS = torch.tensor([0, 2, 1])
SCORE = lp.Score(cnn(), TARGETS, "log_softmax")
AREAS = (0.05, 0.2, 0.5, 1.0)


def brute_force(measure, model, x, target, values, groups, fill, seed=0):
    """One example by the definition: features (groups) removed one area after another; x, values, groups (*shape)."""
    masking, keep = measure.masking, type(measure) in (Sufficiency, Insertion)
    n = int(groups.max()) + 1
    strength = [float(values[groups == g].abs().sum()) for g in range(n)]
    order = sorted(range(n), key=lambda g: -strength[g])
    p = [model(x[None]).double().softmax(1)[0, target].item()]
    for area in masking.areas:
        chosen = torch.isin(groups, torch.tensor(order[: math.floor(area * n + 0.5)]))
        masked = ~chosen if keep else chosen
        static = find_filler(fill)[1].prepare(x[None], torch.zeros_like(x[None]), generators(x[None], seed))
        filled = torch.where(masked, fill_rows(static, torch.tensor([0]), masked[None])[0], x)
        p.append(model(filled[None]).double().softmax(1)[0, target].item())
    p = np.array(p)
    curve = {
        Comprehensiveness: p[0] - p,
        Sufficiency: p[0] - p,
        LogOdds: np.log(p / (1 - p)),
        LogProbRatio: np.log(p / p[0]),
        Insertion: p,
        Deletion: p,
    }[type(measure)][1:]
    sign = -1 if type(measure) in (LogOdds, LogProbRatio) else 1
    return curve, sign * np.trapezoid(curve, masking.areas)


@pytest.mark.parametrize("kind", MEASURES)
@pytest.mark.parametrize("fill", ["baseline", "mean", "noise", "blur", 0.3])
def test_values_against_brute_force(kind, fill):
    measure = kind(Masking(AREAS, fill=fill))
    found = measure(SCORE, IMAGES, None, given_attribution(VALUES))
    groups = torch.arange(72).reshape(2, 6, 6)
    for b in range(3):
        curve, area = brute_force(measure, SCORE.model, IMAGES[b], TARGETS[b], VALUES[b], groups, fill)
        np.testing.assert_allclose(found.curves[find_filler(fill)[0]][b], curve, atol=2e-6)
        np.testing.assert_allclose(found.values[b], area, atol=2e-6)


@pytest.mark.parametrize("fill", ["baseline", "linear"])
def test_pixels_against_brute_force(fill):
    measure = Comprehensiveness(Masking((0.1, 0.4), groups="pixels", fill=fill))
    found = measure(SCORE, IMAGES, None, given_attribution(VALUES))
    groups = torch.arange(36).reshape(1, 6, 6).expand(2, 6, 6)
    for b in range(3):
        curve, _ = brute_force(measure, SCORE.model, IMAGES[b], TARGETS[b], VALUES[b], groups, fill)
        np.testing.assert_allclose(found.curves[fill][b], curve, atol=2e-6)


def test_segments_against_brute_force():
    maps = (torch.arange(36).reshape(6, 6) // 5) * 3 + 10  # eight segments, numbered with holes
    measure = Sufficiency(Masking((0.2, 0.5, 0.9), groups=maps))
    found = measure(SCORE, IMAGES, None, given_attribution(VALUES))
    groups = ((maps - 10) // 3).expand(2, 6, 6)
    for b in range(3):
        curve, _ = brute_force(measure, SCORE.model, IMAGES[b], TARGETS[b], VALUES[b], groups, "baseline")
        np.testing.assert_allclose(found.curves["baseline"][b], curve, atol=2e-6)
    each = torch.stack([maps, maps, torch.arange(36).reshape(6, 6)])  # another number of segments in the last
    mixed = Sufficiency(Masking((0.2, 0.5, 0.9), groups=each))(SCORE, IMAGES, None, given_attribution(VALUES))
    torch.testing.assert_close(mixed.values[:2], found.values[:2])
    looked_up = Sufficiency(Masking((0.2, 0.5, 0.9), groups=KnownAnswers(IMAGES, each)))
    one = looked_up(lp.Score(SCORE.model, 1), IMAGES[2:], None, given_attribution(VALUES[2:]))
    torch.testing.assert_close(one.values[0], mixed.values[2], rtol=1e-5, atol=1e-6)
    pixels = Sufficiency(Masking((0.2, 0.5, 0.9), groups="pixels"))(SCORE, IMAGES, None, given_attribution(VALUES))
    torch.testing.assert_close(mixed.values[2], pixels.values[2])


@pytest.mark.parametrize("fill", ["baseline", "noise", "linear", "blur"])
def test_batch_equals_loop(fill):
    areas = AREAS[:-1]
    whole = LogOdds(Masking(areas, "pixels", fill))(SCORE, IMAGES, None, given_attribution(VALUES), seed=5)
    for b in range(3):
        score = lp.Score(SCORE.model, int(TARGETS[b]), "log_softmax")
        one = LogOdds(Masking(areas, "pixels", fill))(
            score, IMAGES[b : b + 1], None, given_attribution(VALUES[b : b + 1]), seed=5
        )
        torch.testing.assert_close(one.values[0], whole.values[b], rtol=1e-5, atol=1e-5)


def test_absolute_change_of_a_regression_against_closed_form():
    """Weights of both signs: the fall of the score cancels, its absolute change does not."""
    weights, x = torch.tensor([4.0, -3.0, 2.0, -1.0]), torch.ones(1, 4)
    score = lp.Score(lambda x: x @ weights)
    masking, found = Masking(areas=(0.25, 0.5, 0.75)), given_attribution(weights * x)
    curve = AbsoluteChange(masking)(score, x, None, found).curves["baseline"]
    torch.testing.assert_close(curve, torch.tensor([[4.0, 1.0, 3.0]], dtype=torch.float64))
    upside_down = dataclasses.replace(score, model=lambda x: -(x @ weights))
    assert torch.equal(AbsoluteChange(masking)(upside_down, x, None, found).curves["baseline"], curve)


@pytest.mark.parametrize("fill", [("baseline", "noise"), "linear"])
@pytest.mark.parametrize("keep", [Comprehensiveness, Sufficiency])
def test_broadcast_rows_equal_gathered_ones(fill, keep, monkeypatch):
    score = lp.Score(cnn(), TARGETS, batch_size=5)
    gathered = keep(Masking(AREAS[:-1], "pixels", fill))(score, IMAGES, None, given_attribution(VALUES))
    monkeypatch.setattr(curves, "LARGE", 1)
    torch.testing.assert_close(
        keep(Masking(AREAS[:-1], "pixels", fill))(score, IMAGES, None, given_attribution(VALUES)).values,
        gathered.values,
    )


def test_noise_depends_on_the_seed_only():
    def value(seed):
        return Deletion(Masking(AREAS, fill="noise"))(SCORE, IMAGES, None, given_attribution(VALUES), seed=seed).values

    assert torch.equal(value(1), value(1)) and not torch.equal(value(1), value(2))


def test_costs_no_more_than_areas_times_fills_plus_one():
    model = Counted(cnn())
    score = lp.Score(model, TARGETS, batch_size=7)
    masking = Masking(PAPER_AREAS, fill=("baseline", "mean", "blur"))
    found = Comprehensiveness(masking)(score, IMAGES, None, given_attribution(VALUES))
    assert len(PAPER_AREAS) == 15
    assert (found.n_forwards <= 46).all()
    assert model.value_rows == found.n_forwards.sum() and model.largest <= 7 and model.gradient_rows == 0
    torch.testing.assert_close(
        found.values,
        torch.stack(
            [
                Comprehensiveness(Masking(PAPER_AREAS, fill=fill))(
                    SCORE, IMAGES, None, given_attribution(VALUES)
                ).values
                for fill in masking.fill
            ]
        ).mean(0),
    )


def test_measures_of_one_masking_share_their_forwards():
    model = Counted(cnn())
    score, result = lp.Score(model, TARGETS), given_attribution(VALUES)
    masking = Masking(AREAS)
    measures = [kind(masking) for kind in MEASURES]
    found = measure_all(measures, score, IMAGES, None, result)
    alone = [measure(SCORE, IMAGES, None, result) for measure in measures]
    for ours, theirs in zip(found, alone, strict=True):
        torch.testing.assert_close(ours.values, theirs.values)
    assert sum(int(m.n_forwards.sum()) for m in found) == model.value_rows == 3 * (2 * len(AREAS) + 1)


def test_equal_masks_run_once_and_empty_ones_not_at_all():
    model = Counted(mlp())
    found = Deletion()(lp.Score(model, 1), flat_points(1, 4), None, given_attribution(flat_points(1, 4, seed=3)))
    assert found.curves["x"].tolist() == list(FULL_AREAS)
    assert model.value_rows == 1 + 4  # the input, and one to four features masked
    clean = mlp()(flat_points(1, 4)).double().softmax(1)[0, 1]
    assert found.curves["baseline"][0, 0].item() == pytest.approx(clean.item(), rel=1e-6)


def test_insertion_is_deletion_backwards_for_the_reversed_ranking():
    x, values = flat_points(2, 4), torch.tensor([[1.0, 2, 3, 4], [4, 1, 3, 2]])
    score, areas = lp.Score(mlp(), 0), (0.0, 0.25, 0.5, 0.75, 1.0)
    inserted = Insertion(Masking(areas))(score, x, None, given_attribution(values)).curves["baseline"]
    deleted = Deletion(Masking(areas))(score, x, None, given_attribution(5 - values)).curves["baseline"]
    torch.testing.assert_close(inserted, deleted.flip(1))


def test_signed_ranking_masks_what_speaks_for_the_class_first():
    score = lp.Score(lambda x: torch.stack([x.sum(1), -x.sum(1)], 1), 0)
    x, values = torch.tensor([[1.0, -3.0]]), torch.tensor([[1.0, -3.0]])
    signed = Deletion(Masking((0.5,), rank="signed"))(score, x, None, given_attribution(values))
    plain = Deletion(Masking((0.5,)))(score, x, None, given_attribution(values))
    assert signed.values.item() == pytest.approx(1 / (1 + math.exp(6)))
    assert plain.values.item() == pytest.approx(1 / (1 + math.exp(-2)))


def test_equals_share_what_is_lost_with_all_of_them():
    score = lp.Score(lambda x: x @ torch.tensor([1.0, 2.0, 4.0]))
    found = Deletion(Masking((1 / 3,)))(score, torch.ones(1, 3), None, given_attribution(torch.ones(1, 3)))
    assert found.values.item() == pytest.approx(7 * 2 / 3)


def test_normalized_area_is_the_mean_height():
    result = given_attribution(VALUES)
    plain, scaled = (Comprehensiveness(Masking(normalize=n))(SCORE, IMAGES, None, result).values for n in (False, True))
    torch.testing.assert_close(scaled, plain / 0.64)


def test_probability_does_not_depend_on_the_explained_output():
    result = given_attribution(VALUES)
    values = [
        Comprehensiveness(Masking(AREAS))(lp.Score(SCORE.model, TARGETS, output), IMAGES, None, result).values
        for output in ("raw", "softmax", "log_softmax", "logit_margin", torch.tanh)
    ]
    for other in values[1:]:
        assert torch.equal(other, values[0])


def test_a_class_that_is_explained_by_its_sigmoid_is_judged_by_it():
    result = given_attribution(VALUES)
    through, asked = (
        Comprehensiveness(Masking(AREAS, probability=probability))(
            lp.Score(SCORE.model, TARGETS, output), IMAGES, None, result
        ).values
        for output, probability in (("sigmoid", "auto"), ("raw", "sigmoid"))
    )
    assert torch.equal(through, asked)


def test_one_output_through_a_sigmoid():
    def logit(x):
        return x.sum(1)

    x, values = torch.tensor([[1.0, 2.0]]), torch.tensor([[1.0, 2.0]])
    masking = Masking((0.5,))
    odds = LogOdds(masking)(lp.Score(logit, output="sigmoid"), x, None, given_attribution(values))
    assert odds.values.item() == pytest.approx(-1)
    column = LogOdds(masking)(lp.Score(lambda x: logit(x)[:, None], 0), x, None, given_attribution(values))
    assert column.values.item() == pytest.approx(-1)
    raw = Comprehensiveness(masking)(lp.Score(logit), x, None, given_attribution(values))
    assert raw.values.item() == pytest.approx(2)
    as_given = LogOdds(Masking((0.5,), probability="given"))(
        lp.Score(lambda x: logit(x).sigmoid()), x, None, given_attribution(values)
    )
    assert as_given.values.item() == pytest.approx(-1)


def test_log_odds_are_stable_against_float64():
    logits = torch.tensor([[300.0, 0, -5], [0.1, 0.2, 0.3], [50, 49.9, -50], [7, 7, 7]])
    wide = logits.double()
    expected = torch.stack(
        [wide[:, c] - torch.cat([wide[:, :c], wide[:, c + 1 :]], 1).logsumexp(1) for c in range(3)], 1
    )
    torch.testing.assert_close(class_log_odds(logits).double(), expected, rtol=1e-5, atol=1e-5)


def test_certain_predictions_have_finite_logarithms():
    score = lp.Score(lambda x: torch.stack([500 * x.sum(1), 0 * x.sum(1)], 1), 0)
    x = torch.tensor([[1.0, 1.0]])
    found = LogProbRatio(Masking((0.5, 1.0)))(score, -x, None, given_attribution(x))
    assert found.curves["baseline"][0].tolist() == pytest.approx([500, 1000 - math.log(2)])


def test_tokens_of_a_layer():
    model = TextNet().eval()
    ids = torch.tensor([[1, 2, 3, 4], [5, 6, 7, 8]])
    score = lp.Score(model, 1, layer=model.embedding)
    result = lp.attribute(score, ids, method=lp.StraightLine())
    found = Comprehensiveness(Masking((0.25, 0.5), "tokens"))(score, ids, None, result)
    embedded, zero = model.embedding(ids).detach(), model.embedding(torch.zeros(1, 4, dtype=torch.long)).detach()
    first = result.values.abs().sum(2).argmax(1)
    masked = torch.where((torch.arange(4) == first[:, None])[..., None], zero, embedded)

    def p(hidden):
        return model.head(model.mix(hidden).tanh().mean(1)).softmax(1)[:, 1].detach()

    torch.testing.assert_close(found.curves["baseline"][:, 0].float(), p(embedded) - p(masked), atol=1e-6, rtol=1e-5)
    same = Comprehensiveness(Masking((0.25, 0.5), torch.arange(4)[:, None]))(score, ids, None, result)
    torch.testing.assert_close(same.values, found.values)


def test_tuple_inputs_and_extra_arguments():
    def model(a, b, scale):
        total = (a.sum(1) + (b**2).sum(1)) * scale
        return torch.stack([total, -total], 1)

    a, b, scale = flat_points(3, 2), flat_points(3, 3, seed=1), torch.tensor([1.0, 2.0, 0.5])
    score = lp.Score(model, 0, additional_forward_args=scale)
    values = (torch.zeros(3, 2), torch.tensor([0.0, 0.0, 1.0]).expand(3, 3))
    found = LogOdds(Masking((0.2,)))(score, (a, b), None, given_attribution(values))
    expected = -2 * (a.sum(1) + b[:, 0] ** 2 + b[:, 1] ** 2) * scale
    torch.testing.assert_close(found.values, expected.double(), rtol=1e-5, atol=1e-5)


def test_model_is_left_as_it_was():
    model = cnn()
    before = {k: v.clone() for k, v in model.state_dict().items()}
    state = torch.random.get_rng_state()
    Comprehensiveness(Masking(AREAS, fill="noise"))(lp.Score(model, 0), IMAGES, None, given_attribution(VALUES))
    assert torch.equal(state, torch.random.get_rng_state()) and not model.training
    assert all(torch.equal(v, before[k]) for k, v in model.state_dict().items())


# ---- bad input ---------------------------------------------------------------------------------------------------


def test_all_zero_attributions_are_nan_and_cost_one_forward():
    values = VALUES.clone()
    values[1] = 0
    found = Comprehensiveness(Masking(AREAS))(SCORE, IMAGES, None, given_attribution(values))
    assert found.values.isnan().tolist() == [False, True, False]
    assert found.curves["baseline"][1].isnan().all() and found.n_forwards.tolist() == [5, 1, 5]


def test_constant_model_loses_nothing():
    score = lp.Score(lambda x: torch.tensor([1.0, 2.0]).expand(len(x), 2), 0)
    for kind in (Comprehensiveness, Sufficiency, LogProbRatio):
        found = kind(Masking(AREAS))(score, flat_points(2, 4), None, given_attribution(flat_points(2, 4, seed=1)))
        assert found.values.abs().tolist() == [0, 0]


def bad(values, masking=None, score=SCORE, kind=Comprehensiveness, baselines=None):
    return lambda: kind(masking or Masking())(score, IMAGES, baselines, given_attribution(values))


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (bad(VALUES[:, :1]), "attributions have shape"),
        (bad(VALUES[:2]), "attributions have shape"),
        (bad((VALUES, VALUES)), "attributions have shape"),
        (bad(VALUES.where(VALUES > 0, torch.nan)), "example 0 hold NaN"),
        (bad(VALUES.where(VALUES < 2, torch.inf)), "hold NaN or infinite"),
        (bad(VALUES, score=lp.Score(lambda x: x.flatten(1).sum(1)), kind=LogOdds), "has no probability"),
        (bad(VALUES, Masking(groups=torch.zeros(5, 5).long())), "groups have shape"),
        (lambda: Masking(groups=torch.zeros(6, 6)), "expected integers"),
        (bad(VALUES, Masking(probability="given")), "returns values from"),
        (bad(VALUES, baselines=torch.zeros(3, 2, 2, 6, 6)), "one baseline per example, got 2"),
        (bad(VALUES, Masking(probability="softmax"), lp.Score(cnn(), lambda out: out[:, 0])), "needs a class"),
        (lambda: Masking(areas=0.5), "must be several shares"),
        (lambda: Masking(areas=()), "must increase"),
        (lambda: Masking(areas=(0.5, 0.1)), "must increase"),
        (lambda: Masking(areas=(1, 50)), "must increase"),
        (lambda: Masking(groups="superpixels"), "is unknown"),
        (lambda: Masking(fill="black"), "is unknown"),
        (lambda: Masking(fill=("mean", "mean")), "each once"),
        (lambda: Masking(rank="size"), "is unknown"),
        (lambda: Masking(probability="logits"), "is unknown"),
        (lambda: Masking(fill="samples"), "needs other inputs"),
    ],
)
def test_errors_say_what_to_do(call, words):
    with pytest.raises(ValueError, match=words):
        call()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_probabilities_that_are_rounded_to_one_or_zero(dtype):
    """What the logits say, which are not rounded."""
    net = torch.nn.Linear(4, 2).to(dtype).eval()
    with torch.no_grad():
        net.weight.copy_(torch.tensor([[60.0], [-60.0]]).expand(2, 4))
        net.bias.zero_()
    x, values = torch.ones(2, 4, dtype=dtype), torch.tensor([[4.0, 3, 2, 1]]).expand(2, 4).to(dtype)
    for target in (0, 1):
        logits, given = lp.Score(net, target), lp.Score(lambda x: net(x).softmax(1), target)
        for kind in (Comprehensiveness, Insertion):
            expected = kind(Masking(FULL_AREAS, fill=-1.0))(logits, x, None, given_attribution(values))
            masking = Masking(FULL_AREAS, fill=-1.0, probability="given")
            found = kind(masking)(given, x, None, given_attribution(values))
            torch.testing.assert_close(found.values, expected.values, atol=1e-7, rtol=0)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_pool_is_shown_by_its_contents(dtype):
    pool = torch.rand(3, 4).to(dtype)
    shown = [repr(Masking(fill=Samples(p))) for p in (pool, pool.clone(), pool + 1)]
    assert shown[0] == shown[1] != shown[2]


def test_as_many_segments_as_channels_are_one_each_by_any_clear_spelling():
    """What a batch of two, which cannot be misread, says of its examples."""
    generator = torch.Generator().manual_seed(0)
    values, inputs = torch.rand(3, 3, 6, 6, generator=generator), torch.rand(3, 3, 6, 6, generator=generator)
    segments = (torch.rand(3, 6, 6, generator=generator) * 5).long()
    score = lp.Score(lambda x: (x**2).flatten(1).sum(1))

    def found(features, n):
        measure = Comprehensiveness(Masking((0.2, 0.5), groups=features))
        return measure(score, inputs[:n], None, given_attribution(values[:n])).values

    with pytest.raises(ValueError, match=r"maps\[:, None\].*maps\[None\]"):
        found(segments, 3)
    for features in (segments[:, None], KnownAnswers(inputs, segments)):
        torch.testing.assert_close(found(features, 3)[:2], found(segments[:2], 2))
    torch.testing.assert_close(found(segments[None], 3)[:2], found(segments, 2))


def test_segments_of_a_flat_vector_are_one_a_feature():
    inputs = flat_points(4, 5)
    for shape in ((4,), (4, 1), (1,)):  # the first two would hide everything at once
        with pytest.raises(ValueError, match="groups have shape"):
            measure = Deletion(Masking(groups=torch.zeros(shape).long()))
            measure(lp.Score(mlp(5), 0), inputs, None, given_attribution(inputs))


def test_pixels_and_tokens_need_dimensions():
    for groups in ("pixels", "tokens"):
        with pytest.raises(ValueError, match=f"groups='{groups}' needs"):
            Deletion(Masking(groups=groups))(
                lp.Score(mlp(), 0), flat_points(2, 4), None, given_attribution(flat_points(2, 4))
            )


def test_they_are_measures_and_print_what_they_measure():
    for kind in MEASURES:
        measure = kind()
        assert isinstance(measure, Measure) and repr(kind()) == repr(measure)
        assert dataclasses.replace(measure, name="other").name == "other"
    one, other = (repr(Masking(groups=torch.full((2, 2), i))) for i in (0, 1))
    assert one != other
