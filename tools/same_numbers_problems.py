"""The problems that `same_numbers.py` explains: small models with fixed weights, inputs and baselines.

All numbers are drawn from a `torch.Generator` with a fixed seed, so they are the same on every run and on every
version of leastpath.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

import leastpath as lp


def normal(*shape: int, seed: int) -> Tensor:
    """Standard normal numbers."""
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).float()


def uniform(*shape: int, seed: int) -> Tensor:
    """Numbers between 0 and 1, as pixels have."""
    return torch.rand(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).float()


def weighted(model: nn.Module, seed: int, gain: float) -> nn.Module:
    """The model with normal weights of size gain / √(inputs of the unit). The larger the gain, the more it bends."""
    generator = torch.Generator().manual_seed(seed)
    for parameter in model.parameters():
        drawn = torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
        inputs = parameter[0].numel() if parameter.ndim > 1 else 4
        parameter.data = (drawn * gain / inputs**0.5).to(parameter.dtype)
    return model.eval()


def mlp(features: int, outputs: int, activation: type[nn.Module], seed: int, gain: float = 2.0) -> nn.Module:
    """Two hidden layers of 24 units."""
    layers = (nn.Linear(features, 24), activation(), nn.Linear(24, 24), activation(), nn.Linear(24, outputs))
    return weighted(nn.Sequential(*layers), seed, gain)


def cnn() -> nn.Module:
    """Images (batch, 3, 16, 16) to four logits."""
    layers = (
        nn.Conv2d(3, 6, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(6, 8, 3, padding=1), nn.ReLU(), nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(32, 4),
    )  # fmt: skip
    return weighted(nn.Sequential(*layers), 5, 2.5)


class TokenNet(nn.Module):
    """Token ids (batch, length) and a mask of the same shape to three logits."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(20, 5)
        self.mix = nn.Linear(5, 12)
        self.head = nn.Linear(12, 3)

    def forward(self, ids: Tensor, mask: Tensor) -> Tensor:
        """(batch, 3)"""
        hidden = self.mix(self.embedding(ids)).tanh() * mask[..., None]
        return self.head(hidden.sum(1) / mask.sum(1, keepdim=True))


class PairNet(nn.Module):
    """Two inputs, (batch, 3) and (batch, 2, 4), to two logits."""

    def __init__(self) -> None:
        super().__init__()
        self.net = mlp(11, 2, nn.SiLU, 7)

    def forward(self, a: Tensor, b: Tensor) -> Tensor:
        """(batch, 2)"""
        return self.net(torch.cat([a, b.flatten(1)], 1))


@dataclass(frozen=True)
class Problem:
    """A score, a batch of inputs with baselines, and data for the methods that need some.

    `points` are (n, *features) of the explained space, `words` are (n, width) for the method that walks over words.
    """

    name: str
    score: lp.Score
    inputs: Any
    baselines: Any
    points: Tensor
    words: Tensor

    def with_output(self, output: str) -> Problem:
        """The same problem for another output of its model."""
        return replace(self, score=replace(self.score, output=output))


def moons() -> Problem:
    """Two features on two arcs; every example has its own target and baseline."""
    angle, label = 3.14159 * uniform(60, seed=1), torch.arange(60) % 2
    arc = torch.stack([angle.cos(), angle.sin()], 1)
    x = torch.where(label[:, None] == 1, torch.tensor([1.0, 0.5]) - arc, arc) + 0.1 * normal(60, 2, seed=2)
    score = lp.Score(mlp(2, 2, nn.ReLU, 3, gain=2.5), label[:4], "log_softmax")
    return Problem("moons", score, x[:4], -x[4:8], x[8:], x[8:])


def few() -> Problem:
    """13 features, one softmax, a baseline for all."""
    x = normal(64, 13, seed=11)
    score = lp.Score(mlp(13, 3, nn.Tanh, 12), 1, "softmax")
    return Problem("few", score, x[:3], 0.1 * x[3:4], x[4:], x[4:])


def table() -> Problem:
    """30 features, one logit, baselines of zero."""
    x = normal(64, 30, seed=21)
    return Problem("table", lp.Score(mlp(30, 1, nn.GELU, 22), None, "sigmoid"), x[:3], None, x[3:], x[3:])


def images() -> Problem:
    """Two small images, black as baseline."""
    x = uniform(34, 3, 16, 16, seed=31)
    score = lp.Score(cnn(), torch.tensor([2, 0]), "log_softmax")
    return Problem("images", score, x[:2], 0.0, x[2:], uniform(40, 16, seed=32))


def several() -> Problem:
    """The images, each with three baselines of its own."""
    return replace(images(), name="several", baselines=uniform(2, 3, 3, 16, 16, seed=41))


def tokens() -> Problem:
    """Two sentences of six tokens, of which the embeddings are explained."""
    net = weighted(TokenNet(), 51, 1.5)
    generator = torch.Generator().manual_seed(52)
    ids, mask = torch.randint(1, 20, (2, 6), generator=generator), torch.ones(2, 6)
    mask[1, 4:] = 0
    arguments = lp.per_example(mask)
    score = lp.Score(net, 2, "log_softmax", layer=net.embedding, additional_forward_args=arguments)
    words = net.embedding.weight.detach()
    points = words[torch.randint(0, 20, (40, 6), generator=generator)]
    return Problem("tokens", score, ids, 0, points, words)


def pair() -> Problem:
    """Two inputs that are explained together."""
    inputs = normal(3, 3, seed=61), normal(3, 2, 4, seed=62)
    points = normal(40, 11, seed=63)
    return Problem("pair", lp.Score(PairNet(), 1, "logit_margin"), inputs, (0.0, 0.2), points, points)


PROBLEMS: dict[str, Callable[[], Problem]] = {
    made.__name__: made for made in (moons, few, table, images, several, tokens, pair)
}
