"""Controls: maps that know nothing of the model, or of the class. What every method must beat, and no test may pass."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from leastpath._support.checks import Count
from leastpath._support.rows import per_row
from leastpath.features.groups import kind_of
from leastpath.features.images import edges_of
from leastpath.methods.by_path import path_method
from leastpath.methods.method import Explained, Problem, method
from leastpath.score.redrawn import draw_score, layers_of
from leastpath.score.score import Score
from leastpath.solvers import StraightLine

_LINE = path_method("integrated_gradients", "Integrated Gradients", StraightLine, "The straight line.")
N_STEPS = 20
PHOTOGRAPH = 32  # pixels a side from which an image is shown by its edges


@method("Random", "Normal numbers that know nothing of the model.", role="floor", cost=(0, 0))
def random(problem: Problem) -> Explained:
    """Standard normal numbers, drawn for each example from the seed and the example's own values.

    So different inputs get different numbers, and an input gets the same ones alone and in a batch.
    """
    rows = [_noise(x, problem.seed) for x in problem.end[:: problem.m].detach().cpu()]
    return Explained(torch.stack(rows).to(problem.end.device).repeat_interleave(problem.m, 0))


def _noise(x: Tensor, seed: int) -> Tensor:
    # Bytes, not hash(), which differs from process to process.
    content = x.reshape(-1).contiguous().view(torch.uint8).numpy().tobytes()
    digest = hashlib.sha256(content + str(seed).encode()).digest()
    generator = torch.Generator().manual_seed(int.from_bytes(digest[:8], "big", signed=True))
    return torch.randn(x.shape, generator=generator)


@method("Input alone", "What the input shows without the model: edges, or |x − baseline|.", role="floor", cost=(0, 0))
def input_alone(problem: Problem) -> Explained:
    """The size of the difference from the baseline; of an image with at least 32 pixels a side, how steep it is.

    It knows no model. A picture of the edges has two thirds of the support of the best gradient methods.

    Example:
        >>> import leastpath as lp
        >>> input_alone(lp.Score(lambda x: x.sum(1)), torch.tensor([[2.0, -3.0]])).values
        tensor([[2., 3.]])
    """
    if kind_of(problem.bound) == "image" and min(problem.bound.shape[1:]) >= PHOTOGRAPH:
        return Explained(torch.stack([edges_of(image) for image in problem.end]))
    return Explained((problem.end - problem.start).abs())


def _cost_of_steps(shape: Sequence[int], settings: Mapping[str, Any]) -> tuple[int, int]:
    return settings["n_steps"], 2


@method("Untrained net", "Integrated Gradients of the net with weights drawn anew.", role="floor", cost=_cost_of_steps)
def untrained(problem: Problem, *, n_steps: Count = N_STEPS) -> Explained:
    """Integrated Gradients of a copy of the net whose layers are drawn anew (Adebayo et al. 2018).

    Each layer is drawn by its `reset_parameters`, or its parameters are shuffled where it has none. The layer whose
    values are explained stays as it is.

    Args:
        n_steps: gradients per baseline.

    Example:
        >>> import leastpath as lp
        >>> untrained(lp.Score(nn.Linear(2, 3).eval(), 1), torch.ones(1, 2)).values.shape
        torch.Size([1, 2])
    """
    return _explain_line(problem, draw_score(problem.score, problem.seed), n_steps)


@method(
    "Another class", "Integrated Gradients of the most probable other class.", role="floor", unitless=True,
    cost=_cost_of_steps,
)  # fmt: skip
def other_class(problem: Problem, *, n_steps: Count = N_STEPS) -> Explained:
    """Integrated Gradients of the class that is most probable at the input, of those that are not explained.

    It knows the model, and not what is asked. With two classes, or a single output, it is the explanation with its sign
    turned round.

    Args:
        n_steps: gradients per baseline.

    Example:
        >>> import leastpath as lp
        >>> score = lp.Score(lambda x: x @ torch.tensor([[1.0, 0.0, 2.0], [0.0, 3.0, 0.0]]), 0)
        >>> other_class(score, torch.ones(1, 2)).values  # the second class
        tensor([[0., 3.]])
    """
    score = problem.score
    if score.target is None or callable(score.target):
        raise ValueError("other_class needs a score of a class: give an index as target, Score(model, target)")
    rows = torch.arange(len(problem))
    best, second = (
        _share_account(problem, replace(score, target=_Place(k), output="raw")).bound.values(problem.end, rows).long()
        for k in (0, 1)
    )
    best, second = (place[:: problem.m].cpu() for place in (best, second))
    asked = torch.as_tensor(score.target).cpu()
    other = torch.where(best == asked, second, best)
    found = _explain_line(problem, replace(score, target=other), n_steps)
    sign = torch.where(other == asked, -1.0, 1.0).repeat_interleave(problem.m).to(found.values)  # of a single output
    return replace(found, values=found.values * per_row(sign, found.values))


class _Place:
    """The class in place k when the most probable one has place 0: (rows, classes) -> (rows,)."""

    def __init__(self, k: int) -> None:
        self.k = k

    def __call__(self, logits: Tensor) -> Tensor:
        if logits.ndim > 2:
            raise ValueError(f"other_class needs logits (batch, classes), the model returns {tuple(logits.shape)}")
        if logits.ndim < 2 or logits.shape[1] == 1:
            return logits.new_zeros(len(logits))
        return logits.topk(2, 1).indices[:, self.k].to(logits.dtype)


def _explain_line(problem: Problem, score: Score, n_steps: int) -> Explained:
    """Integrated Gradients of another score at the same points."""
    other = _share_account(problem, score)
    settings = {**_LINE.defaults, "tolerance": None, "n_steps": n_steps, "measure": "values"}
    return Explained(_LINE.explain(other, **settings).values)


def _share_account(problem: Problem, score: Score) -> Problem:
    """The same problem for another score; what is spent on it counts as spent on this one."""
    other = Problem.bind(score, problem.inputs, problem.baselines, problem.run)
    for name in ("gradients_spent", "forwards_spent"):
        spent = getattr(problem.bound, name)
        spent += getattr(other.bound, name)
        setattr(other.bound, name, spent)
    return other


def name_controls(score: Score) -> list[str]:
    """The controls that apply to a score: weights are drawn anew of modules, and other classes are of scores of one.

    Example:
        >>> name_controls(Score(lambda x: x.sum(1)))
        ['random', 'input_alone']
    """
    model: object = score.model
    has_weights = isinstance(model, nn.Module) and any(part is not score.layer for _, part in layers_of(model))
    has_classes = score.target is not None and not callable(score.target)
    return ["random", "input_alone"] + ["untrained"] * has_weights + ["other_class"] * has_classes
