"""Oracles: rows alone, a loop over shifts, finite differences, the store."""

from __future__ import annotations

from pathlib import Path
from typing import get_args

import pytest
import torch
from torch import Tensor, nn

import leastpath as lp
from leastpath._support.store import Store
from studies.findings.config import Setting
from studies.findings.nets import (
    N_TRAINED,
    Architecture,
    accuracy,
    digit_images,
    digit_net,
    new_net,
    shifted,
    train,
)

ARCHITECTURES: tuple[Architecture, ...] = get_args(Architecture)


@pytest.fixture(scope="module")
def setting(tmp_path_factory: pytest.TempPathFactory) -> Setting:
    """Quick, with one store for all tests: each net is trained once."""
    return Setting(Store(tmp_path_factory.mktemp("nets"), {}), quick=True)


def _unseen(n: int) -> Tensor:
    return digit_images()[0][N_TRAINED : N_TRAINED + n]


def test_images_are_those_of_scikit_learn() -> None:
    images, labels = digit_images()
    assert images.dtype == torch.float32
    assert float(images.min()) == 0 and float(images.max()) == 1
    assert torch.bincount(labels).tolist() == [178, 182, 177, 183, 181, 182, 181, 179, 174, 180]  # its documentation


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_quick_net_is_better_than_chance_and_frozen(setting: Setting, architecture: Architecture) -> None:
    net = digit_net(setting, architecture)
    assert not net.training
    assert not any(parameter.requires_grad for parameter in net.parameters())
    record = setting.store.read(f"net digits {architecture}").record
    images, labels = digit_images()
    assert record["test_accuracy"] == accuracy(net, images[N_TRAINED:], labels[N_TRAINED:]) > 0.2


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_second_call_reads_the_store(setting: Setting, architecture: Architecture) -> None:
    first = digit_net(setting, architecture)
    assert torch.equal(first(_unseen(5)), digit_net(setting, architecture)(_unseen(5)))


def test_training_is_deterministic_and_leaves_the_global_generator_alone(tmp_path: Path) -> None:
    outputs = []
    for name in ("one", "two"):
        state = torch.get_rng_state()
        outputs.append(digit_net(Setting(Store(tmp_path / name, {}), quick=True), "cnn relu")(_unseen(5)))
        assert torch.equal(state, torch.get_rng_state())
        torch.rand(3)  # elsewhere, numbers are drawn
    assert torch.equal(*outputs)
    assert not torch.equal(
        outputs[0], digit_net(Setting(Store(tmp_path / "one", {}), quick=True), "cnn relu", 1)(_unseen(5))
    )


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_rows_of_a_batch_are_independent(setting: Setting, architecture: Architecture) -> None:
    net, images = digit_net(setting, architecture), _unseen(6)
    alone = torch.cat([net(image[None]) for image in images])
    torch.testing.assert_close(net(images), alone, rtol=1e-4, atol=1e-5)
    # No output of one row moves with the input of another.
    inputs = images.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(net(inputs)[2].sum(), inputs)
    assert bool((gradient[2] != 0).any())
    assert not bool((gradient[[0, 1, 3, 4, 5]] != 0).any())


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_values_agree_with_and_without_gradients(setting: Setting, architecture: Architecture) -> None:
    # In evaluation mode torch runs attention by another route where no gradient is needed.
    net, images = digit_net(setting, architecture), _unseen(6)
    with torch.no_grad():
        plain = net(images)
    torch.testing.assert_close(net(images.clone().requires_grad_()).detach(), plain, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("architecture", ["cnn gelu", "vit"])
def test_gradients_and_hessians_against_finite_differences(setting: Setting, architecture: Architecture) -> None:
    net = digit_net(setting, architecture).double()
    image = (0.5 * _unseen(1).double() + 0.2).requires_grad_()
    direction = torch.randn(image.shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64)

    def gradient(at: Tensor) -> Tensor:
        return torch.autograd.grad(net(at).log_softmax(1)[:, 3].sum(), at, create_graph=True)[0]

    def score(at: Tensor) -> Tensor:
        with torch.no_grad():
            return net(at).log_softmax(1)[0, 3]

    step = 1e-5 * direction
    slope = (score(image + step) - score(image - step)) / 2e-5
    torch.testing.assert_close((gradient(image) * direction).sum(), slope, rtol=1e-6, atol=1e-7)
    (product,) = torch.autograd.grad((gradient(image) * direction).sum(), image)
    moved = (
        gradient((image + step).detach().requires_grad_()) - gradient((image - step).detach().requires_grad_())
    ) / 2e-5
    torch.testing.assert_close(product, moved, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_attributions_of_a_batch_are_those_of_its_rows(setting: Setting, architecture: Architecture) -> None:
    net, images = digit_net(setting, architecture), _unseen(3)
    predicted = net(images).argmax(1)
    score = lp.Score(net, predicted, "log_softmax")
    result = lp.attribute(score, images, method=lp.StraightLine(), tolerance=0.01)
    assert all(lp.Outcome.REACHED in status for status in result.status)
    alone = lp.attribute(
        lp.Score(net, predicted[1:2], "log_softmax"), images[1:2], method=lp.StraightLine(), tolerance=0.01
    )
    torch.testing.assert_close(result.values[1:2], alone.values, rtol=1e-3, atol=1e-4)


def test_shifts_against_a_loop() -> None:
    image = torch.arange(1.0, 17).reshape(1, 1, 4, 4)
    versions = shifted(image, 1)
    assert versions.shape == (9, 1, 1, 4, 4)
    for place, version in enumerate(versions[:, 0, 0]):
        down, right = 1 - place // 3, 1 - place % 3
        for i in range(4):
            for j in range(4):
                inside = 0 <= i - down < 4 and 0 <= j - right < 4
                assert float(version[i, j]) == (float(image[0, 0, i - down, j - right]) if inside else 0)
    assert torch.equal(shifted(image, 0)[0], image)


def test_training_finds_a_planted_rule() -> None:
    images = torch.rand(200, 1, 4, 4, generator=torch.Generator().manual_seed(0))
    labels = (images[:, 0, 0, 0] > images[:, 0, 3, 3]).long()
    net = nn.Sequential(nn.Flatten(), new_linear(16))
    train(net, images, labels, epochs=60, learning_rate=0.05, shift=0)
    assert accuracy(net, images, labels) > 0.95


def new_linear(width: int) -> nn.Linear:
    """A classifier of two classes that starts from zero."""
    layer = nn.Linear(width, 2)
    nn.init.zeros_(layer.weight)
    nn.init.zeros_(layer.bias)
    return layer


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_other_sizes(architecture: Architecture) -> None:
    assert new_net(architecture, side=12, n_classes=3)(torch.zeros(2, 1, 12, 12)).shape == (2, 3)
