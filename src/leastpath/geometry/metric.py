"""Metrics: the speed of a step through the input space, given the gradient there. Length and energy follow from it.

Metrics of what the model makes of both ends of a step are in `feature_metrics.py`.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, Protocol, TypeGuard, runtime_checkable

import torch
from torch import Tensor, nn

from leastpath._support.checks import Positive, Range, Settings, as_points, check_features, show_value
from leastpath._support.rows import flat_rows, norms, precise
from leastpath.score.calls import run_part

NEIGHBOR = 5  # the default bandwidth is the median distance of a point to its fifth neighbour
BLOCK_ELEMENTS = 2**24  # distances between points and data held at once
BOUND_ROUNDING = 1e-3  # by which a metric's speed may fall below the change of score that it bounds
SAMPLE = 1000  # data points that typical values are taken from


@runtime_checkable
class Metric(Protocol):
    """The speed of moving by `step` at `point`, where the score has `gradient`.

    Metrics of the model use the gradient, metrics of the data use the point, and `Mixed` uses both. If a length is
    never below the change of score (`bounds_score`), length / |Δf| is a certificate.

    Example:
        >>> point, gradient, step = torch.zeros(1, 2), torch.tensor([[3.0, 4.0]]), torch.tensor([[1.0, 0.0]])
        >>> Conformal().speed(point, gradient, step), RankOne().speed(point, gradient, step)
        (tensor([5.]), tensor([3.]))
    """

    @property
    def needs_gradient(self) -> bool:
        """Whether `speed` uses the gradient."""
        ...

    @property
    def bounds_score(self) -> bool:
        """Whether a path's length is never below the change of score along it."""
        ...

    def speed(self, point: Tensor, gradient: Tensor, step: Tensor) -> Tensor:
        """(rows, *features) three times -> (rows,), non-negative and proportional to the size of `step`."""
        ...


@runtime_checkable
class FeatureMetric(Metric, Protocol):
    """A metric that compares what the model makes of both ends of a step: its features there.

    A path is cut in short steps, whose distances are added up. `distance` obeys the triangle inequality. So the sum is
    never above the length of the curve, never below the distance of the curve's ends, and grows towards the length as
    the steps become shorter. It has no `speed` at a single point: a solver that asks for it refuses the metric.

    Example:
        >>> import leastpath as lp
        >>> isinstance(lp.Fisher(), FeatureMetric), isinstance(lp.Conformal(), FeatureMetric)
        (True, False)
    """

    @property
    def layer(self) -> nn.Module | None:
        """Whose output is read; None: the model's own."""
        ...

    def features(self, read: Tensor) -> Tensor:
        """What is compared, made of what was read: (rows, …) -> (rows, width)."""
        ...

    def distance(self, before: Tensor, after: Tensor, step: Tensor) -> Tensor:
        """Features at both ends (rows, width) and the step between them (rows, *features) -> (rows,)."""
        ...


def compares_features(metric: Metric) -> TypeGuard[FeatureMetric]:
    """`isinstance(metric, FeatureMetric)`, quicker: of all metrics only these have a distance."""
    return hasattr(metric, "distance")


Damping = Annotated[float, Range(least=0, hint="larger values straighten paths")]


@dataclass(frozen=True)
class Damped(Settings):
    """Damping ε is the paper's regularisation G + εI: as ε grows, shortest paths become straight lines."""

    damping: Damping = 0.0
    needs_gradient: ClassVar[bool] = True
    bounds_score: ClassVar[bool] = True


@dataclass(frozen=True)
class Euclidean(Damped):
    """‖δ‖ · √(1 + ε): the model plays no part. Shortest paths are straight lines; on a graph it gives Enhanced IG.

    Example:
        >>> Euclidean().speed(torch.zeros(1, 2), torch.zeros(1, 2), torch.tensor([[3.0, 4.0]]))
        tensor([5.])
    """

    needs_gradient: ClassVar[bool] = False
    bounds_score: ClassVar[bool] = False

    def speed(self, point: Tensor, gradient: Tensor, step: Tensor) -> Tensor:
        return norms(step, 1) * (1 + self.damping) ** 0.5


@dataclass(frozen=True)
class Conformal(Damped):
    """√(‖∇f‖² + ε) · ‖δ‖: a steep score is slow in every direction. The metric of the paper's graph, and the default.

    Example:
        >>> Conformal().speed(torch.zeros(1, 2), torch.tensor([[0.0, 2.0]]), torch.tensor([[3.0, 0.0]]))
        tensor([6.])
    """

    def speed(self, point: Tensor, gradient: Tensor, step: Tensor) -> Tensor:
        steepness = norms(gradient, 1)
        if self.damping:
            steepness = torch.sqrt(steepness**2 + self.damping)
        return steepness * norms(step, 1)


