"""Infidelity and sensitivity against Captum called directly; pictures against scikit-image; an attack that works."""

import captum.attr
import captum.metrics
import numpy as np
import pytest
import torch
from skimage.metrics import structural_similarity

import leastpath as lp
from helpers import TextNet, cnn, flat_points, mlp
from leastpath.evaluation.measure import Measure, generators, given_attribution, needs_method
from leastpath.evaluation.robustness import (
    AttackRobustness,
    Infidelity,
    MaxSensitivity,
    NoiseRobustness,
    pictures,
    ssim,
)
from leastpath.methods import METHODS

IMAGES = torch.rand(3, 2, 6, 6, generator=torch.Generator().manual_seed(0))
TARGETS = torch.tensor([0, 2, 1])
SCORE = lp.Score(cnn(), TARGETS)
ANEW = [MaxSensitivity(0.05, 2), NoiseRobustness(0.2), AttackRobustness(0.1, steps=4)]


def explain(score, inputs, baselines, seed):
    return lp.attribute(score, inputs, baselines, method=lp.StraightLine(), tolerance=None, n_steps=8)


def draws(x, n, seed, kind=torch.randn):
    return torch.stack([kind((n, *x.shape[1:]), generator=g) for g in generators(x, seed)])


@pytest.mark.parametrize("normalize", [False, True])
def test_infidelity_against_captum(normalize):
    result = explain(SCORE, IMAGES, 0.1, 0)
    ours = Infidelity(0.1, 6, normalize)(SCORE, IMAGES, 0.1, result, seed=4)
    noise = draws(IMAGES, 6, 4) * 0.1 * IMAGES.flatten(1).std(1, correction=0).view(3, 1, 1, 1, 1)

    def perturb(x):
        shift = noise.reshape(x.shape)
        return shift / (x - 0.1), x - shift

    theirs = captum.metrics.infidelity(
        cnn(), perturb, IMAGES, result.values, target=TARGETS, n_perturb_samples=6, normalize=normalize
    )
    torch.testing.assert_close(ours.values.float(), theirs, rtol=1e-4, atol=1e-6)
    assert (ours.n_gradients == 0).all() and (ours.n_forwards >= 7).all()


def test_infidelity_of_a_linear_score_is_zero_and_of_random_is_not():
    score = lp.Score(lambda x: x @ torch.tensor([1.0, -2.0, 3.0]))
    x = flat_points(4, 3)
    exact = Infidelity()(score, x, None, explain(score, x, None, 0)).values
    wrong = Infidelity()(score, x, None, given_attribution(flat_points(4, 3, seed=9))).values
    assert (exact < 1e-9).all() and (wrong > 1e-4).all()


def test_max_sensitivity_against_captum():
    ig = captum.attr.IntegratedGradients(cnn())
    shift = 0.05 * (2 * draws(IMAGES, 3, 2, torch.rand) - 1)

    def captum_explain(score, inputs, baselines, seed):
        return given_attribution(ig.attribute(inputs, target=score.target, n_steps=8).detach())

    ours = MaxSensitivity(0.05, 3)(
        SCORE, IMAGES, None, captum_explain(SCORE, IMAGES, None, 0), seed=2, explain=captum_explain
    )
    theirs = captum.metrics.sensitivity_max(
        lambda x, target: ig.attribute(x, target=target, n_steps=8),
        IMAGES,
        lambda x: (x[0] if isinstance(x, tuple) else x) + shift.flatten(0, 1),
        n_perturb_samples=3,
        target=TARGETS,
    )
    torch.testing.assert_close(ours.values.float(), theirs, rtol=1e-4, atol=1e-6)


def test_noise_robustness_against_its_definition():
    result = explain(SCORE, IMAGES, None, 0)
    ours = NoiseRobustness(0.2)(SCORE, IMAGES, None, result, seed=3, explain=explain)
    noise = draws(IMAGES, 1, 3)[:, 0] * 0.2 * IMAGES.flatten(1).std(1, correction=0).view(3, 1, 1, 1)
    again = explain(SCORE, IMAGES + noise, None, 0)
    for b in range(3):
        maps = []
        for values in (result.values[b], again.values[b]):
            picture = values.abs().sum(0).double().numpy()
            maps.append(np.minimum(picture / np.quantile(picture, 0.99), 1))
        expected = structural_similarity(*maps, win_size=5, data_range=1.0)
        assert ours.values[b].item() == pytest.approx(expected, abs=1e-4)
    assert (ours.n_gradients == again.n_gradients).all()


def test_ssim_of_equal_pictures_is_one():
    maps = pictures(torch.rand(2, 3, 9, 9))
    assert ssim(maps, maps).tolist() == [1, 1]
    assert maps.max() == 1 and maps.shape == (2, 9, 9)


def test_constant_explanations_are_robust():
    def constant(score, inputs, baselines, seed):
        return given_attribution(torch.arange(72.0).reshape(1, 2, 6, 6).expand(3, 2, 6, 6))

    result = constant(SCORE, IMAGES, None, 0)
    assert MaxSensitivity(0.05, 2)(SCORE, IMAGES, None, result, explain=constant).values.tolist() == [0, 0, 0]
    for measure in ANEW[1:]:
        values = measure(SCORE, IMAGES, None, result, explain=constant).values
        assert values[~values.isnan()].tolist() == [1] * int((~values.isnan()).sum())


