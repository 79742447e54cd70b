"""Baselines against what their names promise, by closed form, scipy and the model's own entropy."""

import numpy as np
import pytest
import torch
from torch import nn

import leastpath as lp
from helpers import cnn, mlp, seeded
from leastpath.score.baselines import BASELINES, baseline, blur_images, several

IMAGES = torch.rand(3, 2, 6, 6, generator=torch.Generator().manual_seed(1))
POINTS = torch.rand(20, 2, 6, 6, generator=torch.Generator().manual_seed(2))
SCORE = lp.Score(cnn(), 1, "log_softmax")
SETTINGS = {"samples": {"points": POINTS, "n": 4}, "max_entropy": {"n_steps": 5}}


def entropy(inputs):
    logs = SCORE.model(inputs).log_softmax(1)
    return -(logs.exp() * logs).sum(1).detach()


@pytest.mark.parametrize("name", BASELINES)
def test_attribute_takes_it_and_batch_equals_loop(name):
    settings = SETTINGS.get(name, {})
    made = baseline(name, IMAGES, SCORE, **settings)
    expected = (3, 4, 2, 6, 6) if name == "samples" else (3, 2, 6, 6)
    assert made.shape == expected and made.dtype == IMAGES.dtype and not made.requires_grad
    loop = torch.cat([baseline(name, IMAGES[b : b + 1], SCORE, **settings) for b in range(3)])
    torch.testing.assert_close(made, loop, atol=1e-5, rtol=1e-4)
    result = lp.attribute(SCORE, IMAGES, made, method=lp.StraightLine(), tolerance=None, n_steps=3)
    assert result.values.shape == IMAGES.shape


@pytest.mark.parametrize("name", BASELINES)
def test_writing_into_it_reaches_neither_inputs_nor_other_examples(name):
    inputs, points = IMAGES.clone(), POINTS.clone()
    settings = SETTINGS.get(name, {}) | ({"points": points} if name == "samples" else {})
    made = baseline(name, inputs, SCORE, **settings)
    other = made[1].clone()
    made[0] += 1
    assert torch.equal(inputs, IMAGES) and torch.equal(points, POINTS) and torch.equal(made[1], other)


def test_black_and_white_against_closed_form():
    assert baseline("black", IMAGES).eq(0).all() and baseline("white", IMAGES).eq(1).all()
    low, high = torch.tensor([-2.0, -1.0]).view(2, 1, 1), torch.tensor([2.0, 3.0]).view(2, 1, 1)
    normalised = 4 * IMAGES - 2
    assert torch.equal(baseline("black", normalised, limits=(low, high)), low.expand_as(IMAGES))
    assert torch.equal(baseline("white", normalised, limits=(low, high)), high.expand_as(IMAGES))
    with pytest.raises(ValueError, match=r"black and white are not 0 and 1: pass both, limits="):
        baseline("black", normalised)


def test_mean_against_closed_form():
    torch.testing.assert_close(baseline("mean", IMAGES, points=POINTS)[1], POINTS.mean(0))
    torch.testing.assert_close(baseline("mean", IMAGES)[2, 1, 3, 3], IMAGES[2, 1].mean())
    with pytest.raises(ValueError, match="only images have a mean of their own"):
        baseline("mean", torch.rand(2, 4))


@pytest.mark.parametrize("sigma", [0.7, 2.0, 6.0])
def test_blur_against_scipy(sigma):
    from scipy.ndimage import gaussian_filter

    images = torch.rand(2, 3, 9, 12, dtype=torch.float64)
    expected = gaussian_filter(images.numpy(), (0, 0, sigma, sigma), mode="nearest", radius=max(1, round(4 * sigma)))
    np.testing.assert_allclose(blur_images(images, sigma).numpy(), expected, atol=1e-10)


def test_uniform_fills_its_range_and_follows_its_seed():
    made = baseline("uniform", IMAGES, limits=(-1.0, 3.0), n=50)
    assert made.shape == (3, 50, 2, 6, 6) and -1 <= made.min() < -0.95 and 2.95 < made.max() <= 3
    assert abs(float(made[0].mean()) - 1) < 0.1  # 3,600 draws with deviation 1.15
    assert torch.equal(made, baseline("uniform", IMAGES, limits=(-1.0, 3.0), n=50))
    assert not torch.equal(made, baseline("uniform", IMAGES, limits=(-1.0, 3.0), n=50, seed=1))


def test_samples_are_distinct_rows_of_the_data():
    made = baseline("samples", IMAGES, points=POINTS, n=20)[0]
    assert {tuple(row.flatten().tolist()) for row in made} == {tuple(row.flatten().tolist()) for row in POINTS}


def test_random_numbers_leave_the_global_state_alone():
    before = torch.get_rng_state()
    for name in BASELINES:
        baseline(name, IMAGES, SCORE, **SETTINGS.get(name, {}))
    assert torch.equal(before, torch.get_rng_state())