@dataclass(frozen=True)
class RankOne(Damped):
    """√((∇f·δ)² + ε‖δ‖²): only the change of score counts. The paper's inner product JᵀJ.

    Example:
        >>> RankOne().speed(torch.zeros(1, 2), torch.tensor([[0.0, 2.0]]), torch.tensor([[3.0, 1.0]]))
        tensor([2.])
    """

    def speed(self, point: Tensor, gradient: Tensor, step: Tensor) -> Tensor:
        change = (flat_rows(gradient) * flat_rows(step)).sum(1)
        if self.damping:
            return torch.sqrt(change**2 + self.damping * norms(step, 1) ** 2)
        return change.abs()


@dataclass(frozen=True)
class NoCancellation(Damped):
    """Σ|∂ᵢf δᵢ| + √ε‖δ‖: its length bounds Σ|attributions| from above, so a short path cancels little.

    Example:
        >>> NoCancellation().speed(torch.zeros(1, 2), torch.tensor([[1.0, -1.0]]), torch.tensor([[2.0, 2.0]]))
        tensor([4.])
    """

    def speed(self, point: Tensor, gradient: Tensor, step: Tensor) -> Tensor:
        change = (flat_rows(gradient) * flat_rows(step)).abs().sum(1)
        if self.damping:
            return change + self.damping**0.5 * norms(step, 1)
        return change


