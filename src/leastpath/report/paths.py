"""Paths: the images along a path, and the score and its gradient along it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
import torch

from leastpath._support.checks import check_integer
from leastpath._support.numbers import written
from leastpath.geometry.path import Path
from leastpath.report.canvas import SERIES, array, new_figure, plain, signed_row, without_ticks
from leastpath.report.heat import displayed, limits_of
from leastpath.result.attribution import Attribution
from leastpath.score.bound import BoundScore
from leastpath.score.guards import untouched
from leastpath.score.score import Inputs, Score

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
    score: Score | None = None,
    inputs: Inputs | None = None,
    difference: bool = True,
    limits: tuple[float, float] | None = None,
) -> Figure:
    """The image along its path as a strip, equally spaced by Euclidean length.

    Args:
        result: of `attribute` over images (batch, channels, height, width) or (batch, height, width); or a path.
        example: which path; with m baselines an example, path b · m + j.
        frames: how many images, the ends among them.
        score: writes its value under each frame.
        inputs: those of `attribute`, for the score; needed with per-example arguments and several baselines.
        difference: a second row shows how far the path is from the straight line: red above, blue below. It is left
            out where the path is straight.
        limits: values shown as black and as white; 0 and 1 for images within these, else the extremes of the ends.

    Example:
        >>> import torch, leastpath as lp
        >>> from leastpath.report import path_film
        >>> score = lp.Score(lambda x: torch.sigmoid(x.flatten(1).sum(1) - 8))
        >>> result = lp.attribute(score, torch.rand(1, 1, 4, 4), solver=lp.StraightLine())
        >>> figure = path_film(result, frames=5, score=score)
    """
    path, example = _checked_path(result, example)
    if frames < 2:
        raise ValueError(f"frames={frames}: a film has at least its two ends")
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
    if score is not None:
        with untouched(score.model, along.device):
            bound = _bound(score, path, inputs)
            values = bound.values(along.to(bound.dtype), torch.full((frames,), example))
        labels = [f"{label}\nf = {written(float(value))}" for label, value in zip(labels, values, strict=True)]
    height = FRAME * images.shape[2] / images.shape[3]
    figure = new_figure(FRAME * frames + (0.9 if bent else 0.2), (height + 0.5) * (2 if bent else 1))
    grid = figure.subplots(2 if bent else 1, frames, squeeze=False)
    shown = limits or limits_of(images[0], images[-1])
    for axes, image, label in zip(grid[0], images, labels, strict=True):
        axes.imshow(displayed(image, shown), cmap="gray", vmin=0, vmax=1, interpolation="nearest")
        axes.set_xlabel(label, fontsize="small")
    grid[0, 0].set_ylabel("along the path", fontsize="small")
    if bent:
        signed_row(figure, grid[1], aside.mean(1), 99.5)
        grid[1, 0].set_ylabel("off the line", fontsize="small")
    without_ticks(grid.ravel())
    return figure


def path_profile(
    score: Score,
    paths: Attribution | Path | Mapping[str, Attribution | Path],
    example: int = 0,
    *,
    inputs: Inputs | None = None,
    samples: int = 200,
    axis: str = "share",
) -> Figure:
    """The score and the norm of its gradient along the path, beside those along the straight line.

    This picture explains the method: the line crosses steep regions, and the short path goes around them.

    Args:
        score: what was explained.
        paths: results of `attribute`, or paths, by the name that the legend shows; or one of them. The straight line
            between the ends of the first is added, unless one of the paths is straight.
        example: which path; with m baselines an example, path b · m + j.
        inputs: those of `attribute`; needed with `layer=`, tuple inputs, per-example arguments and several baselines.
        samples: points on each path, beside its knots.
        axis: "share" of the path's Euclidean length; or "knots", which gives each segment the same width, for paths
            with large changes within a small step.

    Example:
        >>> import torch, leastpath as lp
        >>> from leastpath.report import path_profile
        >>> score = lp.Score(lambda x: torch.sigmoid(9 * x[:, 0] - 5) + x[:, 1] ** 2)
        >>> result = lp.attribute(score, torch.ones(1, 2), solver=lp.Descent())
        >>> figure = path_profile(score, {"Descent": result})
    """
    if axis not in ("share", "knots"):
        raise ValueError(f'axis={axis!r} is unknown: use "share" or "knots"')
    check_integer("samples", samples, 2)
    named = dict(paths) if isinstance(paths, Mapping) else {"path": paths}
    if not named:
        raise ValueError("there is nothing to draw: pass path_profile(score, {'a name': result})")
    curves = {name: _checked_path(given, example) for name, given in named.items()}
    if not any(bool(path.is_straight[row]) for path, row in curves.values()):
        path, row = next(iter(curves.values()))
        curves = {STRAIGHT: (Path.straight(path.start, path.end), row), **curves}
    lengths = _lengths(named, example)
    figure = new_figure(7.2, 5.2)
    upper, lower = figure.subplots(2, 1, sharex=True)
    for colour, (name, (path, row)) in zip(_colours(curves), curves.items(), strict=True):
        with untouched(score.model, path.points.device):
            position, values, norms = _sampled(_bound(score, path, inputs), path, row, samples, axis)
        label = f"{name}: length {written(float(lengths[name]), 4)}" if name in lengths else name
        upper.plot(position, values, color=colour, lw=1.8, label=plain(label))
        lower.plot(position, norms, color=colour, lw=1.8)
    _dressed(upper, lower, axis)
    return figure


def _colours(curves: Mapping[str, tuple[Path, int]]) -> list[str]:
    """Black for straight lines, then one colour a path."""
    others = iter(SERIES[1:] * (1 + len(curves) // len(SERIES[1:])))
    return [SERIES[0] if bool(path.is_straight[row]) else next(others) for path, row in curves.values()]


def _dressed(upper: Axes, lower: Axes, axis: str) -> None:
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


def _lengths(named: Mapping[str, Attribution | Path], example: int) -> dict[str, float]:
    """Lengths as the integrator measured them. The samples of a picture could miss a steep place."""
    found: dict[str, float] = {}
    for name, result in named.items():
        if isinstance(result, Attribution) and result.path is not None and len(result.path) == len(result.length):
            found[name], ratio = float(result.length[example]), float(result.length_ratio[example])
            if STRAIGHT not in named and ratio > 0:
                found.setdefault(STRAIGHT, found[name] / ratio)
    return found


def _sampled(
    bound: BoundScore, path: Path, row: int, samples: int, axis: str
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Position, score and gradient norm on one path, at its knots and in between."""
    knots = path[row].to(bound.work_dtype)
    line = Path.polyline(knots[None])
    if axis == "knots":
        points = line.subdivide(-(-samples // max(1, len(knots) - 1)))[0]
        position = torch.linspace(0, 1, len(points), dtype=torch.float64)
    else:
        travelled = torch.linalg.vector_norm(knots.diff(dim=0).flatten(1), dim=1).double().cpu().cumsum(0)
        even = torch.linspace(0, 1, samples, dtype=torch.float64)
        position = torch.cat([even, travelled / travelled[-1:].clamp_min(1e-300)]).clamp(0, 1).unique()
        points = line.at(position)[0]
    values, gradients = bound.gradients(points.to(bound.dtype), torch.full((len(points),), row))
    norms = torch.linalg.vector_norm(gradients.flatten(1), dim=1)
    return array(position), array(values, "scores"), array(norms, "gradient norms")


def _checked_path(result: Attribution | Path, example: int) -> tuple[Path, int]:
    """The paths, and the index of the example as a number from 0."""
    path = result.path if isinstance(result, Attribution) else result
    if path is None:
        raise ValueError("the result has no path: pass one of attribute(…), or of a method that follows a path")
    if not isinstance(path, Path):
        raise ValueError(f"got a {type(path).__name__}, expected an Attribution or a Path")
    if not -len(path) <= example < len(path):
        raise ValueError(f"example={example}, but there are {len(path)} paths: 0 to {len(path) - 1}")
    return path, example % len(path)


def _bound(score: Score, path: Path, inputs: Inputs | None) -> BoundScore:
    """The score of the examples that the paths belong to."""
    if inputs is None:
        if score.layer is not None:
            raise ValueError(
                "the score explains a layer, and paths run through its activations: pass inputs=inputs too"
            )
        return score.bind(path.end)
    batch = len(inputs[0]) if isinstance(inputs, tuple) else len(inputs)
    if batch == 0 or len(path) % batch:
        raise ValueError(f"got {batch} inputs for {len(path)} paths: pass the inputs that the paths were found for")
    return score.bind(inputs, len(path) // batch)
