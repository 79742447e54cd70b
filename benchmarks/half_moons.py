"""The half-moons data and net of the paper's first experiment, for benchmarks."""

from __future__ import annotations

import torch
from sklearn.datasets import make_moons
from torch import Tensor, nn

BASELINE = torch.tensor([[-0.5, -0.5]])


def trained(
    noise: float = 0.15, seed: int = 0, samples: int = 10_000, epochs: int = 50, dtype: torch.dtype = torch.float32
) -> tuple[nn.Module, Tensor, Tensor]:
    """A 2-10-10-2 ReLU net trained on 80 % of the points: (net, all points (samples, 2), labels (samples,))."""
    x, y = make_moons(samples, noise=noise, random_state=seed)
    points, labels = torch.tensor(x, dtype=dtype), torch.tensor(y)
    n_train = int(0.8 * samples)
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        net = nn.Sequential(nn.Linear(2, 10), nn.ReLU(), nn.Linear(10, 10), nn.ReLU(), nn.Linear(10, 2)).to(dtype)
        optimizer = torch.optim.Adam(net.parameters(), 1e-3)
        for _ in range(epochs):
            for batch in torch.randperm(n_train).split(32):
                optimizer.zero_grad()
                nn.functional.cross_entropy(net(points[batch]), labels[batch]).backward()
                optimizer.step()
    return net.eval(), points, labels
