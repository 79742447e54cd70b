"""Baselines side by side: the starting points, their scores, and the attributions that they give."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from torch import Tensor

from leastpath._support.numbers import written
from leastpath.attribution import attribute
from leastpath.report.canvas import array, new_figure, plain, signed_row, without_ticks
from leastpath.report.heat import PANEL, displayed, limits_of
from leastpath.score.baselines import BASELINES, baseline
from leastpath.score.score import Score
from leastpath.solvers.solution import Solver
from leastpath.solvers.straight import StraightLine

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def baselines_figure(
    score: Score,
    image: Tensor,
    settings: Mapping[str, Mapping[str, Any]] | None = None,
    *,
    solver: Solver | None = None,
    percentile: float = 99,
    **arguments: Any,
) -> Figure:
    """Draw an image's baselines in one row and the attributions that each gives below, on one scale.

    Args:
        score: what is explained.
        image: (channels, height, width), or a batch of one.
        settings: name of a baseline -> its settings, in the order to draw; by default all that need no data:
            "samples" needs `{"samples": {"points": train_images}}`. Of several baselines the first is shown.
        solver: the straight line by default.
        percentile: of the magnitudes, where colours end.
        arguments: further arguments of `attribute`.

    Example:
        >>> import torch, leastpath as lp
        >>> from leastpath.report import baselines_figure
        >>> score = lp.Score(lambda x: torch.sigmoid(x.flatten(1).sum(1) - 8))
        >>> figure = baselines_figure(score, torch.rand(1, 4, 4), {"black": {}, "blur": {"sigma": 1.0}})
    """
    images = image if image.ndim == 4 else image[None]
    if images.ndim != 4 or len(images) != 1:
        raise ValueError(f"image has shape {tuple(image.shape)}, expected one, (channels, height, width)")
    chosen = {name: {} for name in BASELINES if name != "samples"} if settings is None else dict(settings)
    if not chosen:
        raise ValueError("there is nothing to draw: name at least one baseline, as in {'black': {}}")
    value = float(score(images)[0])
    pictures, planes, labels = [array(images[0], "image")], [], [f"f = {written(value)}"]
    for name, given in chosen.items():
        start = baseline(name, images, score, **given)
        result = attribute(score, images, start, solver=solver or StraightLine(), **arguments)
        several = start.ndim == images.ndim + 1
        pictures.append(array(start[0, 0] if several else start[0], "baselines"))
        planes.append(array(result)[0].sum(0))
        prefix = f"first of {start.shape[1]}, mean " if several else ""
        labels.append(f"{prefix}f = {written(value - float(result.score_change[0]))}")
    panel, limits = PANEL * 0.75, limits_of(*pictures)
    figure = new_figure(panel * len(pictures) + 0.9, 2 * panel * images.shape[2] / images.shape[3] + 0.8)
    grid = figure.subplots(2, len(pictures))
    for axes, name, picture, label in zip(grid[0], ["image", *chosen], pictures, labels, strict=True):
        axes.imshow(displayed(picture, limits), cmap="gray", vmin=0, vmax=1, interpolation="nearest")
        axes.set_title(plain(name), fontsize="medium")
        axes.set_xlabel(label, fontsize="small")
    grid[1, 0].set_axis_off()
    signed_row(figure, grid[1], np.stack(planes), percentile)
    grid[1, 1].set_ylabel("attribution", fontsize="small")
    without_ticks(grid.ravel())
    return figure
