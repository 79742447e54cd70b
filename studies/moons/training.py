"""Half-moons data, and the training of all its nets at once."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from leastpath.account.run import Bar

WIDTHS = (2, 10, 10, 2)
BATCH, LEARNING_RATE, EPOCHS = 32, 1e-3, 50
N_SAMPLES, N_TRAIN = 10_000, 8_000


@dataclass(frozen=True)
class Moons:
    """Data of one net: noise of the moons, and the seed of data, first weights and order of training.

    Example:
        >>> train, labels = Moons(noise=0.15, seed=12).train
        >>> train.shape, labels.shape
        (torch.Size([8000, 2]), torch.Size([8000]))
    """

    noise: float
    seed: int

    @property
    def key(self) -> str:
        """Names the net in stores and tables."""
        return f"noise={self.noise:.2f} seed={self.seed}"

    @property
    def train(self) -> tuple[Tensor, Tensor]:
        """Points (8000, 2) and labels (8000,)."""
        points, labels = self._samples()
        return points[:N_TRAIN], labels[:N_TRAIN]

    @property
    def test(self) -> tuple[Tensor, Tensor]:
        """Points (2000, 2) and labels (2000,)."""
        points, labels = self._samples()
        return points[N_TRAIN:], labels[N_TRAIN:]

    def _samples(self) -> tuple[Tensor, Tensor]:
        from sklearn.datasets import make_moons

        points, labels = make_moons(N_SAMPLES, noise=self.noise, random_state=self.seed)  # comes shuffled
        return torch.tensor(points, dtype=torch.float32), torch.tensor(labels)


def new_net(seed: int = 0) -> nn.Sequential:
    """A 2-10-10-2 ReLU net with PyTorch's first weights, (batch, 2) -> (batch, 2) logits.

    Example:
        >>> new_net(12)(torch.zeros(3, 2)).shape
        torch.Size([3, 2])
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        layers: list[nn.Module] = []
        for wide, next_wide in itertools.pairwise(WIDTHS):
            layers += [nn.Linear(wide, next_wide), nn.ReLU()]
        return nn.Sequential(*layers[:-1])


def loaded_net(weights: Mapping[str, Tensor]) -> nn.Sequential:
    """The net with these weights, ready to be explained: its parameters need no gradients.

    Example:
        >>> loaded_net(new_net(12).state_dict()).training
        False
    """
    net = new_net()
    net.load_state_dict(weights)
    return net.requires_grad_(False).eval()


def train_together(tasks: Sequence[Moons], epochs: int = EPOCHS, *, bar: Bar | None = None) -> list[dict[str, Tensor]]:
    """Weights of one net for each task, all trained in the same matrix products: NLL, Adam, batches of 32.

    Weights are stacked along a first axis. Adam works coordinate by coordinate, so a stack trains as its nets would
    alone, in the order that each net's seed gives.

    Args:
        tasks: the nets.
        epochs: passes over the training points.
        bar: advanced by one each epoch.

    Example:
        >>> weights = train_together([Moons(0.15, 12), Moons(0.3, 24)], epochs=1)
        >>> loaded_net(weights[1])(torch.zeros(1, 2)).shape
        torch.Size([1, 2])
    """
    data = [task.train for task in tasks]
    points, labels = (
        torch.stack([x for x, _ in data]),
        torch.stack([y for _, y in data]),
    )  # (nets, 8000, 2), (nets, 8000)
    states = [new_net(task.seed).state_dict() for task in tasks]
    stack = {name: torch.stack([s[name] for s in states]).requires_grad_() for name in states[0]}
    adam = torch.optim.Adam(list(stack.values()), LEARNING_RATE, fused=True)
    orders = [torch.Generator().manual_seed(task.seed) for task in tasks]
    for _ in range(epochs):
        order = torch.stack([torch.randperm(N_TRAIN, generator=g) for g in orders])  # (nets, 8000)
        x = points.gather(1, order.unsqueeze(2).expand_as(points))
        y = labels.gather(1, order)
        for inputs, targets in zip(x.split(BATCH, 1), y.split(BATCH, 1), strict=True):
            outputs = _stacked_net(stack, inputs).log_softmax(2)  # (nets, 32, 2)
            adam.zero_grad()
            # A mean over each net's batch, summed over nets: no net sees another's gradient.
            (-outputs.gather(2, targets.unsqueeze(2)).sum() / BATCH).backward()
            adam.step()
        if bar is not None:
            bar.advance()
    return [{name: values[i].detach().clone() for name, values in stack.items()} for i in range(len(tasks))]


def _stacked_net(stack: Mapping[str, Tensor], inputs: Tensor) -> Tensor:
    """(nets, batch, 2) -> (nets, batch, 2), net i for row i."""
    hidden = inputs
    for layer in range(len(WIDTHS) - 1):
        weight, bias = stack[f"{2 * layer}.weight"], stack[f"{2 * layer}.bias"]
        hidden = hidden if layer == 0 else hidden.relu()
        hidden = torch.baddbmm(bias.unsqueeze(1), hidden, weight.mT)
    return hidden
