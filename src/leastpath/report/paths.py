"""Paths: the images along a path, and the score and its gradient along it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from itertools import cycle
from typing import TYPE_CHECKING

import numpy as np
import torch

from leastpath._support.checks import check_integer, write_number
from leastpath.geometry.path import Path
from leastpath.report.canvas import LONGEST_NAME, SERIES, Values, array, new_figure, plain, signed_row, without_ticks
from leastpath.report.heat import limits_of, to_display
from leastpath.result.attribution import Attribution

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FRAME = 1.5  # inches
STRAIGHT = "straight line"


def path_film(
    result: Attribution | Path,
    example: int = 0,
    *,
    frames: int = 8,
    scores: Values | None = None,
    difference: bool = True,
    limits: tuple[float, float] | None = None,
) -> Figure:
    """The image along its path as a strip, equally spaced by Euclidean length.

    Args:
        result: of `attribute` over images (batch, channels, height, width) or (batch, height, width); or a path.
        example: which path; with m baselines per example, path b · m + j.
        frames: how many images, the ends among them.
        scores: (frames,), written under the frames: `evaluation.scores_along(score, result, frames=frames)`.
        difference: a second row shows how far the path is from the straight line: red above, blue below. It is left
            out where the path is straight.
        limits: values shown as black and as white; 0 and 1 for images within these, else the extremes of the ends.

    Example:
        >>> import torch, leastpath as lp
        >>> from leastpath.report import path_film
        >>> score = lp.Score(lambda x: torch.sigmoid(x.flatten(1).sum(1) - 8))
        >>> from leastpath.evaluation import scores_along
        >>> result = lp.attribute(score, torch.rand(1, 1, 4, 4), method=lp.StraightLine())
        >>> figure = path_film(result, frames=5, scores=scores_along(score, result, frames=5))
    """
    path, example = path_of(result, example)
    check_integer("frames", frames, 2, advice="a film has at least its two ends")
    if path.points.ndim not in (3, 4):
        raise ValueError(
            f"the path runs through points of shape {tuple(path.points.shape[1:])}, expected images, (channels, "
            "height, width) or (height, width): draw tables and text with path_profile"
        )
    one = path.select(torch.tensor([example]))
    shares = torch.linspace(0, 1, frames, dtype=torch.float64)
    along = one.at(shares)[0]  # (frames, *features)
    line = Path.straight(one.start, one.end).at(shares)[0]
    images, aside = array(along), array(along - line)
    if images.ndim == 3:  # without channels
        images, aside = images[:, None], aside[:, None]
    bent = difference and float(np.abs(aside).max()) > 1e-6 * max(1e-12, float(np.abs(images).max()))
    labels = [f"{float(share):.0%}" for share in shares]
    if scores is not None:
        values = array(scores, "scores")
        if values.shape != (frames,):
            raise ValueError(f"scores have shape {values.shape}, expected one for each of {frames} frames: ({frames},)")
        labels = [f"{label}\nf = {write_number(float(value))}" for label, value in zip(labels, values, strict=True)]
    height = FRAME * images.shape[2] / images.shape[3]
    figure = new_figure(FRAME * frames + (0.9 if bent else 0.2), (height + 0.5) * (2 if bent else 1))
    grid = figure.subplots(2 if bent else 1, frames, squeeze=False)
    shown = limits or limits_of(images[0], images[-1])
    for axes, image, label in zip(grid[0], images, labels, strict=True):
        axes.imshow(to_display(image, shown), cmap="gray", vmin=0, vmax=1, interpolation="nearest")
        axes.set_xlabel(label, fontsize="small")
    grid[0, 0].set_ylabel("along the path", fontsize="small")
    if bent:
        signed_row(figure, grid[1], aside.mean(1), 99.5)
        grid[1, 0].set_ylabel("off the line", fontsize="small")
    without_ticks(grid.ravel())
    return figure


@dataclass(frozen=True)
class Profile:
    """The score and the norm of its gradient along one path: a line of `path_profile`."""

    position: Values  #: (n,), from 0 to 1
    values: Values  #: (n,)
    norms: Values  #: (n,)
    length: float | None = None  #: as the integrator measured it, where that is known
    is_straight: bool = False
    axis: str = "share"  #: positions are shares of the path's length, or of its "knots"


def path_profile(profiles: Mapping[str, Profile]) -> Figure:
    """The score and the norm of its gradient along the path, beside those along the straight line.

    This picture explains the method: the line crosses steep regions, and the short path goes around them.

    Args:
        profiles: what `evaluation.profile_paths(score, {"a name": result})` finds, by the name that the legend shows.

    Example:
        >>> import torch, leastpath as lp
        >>> from leastpath.evaluation import profile_paths
        >>> score = lp.Score(lambda x: torch.sigmoid(9 * x[:, 0] - 5) + x[:, 1] ** 2)
        >>> result = lp.attribute(score, torch.ones(1, 2), method=lp.Descent())
        >>> figure = path_profile(profile_paths(score, {"Descent": result}))
    """
    given: object = profiles
    if not isinstance(given, Mapping) or not profiles:
        got = "there is nothing to draw" if isinstance(given, Mapping) else f"got a {type(profiles).__name__}"
        raise ValueError(f"{got}: pass path_profile(profile_paths(score, {{'a name': result}}))")
    figure = new_figure(7.2, 5.2)
    upper, lower = figure.subplots(2, 1, sharex=True)
    for colour, (name, profile) in zip(_colours(profiles.values()), profiles.items(), strict=True):
        position = array(profile.position)
        label = name if profile.length is None else f"{name}: length {write_number(profile.length, 4)}"
        upper.plot(position, array(profile.values, "scores"), color=colour, lw=1.8, label=plain(label, LONGEST_NAME))
        lower.plot(position, array(profile.norms, "gradient norms"), color=colour, lw=1.8)
    _label_axes(upper, lower, next(iter(profiles.values())).axis)
    return figure


def _colours(profiles: Collection[Profile]) -> list[str]:
    """Black for straight lines, then one colour for each path."""
    others = cycle(SERIES[1:])
    return [SERIES[0] if profile.is_straight else next(others) for profile in profiles]


def _label_axes(upper: Axes, lower: Axes, axis: str) -> None:
    upper.set_ylabel("score f")
    lower.set_ylabel("gradient norm ‖∇f‖")
    lower.set_xlabel("share of the path's length" if axis == "share" else "share of the path's segments")
    positive = np.concatenate([line.get_ydata() for line in lower.lines])
    positive = positive[positive > 0]
    if positive.size and positive.max() > 1e3 * np.quantile(positive, 0.05):
        lower.set_yscale("log")
        lower.set_ylim(bottom=max(positive.min(), 1e-6 * positive.max()) / 2)
    else:
        lower.set_ylim(bottom=0)
    for axes in (upper, lower):
        axes.grid(alpha=0.3)
        axes.margins(x=0.01)
    upper.legend(fontsize="small", framealpha=0.9)


def path_of(result: Attribution | Path, example: int) -> tuple[Path, int]:
    """The paths of a result, and the number of the example, from 0."""
    path = result.path if isinstance(result, Attribution) else result
    if path is None:
        raise ValueError("the result has no path: pass one of attribute(…), or of a method that follows a path")
    if not isinstance(path, Path):
        raise ValueError(f"got a {type(path).__name__}, expected an Attribution or a Path")
    if not -len(path) <= example < len(path):
        raise ValueError(f"example={example}, but there are {len(path)} paths: 0 to {len(path) - 1}")
    return path, example % len(path)
