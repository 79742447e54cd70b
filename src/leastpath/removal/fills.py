"""Fills: what stands in for removed features: baseline, mean, blur, noise, other inputs, a guess by neighbours."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType
from typing import Any, Protocol, runtime_checkable

import numpy as np
import torch
from torch import Tensor

from leastpath._support.checks import as_points, check_settings_of
from leastpath._support.rows import flat_rows
from leastpath.score.baselines import blur_images

DIRECT, DIAGONAL = 1 / 6, 1 / 12  # ROAD (Rong et al. 2022): a pixel is the weighted mean of its neighbours


Filling = Tensor | Callable[[Tensor, Tensor], Tensor]
"""A fill made ready for a batch: (batch, *shape), whatever is masked, or a function of what `fill_rows` is asked."""


@runtime_checkable
class Filler(Protocol):
    """How masked features are filled. Settings only; `prepare` binds them to a batch."""

    def prepare(self, points: Tensor, baselines: Tensor, generators: Sequence[torch.Generator]) -> Filling:
        """Points and baselines (batch, *shape), one random generator per example."""


Fill = str | float | Callable[[Tensor], Tensor] | Filler


@dataclass(frozen=True)
class MadeBy:
    """Values (batch, *shape) that a function makes of the points, the baselines and the generators."""

    function: Callable[[Tensor, Tensor, Sequence[torch.Generator]], Tensor]

    def prepare(self, points: Tensor, baselines: Tensor, generators: Sequence[torch.Generator]) -> Tensor:
        """See `Filler`."""
        values: Any = self.function(points, baselines, generators)
        if not isinstance(values, Tensor) or values.shape != points.shape:
            got = tuple(values.shape) if isinstance(values, Tensor) else type(values).__name__
            raise ValueError(f"the fill returned {got}, expected a tensor {tuple(points.shape)}: one fill per value")
        return values.detach().to(points)


def _noise(points: Tensor, _baselines: Tensor, generators: Sequence[torch.Generator]) -> Tensor:
    mean, deviation = _moments(points)
    return mean + deviation * _normal(points, generators)


@dataclass(frozen=True)
class Blur:
    """The image blurred by a Gaussian over its last two dimensions. The border is repeated outwards.

    Args:
        sigma: in pixels. None: a twentieth of the shorter side, at least one pixel.

    Example:
        >>> flat = torch.ones(1, 3, 8, 8)
        >>> Blur(sigma=1.0).prepare(flat, flat, [torch.Generator()]).shape
        torch.Size([1, 3, 8, 8])
    """

    sigma: float | None = None

    def __post_init__(self) -> None:
        check_settings_of(self)
        if self.sigma is not None and not 0 <= self.sigma < float("inf"):
            raise ValueError(f"sigma={self.sigma} must be a finite number of at least 0, in pixels, or None")

    def prepare(self, points: Tensor, baselines: Tensor, generators: Sequence[torch.Generator]) -> Tensor:
        """See `Filler`."""
        _check_image(points, "blur")
        return blur_images(points, max(1.0, min(points.shape[-2:]) / 20) if self.sigma is None else self.sigma)


@dataclass(frozen=True, repr=False)
class Samples:
    """Another input, drawn at random for each example from `pool` (n, *shape); never the example itself.

    Example:
        >>> points = torch.zeros(1, 2)
        >>> Samples(torch.ones(4, 2)).prepare(points, points, [torch.Generator()])
        tensor([[1., 1.]])
    """

    pool: Tensor

    def __post_init__(self) -> None:
        object.__setattr__(self, "pool", as_points("pool", self.pool))

    def prepare(self, points: Tensor, baselines: Tensor, generators: Sequence[torch.Generator]) -> Tensor:
        """See `Filler`."""
        if self.pool.shape[1:] != points.shape[1:]:
            expected = ("n", *points.shape[1:])
            raise ValueError(f"the pool of samples has shape {tuple(self.pool.shape)}, expected {expected}")
        pool = self.pool.to(points)
        return torch.stack([_draw_other(point, pool, g) for point, g in zip(points, generators, strict=True)])

    def __repr__(self) -> str:
        return f"Samples(pool={tuple(self.pool.shape)}, sum={float(self.pool.sum()):.9g})"


@dataclass(frozen=True)
class NoisyLinear:
    """Noisy linear imputation (ROAD): masked pixels solve "each is the weighted mean of its neighbours", plus noise.

    Direct neighbours weigh 1/6, diagonal ones 1/12; at the border the weights of those that exist are scaled up to one.
    The system is solved once per mask, for all channels that share it. Costs no model evaluation, but a sparse
    factorisation per mask: on large images it takes longer than the other fills.

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

    def __post_init__(self) -> None:
        check_settings_of(self)
        if not 0 <= self.noise < float("inf"):
            raise ValueError(f"noise={self.noise} must be a finite number of at least 0, in the units of the input")

    def prepare(self, points: Tensor, baselines: Tensor, generators: Sequence[torch.Generator]) -> Filling:
        """See `Filler`."""
        _check_image(points, "linear")
        noise = self.noise * _normal(points, generators)

        def fill(examples: Tensor, masked: Tensor) -> Tensor:
            at = examples.to(points.device)
            return linear_imputation(points[at].expand_as(masked), masked) + noise[at]

        return fill