@dataclass(frozen=True, eq=False, repr=False)
class DataDensity(Settings):
    """√(1 + 2 (log p₀ − log p(x))₊) · ‖δ‖: far from the data is slow, so short paths stay near the data.

    p is the kernel density of `points`, p₀ its median over them. Where the data are as dense as at a typical data point
    the speed is ‖δ‖. At a distance d ≫ bandwidth from all data it is d / bandwidth times that.

    Args:
        points: (n, *features) the data.
        bandwidth: of the Gaussian kernel. None: the median distance from a data point to its fifth neighbour.

    Example:
        >>> metric = DataDensity(torch.zeros(1, 2), bandwidth=0.5)
        >>> metric.speed(torch.tensor([[0.0, 0.0], [1.0, 0.0]]), torch.zeros(2, 2), torch.ones(2, 2) / 2**0.5)
        tensor([1.0000, 2.2361])
    """

    points: Tensor
    bandwidth: Positive | None = None
    typical: float = field(init=False)  # log p₀
    needs_gradient: ClassVar[bool] = False
    bounds_score: ClassVar[bool] = False

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "points", as_points("points", self.points))
        width = _typical_distance(self.points) if self.bandwidth is None else self.bandwidth
        if not width > 0:
            raise ValueError("half of the points are the same, so give a bandwidth: DataDensity(points, bandwidth=0.1)")
        object.__setattr__(self, "bandwidth", width)
        object.__setattr__(self, "typical", float(self.log_density(precise(_sample(self.points))).median()))

    def log_density(self, point: Tensor) -> Tensor:
        """(rows, *features) -> (rows,) log of the mean kernel, 0 where all data are at the point."""
        assert self.bandwidth is not None
        data, rows = flat_rows(self.points.detach()).to(point), flat_rows(point)
        check_features("DataDensity", data.shape[1:], rows.shape[1:])
        centre = data.mean(0)
        data, rows = data - centre, rows - centre
        parts = []
        for some in rows.split(max(1, BLOCK_ELEMENTS // len(data))):
            # Products of centred rows: differences would need memory for every feature.
            square = (some**2).sum(1, keepdim=True) - 2 * some @ data.T + (data**2).sum(1)
            parts.append(torch.logsumexp(-square.clamp_min(0) / (2 * self.bandwidth**2), 1))
        return torch.cat(parts) - torch.log(torch.tensor(float(len(data)))).to(rows)

    def speed(self, point: Tensor, gradient: Tensor, step: Tensor) -> Tensor:
        rarity = (self.typical - self.log_density(point)).clamp_min(0)
        return torch.sqrt(1 + 2 * rarity) * norms(step, 1)

    def __repr__(self) -> str:
        n, mark = len(self.points), fingerprint([self.points])
        return f"DataDensity({n} points {mark}, bandwidth={self.bandwidth:.4g})"


@dataclass(frozen=True, eq=False, repr=False)
class Reconstruction(Settings):
    """√(1 + ‖x − decoder(encoder(x))‖² / scale²) · ‖δ‖: what an autoencoder cannot rebuild is far from the data.

    Args:
        encoder: (n, *features) -> (n, *latent), or a tuple whose first part is that (the mean of a VAE).
        decoder: (n, *latent) -> (n, *features).
        scale: the reconstruction error at which the speed is √2 · ‖δ‖. The error of typical data is a good choice.

    Example:
        >>> metric = Reconstruction(lambda x: x[:, :1], lambda z: torch.cat([z, 0 * z], 1), scale=0.5)
        >>> metric.speed(torch.tensor([[3.0, 0.0], [3.0, 1.0]]), torch.zeros(2, 2), torch.ones(2, 2) / 2**0.5)
        tensor([1.0000, 2.2361])
    """

    encoder: Callable[[Tensor], Tensor | tuple[Tensor, ...]]
    decoder: Callable[[Tensor], Tensor]
    scale: Annotated[float, Range(above=0, hint="the reconstruction error of typical data")]
    needs_gradient: ClassVar[bool] = False
    bounds_score: ClassVar[bool] = False

    def error(self, point: Tensor) -> Tensor:
        """(rows, *features) -> (rows,) distance from a point to its reconstruction."""
        return norms(point - decode(self.decoder, encode(self.encoder, point), point), 1)

    def speed(self, point: Tensor, gradient: Tensor, step: Tensor) -> Tensor:
        return torch.sqrt(1 + (self.error(point) / self.scale) ** 2) * norms(step, 1)

    def __repr__(self) -> str:
        parts = [part for part in (self.encoder, self.decoder) if isinstance(part, nn.Module)]
        mark = fingerprint(tensor for part in parts for tensor in part.state_dict().values())
        return f"Reconstruction({_name(self.encoder)}, {_name(self.decoder)} {mark}, scale={self.scale:.4g})"


@dataclass(frozen=True)
class Mixed(Settings):
    """√((1 − w) · model² + w · data²): one geometry of model and data, (1 − w) G_model + w G_data as a tensor.

    Weight 0 is exactly the model metric, weight 1 exactly the data metric. The two have different units (score and
    inputs), so which weight is half-way depends on both. There is a certificate only if every part with a weight above
    zero bounds the score by itself: with both, the length is at least √(1 − w) · |Δf|, not |Δf|.

    Args:
        model_metric: such as `Conformal()`.
        data_metric: such as `DataDensity(points)` or `Reconstruction(encoder, decoder, scale)`.
        weight: of the data metric, 0 to 1.

    Example:
        >>> metric = Mixed(RankOne(), Euclidean(), weight=0.25)
        >>> speed = metric.speed(torch.zeros(1, 2), torch.tensor([[2.0, 0.0]]), torch.tensor([[1.0, 0.0]]))
        >>> round(float(speed) ** 2, 3), metric.bounds_score
        (3.25, False)
    """

    model_metric: Metric
    data_metric: Metric
    weight: Annotated[float, Range(least=0, most=1, hint="0 is the model metric, 1 the data metric")] = 0.5

    def __post_init__(self) -> None:
        for name, part in (("model_metric", self.model_metric), ("data_metric", self.data_metric)):
            if isinstance(part, type) or not isinstance(part, Metric):
                raise ValueError(f"{name}={part!r} is not a metric: Mixed(lp.Conformal(), lp.DataDensity(points))")
            if isinstance(part, FeatureMetric):
                raise ValueError(
                    f"{name}={part!r} has no speed at a point, which Mixed needs: use it alone, with damping=… to "
                    "draw paths towards straight lines"
                )
        super().__post_init__()

    @property
    def parts(self) -> tuple[Metric, ...]:
        """The metrics with a weight above zero."""
        return (self.model_metric,) * (self.weight < 1) + (self.data_metric,) * (self.weight > 0)

    @property
    def needs_gradient(self) -> bool:
        """Whether a part uses the gradient."""
        return any(part.needs_gradient for part in self.parts)

    @property
    def bounds_score(self) -> bool:
        """Whether every part bounds the score: a mean of squares is not below the squared mean."""
        return all(part.bounds_score for part in self.parts)

    def speed(self, point: Tensor, gradient: Tensor, step: Tensor) -> Tensor:
        speeds = [part.speed(point, gradient, step) for part in self.parts]
        if len(speeds) == 1:
            return speeds[0]
        weighed = torch.stack([(1 - self.weight) ** 0.5 * speeds[0], self.weight**0.5 * speeds[1]])
        return torch.linalg.vector_norm(weighed, dim=0)  # unlike √(Σ²), it has a derivative where both are zero


def encode(encoder: Callable[[Tensor], Tensor | tuple[Tensor, ...]], point: Tensor) -> Tensor:
    """The latent points (rows, *latent), in the encoder's dtype; the first part of a tuple, a VAE's mean."""
    return run_part("encoder", encoder, point)


def decode(decoder: Callable[[Tensor], Tensor], latent: Tensor, like: Tensor) -> Tensor:
    """Points (rows, *features) with the features and dtype of `like`."""
    point, wanted = run_part("decoder", decoder, latent), (len(latent), *like.shape[1:])
    if tuple(point.shape) != wanted:
        raise ValueError(
            f"the decoder returned {tuple(point.shape)}, expected {wanted}, like the inputs: "
            "wrap it, as in decoder=lambda z: vae.decode(z).view(len(z), *shape)"
        )
    return point.to(like.dtype)


def _typical_distance(points: Tensor) -> float:
    """The median distance from one of the points (n, *features) to its neighbour number `NEIGHBOR`."""
    rows = precise(flat_rows(points.detach()))
    k = min(NEIGHBOR + 1, len(rows))  # a point itself is the first
    return float(torch.cdist(_sample(rows), rows).topk(k, largest=False).values[:, -1].median())


def _sample(rows: Tensor) -> Tensor:
    return rows[torch.linspace(0, len(rows) - 1, min(len(rows), SAMPLE)).long()]


def fingerprint(tensors: Iterable[Tensor]) -> str:
    """Digits that differ where the numbers differ: a built graph recognises its metric by the metric's repr."""
    digest = hashlib.sha256()
    for tensor in tensors:
        digest.update(tensor.detach().cpu().double().contiguous().numpy().tobytes())
    return f"#{digest.hexdigest()[:8]}"


def _name(function: object) -> str:
    return getattr(function, "__name__", type(function).__name__)


def speed_of(metric: Metric, point: Tensor, gradient: Tensor, step: Tensor) -> Tensor:
    """The speed of a metric that may be a user's own: one number per row, none of them negative or NaN."""
    speed: Any = metric.speed(point, gradient, step)
    if not isinstance(speed, Tensor) or speed.shape != (len(point),):
        raise ValueError(
            f"{type(metric).__name__}.speed returned {show_value(speed)} for {len(point)} rows: "
            f"expected ({len(point)},), one speed per row"
        )
    slowest = float(speed.detach().min()) if len(speed) else 0.0
    if slowest < 0:
        raise ValueError(
            f"{type(metric).__name__}.speed returned {slowest:.3g}: a speed is a length divided by time and "
            "cannot be negative. Return the square root of a sum of squares, or take .abs()"
        )
    if math.isnan(slowest) and all(torch.isfinite(given).all() for given in (point, gradient, step)):
        raise ValueError(
            f"{type(metric).__name__}.speed returned NaN for a finite point, gradient and step: look for 0 / 0, or the "
            "square root of a number below zero"
        )
    if metric.bounds_score and not type(metric).__module__.startswith("leastpath."):
        _check_bound(metric, speed, gradient, step)
    return speed


def _check_bound(metric: Metric, speed: Tensor, gradient: Tensor, step: Tensor) -> None:
    """Refuse a user's metric that says it bounds the score and does not: its certificates would be 1 for any path."""
    change = (flat_rows(gradient) * flat_rows(step)).sum(1).abs()
    if bool((speed < change * (1 - BOUND_ROUNDING) - torch.finfo(change.dtype).tiny).any()):
        worst = int((change - speed).argmax())
        raise ValueError(
            f"{type(metric).__name__} has bounds_score = True, and its speed {float(speed[worst]):.3g} is below the "
            f"change of score {float(change[worst]):.3g}: set bounds_score = False, or return |gradient · step| or more"
        )


def length(speeds: Tensor, weights: Tensor) -> Tensor:
    """∫ speed dt from samples: speeds (rows, nodes), weights (nodes,) -> (rows,)."""
    return speeds @ weights


def energy(speeds: Tensor, weights: Tensor) -> Tensor:
    """½ ∫ speed² dt from samples: speeds (rows, nodes), weights (nodes,) -> (rows,)."""
    return (speeds**2) @ weights / 2
