"""The digits that several benchmarks explain, and the net that they explain."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from studies.findings.nets import N_TRAINED, digit_images


def digits() -> tuple[Tensor, Tensor]:
    """scikit-learn's 8 × 8 digits in [0, 1]: (1797, 64), and their labels (1797,)."""
    images, labels = digit_images()
    return images.flatten(1), labels


def trained() -> nn.Module:
    """A small ReLU net, trained on the first 1,200 digits."""
    images, labels = (part[:N_TRAINED] for part in digits())
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
    optimizer = torch.optim.Adam(net.parameters(), 2e-3)
    for _ in range(60):
        for rows in torch.randperm(len(images)).split(64):
            optimizer.zero_grad()
            nn.functional.cross_entropy(net(images[rows]), labels[rows]).backward()
            optimizer.step()
    return net.eval()
