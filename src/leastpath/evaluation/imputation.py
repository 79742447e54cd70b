"""What stands in for a masked feature: baseline, mean, blur, noise, other inputs, or a guess from its neighbours."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType
from typing import Any, Protocol, runtime_checkable

import numpy as np
import torch
from torch import Tensor

from leastpath.baselines import blurred

DIRECT, DIAGONAL = 1 / 6, 1 / 12  # ROAD (Rong et al. 2022): a pixel is the weighted mean of its neighbours


class Filling(Protocol):
    """A fill made ready for a batch."""

    def rows(self, examples: Tensor, masked: Tensor) -> Tensor:
        """What fills rows of `examples` (n,) where `masked` (n, *shape) is true: (n, *shape).

        `examples` may also be one example (1,) for all rows, and the answer then (1, *shape).
        """


@runtime_checkable
class Filler(Protocol):
    """How masked features are filled. Settings only; `prepare` binds them to a batch."""

    def prepare(self, points: Tensor, baselines: Tensor, generators: Sequence[torch.Generator]) -> Filling:
        """Points and baselines (batch, *shape), one random generator an example."""


Fill = str | float | Callable[[Tensor], Tensor] | Filler


@dataclass(frozen=True)
class Fixed:
    """Fills that do not depend on what is masked: (batch, *shape)."""

    values: Tensor

    def rows(self, examples: Tensor, masked: Tensor) -> Tensor:
        """The fill of each row's example: (n, *shape)."""
        return self.values[examples.to(self.values.device)]


@dataclass(frozen=True)
class BaselineFill:
    """The baseline of the explanation."""

    def prepare(self, points: Tensor, baselines: Tensor, generators: Sequence[torch.Generator]) -> Filling:
        """See `Filler`."""
        return Fixed(baselines)


@dataclass(frozen=True)
class Number:
    """One number everywhere."""

    value: float

    def prepare(self, points: Tensor, baselines: Tensor, generators: Sequence[torch.Generator]) -> Filling:
        """See `Filler`."""
        return Fixed(torch.full_like(points, self.value))


@dataclass(frozen=True)
class Mean:
    """The example's own mean: per channel (first dimension) for three and more dimensions, else over all of it."""

    def prepare(self, points: Tensor, baselines: Tensor, generators: Sequence[torch.Generator]) -> Filling:
        """See `Filler`."""
        return Fixed(_moments(points)[0].expand_as(points))


@dataclass(frozen=True)
class Noise:
    """Gaussian noise with the example's own mean and deviation, per channel as in `Mean`."""

    def prepare(self, points: Tensor, baselines: Tensor, generators: Sequence[torch.Generator]) -> Filling:
        """See `Filler`."""
        mean, deviation = _moments(points)
        return Fixed(mean + deviation * _normal(points, generators))


@dataclass(frozen=True)
class Blur:
    """The image blurred by a Gaussian over its last two dimensions, its border repeated outwards.

    Args:
        sigma: in pixels. None: a twentieth of the shorter side, at least one pixel.

    Example:
        >>> flat = torch.ones(1, 3, 8, 8)
        >>> filling = Blur(sigma=1.0).prepare(flat, torch.zeros_like(flat), [torch.Generator()])
        >>> torch.allclose(filling.rows(torch.tensor([0]), flat > 0), flat)  # a flat image blurs to itself
        True
    """

    sigma: float | None = None

    def prepare(self, points: Tensor, baselines: Tensor, generators: Sequence[torch.Generator]) -> Filling:
        """See `Filler`."""
        _check_image(points, "blur")
        sigma = max(1.0, min(points.shape[-2:]) / 20) if self.sigma is None else self.sigma
        return Fixed(blurred(points, sigma))


