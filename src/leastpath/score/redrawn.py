"""The same net with other weights: for everything that asks what a net that has learnt nothing would show."""

from __future__ import annotations

import copy
from dataclasses import replace

import torch
from torch import nn

from leastpath.score.score import Score


def layers_of(model: nn.Module) -> list[tuple[str, nn.Module]]:
    """The modules with parameters of their own, by name.

    Example:
        >>> [name for name, _ in layers_of(nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 1)))]
        ['0', '2']
    """
    return [(name, part) for name, part in model.named_modules() if any(True for _ in part.parameters(False))]


NO_PARAMETERS = "{} has no parameters to draw anew: its weights must be nn.Parameter"


def copy_to_draw(model: object) -> nn.Module:
    """A copy of a net whose weights can be drawn anew."""
    if not isinstance(model, nn.Module):
        raise ValueError(f"a {type(model).__name__} has no weights to draw anew: Score needs a torch.nn.Module")
    return copy.deepcopy(model)


def draw_layer(layer: nn.Module, seed: int) -> None:
    """Draw a layer's weights anew, in place: by its `reset_parameters`, or else each parameter is shuffled."""
    with torch.random.fork_rng(), torch.no_grad():
        torch.manual_seed(seed)
        reset = getattr(layer, "reset_parameters", None)
        if callable(reset):
            reset()
            return
        for parameter in layer.parameters(recurse=False):
            places = torch.randperm(parameter.numel()).to(parameter.device)
            parameter.copy_(parameter.flatten()[places].view_as(parameter))


def move_score(score: Score, model: nn.Module) -> Score:
    """The score of a changed copy of its model, at the same layer."""
    if score.layer is None:
        return replace(score, model=model)
    assert isinstance(score.model, nn.Module)
    name = next(name for name, part in score.model.named_modules() if part is score.layer)
    return replace(score, model=model, layer=model.get_submodule(name))


def draw_score(score: Score, seed: int) -> Score:
    """The score of a copy of its net, all of whose layers are drawn anew, but for the one whose values are explained.

    Example:
        >>> score = Score(nn.Linear(2, 3), 1)
        >>> other = draw_score(score, seed=0)
        >>> bool((other.model.weight == score.model.weight).any()), other.target
        (False, 1)
    """
    moved = move_score(score, copy_to_draw(score.model))
    layers = [part for _, part in layers_of(moved.model) if part is not moved.layer]  # type: ignore[arg-type]
    if not layers:
        raise ValueError(NO_PARAMETERS.format(type(score.model).__name__))
    for i, layer in enumerate(layers):
        draw_layer(layer, seed + 1 + i)
    return moved
