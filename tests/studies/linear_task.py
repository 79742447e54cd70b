"""Pictures of a linear net, on which closed forms are known."""

import torch
from torch import nn

from helpers import flat_points
from studies.findings.choices.task import ImageTask


def images(n: int, channels: int = 1, side: int = 4) -> torch.Tensor:
    return flat_points(n, channels * side * side, seed=5).sigmoid().view(n, channels, side, side)


def linear_task(n: int = 3) -> tuple[ImageTask, torch.Tensor]:
    """A linear net of two classes, and w (16,): the gradient of any of its outputs is a multiple of w everywhere."""
    net = nn.Sequential(nn.Flatten(), nn.Linear(16, 2)).requires_grad_(False).eval()
    net[1].weight.copy_(flat_points(2, 16, seed=3) / 4)
    net[1].bias.zero_()
    return ImageTask("digits", net, images(n)), net[1].weight[1] - net[1].weight[0]
