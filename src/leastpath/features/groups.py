"""Groups of features that a perturbing method switches together: superpixels, tokens, or each feature by itself."""

from __future__ import annotations

import math
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from leastpath._support.checks import check_integer
from leastpath.features.maps import maps_over
from leastpath.score.bound import BoundScore


class Problem(Protocol):
    """What groups are asked for: rows between a start and an end."""

    @property
    def bound(self) -> BoundScore: ...
    @property
    def end(self) -> Tensor: ...
    @property
    def m(self) -> int: ...
    def __len__(self) -> int: ...


IMAGE_SIDE = 8  # pixels a side from which (channels, height, width) is taken for an image


def is_image(shape: torch.Size) -> bool:
    """Whether features (channels, height, width) are large enough to be cut in superpixels."""
    return len(shape) == 3 and min(shape[1:]) >= IMAGE_SIDE


def feature_groups(problem: Problem, segments: int | Tensor | None) -> tuple[Tensor, list[str]]:
    """The group of each feature: (rows, *shape), numbered from 0 without gaps for each row; and what to say of each.

    What is said begins with a comma, or is empty: it ends a sentence about the groups.

    `segments` is how many superpixels an image is cut into; or the groups themselves, integers of shape (height,
    width), (batch, height, width), (*features) or (batch, *features), see `maps_over`; or None, for single features.
    """
    bound, shape, rows = problem.bound, problem.bound.shape, len(problem)
    nothing = [""] * rows
    if isinstance(segments, Tensor):
        return numbered_groups(segments, rows // problem.m, shape).repeat_interleave(problem.m, 0), nothing
    check_integer("segments", segments, 1, or_none=", a tensor of groups, or None for single features")
    if bound.score.layer is not None and len(shape) == 2:  # (tokens, width): a token is what can be absent
        return torch.arange(shape[0])[:, None].expand(rows, *shape), nothing
    if segments is None or not is_image(shape):
        return torch.arange(bound.n_features).reshape(shape).expand(rows, *shape), nothing
    # All baselines of an example share its superpixels.
    cuts = [_cut(image, segments) for image in problem.end[:: problem.m].float().cpu()]
    numbers = torch.stack([groups for groups, _ in cuts]).repeat_interleave(problem.m, 0)
    return numbers[:, None].expand(rows, *shape), [said for _, said in cuts for _ in range(problem.m)]


def superpixels(image: Tensor, n: int) -> Tensor:
    """About n patches of similar colour in an image (channels, height, width): (height, width) numbers from 0.

    By scikit-image's SLIC. Where it finds fewer than n / 2 it is asked for more, twice; where it is not installed, or
    still finds too few (pure noise has none), the patches are those of a grid.

    Example:
        >>> superpixels(torch.rand(3, 16, 16), 4).shape
        torch.Size([16, 16])
    """
    return _cut(image, n)[0]


def _cut(image: Tensor, n: int) -> tuple[Tensor, str]:
    """The superpixels (height, width), and what a user should know of them."""
    try:
        from skimage.segmentation import slic
    except ImportError:
        return _grid(image.shape[-2:], n), ", patches of a grid, since scikit-image is not installed"
    low, high = float(image.min()), float(image.max())
    shown = ((image - low) / max(high - low, 1e-12)).movedim(0, -1).double().numpy()  # colours must lie in [0, 1]
    is_colour = len(image) == 3
    most = 0
    for asked in (n, 2 * n, 4 * n):  # SLIC joins what is small, in busy pictures nearly everything
        # Compactness weighs place against colour, whose range is 100 in Lab space and 1 otherwise.
        labels: np.ndarray = slic(
            shown, n_segments=asked, compactness=10 if is_colour else 0.1, convert2lab=is_colour, start_label=0,
            channel_axis=-1,
        )  # fmt: skip
        groups = torch.unique(torch.as_tensor(labels), return_inverse=True)[1]
        most = max(most, int(groups.max()) + 1)
        if most >= n / 2:
            return groups, "" if asked == n else f", superpixels that SLIC found when asked for {asked}"
    return _grid(image.shape[-2:], n), f", patches of a grid, since SLIC found only {most} superpixels"


def _grid(shape: torch.Size, n: int) -> Tensor:
    side = max(1, math.isqrt(n))
    i, j = (torch.arange(length) * min(side, length) // length for length in shape)
    return torch.unique(i[:, None] * side + j, return_inverse=True)[1]


def numbered_groups(segments: Tensor, batch: int, shape: torch.Size) -> Tensor:
    """Given groups (see `maps_over`) numbered 0, 1, … without gaps, in the order of their numbers: (batch, *shape).

    Example:
        >>> numbered_groups(torch.tensor([7, 3, 7]), 2, torch.Size([3]))
        tensor([[1, 0, 1],
                [1, 0, 1]])
    """
    if segments.is_floating_point() or segments.dtype == torch.bool or segments.is_complex():
        raise ValueError(f"segments have dtype {segments.dtype}, expected integers, one a group: segments.long()")
    maps = maps_over(segments.detach().cpu().long(), batch, shape, "segments have").expand(-1, *shape)
    return torch.stack([torch.unique(row, return_inverse=True)[1] for row in maps]).expand(batch, *shape)


def shared_evenly(coefficients: Tensor, groups: Tensor, among: Tensor | None = None) -> Tensor:
    """The coefficient of each group (k,), shared by its features: groups (*shape) -> (*shape).

    Args:
        coefficients: (k,)
        groups: (*shape) numbers from 0 to k − 1.
        among: (*shape) bool, those that get a share; None: all.

    Example:
        >>> among = torch.tensor([True, True, False, True])
        >>> shared_evenly(torch.tensor([4.0, 1.0]), torch.tensor([0, 0, 0, 1]), among)
        tensor([2., 2., 0., 1.])
    """
    counted = groups if among is None else groups[among]
    size = torch.bincount(counted.flatten(), minlength=len(coefficients)).clamp_min(1)
    each = (coefficients / size.to(coefficients))[groups.to(coefficients.device)]
    return each if among is None else each * among.to(each)


def window_of(problem: Problem, window: Any) -> tuple[int, ...]:
    """The patch that is hidden at once, one number a dimension of the features.

    Images: an eighth of each side, in all channels. A layer's (tokens, width): a token. Everything else: one feature.
    """
    shape = problem.bound.shape
    if not shape:
        raise ValueError("a window needs a dimension to lie in, and the inputs have none: pass inputs[:, None]")
    if isinstance(window, tuple):
        for side in window:
            check_integer("window", side, 1)
        chosen = window
    elif window is not None and (isinstance(window, bool) or not isinstance(window, int)):
        raise ValueError(f"window={window!r} must be a whole number, a tuple with one a dimension, or None")
    elif len(shape) == 3:
        sides = (window,) * 2 if window is not None else tuple(math.ceil(side / 8) for side in shape[1:])
        chosen = (shape[0], *sides)
    elif problem.bound.score.layer is not None and len(shape) == 2:
        chosen = (window or 1, shape[1])
    else:
        chosen = (window or 1,) * len(shape)
    if len(chosen) != len(shape) or not all(1 <= w <= side for w, side in zip(chosen, shape, strict=True)):
        raise ValueError(f"window={window} does not fit features of shape {tuple(shape)}: pass one number a dimension")
    return chosen