@dataclass(frozen=True, repr=False)
class Samples:
    """Another input, drawn at random for each example from `pool` (n, *shape); never the example itself.

    Example:
        >>> pool, points = torch.ones(4, 2), torch.zeros(1, 2)
        >>> filling = Samples(pool).prepare(points, points, [torch.Generator()])
        >>> filling.rows(torch.tensor([0]), points > 0)
        tensor([[1., 1.]])
    """

    pool: Tensor

    def prepare(self, points: Tensor, baselines: Tensor, generators: Sequence[torch.Generator]) -> Filling:
        """See `Filler`."""
        if self.pool.shape[1:] != points.shape[1:]:
            raise ValueError(
                f"the pool of samples has shape {tuple(self.pool.shape)}, expected (n, {_shape(points)}): other inputs "
                "of the same kind"
            )
        pool = self.pool.to(points)
        return Fixed(torch.stack([_other(point, pool, g) for point, g in zip(points, generators, strict=True)]))

    def __repr__(self) -> str:
        return f"Samples(pool={tuple(self.pool.shape)}, sum={float(self.pool.sum()):.9g})"


@dataclass(frozen=True)
class Function:
    """A user's function: points (batch, *shape) -> fills of the same shape."""

    function: Callable[[Tensor], Tensor]

    def prepare(self, points: Tensor, baselines: Tensor, generators: Sequence[torch.Generator]) -> Filling:
        """See `Filler`."""
        values: Any = self.function(points)
        if not isinstance(values, Tensor) or values.shape != points.shape:
            got = tuple(values.shape) if isinstance(values, Tensor) else type(values).__name__
            raise ValueError(f"the fill returned {got}, expected a tensor {tuple(points.shape)}: one fill a value")
        return Fixed(values.detach().to(points))


@dataclass(frozen=True)
class NoisyLinear:
    """Noisy linear imputation (ROAD): masked pixels solve "each is the weighted mean of its neighbours", plus noise.

    Direct neighbours weigh 1/6, diagonal ones 1/12; at the border the weights of those that exist are scaled up to one.
    The system is solved once a mask, for all channels that share it. Costs no model evaluation, but a sparse
    factorisation a mask: on large images it takes longer than the other fills.

    Args:
        noise: standard deviation of the noise, in the units of the input. ROAD's is 0.01.

    Example:
        >>> image = torch.arange(4.0).expand(1, 1, 4, 4)  # a ramp
        >>> masked = torch.zeros(1, 1, 4, 4, dtype=torch.bool)
        >>> masked[..., 1:3, 1:3] = True
        >>> linear_imputation(image, masked)[0, 0, 1]
        tensor([0., 1., 2., 3.])
    """

    noise: float = 0.01

    def prepare(self, points: Tensor, baselines: Tensor, generators: Sequence[torch.Generator]) -> Filling:
        """See `Filler`."""
        _check_image(points, "linear")
        return _LinearFilling(points, self.noise * _normal(points, generators))


@dataclass(frozen=True)
class _LinearFilling:
    points: Tensor
    noise: Tensor

    def rows(self, examples: Tensor, masked: Tensor) -> Tensor:
        examples = examples.to(self.points.device)
        return linear_imputation(self.points[examples].expand_as(masked), masked) + self.noise[examples]


FILLS: Mapping[str, Filler] = MappingProxyType(
    {"baseline": BaselineFill(), "mean": Mean(), "blur": Blur(), "noise": Noise(), "linear": NoisyLinear()}
)


def filler(fill: Fill, pool: Tensor | None = None) -> tuple[str, Filler]:
    """A fill's name and what it does, out of whatever the user wrote.

    Example:
        >>> filler("blur"), filler(0.5)
        (('blur', Blur(sigma=None)), ('0.5', Number(value=0.5)))
    """
    if isinstance(fill, str):
        if fill == "samples":
            if pool is None:
                raise ValueError('fill="samples" needs other inputs to draw from: Masking(fill="samples", pool=inputs)')
            return fill, Samples(pool)
        if fill not in FILLS:
            raise ValueError(f"fill={fill!r} is unknown: use one of {[*FILLS, 'samples']}, a number or a callable")
        return fill, FILLS[fill]
    if isinstance(fill, Filler) and not isinstance(fill, type):
        return type(fill).__name__.lower(), fill
    if isinstance(fill, (int, float)) and not isinstance(fill, bool) and np.isfinite(fill):
        return f"{fill:g}", Number(float(fill))
    if callable(fill):
        return getattr(fill, "__name__", "callable"), Function(fill)
    raise ValueError(f"fill={fill!r} is no fill: use one of {[*FILLS, 'samples']}, a finite number or a callable")


