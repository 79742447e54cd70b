"""References that need no gradient: a random order, leaving one feature out, and Shapley values by permutation."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

import torch
from torch import Tensor

from leastpath._support.rows import flat_rows
from leastpath.methods import METHODS
from leastpath.removal.chance import draw_fields
from leastpath.removal.curves import judged_score
from leastpath.score.score import BoundScore
from studies.truth.problem import Problem

PERMUTATIONS = 4
Found = tuple[Tensor, Tensor, Tensor]
"""Values (n, *features), f(x) − f(x̄) (n,), and what they cost in gradients (n,): a forward is a third of one."""


def random_values(problem: Problem, baselines: Tensor) -> Found:
    """Normal numbers, others for each example; they are the same however examples are blocked."""
    bound, start, end = _bound(problem, baselines)
    drawn = [torch.randn(point.shape, generator=_generator_of(point)) for point in end]
    return torch.stack(drawn), _change(bound, start, end), torch.zeros(bound.batch, dtype=torch.long)


def smooth_random(problem: Problem, baselines: Tensor) -> Found:
    """A random field, smooth over two of 16 × 16 cells: smooth maps gain more than noise without knowing anything."""
    bound, start, end = _bound(problem, baselines)
    cells, drawn = min(16, end.shape[-1]), []
    for point in end:
        field = draw_fields(1, (cells, cells), 2.0, _generator_of(point)).view(1, 1, cells, cells)
        drawn.append(torch.nn.functional.interpolate(field, size=point.shape[1:])[0].expand_as(point))
    return torch.stack(drawn), _change(bound, start, end), torch.zeros(bound.batch, dtype=torch.long)


def _generator_of(point: Tensor) -> torch.Generator:
    """Seeded by what is in a point."""
    return torch.Generator().manual_seed(int(flat_rows(point[None]).double().abs().sum() * 1e6) % 2**31)


def occlusion(problem: Problem, baselines: Tensor) -> Found:
    """How much the score falls when a feature alone is at its baseline; shared by the numbers of the feature."""
    bound, start, end = _bound(problem, baselines)
    index = _groups(problem, bound)
    n, rows, clean = int(index.max()) + 1, torch.arange(bound.batch), _values(bound, end)
    effects = []
    for groups in torch.arange(n).split(max(1, bound.batch_size // bound.batch)):  # full batches
        without = torch.cat([torch.where(index == group, start, end) for group in groups])
        effects.append(clean - bound.values(without, rows.repeat(len(groups))).view(len(groups), -1))
    cost = torch.full((bound.batch,), n // 3)
    return _shared(torch.cat(effects).T, index), clean - _values(bound, start), cost


def shapley(problem: Problem, baselines: Tensor) -> Found:
    """The mean, over random orders, of what each feature adds to those before it."""
    bound, start, end = _bound(problem, baselines)
    index = _groups(problem, bound)
    n, rows = int(index.max()) + 1, torch.arange(bound.batch)
    effects = torch.zeros(bound.batch, n, dtype=bound.work_dtype)
    generator = torch.Generator().manual_seed(0)
    for _ in range(PERMUTATIONS):
        point, before = start, _values(bound, start)
        for group in torch.randperm(n, generator=generator).tolist():
            point = torch.where(index == group, end, point)
            after = bound.values(point, rows)
            effects[:, group] += (after - before) / PERMUTATIONS
            before = after
    cost = torch.full((bound.batch,), PERMUTATIONS * n // 3)
    return _shared(effects, index), _change(bound, start, end), cost


def _bound(problem: Problem, baselines: Tensor) -> tuple[BoundScore, Tensor, Tensor]:
    """In probability, or the score of a regression: what the gain is measured in."""
    judged, scale = judged_score(problem.score(problem.output))
    bound = (problem.score("softmax") if scale == "log_odds" else judged).bind(problem.inputs)
    start, end = bound.space.ends(baselines[:, 0])
    return bound, start, end


def _groups(problem: Problem, bound: BoundScore) -> Tensor:
    """(n, *features), −1 for what has no group."""
    if problem.labels is None:
        return torch.arange(bound.n_features).reshape(bound.shape).expand(bound.batch, *bound.shape)
    return problem.labels.expand(bound.batch, *bound.shape)


def _shared(effects: Tensor, index: Tensor) -> Tensor:
    """The effect of each group (n, groups), shared evenly by its numbers: (n, *features)."""
    flat = flat_rows(index)
    sizes = torch.zeros_like(effects).scatter_add_(1, flat.clamp_min(0), (flat >= 0).to(effects))
    each = (effects / sizes.clamp_min(1)).gather(1, flat.clamp_min(0))
    return torch.where(flat >= 0, each, 0).reshape(index.shape)


def _values(bound: BoundScore, points: Tensor) -> Tensor:
    return bound.values(points, torch.arange(bound.batch))


def _change(bound: BoundScore, start: Tensor, end: Tensor) -> Tensor:
    return _values(bound, end) - _values(bound, start)


def sliding_windows(problem: Problem, baselines: Tensor) -> Found:
    """Windows of a quarter of the side in the logit, by a quarter of a window, from all baselines."""
    shape = problem.inputs.shape[1:]
    window = (shape[0], *(-(-side // 4) for side in shape[1:]))
    stride = (shape[0], *(max(1, side // 4) for side in window[1:]))
    result = METHODS["occlusion"](
        problem.score("raw"), problem.inputs, baselines, window=window, stride=stride, support=False
    )
    assert isinstance(result.values, Tensor)
    return result.values, result.score_change, result.n_forwards // 3


def edges(problem: Problem, baselines: Tensor) -> Found:
    """How steep a picture's grey is, which knows no model."""
    bound, start, end = _bound(problem, baselines)
    down, right = torch.gradient(end.mean(1, keepdim=True), dim=(2, 3))
    return torch.hypot(down, right).expand_as(end), _change(bound, start, end), torch.zeros(len(end), dtype=torch.long)


def distance(problem: Problem, baselines: Tensor) -> Found:
    """How far each value is from its baseline, which knows no model."""
    bound, start, end = _bound(problem, baselines)
    return (end - start).abs(), _change(bound, start, end), torch.zeros(len(end), dtype=torch.long)


REFERENCES: Mapping[str, Callable[[Problem, Tensor], Found]] = MappingProxyType(
    {
        "random": random_values,
        "smooth_random": smooth_random,
        "occlusion": occlusion,
        "shapley": shapley,
        "sliding_windows": sliding_windows,
        "edges": edges,
        "distance": distance,
    }
)