def test_max_entropy_climbs_and_closeness_holds_it_back():
    start = baseline("blur", IMAGES)
    free = baseline("max_entropy", IMAGES, SCORE, closeness=0.0, n_steps=60)
    held = baseline("max_entropy", IMAGES, SCORE, closeness=30.0, n_steps=60)
    assert (entropy(free) > entropy(start)).all() and (entropy(held) >= entropy(start) - 1e-6).all()
    assert (entropy(free) >= entropy(held) - 1e-6).all()
    assert ((held - start).flatten(1).norm(dim=1) < (free - start).flatten(1).norm(dim=1)).all()
    assert free.min() >= 0 and free.max() <= 1


def test_max_entropy_against_closed_form():
    """Two classes with logits ±w·x: undecided where w·x = 0; from x the nearest such place is a projection."""
    w = torch.tensor([2.0, -1.0])
    score = lp.Score(lambda x: torch.stack([x @ w, -(x @ w)], 1), 0, "softmax")
    x = torch.tensor([[1.0, 0.5]])
    found = baseline("max_entropy", x, score, limits=None, closeness=0.0, n_steps=200)
    assert abs(float(found[0] @ w)) < 0.02


@pytest.mark.parametrize(
    "output, model", [("sigmoid", seeded(lambda: nn.Linear(2, 1)).eval()), ("raw", lambda x: x[:, 0] - 0.3 * x[:, 1])]
)
def test_max_entropy_of_one_output_is_where_it_is_undecided(output, model):
    score = lp.Score(model, 0 if output == "sigmoid" else None, output)
    found = baseline("max_entropy", torch.ones(1, 2), score, limits=None, closeness=0.0, n_steps=200)
    assert abs(float(model(found).detach())) < 0.02


def test_max_entropy_passes_further_arguments_and_leaves_the_model_alone():
    model = mlp()
    score = lp.Score(lambda x, shift: model(x + shift), 0, additional_forward_args=torch.ones(2, 1))
    baseline("max_entropy", torch.rand(2, 4), score, n_steps=3)
    assert all(p.grad is None for p in model.parameters())


@pytest.mark.parametrize(
    "call, match",
    [
        (lambda: baseline("grey", IMAGES), r"'grey' is unknown: use one of \['black'"),
        (lambda: baseline("black", IMAGES.long()), r"pass inputs\.float\(\)"),
        (lambda: baseline("black", torch.rand(4)), r"must be a batch"),
        (lambda: baseline("max_entropy", IMAGES), r'pass baseline\("max_entropy", inputs, score\)'),
        (lambda: baseline("black", IMAGES, sigma=2), r"has the settings \['limits'\], got \['sigma'\]"),
        (lambda: baseline("blur", torch.rand(2, 4)), "only images can be blurred"),
        (lambda: baseline("blur", IMAGES, sigma=-1.0), "sigma=-1.0 must be"),
        (lambda: baseline("blur", IMAGES, sigma=1e20), "must be from 0 to 10000"),
        (lambda: baseline("uniform", IMAGES[:, :0]), "with at least one feature"),
        (lambda: baseline("samples", IMAGES), "pass baseline"),
        (lambda: baseline("samples", IMAGES, points=POINTS, n=21), "n=21 samples of 20 points"),
        (lambda: baseline("samples", IMAGES, points=POINTS[:, :1]), r"expected \(n, 2, 6, 6\)"),
        (lambda: baseline("uniform", IMAGES, n=0), "n=0 must be at least 1"),
        (lambda: baseline("max_entropy", IMAGES, SCORE, closeness=-1.0), "closeness=-1.0 must be"),
        (lambda: baseline("max_entropy", IMAGES, SCORE, limits="wide"), "limits='wide' is unknown"),
    ],
)  # fmt: skip
def test_errors_say_what_helps(call, match):
    with pytest.raises(ValueError, match=match):
        call()


def test_several_are_the_single_ones_side_by_side():
    images = torch.rand(3, 3, 8, 8)
    made = several("black", ("blur", {"sigma": 2.0}), 0.5, torch.ones(1, 3, 8, 8)).of(images)
    single = [baseline("black", images), baseline("blur", images, sigma=2.0), torch.full_like(images, 0.5)]
    assert torch.equal(made, torch.stack([*single, torch.ones_like(images)], 1))


def test_several_with_more_than_one_row_a_choice():
    rows, points = torch.rand(2, 4), torch.rand(20, 4)
    made = several(("samples", {"points": points, "n": 3}), torch.zeros(2, 2, 4)).of(rows)
    assert made.shape == (2, 5, 4)
    assert torch.equal(made[:, :3], baseline("samples", rows, points=points, n=3))


def test_several_token_ids():
    assert torch.equal(several(7, 0).of(torch.tensor([[3, 4]])), torch.tensor([[[7, 7], [0, 0]]]))


@pytest.mark.parametrize(("choices", "sentence"), [
    (("black",), "two baselines or more"),
    (("black", "noise"), "'noise' is unknown"),
    (("black", [0.0]), "a name, a number or a tensor, got list"),
])  # fmt: skip
def test_several_refuses(choices, sentence):
    with pytest.raises(ValueError, match=sentence):
        several(*choices)
