"""Quadrature rules on [0, 1]: their nodes and weights."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import numpy as np
import torch
from torch import Tensor

Nodes = tuple[np.ndarray, np.ndarray]


def _midpoint(n: int) -> Nodes:
    return (np.arange(n) + 0.5) / n, np.full(n, 1 / n)


def _trapezoid(n: int) -> Nodes:
    if n == 1:
        return _midpoint(1)  # two ends do not fit in one step
    weights = np.full(n, 1 / (n - 1))
    weights[[0, -1]] /= 2
    return np.linspace(0, 1, n), weights


def _gauss_legendre(n: int) -> Nodes:
    nodes, weights = np.polynomial.legendre.leggauss(n)
    return (nodes + 1) / 2, weights / 2


RULES: dict[str, Callable[[int], Nodes]] = {
    "gauss_legendre": lru_cache(maxsize=256)(_gauss_legendre),
    "midpoint": _midpoint,
    "trapezoid": _trapezoid,
}


def check_rule(rule: str) -> None:
    """Raise on a rule that is not in the table."""
    if rule not in RULES:
        raise ValueError(f"rule={rule!r} is unknown: use one of {sorted(RULES)}")


def rule_nodes(rule: str, n: int, like: Tensor) -> tuple[Tensor, Tensor]:
    """Nodes in [0, 1] and weights that sum to one, both (n,), in the dtype and on the device of `like`.

    Example:
        >>> nodes, weights = rule_nodes("gauss_legendre", 3, torch.zeros(1))
        >>> round(float(weights.sum()), 6)
        1.0
    """
    return _nodes(rule, n, like.dtype, like.device)


@lru_cache(maxsize=64)
def _nodes(rule: str, n: int, dtype: torch.dtype, device: torch.device) -> tuple[Tensor, Tensor]:
    """Made once: nobody writes on them."""
    check_rule(rule)
    if n < 1:
        raise ValueError(f"a rule needs at least one step, got {n}")
    with torch.inference_mode(False):  # whoever asks first, others may differentiate with them
        # Cast on the CPU first: MPS has no float64 at all.
        nodes, weights = (torch.as_tensor(part).to(dtype).to(device) for part in RULES[rule](n))
    return nodes, weights
