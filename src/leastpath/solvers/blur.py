"""Blur IG (Xu et al. 2020): from a blurred image to the image, through all scales in between."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

import torch
from torch import Tensor

from leastpath._support.checks import Range, Settings
from leastpath.account.run import Run
from leastpath.geometry.metric import Metric
from leastpath.geometry.path import Path
from leastpath.score.score import BoundScore
from leastpath.solvers.solution import Solution, affordable_knots

TRUNCATE = 4.0  # standard deviations after which the kernel is cut off, as SciPy does
LARGEST = 50.0  # the published max_sigma, for sides of 300 pixels


@dataclass(frozen=True)
class BlurIG(Settings):
    """Blur IG: the path is the image with less and less blur. It chooses its own start, so it takes no baselines.

    The start is the most blurred image, and holds hardly any information. Completeness is relative to the score there.
    Beyond its border the image counts as zero, as in the reference implementation.

    Args:
        max_sigma: standard deviation of the blur at the start, in pixels. None: a sixth of the longer side, at most 50.
        n_knots: of the path, its ends included; denser where the image is sharp and changes most.

    Example:
        >>> import torch, leastpath as lp
        >>> score = lp.Score(lambda x: (x**2).sum((1, 2)))
        >>> result = lp.attribute(score, torch.rand(2, 8, 8), method=lp.BlurIG(max_sigma=3.0))
        >>> result.path.start.std() < result.path.end.std()
        tensor(True)
    """

    max_sigma: Annotated[float, Range(above=0, most=10_000, hint="pixels")] | None = None
    n_knots: Annotated[int, Range(least=2, hint="both ends")] = 33

    chooses_start: ClassVar[bool] = True

    def solve(self, score: BoundScore, metric: Metric, start: Tensor, end: Tensor, run: Run) -> Solution:
        """end (batch, …, height, width) -> polylines that end there; `start` is not used."""
        if end.ndim < 3:
            raise ValueError(f"BlurIG needs inputs (batch, …, height, width), got {tuple(end.shape)}: reshape them")
        largest = self.max_sigma or min(LARGEST, max(end.shape[-2:]) / 6)
        knots = affordable_knots(score, run, self.n_knots, least=2)
        sigmas = [largest * (1 - i / (knots - 1)) ** 2 for i in range(knots - 1)]
        image = end.to(score.work_dtype)
        blurred = [gaussian_blur(image, sigma).to(end.dtype) for sigma in sigmas]
        return Solution(Path.polyline(torch.stack([*blurred, end], 1)), stats={"max_sigma": largest})


def gaussian_blur(images: Tensor, sigma: float) -> Tensor:
    """Images (…, height, width) under a Gaussian of `sigma` pixels, zero beyond their borders: the same shape."""
    if sigma <= 0:
        return images
    height, width = (_blur_matrix(side, sigma).to(images.dtype).to(images.device) for side in images.shape[-2:])
    return height @ images @ width.mT


def _blur_matrix(side: int, sigma: float) -> Tensor:
    """The blur of a line of pixels as a matrix: (side, side), float64."""
    radius = int(TRUNCATE * sigma + 0.5)
    kernel = torch.exp(-0.5 * (torch.arange(radius + 1, dtype=torch.float64) / sigma) ** 2)
    kernel = kernel / (2 * kernel.sum() - kernel[0])  # what falls beyond the border is lost, not renormalised
    apart = (torch.arange(side)[:, None] - torch.arange(side)).abs()
    return torch.where(apart <= radius, kernel[apart.clamp_max(radius)], 0)
