"""Tetrominoes in noise, after XAI-TRIS (Clark et al. 2024): which pixels decide is known by construction.

Own generator, from the definitions of the paper: 8 × 8 pixels, a T and an L, white noise.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

import torch
from torch import Tensor, nn

from leastpath._support.rows import flat_rows

SIDE = 8
T_SHAPE = torch.tensor([[1, 0], [1, 1], [1, 0]], dtype=torch.bool)
L_SHAPE = torch.tensor([[1, 0], [1, 0], [1, 1]], dtype=torch.bool)
SIGNALS: Mapping[str, float] = MappingProxyType({"linear": 0.3, "multiplicative": 0.8, "rotated": 0.6, "xor": 0.35})
"""The scenarios, and the weight of the tetromino against the noise: nets learn each to more than 85 %."""


@dataclass(frozen=True)
class Tetrominoes:
    """Images (n, 1, 8, 8) in [−1, 1], classes (n,) and the pixels that decide (n, 8, 8)."""

    images: Tensor
    classes: Tensor
    truth: Tensor


def draw_tetrominoes(scenario: str, n: int, seed: int) -> Tetrominoes:
    """Some images of a scenario.

    "linear": class 0 has a T at the top left, class 1 an L at the bottom right. "multiplicative": they scale the noise
    in place of being added. "rotated": each is turned and moved at random. "xor": both are there, and the class says
    whether their signs agree. Decisive are the pixels of both, or, where it is moved, of the one that is there.

    Example:
        >>> draw_tetrominoes("linear", 2, 0).images.shape
        torch.Size([2, 1, 8, 8])
    """
    generator = torch.Generator().manual_seed(seed)
    classes = torch.randint(0, 2, (n,), generator=generator)
    noise = torch.randn(n, SIDE, SIDE, generator=generator)
    one, other = _place(T_SHAPE, 1, 1), _place(L_SHAPE, 4, 5)
    signal, truth = torch.where(classes[:, None, None] == 0, one, other), (one | other).expand(n, -1, -1)
    pattern, weight = signal.float(), SIGNALS[scenario]
    if scenario == "rotated":
        truth = torch.stack([_move([T_SHAPE, L_SHAPE][int(c)], generator) for c in classes])
        pattern = truth.float()
    if scenario == "xor":
        sign = 1 - 2 * torch.randint(0, 2, (n, 1, 1), generator=generator)
        pattern = sign * (one.float() + (1 - 2 * classes[:, None, None]) * other.float())
    if scenario == "multiplicative":
        images = noise * (1 - weight * pattern)
    else:
        images = weight * pattern / flat_rows(pattern).norm(dim=1)[:, None, None] * SIDE + (1 - weight) * noise
    largest = flat_rows(images).abs().amax(1)[:, None, None]
    return Tetrominoes((images / largest)[:, None], classes, truth)


def _place(shape: Tensor, down: int, right: int) -> Tensor:
    image = torch.zeros(SIDE, SIDE, dtype=torch.bool)
    image[down : down + shape.shape[0], right : right + shape.shape[1]] = shape
    return image


def _move(shape: Tensor, generator: torch.Generator) -> Tensor:
    turned = shape.rot90(int(torch.randint(0, 4, (), generator=generator)))
    down, right = (int(torch.randint(0, SIDE - side + 1, (), generator=generator)) for side in turned.shape)
    return _place(turned, down, right)


def train_net(scenario: str, seed: int = 0, n: int = 6000, epochs: int = 12) -> tuple[nn.Module, float]:
    """A small convolutional net, and its accuracy on images that it has not seen."""
    train, test = draw_tetrominoes(scenario, n, seed), draw_tetrominoes(scenario, 1000, seed + 1)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        net = nn.Sequential(
            nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.Conv2d(16, 16, 3, padding=1), nn.ReLU(), nn.Flatten(),
            nn.Linear(16 * SIDE * SIDE, 64), nn.ReLU(), nn.Linear(64, 2),
        )  # fmt: skip
        optimizer = torch.optim.AdamW(net.parameters(), 2e-3, weight_decay=1e-2)
        for _ in range(epochs):
            for rows in torch.randperm(n).split(128):
                optimizer.zero_grad()
                nn.functional.cross_entropy(net(train.images[rows]), train.classes[rows]).backward()
                optimizer.step()
    net.eval().requires_grad_(False)
    return net, float((net(test.images).argmax(1) == test.classes).float().mean())


def precision(values: Tensor, truth: Tensor) -> Tensor:
    """The share of the k strongest pixels that decide, of values (n, 1, 8, 8), where k pixels do: (n,).

    Example:
        >>> precision(torch.tensor([[[[3.0, -2.0], [1.0, 0.0]]]]), torch.tensor([[[True, True], [False, False]]]))
        tensor([1.])
    """
    sizes, wanted = flat_rows(values.abs()), flat_rows(truth)
    places = sizes.argsort(dim=1, descending=True, stable=True).argsort(dim=1)
    return ((places < wanted.sum(1, keepdim=True)) & wanted).sum(1) / wanted.sum(1)