def linear_imputation(images: Tensor, masked: Tensor) -> Tensor:
    """ROAD's imputation without its noise: images and bool masks (n, …, height, width) -> images with holes filled."""
    _check_image(images, "linear")
    height, width = images.shape[-2:]
    result = images.clone()
    pixels = result.view(len(images), -1, height * width)  # (n, channels, pixels)
    holes = masked.reshape(len(images), -1, height * width).cpu().numpy()
    for image, channels in zip(pixels, holes, strict=True):
        for mask, members in _distinct(channels):
            if mask.any():
                known = image[members].double().cpu().numpy()  # (members, pixels)
                filled = _solved(known, mask, (height, width))
                image[members] = torch.as_tensor(filled).to(image)
    return result


def _distinct(masks: np.ndarray) -> list[tuple[np.ndarray, list[int]]]:
    """Each distinct mask of an image (channels, pixels), with the channels that have it."""
    if (masks == masks[:1]).all():
        return [(masks[0], list(range(len(masks))))]
    found: dict[bytes, list[int]] = {}
    for channel, mask in enumerate(masks):
        found.setdefault(mask.tobytes(), []).append(channel)
    return [(masks[members[0]], members) for members in found.values()]


def _solved(values: np.ndarray, mask: np.ndarray, shape: tuple[int, int]) -> np.ndarray:
    """The channels `values` (channels, pixels) with the pixels of `mask` (pixels,) solved for."""
    from scipy.sparse import diags_array
    from scipy.sparse.linalg import splu

    if mask.all():
        raise ValueError('fill="linear" has no pixel left to start from: keep areas below 1')
    weights = _neighbor_weights(shape)[mask]  # one equation a masked pixel
    matrix = diags_array(weights.sum(1)) - weights[:, mask]
    # The matrix is symmetric and diagonally dominant: no pivoting is needed, which keeps the factors sparse.
    factors = splu(matrix.tocsc(), permc_spec="MMD_AT_PLUS_A", diag_pivot_thresh=0.0, options={"SymmetricMode": True})
    result = values.copy()
    result[:, mask] = factors.solve(np.ascontiguousarray(weights[:, ~mask] @ values[:, ~mask].T)).T
    return result


@lru_cache(maxsize=4)
def _neighbor_weights(shape: tuple[int, int]) -> Any:
    """How much each pixel counts for each other, (pixels, pixels): direct neighbours twice as much as diagonal ones."""
    from scipy.sparse import diags_array, eye_array, kron

    height, width = shape
    down, right = (diags_array([1.0, 1.0], offsets=[-1, 1], shape=(n, n)) for n in shape)
    direct = kron(down, eye_array(width)) + kron(eye_array(height), right)
    return (DIRECT * direct + DIAGONAL * kron(down, right)).tocsr()


def _moments(points: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and deviation of each example, per channel from three dimensions on; broadcastable to the points."""
    dims = tuple(range(2 if points.ndim > 3 else 1, points.ndim))
    if not dims:
        return points, torch.zeros_like(points)
    return points.mean(dims, keepdim=True), points.std(dims, keepdim=True, correction=0)


def _normal(points: Tensor, generators: Sequence[torch.Generator]) -> Tensor:
    return torch.stack([torch.randn(points.shape[1:], generator=g) for g in generators]).to(points)


def _other(point: Tensor, pool: Tensor, generator: torch.Generator) -> Tensor:
    """A row of the pool that is not the point itself."""
    different = (pool != point).reshape(len(pool), -1).any(1).nonzero()[:, 0]
    if not len(different):
        raise ValueError("the pool of samples holds nothing but the example itself: pass more inputs")
    return pool[different[int(torch.randint(len(different), (), generator=generator))]]


def _check_image(points: Tensor, name: str) -> None:
    if points.ndim < 3:
        raise ValueError(
            f'fill="{name}" needs images, (batch, channels, height, width), got {tuple(points.shape)}: '
            'use "mean" or "baseline"'
        )


def _shape(points: Tensor) -> str:
    return ", ".join(map(str, points.shape[1:]))