FILLS: Mapping[str, Filler] = MappingProxyType(
    {
        "baseline": MadeBy(lambda points, baselines, _: baselines),
        "mean": MadeBy(lambda points, baselines, _: _moments(points)[0].expand_as(points)),
        "blur": Blur(),
        "noise": MadeBy(_noise),
        "linear": NoisyLinear(),
    }
)


def find_filler(fill: Fill) -> tuple[str, Filler]:
    """The name of a fill and the object that makes it, from what the user wrote."""
    if isinstance(fill, str) and fill in FILLS:
        return fill, FILLS[fill]
    if fill == "samples":
        raise ValueError('fill="samples" needs other inputs to draw from: fill=Samples(inputs)')
    if isinstance(fill, Filler) and not isinstance(fill, type):
        return type(fill).__name__.lower(), fill
    if isinstance(fill, (int, float)) and not isinstance(fill, bool) and np.isfinite(fill):
        return f"{fill:g}", MadeBy(lambda points, *_: torch.full_like(points, fill))
    if callable(fill):
        return getattr(fill, "__name__", "callable"), MadeBy(lambda points, *_: fill(points))
    raise ValueError(f"fill={fill!r} is unknown: use one of {list(FILLS)}, Samples(inputs), a number or a callable")


def fill_rows(filling: Filling, examples: Tensor, masked: Tensor) -> Tensor:
    """What fills rows of `examples` (n,), or of one (1,), where `masked` (n, *shape) is true: (n or 1, *shape)."""
    if isinstance(filling, Tensor):
        return filling[examples.to(filling.device)]
    return filling(examples, masked)


def linear_imputation(images: Tensor, masked: Tensor) -> Tensor:
    """ROAD's imputation without its noise: images and bool masks (n, …, height, width) -> images with holes filled."""
    _check_image(images, "linear")
    height, width = images.shape[-2:]
    result = images.clone()
    pixels = result.view(len(images), -1, height * width)  # (n, channels, pixels)
    holes = masked.reshape(len(images), -1, height * width).cpu().numpy()
    for image, channels in zip(pixels, holes, strict=True):
        masks, owner = np.unique(channels, axis=0, return_inverse=True)  # channels with one mask share its solution
        for i, mask in enumerate(masks):
            if mask.any():
                members = (owner.reshape(-1) == i).nonzero()[0]
                known = image[members].double().cpu().numpy()  # (members, pixels)
                image[members] = torch.as_tensor(_solve(known, mask, (height, width))).to(image)
    return result


def _solve(values: np.ndarray, mask: np.ndarray, shape: tuple[int, int]) -> np.ndarray:
    """The channels `values` (channels, pixels) with the pixels of `mask` (pixels,) solved for."""
    from scipy.sparse import diags_array
    from scipy.sparse.linalg import splu

    if mask.all():
        raise ValueError('fill="linear" has no pixel left to start from: keep areas below 1')
    weights = _neighbor_weights(shape)[mask]  # one equation per masked pixel
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


def _draw_other(point: Tensor, pool: Tensor, generator: torch.Generator) -> Tensor:
    """A row of the pool that is not the point itself."""
    different = flat_rows(pool != point).any(1).nonzero()[:, 0]
    if not len(different):
        raise ValueError("the pool of samples holds nothing but the example itself: pass more inputs")
    return pool[different[int(torch.randint(len(different), (), generator=generator))]]


def _check_image(points: Tensor, name: str) -> None:
    if points.ndim < 3:
        got = f"got {tuple(points.shape)}"
        raise ValueError(f'fill="{name}" needs images, (batch, channels, height, width), {got}: use "mean"')
