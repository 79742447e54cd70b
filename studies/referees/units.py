"""Nets whose weights are set by hand and whose attributions are known, after XAI-Units (Lee et al. 2025).

Own code, from the definitions of the paper: features are standard normal, weights uniform in (−1, 1), baselines zero.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

import torch
from torch import Tensor, nn

import leastpath as lp

LARGE = 1000.0  # what switches a ReLU off for good
CLASSES = 3
KINKS, FARTHEST = 16, 6  # of the zigzag, per unit and on each side of zero


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


class HandMade(nn.Module):
    """direct(x) + readout(relu(hidden(x))), from weights (outputs, features), (units, features), (outputs, units)."""

    def __init__(self, direct: nn.Linear, hidden: nn.Linear | None = None, readout: Tensor | None = None) -> None:
        super().__init__()
        self.direct, self.units = direct, None
        if hidden is not None and readout is not None:
            self.units = nn.Sequential(hidden, nn.ReLU(), _linear(readout))

    def forward(self, x: Tensor) -> Tensor:
        """Inputs (n, features) -> (n, outputs)."""
        return self.direct(x) if self.units is None else self.direct(x) + self.units(x)


def _linear(weight: Tensor, bias: Tensor | float = 0.0) -> nn.Linear:
    layer = nn.Linear(weight.shape[1], weight.shape[0])
    layer.weight, layer.bias = nn.Parameter(weight), nn.Parameter(torch.zeros(len(weight)) + bias)
    return layer


def _switched(direct: Tensor, amounts: Tensor) -> HandMade:
    """What is added in any case, and of each feature an amount where its switch is 0, by pairs of ReLUs.

    Args:
        direct: weights (features + switches,) of the former.
        amounts: (features,) weights of the latter.
    """
    off = -LARGE * torch.eye(len(amounts))
    hidden = torch.cat([torch.cat([sign * torch.diag(amounts), off], 1) for sign in (1, -1)])
    return HandMade(
        _linear(direct[None]), _linear(hidden), torch.tensor([[1.0, -1.0]]).repeat_interleave(len(amounts), 1)
    )


def build_weighted(n: int, seed: int) -> Unit:
    """f = Σ w x. Each feature has w x."""
    (x,), w = _draws(n, seed, 5), _weights(seed, 5)
    return Unit(lp.Score(HandMade(_linear(w[None])).eval(), 0), x, x * w)


def build_conflicting(n: int, seed: int) -> Unit:
    """f = Σ w x (1 − c). A feature has w x, and a switch c = 1 that cancels it has −w x."""
    (x,), w, c = _draws(n, seed, 3), _weights(seed, 3), _binary(n, seed, 3)
    model = _switched(torch.zeros(6), w)
    return Unit(lp.Score(model.eval(), 0), torch.cat([x, c], 1), torch.cat([x * w, -x * w * c], 1))


def build_interacting(n: int, seed: int) -> Unit:
    """f = Σ w(c) x + v c: a switch chooses the feature's weight. The feature has w(c) x, the switch v c."""
    (x,), w, c = _draws(n, seed, 2), _weights(seed, 6).view(3, 2), _binary(n, seed, 2)
    model = _switched(torch.cat([w[1], w[2]]), w[0] - w[1])
    truth = torch.cat([x * torch.where(c > 0, w[1], w[0]), c * w[2]], 1)
    return Unit(lp.Score(model.eval(), 0), torch.cat([x, c], 1), truth)


def build_uncertain(n: int, seed: int) -> Unit:
    """A softmax: what adds to all classes alike has 0, and of the other features nothing is said."""
    own, common = _draws(n, seed, CLASSES, 2)
    weight = torch.cat([torch.eye(CLASSES), _weights(seed, 2).expand(CLASSES, 2)], 1)
    score = lp.Score(HandMade(_linear(weight)).eval(), 0, "softmax")
    return Unit(score, torch.cat([own, common], 1), torch.cat([torch.full_like(own, torch.nan), 0 * common], 1))


def build_shattered(n: int, seed: int) -> Unit:
    """A sum over features of steep zigzags, 8 a unit: each has its own change, whatever its gradient says."""
    (x,), w = _draws(n, seed, 4), _weights(seed, 4)
    places = torch.arange(KINKS * FARTHEST) / KINKS
    turns = torch.where(torch.arange(len(places)) % 2 == 1, -16.0, 16.0)
    turns[0] = 8
    sides = torch.cat([sign * torch.eye(4).repeat_interleave(len(places), 0) for sign in (1, -1)])
    hidden, readout = _linear(sides, -places.repeat(8)), (w[:, None] * turns).flatten().repeat(2)[None]

    def zigzag(x: Tensor) -> Tensor:
        return w * (x + (8 * x - torch.round(8 * x)).abs())

    return Unit(lp.Score(HandMade(_linear(w[None]), hidden, readout).eval(), 0), x, zigzag(x))


def build_pertinent_negative(n: int, seed: int) -> Unit:
    """f = Σ w x + 10 w₀ (1 − x₀): the absence of a binary feature counts. From zero it has w₀ x₀ − 10 w₀ x₀."""
    (x,), w = _draws(n, seed, 5), _weights(seed, 5)
    x, bias = torch.cat([_binary(n, seed, 1), x[:, 1:]], 1), 10 * w[0]
    w = torch.cat([w[:1] - bias, w[1:]])
    return Unit(lp.Score(HandMade(_linear(w[None], bias)).eval(), 0), x, x * w)


def build_boolean_and(n: int, seed: int) -> Unit:
    """1 where all of four are: each has a quarter then, and nothing otherwise."""
    x = _binary(n, seed, 4)
    x[::2] = 1
    model = nn.Sequential(_linear(torch.ones(1, 4), -3.0), nn.ReLU())
    return Unit(lp.Score(model.eval(), 0), x, (x.sum(1, keepdim=True) - 3).relu() * x / 4)


def build_boolean_or(n: int, seed: int) -> Unit:
    """1 where any of four is: those that are share it evenly."""
    x = _binary(n, seed, 4)
    model = nn.Sequential(_linear(-torch.ones(1, 4), 1.0), nn.ReLU(), _linear(-torch.ones(1, 1), 1.0))
    return Unit(lp.Score(model.eval(), 0), x, x / x.sum(1, keepdim=True).clamp_min(1))


UNITS: Mapping[str, Callable[[int, int], Unit]] = MappingProxyType(
    {unit.__name__.removeprefix("build_").replace("_", " "): unit for unit in (
        build_weighted, build_conflicting, build_interacting, build_uncertain, build_shattered,
        build_pertinent_negative, build_boolean_and, build_boolean_or,
    )}
)  # fmt: skip
"""By name: from the number of inputs and a seed to a unit."""
