"""RISE (Petsiuk et al. 2018): the mean score of randomly masked inputs that show a place."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import torch
from torch import Tensor
from torch.nn.functional import interpolate

from leastpath._support.checks import Count, Range
from leastpath.features.groups import kind_of
from leastpath.methods.masks import score_masks
from leastpath.methods.method import Explained, Problem, method
from leastpath.methods.shapley import RowGroups


def _cost(shape: Sequence[int], settings: Mapping[str, Any]) -> tuple[int, int]:
    return 0, settings["n_masks"]


@method(
    "RISE", "The mean score of randomly masked inputs that show a place.", fits=("image",), unitless=True, cost=_cost,
    every_class=True,
)  # fmt: skip
def rise(
    problem: Problem, *, n_masks: Count = 1000, cells: Count = 7, shown: Annotated[float, Range(above=0, below=1)] = 0.5
) -> Explained:
    """RISE: where a place is shown, how high is the score? The mean over random masks that are smooth and shifted.

    Values are Σ f(masked) · mask / Σ mask minus the mean of f over all masks. The published map lacks that last term,
    which is the same everywhere. What is hidden is at the baseline. Masks are the same for all examples. Features that
    are no image are shown or hidden by themselves, or by tokens or time steps.

    Args:
        n_masks: forwards per baseline; 4,000 to 8,000 in the paper.
        cells: of the coarse grid per side, that is drawn, enlarged and shifted.
        shown: the probability that a cell is shown.

    Example:
        >>> import leastpath as lp
        >>> values = rise(lp.Score(lambda x: x[:, 0, 2, 2]), torch.ones(1, 1, 8, 8), n_masks=200).values[0, 0]
        >>> bool(values[2, 2] > values[6, 6])
        True
    """
    generator = torch.Generator().manual_seed(problem.seed)
    shape = problem.bound.shape
    if kind_of(problem.bound) == "image":
        masks = draw_smooth_masks(shape, n_masks, cells, shown, generator)
    else:
        members = RowGroups.of(problem, None).members[0]  # alike for all: no input is looked at
        masks = (torch.rand(n_masks, int(members.max()) + 1, generator=generator) < shown).float()[:, members]
    rows = torch.arange(len(problem))
    scores = score_masks(problem, rows, n_masks, lambda i: masks[i]).movedim(1, -1)  # (rows, …, masks)
    flat = masks.flatten(1).to(scores)
    seen = scores @ flat / flat.sum(0).clamp_min(torch.finfo(flat.dtype).tiny)
    each = (seen - scores.mean(-1, keepdim=True)).reshape(*seen.shape[:-1], *masks.shape[1:])
    values = (each / (shape[0] // masks.shape[1])).expand(*seen.shape[:-1], *shape)  # the channels of a pixel share it
    return Explained(values.to(problem.end.device), {"n_masks": n_masks})


def draw_smooth_masks(shape: torch.Size, n: int, cells: int, shown: float, generator: torch.Generator) -> Tensor:
    """Random masks (n, 1, height, width) in [0, 1]: coarse grids of 0 and 1, enlarged and shifted by up to a cell."""
    sides = [-(-side // min(cells, side)) for side in shape[1:]]  # of a cell, in pixels
    counts = [min(cells, side) for side in shape[1:]]
    coarse = (torch.rand(n, 1, *counts, generator=generator) < shown).float()
    large = interpolate(
        coarse, [(k + 1) * side for k, side in zip(counts, sides, strict=True)], mode="bilinear", align_corners=False
    )
    down, right = (
        torch.randint(0, side, (n, 1), generator=generator) + torch.arange(length)
        for side, length in zip(sides, shape[1:], strict=True)
    )
    return large[torch.arange(n)[:, None, None], 0, down[:, :, None], right[:, None, :]][:, None].clamp(0, 1)
