"""The maps that are judged: explanations that should pass, and controls that know nothing and should not."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import torch
from torch import Tensor

from leastpath.features.images import edges_of
from leastpath.methods import METHODS
from leastpath.removal.chance import draw_fields
from leastpath.removal.curves import class_log_odds
from leastpath.score.score import Score
from studies.truth.problem import Problem
from studies.verdict.tasks import Sort

EVERY: tuple[Sort, ...] = ("table", "digits", "text", "photograph")
IMAGES: tuple[Sort, ...] = ("digits", "photograph")
STEPS = {"photograph": 16, "text": 20}  # gradients of an integral; 50 where they cost little
WINDOW, STRIDE = 32, 8  # pixels, of windows on photographs


@dataclass(frozen=True)
class Kind:
    """A sort of maps.

    Args:
        name: as results are kept.
        title: as in tables.
        good: whether it explains what the model does; the others should not pass.
        sorts: of inputs that it is made for.
        limit: a control that is known to pass too often, since it does know the model.

    Example:
        >>> KINDS["edges"].good
        False
    """

    name: str
    title: str
    good: bool = False
    sorts: tuple[Sort, ...] = EVERY
    limit: bool = False


_ALL = (
    Kind("context", "windows in context", True, ("photograph",)),
    Kind("staircases", "staircases", True),
    Kind("occlusion", "occlusion", True),
    Kind("idgi", "IDGI", True, ("photograph",)),
    Kind("ig", "IG", True),
    Kind("random", "random"),
    Kind("smooth1", "smooth random, σ = 1", sorts=IMAGES),
    Kind("smooth2", "smooth random, σ = 2", sorts=IMAGES),
    Kind("size", "|x − b|"),
    Kind("difference", "x − b", sorts=("table", "digits", "photograph")),
    Kind("edges", "edges", sorts=IMAGES),
    Kind("rarity", "how rare a word is", sorts=("text",)),
    Kind("untrained", "IG of an untrained net"),
    Kind("untrained-size", "its size"),
    Kind("other", "IG of another class"),
    Kind("equal", "equal values"),
    Kind("reversed", "IG reversed"),
    Kind("other-size", "size of IG of another class", limit=True),
)
KINDS: Mapping[str, Kind] = MappingProxyType({kind.name: kind for kind in _ALL})
"""By name, in the order in which they are judged: what may pass first, so that the others face all removals."""
RANDOM_SEEDS = (1, 2, 3, 4)  # of four random maps that are judged together, as a user tries four methods


def kinds_of(sort: Sort) -> list[Kind]:
    """The kinds of maps for a sort of inputs.

    Example:
        >>> [kind.name for kind in kinds_of("table") if kind.good]
        ['staircases', 'occlusion', 'ig']
    """
    return [kind for kind in KINDS.values() if sort in kind.sorts]


def draw_maps(problem: Problem, sort: Sort, seed: int) -> dict[str, Tensor]:
    """A map of each kind for each of a problem's inputs: (n, *features), tokens (n, length)."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # statuses are counted, not read
        found = explain_well(problem, sort) | draw_controls(problem, sort, seed)
        found |= {f"random{k}": _call("random", problem, sort, seed=1000 * seed + k).values for k in RANDOM_SEEDS}
    found["reversed"] = -found["context" if sort == "photograph" else "ig"]
    return {name: values.sum(-1) if _has_width(values, sort) else values for name, values in found.items()}


def _has_width(values: Tensor, sort: Sort) -> bool:
    return sort == "text" and values.ndim == 3  # numbers of an embedding: a token is what is explained


def explain_well(problem: Problem, sort: Sort) -> dict[str, Tensor]:
    """What explains the model: on photographs from two baselines, and of the log-odds, or of the logit by default."""
    steps: dict[str, Any] = {"tolerance": None, "n_steps": STEPS.get(sort, 50)}
    found = {
        "ig": _call("integrated_gradients", problem, sort, **steps).values,
        "staircases": _call("staircase", problem, sort).values,
    }
    window: dict[str, Any] = (
        {"window": (3, WINDOW, WINDOW), "stride": (3, STRIDE, STRIDE)} if sort == "photograph" else {}
    )
    found["occlusion"] = _call("occlusion", problem, sort, **window).values
    if sort == "photograph":
        found["idgi"] = _call("idgi", problem, sort, **steps).values
        starts = problem.baselines
        found["context"] = METHODS["windows_in_context"](
            problem.score("raw"), problem.inputs, starts, support=False
        ).values
    return found


def draw_controls(problem: Problem, sort: Sort, seed: int) -> dict[str, Tensor]:
    """What knows nothing of the model, or of the class."""
    steps: dict[str, Any] = {"n_steps": STEPS.get(sort, 50)}
    untrained, other = (
        _call(name, problem, sort, baselines=1, seed=seed, **steps).values for name in ("untrained", "other_class")
    )
    if sort == "text":
        untrained, other = untrained.sum(-1), other.sum(-1)
    ends = problem.score(problem.output).bind(problem.inputs).space.points()
    difference = ends - problem.baselines[:, 0]
    found = {
        "random": _call("random", problem, sort, seed=seed).values, "untrained": untrained,
        "untrained-size": untrained.abs(), "other": other, "other-size": other.abs(),
        "equal": _give_equally(problem, sort, untrained), "size": difference.abs(), "difference": difference,
    }  # fmt: skip
    if sort == "text":  # vocabularies are numbered by how often a piece is met
        found["rarity"] = problem.inputs.double().log1p()
    if sort not in IMAGES:
        return found
    found["edges"] = torch.stack([edges_of(image) for image in ends])
    for width in (1, 2):
        found[f"smooth{width}"] = _draw_smooth(ends, width, seed)
    return found


def _give_equally(problem: Problem, sort: Sort, like: Tensor) -> Tensor:
    """The same for every unit: where several numbers stand for one column, the first has it."""
    if sort != "table" or problem.labels is None:
        return torch.ones_like(like)
    labels = problem.labels.flatten()
    first = torch.tensor([bool((labels[:i] != label).all()) for i, label in enumerate(labels)])
    return first.to(like).expand_as(like)


def _draw_smooth(images: Tensor, width: int, seed: int) -> Tensor:
    """Fields that are smooth over so many units: patches of photographs, pixels of digits."""
    cells = min(16, images.shape[-1])
    generator = torch.Generator().manual_seed(10_000 * width + seed)
    fields = draw_fields(len(images), (cells, cells), width, generator).view(-1, 1, cells, cells)
    scale = images.shape[-1] // cells
    return fields.repeat_interleave(scale, 2).repeat_interleave(scale, 3).expand_as(images)


def _call(name: str, problem: Problem, sort: Sort, *, baselines: int = 2, seed: int = 0, **settings: Any) -> Any:
    """A method of the table on the problem's inputs."""
    score = explained_score(problem, sort)
    starts = problem.baselines[:, : baselines if sort == "photograph" else 1]
    if problem.labels is not None and sort != "photograph" and "groups" in METHODS[name].defaults:
        settings["groups"] = problem.labels
    return METHODS[name](score, problem.inputs, starts, seed=seed, support=False, **settings)


def explained_score(problem: Problem, sort: Sort) -> Score:
    """The log-odds of photographs, where a saturated net gives nothing else to see; else what the problem says."""
    make: Callable[[Any], Score] = problem.score
    return make(class_log_odds if sort == "photograph" else problem.output)