def test_attack_stays_in_its_cube_and_leaves_the_score():
    bound = SCORE.bind(IMAGES)
    rows, start = torch.arange(3), torch.zeros_like(IMAGES)
    attacked, found = AttackRobustness(0.1, steps=8, keep=0.1).attack(bound, start, IMAGES, seed=0)
    assert found.all() and ((attacked - IMAGES).abs() <= 0.1 + 1e-6).all()
    change = (bound.values(attacked, rows) - bound.values(IMAGES, rows)).abs()
    assert (change <= 0.1 * (bound.values(IMAGES, rows) - bound.values(start, rows)).abs() + 1e-5).all()


def test_attack_turns_the_gradient_of_a_smooth_net_further_than_any_noise():
    score, x, rows = lp.Score(mlp(64), 0), flat_points(4, 64), torch.arange(4)
    bound = score.bind(x)
    attacked, _ = AttackRobustness(0.1).attack(bound, torch.zeros_like(x), x, seed=0)
    gradient = bound.gradients(x, rows)[1]

    def turned(points):
        return (bound.gradients(points, rows)[1] - gradient).norm(dim=1)

    noisy = torch.stack([turned(x + 0.1 * draws(x, 1, s)[:, 0].sign()) for s in range(5)])
    assert (turned(attacked) > noisy.amax(0)).all()


@pytest.mark.parametrize("measure", [Infidelity(), *ANEW], ids=lambda m: m.name)
def test_batch_equals_loop(measure):
    result = explain(SCORE, IMAGES, None, 0)
    keywords = {"explain": explain} if needs_method(measure) else {}
    whole = measure(SCORE, IMAGES, None, result, seed=1, **keywords).values
    for b in range(3):
        score, x = lp.Score(SCORE.model, int(TARGETS[b])), IMAGES[b : b + 1]
        one = measure(score, x, None, given_attribution(result.values[b : b + 1]), seed=1, **keywords).values
        torch.testing.assert_close(one[0], whole[b], rtol=1e-3, atol=1e-4, equal_nan=True)


def test_zero_attributions_have_no_picture():
    zero = given_attribution(torch.zeros_like(IMAGES))
    for measure in ANEW:
        assert measure(SCORE, IMAGES, None, zero, explain=lambda *a: zero).values.isnan().all()


def test_nothing_to_attack_is_nan():
    score = lp.Score(lambda x: 0 * x.flatten(1).sum(1) + 1)
    values = AttackRobustness()(score, IMAGES, None, given_attribution(IMAGES), explain=explain).values
    assert values.isnan().all()


def test_they_are_measures():
    assert all(isinstance(measure, Measure) for measure in (Infidelity(), *ANEW))


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: Infidelity(noise=0), "must be positive"),
        (lambda: MaxSensitivity(radius=-1), "must be positive"),
        (lambda: NoiseRobustness()(SCORE, IMAGES, None, given_attribution(IMAGES)), "pass explain="),
        (lambda: Infidelity()(SCORE, IMAGES, None, given_attribution(IMAGES[:1])), "attributions have shape"),
        (
            lambda: Infidelity()(SCORE, IMAGES, torch.zeros(3, 2, 2, 6, 6), given_attribution(IMAGES)),
            "infidelity needs one baseline per example, got 2",
        ),
        (lambda: pictures(torch.rand(2, 5)), "pictures need"),
        (lambda: ssim(torch.rand(1, 2, 2), torch.rand(1, 2, 2)), "too small"),
        (
            lambda: NoiseRobustness()(
                lp.Score(mlp(), 0), flat_points(2, 4), None, given_attribution(flat_points(2, 4)), explain=explain
            ),
            "pictures need",
        ),
    ],
)
def test_errors_say_what_to_do(call, words):
    with pytest.raises(ValueError, match=words):
        call()


def test_layers_are_refused():
    model = TextNet().eval()
    score, ids = lp.Score(model, 0, layer=model.embedding), torch.zeros(1, 3, dtype=torch.long)
    with pytest.raises(ValueError, match="layer"):
        MaxSensitivity()(score, ids, None, given_attribution(torch.ones(1, 3, 4)), explain=explain)


@pytest.mark.parametrize("explain", ["blur_ig", METHODS["blur_ig"], lp.BlurIG()], ids=["name", "method", "solver"])
def test_a_method_that_chooses_its_own_start_is_asked_without_baselines(explain):
    """As by itself, where the baselines are not given at all."""
    image, score = torch.rand(1, 1, 8, 8), lp.Score(lambda x: (x**2).sum((1, 2, 3)))
    measure, result = NoiseRobustness(0.1, 2), METHODS["blur_ig"](score, image)
    found = measure(score, image, torch.zeros(1, 1, 8, 8), result, explain=explain)
    plain = measure(score, image, None, result, explain=lambda s, x, b, seed: METHODS["blur_ig"](s, x, seed=seed))
    assert torch.equal(found.values, plain.values)
