"""Feature metrics: a step is as long as it moves the whole prediction, or what a layer makes of the input."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import ClassVar, Literal, NoReturn, get_args

import torch
from torch import Tensor, nn

from leastpath._support.checks import check_kind
from leastpath._support.rows import flat_rows, norms, precise
from leastpath.geometry.metric import Damped, Damping, fingerprint

FisherOutput = Literal["softmax", "sigmoid", "raw"]
PullbackOutput = Literal["logits", "softmax", "log_softmax"]
SUM_MARGIN = 1e-2  # how far probabilities may be from adding up to 1: half precision is coarse


@dataclass(frozen=True)
class _OfFeatures(Damped):
    """What both metrics share: they bound no score, and have no speed at a point."""

    needs_gradient: ClassVar[bool] = False
    bounds_score: ClassVar[bool] = False

    def speed(self, point: Tensor, gradient: Tensor, step: Tensor) -> NoReturn:
        """Refuses: a step is measured by what the model makes of its two ends."""
        raise ValueError(
            f"{self!r} compares both ends of a step, so it has no speed at a point, which this solver asks for: use "
            "ElasticBand, NeighborGraph or StraightLine, or another metric, as in metric=lp.Conformal()"
        )

    def _damp(self, distance: Tensor, step: Tensor) -> Tensor:
        """√(distance² + ε‖step‖²): (rows,)."""
        if not self.damping:
            return distance
        parts = torch.stack([distance, self.damping**0.5 * norms(step, 1).to(distance)])
        return torch.linalg.vector_norm(parts, dim=0)  # unlike √(Σ²), it has a derivative where both are zero


@dataclass(frozen=True)
class Fisher(_OfFeatures):
    """How far a step moves the whole predicted distribution: 2 arccos Σ√(p q), the Fisher–Rao distance.

    √p lies on the unit sphere. Its way there, twice, is the length of a path. No path is shorter than the distance of
    the two predictions, at most π. The metric does not know the target: all classes count.

    Args:
        damping: ε in √(distance² + ε‖δ‖²). Larger values straighten paths.
        output: how the model's output becomes a distribution. "softmax": of logits (batch, classes ≥ 2). "sigmoid":
            every output is the logit of a yes or no of its own. "raw": the outputs are probabilities already.

    Example:
        >>> metric = Fisher(output="raw")
        >>> p, q = metric.features(torch.tensor([[1.0, 0.0]])), metric.features(torch.tensor([[0.0, 1.0]]))
        >>> metric.distance(p, q, torch.zeros(1, 2))  # nothing in common: π
        tensor([3.1416], dtype=torch.float64)
    """

    _: KW_ONLY
    output: FisherOutput = "softmax"
    layer: ClassVar[nn.Module | None] = None

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_output(self.output, get_args(FisherOutput))

    def features(self, read: Tensor) -> Tensor:
        """√p of each class (rows, classes); with "sigmoid" the angle 2 arcsin √p of each output (rows, outputs)."""
        numbers = precise(read.unsqueeze(1) if read.ndim == 1 else flat_rows(read))
        if self.output == "sigmoid":
            return 2 * torch.atan(torch.exp(numbers.clamp(-1400, 1400) / 2))  # 2 arcsin √σ(z), exact for both tails
        if numbers.shape[1] < 2:
            raise ValueError(
                f"a distribution needs (batch, classes ≥ 2), the model returned {tuple(read.shape)}: for one logit use "
                'Fisher(output="sigmoid")'
            )
        if self.output == "softmax":
            return torch.exp(numbers.log_softmax(1) / 2)
        return _roots_of_probabilities(numbers)

    def distance(self, before: Tensor, after: Tensor, step: Tensor) -> Tensor:
        """(rows,)"""
        apart = torch.linalg.vector_norm(after - before, dim=1)
        if self.output != "sigmoid":  # arccos of the inner product would lose half of the digits
            apart = 4 * torch.asin((apart / 2).clamp_max(1))
        return self._damp(apart, step)


@dataclass(frozen=True, repr=False)
class Pullback(_OfFeatures):
    """How far a step moves what a layer makes of the input: ‖φ(x + δ) − φ(x)‖, the pull-back of its Euclidean metric.

    Args:
        layer: the module whose output is φ. None: the model's own output, as `outputs` says.
        outputs: "logits" (the model's output as it is), "softmax" or "log_softmax" of it. Not used with a layer.
        damping: ε in √(‖φ(x + δ) − φ(x)‖² + ε‖δ‖²). Larger values straighten paths.

    Example:
        >>> import leastpath as lp
        >>> model = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 3)).eval()
        >>> metric = lp.Pullback(layer=model[1])
        >>> lp.attribute(lp.Score(model, 0), torch.ones(1, 2), method=lp.ElasticBand(), metric=metric).length.shape
        torch.Size([1])
    """

    damping: Damping = 0.0
    _: KW_ONLY
    layer: nn.Module | None = None
    outputs: PullbackOutput = "logits"

    def __post_init__(self) -> None:
        if self.layer is not None:
            check_kind("layer", self.layer, nn.Module, "a part of the model: lp.Pullback(layer=model.features)")
        super().__post_init__()
        _check_output(self.outputs, get_args(PullbackOutput))

    def features(self, read: Tensor) -> Tensor:
        """The layer's output, or the model's, as one vector a row: (rows, width)."""
        rows = read.unsqueeze(1) if read.ndim == 1 else flat_rows(read)
        rows = rows.to(torch.promote_types(rows.dtype, torch.float32))
        if self.layer is not None or self.outputs == "logits":
            return rows
        return rows.softmax(1) if self.outputs == "softmax" else rows.log_softmax(1)

    def distance(self, before: Tensor, after: Tensor, step: Tensor) -> Tensor:
        """(rows,)"""
        return self._damp(torch.linalg.vector_norm(after - before, dim=1), step)

    def __repr__(self) -> str:
        where = f"outputs={self.outputs!r}"
        if self.layer is not None:
            where = f"layer={type(self.layer).__name__} {fingerprint(self.layer.state_dict().values())}"
        return f"Pullback({where}, damping={self.damping})"


def _check_output(given: object, known: tuple[str, ...]) -> None:
    if given not in known:
        raise ValueError(f"output {given!r} is unknown: use one of {list(known)}")


def _roots_of_probabilities(p: Tensor) -> Tensor:
    finite = p[torch.isfinite(p).all(1)]
    if bool((finite < -SUM_MARGIN).any()) or bool(((finite.sum(1) - 1).abs() > SUM_MARGIN).any()):
        raise ValueError(
            'Fisher(output="raw") needs probabilities that add up to 1, the model returns other numbers: for logits '
            'use Fisher(), or Fisher(output="sigmoid")'
        )
    safe = torch.where(p > 0, p, 1.0)  # the root has no derivative at zero
    return torch.where(p > 0, safe.sqrt(), torch.where(torch.isnan(p), p, 0.0))
