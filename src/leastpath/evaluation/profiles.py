"""What a score does along paths, over a plane and from each baseline: the numbers that pictures of `report` draw."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from leastpath._support.checks import check_integer, check_setting
from leastpath.attribution import attribute
from leastpath.geometry.path import Path
from leastpath.report.baselines import BaselineView
from leastpath.report.graph import Plane
from leastpath.report.paths import STRAIGHT, Profile, path_of
from leastpath.result.attribution import Attribution
from leastpath.score.baselines import BASELINES, baseline
from leastpath.score.calls import leave_untouched
from leastpath.score.score import BoundScore, Inputs, Score
from leastpath.solvers.solution import Solver
from leastpath.solvers.straight import StraightLine

Axis = Literal["share", "knots"]
GRID = 200  # points per side of a plane


def profile_paths(
    score: Score,
    paths: Attribution | Path | Mapping[str, Attribution | Path],
    example: int = 0,
    *,
    inputs: Inputs | None = None,
    samples: int = 200,
    axis: Axis = "share",
) -> dict[str, Profile]:
    """The score and the norm of its gradient along paths, and along the straight line: for `report.path_profile`.

    Args:
        score: what was explained.
        paths: results of `attribute`, or paths, by name; or one of them. The straight line between the ends of the
            first is added, unless one of the paths is straight.
        example: which path; with m baselines per example, path b · m + j.
        inputs: those of `attribute`; needed with `layer=`, tuple inputs, per-example arguments and several baselines.
        samples: points on each path, beside its knots.
        axis: positions are shares of the path's Euclidean length; or "knots", which gives each segment the same width,
            for paths with large changes within a small step.

    Example:
        >>> corner = Path.polyline(torch.tensor([[[0.0, 0.0], [1.0, 0.0], [1.0, 1.0]]]))
        >>> list(profile_paths(Score(lambda x: x.prod(1)), {"around the corner": corner}))
        ['straight line', 'around the corner']
    """
    check_setting("axis", axis, Axis)
    check_integer("samples", samples, 2)
    named = dict(paths) if isinstance(paths, Mapping) else {"path": paths}
    if not named:
        raise ValueError("there is nothing to draw: pass profile_paths(score, {'a name': result})")
    curves = {name: path_of(given, example) for name, given in named.items()}
    if not any(bool(path.is_straight[row]) for path, row in curves.values()):
        path, row = next(iter(curves.values()))
        curves = {STRAIGHT: (Path.straight(path.start, path.end), row), **curves}
    lengths, found = _lengths(named, example), {}
    for name, (path, row) in curves.items():
        with leave_untouched(score.model, path.points):
            bound = _bind(score, path, inputs)
            position, points = _sample(path[row].to(bound.work_dtype), samples, axis)
            values, gradients = bound.gradients(points.to(bound.dtype), torch.full((len(points),), row))
        norms = torch.linalg.vector_norm(gradients.flatten(1), dim=1)
        found[name] = Profile(position, values, norms, lengths.get(name), bool(path.is_straight[row]), axis)
    return found


def scores_along(
    score: Score, result: Attribution | Path, example: int = 0, *, frames: int = 8, inputs: Inputs | None = None
) -> Tensor:
    """The score at equally spaced points of a path, (frames,): for `report.path_film`.

    `inputs` are those of `attribute`; they are needed with per-example arguments and several baselines.

    Example:
        >>> path = Path.straight(torch.zeros(1, 2), torch.ones(1, 2))
        >>> scores_along(Score(lambda x: x.sum(1)), path, frames=3)
        tensor([0., 1., 2.])
    """
    path, row = path_of(result, example)
    shares = torch.linspace(0, 1, frames, dtype=torch.float64)
    along = path.select(torch.tensor([row])).at(shares)[0]  # (frames, *features)
    with leave_untouched(score.model, along):
        bound = _bind(score, path, inputs)
        return bound.values(along.to(bound.dtype), torch.full((frames,), row))


def score_plane(score: Score, *points: Tensor) -> Plane:
    """The score on a grid around points of two features, (n, 2) each: the background of `report.plot_graph`.

    Example:
        >>> plane = score_plane(Score(lambda x: x.sum(1)), torch.rand(9, 2))
        >>> plane.values.shape
        (200, 200)
    """
    shown = torch.cat([part.detach().cpu().double() for part in points]).numpy()
    low, high = shown.min(0), shown.max(0)
    margin = 0.05 * (high - low) + 1e-9
    x, y = (np.linspace(a, b, GRID) for a, b in zip(low - margin, high + margin, strict=True))
    grid = torch.as_tensor(np.stack(np.meshgrid(x, y), -1).reshape(-1, 2)).to(points[0])
    return Plane(x, y, score(grid).reshape(GRID, GRID).cpu().numpy())


def try_baselines(
    score: Score,
    image: Tensor,
    settings: Mapping[str, Mapping[str, Any]] | None = None,
    *,
    solver: Solver | None = None,
    **arguments: Any,
) -> dict[str, BaselineView]:
    """An image explained from several baselines: for `report.baselines_figure`.

    Args:
        score: what is explained.
        image: (channels, height, width), or a batch of one.
        settings: name of a baseline -> its settings, in the order to draw; by default all that need no data:
            "samples" needs `{"samples": {"points": train_images}}`. Of several baselines the first is shown.
        solver: the straight line by default.
        arguments: further arguments of `attribute`.

    Example:
        >>> score = Score(lambda x: torch.sigmoid(x.flatten(1).sum(1) - 8))
        >>> list(try_baselines(score, torch.rand(1, 4, 4), {"black": {}, "blur": {"sigma": 1.0}}))
        ['image', 'black', 'blur']
    """
    images = image if image.ndim == 4 else image[None]
    if images.ndim != 4 or len(images) != 1:
        raise ValueError(f"image has shape {tuple(image.shape)}, expected one, (channels, height, width)")
    chosen = {name: {} for name in BASELINES if name != "samples"} if settings is None else dict(settings)
    value = float(score(images)[0])
    found = {"image": BaselineView(images[0], None, value)}
    for name, given in chosen.items():
        start = baseline(name, images, score, **given)
        result = attribute(score, images, start, method=solver or StraightLine(), **arguments)
        assert isinstance(result.values, Tensor)  # of one image
        count = start.shape[1] if start.ndim == images.ndim + 1 else 1
        shown = start[0, 0] if start.ndim == images.ndim + 1 else start[0]
        found[name] = BaselineView(shown, result.values[0], value - float(result.score_change[0]), count)
    return found


def _lengths(named: Mapping[str, Attribution | Path], example: int) -> dict[str, float]:
    """Lengths as the integrator measured them. The samples of a picture could miss a steep place."""
    found: dict[str, float] = {}
    for name, result in named.items():
        if isinstance(result, Attribution) and result.path is not None and len(result.path) == len(result.length):
            found[name], ratio = float(result.length[example]), float(result.length_ratio[example])
            if STRAIGHT not in named and ratio > 0:
                found.setdefault(STRAIGHT, found[name] / ratio)
    return found


def _sample(knots: Tensor, samples: int, axis: Axis) -> tuple[Tensor, Tensor]:
    """Positions and points (n, *features) on one path, at its knots and in between."""
    line = Path.polyline(knots[None])
    if axis == "knots":
        points = line.subdivide(-(-samples // max(1, len(knots) - 1)))[0]
        return torch.linspace(0, 1, len(points), dtype=torch.float64), points
    travelled = torch.linalg.vector_norm(knots.diff(dim=0).flatten(1), dim=1).cpu().double().cumsum(0)
    even = torch.linspace(0, 1, samples, dtype=torch.float64)
    position = torch.cat([even, travelled / travelled[-1:].clamp_min(1e-300)]).clamp(0, 1).unique()
    return position, line.at(position)[0]


def _bind(score: Score, path: Path, inputs: Inputs | None) -> BoundScore:
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
