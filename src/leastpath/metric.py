"""Metrics: the speed of a step through the input space, given the gradient there.

A metric has one method, `speed`. Length and energy are functions over it, written once, here.
Damping ε is the paper's regularisation G + εI: as ε grows, shortest paths become straight lines.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Protocol, runtime_checkable

import torch
from torch import Tensor


@runtime_checkable
class Metric(Protocol):
    """The speed of moving by `step` at `point`, where the score has `gradient`.

    `needs_gradient`: whether `speed` looks at the gradient. `bounds_score`: whether a path's length is never below the
    change of score along it, which is what makes length / |Δf| a certificate.
    """

    needs_gradient: ClassVar[bool]
    bounds_score: ClassVar[bool]

    def speed(self, point: Tensor, gradient: Tensor, step: Tensor) -> Tensor:
        """(rows, *features) three times -> (rows,), non-negative and proportional to the size of `step`."""
        ...


def flat_rows(tensor: Tensor) -> Tensor:
    """(n, *features) as (n, all features), also for n = 0 and for no feature dimension at all."""
    return tensor.reshape(len(tensor), tensor.shape[1:].numel())  # −1 could not tell for no rows


def _norm(tensor: Tensor) -> Tensor:
    return torch.linalg.vector_norm(flat_rows(tensor), dim=1)


def _check_damping(damping: float) -> None:
    if not 0 <= damping < float("inf"):
        raise ValueError(
            f"damping={damping} must be a finite number ≥ 0: 0 is the model's own metric, large values straighten paths"
        )


@dataclass(frozen=True)
class Euclidean:
    """‖δ‖ · √(1 + ε): blind to the model. Its shortest paths are straight lines; on a graph it gives Enhanced IG.

    Example:
        >>> Euclidean().speed(torch.zeros(1, 2), torch.zeros(1, 2), torch.tensor([[3.0, 4.0]]))
        tensor([5.])
    """

    damping: float = 0.0
    needs_gradient: ClassVar[bool] = False
    bounds_score: ClassVar[bool] = False

    def __post_init__(self) -> None:
        _check_damping(self.damping)

    def speed(self, point: Tensor, gradient: Tensor, step: Tensor) -> Tensor:
        """(rows, *features) three times -> (rows,)."""
        return _norm(step) * (1 + self.damping) ** 0.5


@dataclass(frozen=True)
class Conformal:
    """√(‖∇f‖² + ε) · ‖δ‖: steep ground is slow in every direction. The metric of the paper's graph, and the default.

    Example:
        >>> Conformal().speed(torch.zeros(1, 2), torch.tensor([[0.0, 2.0]]), torch.tensor([[3.0, 0.0]]))
        tensor([6.])
    """

    damping: float = 0.0
    needs_gradient: ClassVar[bool] = True
    bounds_score: ClassVar[bool] = True

    def __post_init__(self) -> None:
        _check_damping(self.damping)

    def speed(self, point: Tensor, gradient: Tensor, step: Tensor) -> Tensor:
        """(rows, *features) three times -> (rows,)."""
        steepness = _norm(gradient)
        if self.damping:
            steepness = torch.sqrt(steepness**2 + self.damping)
        return steepness * _norm(step)


@dataclass(frozen=True)
class RankOne:
    """√((∇f·δ)² + ε‖δ‖²): only the change of score counts. The paper's inner product JᵀJ.

    Example:
        >>> RankOne().speed(torch.zeros(1, 2), torch.tensor([[0.0, 2.0]]), torch.tensor([[3.0, 1.0]]))
        tensor([2.])
    """

    damping: float = 0.0
    needs_gradient: ClassVar[bool] = True
    bounds_score: ClassVar[bool] = True

    def __post_init__(self) -> None:
        _check_damping(self.damping)

    def speed(self, point: Tensor, gradient: Tensor, step: Tensor) -> Tensor:
        """(rows, *features) three times -> (rows,)."""
        change = (flat_rows(gradient) * flat_rows(step)).sum(1)
        if self.damping:
            return torch.sqrt(change**2 + self.damping * _norm(step) ** 2)
        return change.abs()


@dataclass(frozen=True)
class NoCancellation:
    """Σ|∂ᵢf δᵢ| + √ε‖δ‖: its length bounds Σ|attributions| from above, so a short path cancels little.

    Example:
        >>> NoCancellation().speed(torch.zeros(1, 2), torch.tensor([[1.0, -1.0]]), torch.tensor([[2.0, 2.0]]))
        tensor([4.])
    """

    damping: float = 0.0
    needs_gradient: ClassVar[bool] = True
    bounds_score: ClassVar[bool] = True

    def __post_init__(self) -> None:
        _check_damping(self.damping)

    def speed(self, point: Tensor, gradient: Tensor, step: Tensor) -> Tensor:
        """(rows, *features) three times -> (rows,)."""
        change = (flat_rows(gradient) * flat_rows(step)).abs().sum(1)
        if self.damping:
            return change + self.damping**0.5 * _norm(step)
        return change


def length(speeds: Tensor, weights: Tensor) -> Tensor:
    """∫ speed dt from samples: speeds (rows, nodes), weights (nodes,) -> (rows,)."""
    return speeds @ weights


def energy(speeds: Tensor, weights: Tensor) -> Tensor:
    """½ ∫ speed² dt from samples: speeds (rows, nodes), weights (nodes,) -> (rows,)."""
    return (speeds**2) @ weights / 2
