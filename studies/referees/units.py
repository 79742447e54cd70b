"""Nets whose weights are set by hand and whose attributions are known, after XAI-Units (Lee et al. 2025).

Own code, from the definitions of the paper: features are standard normal, weights uniform in (−1, 1), baselines zero.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

import torch
from torch import Tensor

import leastpath as lp

LARGE = 1000.0  # what switches a ReLU off for good
CLASSES = 3


@dataclass(frozen=True)
class Unit:
    """One behaviour: a score, inputs (n, features) and their true attributions, NaN where the unit says nothing.

    Example:
        >>> UNITS["weighted"](2, 0).truth.shape
        torch.Size([2, 5])
    """

    score: lp.Score
    inputs: Tensor
    truth: Tensor

    def error(self, values: Tensor) -> Tensor:
        """The mean squared error of values (n, features) for each input: (n,)."""
        return (values - self.truth).square().nanmean(1)


def _draws(n: int, seed: int, *features: int) -> tuple[Tensor, ...]:
    generator = torch.Generator().manual_seed(seed)
    return tuple(torch.randn(n, k, generator=generator) for k in features)


def _weights(seed: int, n: int) -> Tensor:
    return 2 * torch.rand(n, generator=torch.Generator().manual_seed(seed + 10_000)) - 1


def _binary(n: int, seed: int, k: int) -> Tensor:
    return (torch.rand(n, k, generator=torch.Generator().manual_seed(seed + 20_000)) < 0.5).float()


def _switched(amounts: Tensor, off: Tensor) -> Tensor:
    """Amounts where `off` is 0, nothing where it is 1, by a pair of ReLUs."""
    return (amounts - LARGE * off).relu() - (-amounts - LARGE * off).relu()


def build_weighted(n: int, seed: int) -> Unit:
    """f = Σ w x. Each feature has w x."""
    (x,), w = _draws(n, seed, 5), _weights(seed, 5)
    return Unit(lp.Score(lambda x: x @ w), x, x * w)


def build_conflicting(n: int, seed: int) -> Unit:
    """f = Σ w x (1 − c). A feature has w x, and a switch c = 1 that cancels it has −w x."""
    (x,), w, c = _draws(n, seed, 3), _weights(seed, 3), _binary(n, seed, 3)
    score = lp.Score(lambda both: _switched(both[:, :3] * w, both[:, 3:]).sum(1))
    return Unit(score, torch.cat([x, c], 1), torch.cat([x * w, -x * w * c], 1))


def build_interacting(n: int, seed: int) -> Unit:
    """f = Σ w(c) x + v c: a switch chooses the feature's weight. The feature has w(c) x, the switch v c."""
    (x,), w, c = _draws(n, seed, 2), _weights(seed, 6).view(3, 2), _binary(n, seed, 2)

    def model(both: Tensor) -> Tensor:
        x, c = both[:, :2], both[:, 2:]
        return (_switched(x * (w[0] - w[1]), c) + x * w[1] + c * w[2]).sum(1)

    return Unit(lp.Score(model), torch.cat([x, c], 1), torch.cat([x * torch.where(c > 0, w[1], w[0]), c * w[2]], 1))


def build_uncertain(n: int, seed: int) -> Unit:
    """A softmax: what adds to all classes alike has 0, and of the other features nothing is said."""
    own, common = _draws(n, seed, CLASSES, 2)
    w = _weights(seed, 2)
    score = lp.Score(lambda x: x[:, :CLASSES] + (x[:, CLASSES:] * w).sum(1, keepdim=True), 0, "softmax")
    return Unit(score, torch.cat([own, common], 1), torch.cat([torch.full_like(own, torch.nan), 0 * common], 1))


def build_shattered(n: int, seed: int) -> Unit:
    """A sum over features of steep zigzags, 8 a unit: each has its own change, whatever its gradient says."""
    (x,), w = _draws(n, seed, 4), _weights(seed, 4)

    def zigzag(x: Tensor) -> Tensor:
        return w * (x + ((8 * x - torch.round(8 * x)).abs() - 0.25))

    return Unit(lp.Score(lambda x: zigzag(x).sum(1)), x, zigzag(x) - zigzag(torch.zeros_like(x)))


def build_pertinent_negative(n: int, seed: int) -> Unit:
    """f = Σ w x + 10 w₀ (1 − x₀): the absence of a binary feature counts. From zero it has w₀ x₀ − 10 w₀ x₀."""
    (x,), w = _draws(n, seed, 5), _weights(seed, 5)
    x = torch.cat([_binary(n, seed, 1), x[:, 1:]], 1)
    truth = x * w
    truth[:, 0] -= 10 * w[0] * x[:, 0]
    return Unit(lp.Score(lambda x: x @ w + 10 * w[0] * (1 - x[:, 0])), x, truth)


def build_boolean_and(n: int, seed: int) -> Unit:
    """1 where all of four are: each has a quarter then, and nothing otherwise."""
    x = _binary(n, seed, 4)
    x[::2] = 1
    return Unit(lp.Score(lambda x: (x.sum(1) - 3).relu()), x, (x.sum(1, keepdim=True) - 3).relu() * x / 4)


def build_boolean_or(n: int, seed: int) -> Unit:
    """1 where any of four is: those that are share it evenly."""
    x = _binary(n, seed, 4)
    return Unit(lp.Score(lambda x: 1 - (1 - x.sum(1)).relu()), x, x / x.sum(1, keepdim=True).clamp_min(1))


UNITS: Mapping[str, Callable[[int, int], Unit]] = MappingProxyType(
    {unit.__name__.removeprefix("build_").replace("_", " "): unit for unit in (
        build_weighted, build_conflicting, build_interacting, build_uncertain, build_shattered,
        build_pertinent_negative, build_boolean_and, build_boolean_or,
    )}
)  # fmt: skip
"""By name: from the number of inputs and a seed to a unit."""
