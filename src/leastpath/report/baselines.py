"""Baselines side by side: the starting points, their scores, and the attributions that they give."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from leastpath._support.checks import write_number
from leastpath.report.canvas import Values, array, new_figure, plain, signed_row, without_ticks
from leastpath.report.heat import PANEL, limits_of, to_display

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class BaselineView:
    """One column of `baselines_figure`: a picture, its score, and the attributions that it gives as a baseline."""

    picture: Values  #: (channels, height, width)
    values: Values | None  #: (channels, height, width); None for the explained image itself
    score: float  #: of the picture; of several baselines, their mean
    count: int = 1  #: how many baselines there are, of which this is the first


def baselines_figure(views: Mapping[str, BaselineView], *, percentile: float = 99) -> Figure:
    """Draw an image and its baselines in one row and the attributions that each gives below, on one scale.

    Args:
        views: what `evaluation.try_baselines(score, image)` finds: the image first, then its baselines, by name.
        percentile: of the magnitudes, where colours end.

    Example:
        >>> import torch, leastpath as lp
        >>> from leastpath.evaluation import try_baselines
        >>> score = lp.Score(lambda x: torch.sigmoid(x.flatten(1).sum(1) - 8))
        >>> figure = baselines_figure(try_baselines(score, torch.rand(1, 4, 4), {"black": {}}))
    """
    given: object = views
    if not isinstance(given, Mapping) or len(views) < 2:
        got = "no baseline" if isinstance(given, Mapping) else f"a {type(views).__name__}"
        raise ValueError(f"got {got}, there is nothing to draw: pass try_baselines(score, image, {{'black': {{}}}})")
    pictures = [array(view.picture, "pictures") for view in views.values()]
    planes = [array(view.values).sum(0) for view in views.values() if view.values is not None]
    panel, limits = PANEL * 0.75, limits_of(*pictures)
    height, width = pictures[0].shape[1:]
    figure = new_figure(panel * len(pictures) + 0.9, 2 * panel * height / width + 0.8)
    grid = figure.subplots(2, len(pictures))
    for axes, (name, view), picture in zip(grid[0], views.items(), pictures, strict=True):
        axes.imshow(to_display(picture, limits), cmap="gray", vmin=0, vmax=1, interpolation="nearest")
        axes.set_title(plain(name), fontsize="medium")
        prefix = f"first of {view.count}, mean " if view.count > 1 else ""
        axes.set_xlabel(f"{prefix}f = {write_number(view.score)}", fontsize="small")
    grid[1, 0].set_axis_off()
    signed_row(figure, grid[1], np.stack(planes), percentile)
    grid[1, 1].set_ylabel("attribution", fontsize="small")
    without_ticks(grid.ravel())
    return figure
