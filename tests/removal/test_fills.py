"""Fills against direct definitions; ROAD's imputation against a dense solve and against Quantus."""

import itertools

import numpy as np
import pytest
import scipy.ndimage
import torch

from leastpath.evaluation.measure import generators
from leastpath.removal import fills
from leastpath.removal.fills import Blur, NoisyLinear, Samples, fill_rows, find_filler, linear_imputation


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
        (lambda: prepared(Blur(-1), images()), "must be a finite number"),
        (lambda: prepared("linear", torch.rand(2, 5)), "needs images"),
        (lambda: linear_imputation(images(1), torch.ones(1, 3, 6, 7, dtype=torch.bool)), "no pixel left"),
        (lambda: prepared(lambda x: x[:, :1], images()), "one fill per value"),
        (lambda: prepared(Samples(torch.rand(3, 5)), images()), "pool of samples has shape"),
        (lambda: prepared(Samples(images()[:1]), images()[:1]), "nothing but the example"),
    ],
)
def test_errors_say_what_to_do(call, words):
    with pytest.raises(ValueError, match=words):
        call()


def test_every_named_fill_is_listed():
    assert set(fills.FILLS) == {"baseline", "mean", "blur", "noise", "linear"}
