"""Small image classifiers of handwritten digits, one of each usual architecture."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, pad

from studies.findings.config import Setting
from studies.findings.study import Record

N_TRAINED = 1200
"""So many digits, the first ones, are trained on; the other 597 stay unseen."""
Architecture = Literal["mlp", "cnn relu", "cnn gelu", "vit"]
BATCH, WEIGHT_DECAY = 50, 0.05
LEARNING_RATES: dict[Architecture, float] = {"mlp": 8e-3, "cnn relu": 6e-3, "cnn gelu": 6e-3, "vit": 4e-3}


def digit_images() -> tuple[Tensor, Tensor]:
    """scikit-learn's digits: images (1797, 1, 8, 8) from 0 (black) to 1, and labels (1797,).

    Example:
        >>> images, labels = digit_images()
        >>> images.shape, labels.shape, float(images.max())
        (torch.Size([1797, 1, 8, 8]), torch.Size([1797]), 1.0)
    """
    from sklearn.datasets import load_digits

    digits = load_digits()
    images = torch.tensor(digits.images, dtype=torch.float32).unsqueeze(1) / 16  # grey levels are 0, …, 16
    return images, torch.tensor(digits.target)


def digit_net(setting: Setting, architecture: Architecture, seed: int = 0) -> nn.Module:
    """A classifier of `digit_images`, (batch, 1, 8, 8) -> (batch, 10) logits, in evaluation mode and without gradients
    of its parameters.

    It is trained once and kept in the setting's store as "net digits <architecture>" (with " seed=<seed>" for other
    seeds than 0); the record there has the accuracy on unseen digits.

    Example:
        >>> import tempfile
        >>> from leastpath._support.store import Store
        >>> setting = Setting(Store(tempfile.mkdtemp(), {}), quick=True)
        >>> digit_net(setting, "mlp")(digit_images()[0][:3]).shape
        torch.Size([3, 10])
        >>> sorted(setting.store.read("net digits mlp").record)
        ['epochs', 'test_accuracy']
    """
    key = f"net digits {architecture}" + (f" seed={seed}" if seed else "")
    net = new_net(architecture, seed=seed)

    def trained() -> Record:
        images, labels = digit_images()
        epochs = setting.of(f"digit_nets.{architecture}")
        train(net, images[:N_TRAINED], labels[:N_TRAINED], epochs, LEARNING_RATES[architecture], seed=seed)
        return {"test_accuracy": accuracy(net, images[N_TRAINED:], labels[N_TRAINED:]), "epochs": epochs}

    load_or_train(setting, key, net, trained)
    return net


def load_or_train(setting: Setting, key: str, net: nn.Module, trained: Callable[[], Record]) -> Record:
    """Give a net the weights that the store has under `key`; `trained` trains it where there are none, once for all.

    What `trained` returns is kept beside the weights and returned. The net is left in evaluation mode, its parameters
    without gradients.

    Example:
        >>> import tempfile
        >>> from leastpath._support.store import Store
        >>> setting = Setting(Store(tempfile.mkdtemp(), {}))
        >>> load_or_train(setting, "net tiny", nn.Linear(2, 1), lambda: {"epochs": 3})
        {'epochs': 3}
    """
    if key not in setting.store:
        setting.store.write(key, trained(), net.state_dict())
    found = setting.store.read(key)
    net.load_state_dict(found.arrays)
    net.requires_grad_(False).eval()
    return found.record


def new_net(architecture: Architecture, side: int = 8, n_classes: int = 10, *, seed: int = 0) -> nn.Module:
    """A net with random weights, (batch, 1, side, side) -> (batch, n_classes) logits; `side` is even.

    Example:
        >>> new_net("vit", side=12, n_classes=2)(torch.zeros(3, 1, 12, 12)).shape
        torch.Size([3, 2])
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        if architecture == "mlp":
            wide = side * side
            return nn.Sequential(
                nn.Flatten(), nn.Linear(wide, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, n_classes)
            )
        if architecture == "vit":
            return VisionTransformer(side, n_classes)
        activation = nn.ReLU if architecture == "cnn relu" else nn.GELU
        return nn.Sequential(
            nn.Conv2d(1, 16, 3, padding=1), activation(),
            nn.Conv2d(16, 32, 3, stride=2, padding=1), activation(), nn.Flatten(),
            nn.Linear(32 * (side // 2) ** 2, 64), activation(), nn.Linear(64, n_classes),
        )  # fmt: skip


class VisionTransformer(nn.Module):
    """Patches of 2 × 2 as tokens, a class token, learnt positions, two pre-norm blocks of attention and GELU.

    Args:
        side: of the images, even.
        n_classes: of its logits.
        width: of a token.

    Example:
        >>> VisionTransformer(8)(torch.zeros(3, 1, 8, 8)).shape
        torch.Size([3, 10])
    """

    def __init__(self, side: int, n_classes: int = 10, width: int = 48) -> None:
        super().__init__()
        self.embed = nn.Conv2d(1, width, 2, stride=2)
        self.first = nn.Parameter(0.2 * torch.randn(1, 1, width))
        self.positions = nn.Parameter(0.2 * torch.randn(1, 1 + (side // 2) ** 2, width))
        self.blocks = nn.Sequential(_Block(width), _Block(width))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, n_classes)

    def forward(self, images: Tensor) -> Tensor:
        """Logits (batch, n_classes) of images (batch, 1, side, side)."""
        patches = self.embed(images).flatten(2).mT  # (batch, patches, width)
        tokens = torch.cat([self.first.expand(len(images), -1, -1), patches], 1) + self.positions
        return self.head(self.norm(self.blocks(tokens)[:, 0]))


class _Block(nn.Module):
    """x + attention(norm(x)), then x + perceptron(norm(x)), over tokens (batch, length, width)."""

    def __init__(self, width: int, heads: int = 4) -> None:
        super().__init__()
        self.before_attention, self.before_perceptron = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = nn.MultiheadAttention(width, heads, batch_first=True)
        self.perceptron = nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))

    def forward(self, tokens: Tensor) -> Tensor:
        normed = self.before_attention(tokens)
        # Asking for the weights makes torch write the softmax out: its fused kernel has no second derivative on a CPU,
        # which solvers with Hessians need.
        tokens = tokens + self.attention(normed, normed, normed, need_weights=True)[0]
        return tokens + self.perceptron(self.before_perceptron(tokens))


def train(
    net: nn.Module,
    images: Tensor,
    labels: Tensor,
    epochs: int,
    learning_rate: float = 6e-3,
    *,
    shift: int = 1,
    seed: int = 0,
) -> None:
    """Train a net in place with AdamW, a learning rate that rises and falls, and images shifted at random.

    It is left in evaluation mode, its parameters without gradients.

    Args:
        net: (batch, *features) -> (batch, classes).
        images: (n, 1, height, width).
        labels: (n,)
        epochs: passes over the images.
        learning_rate: where it is highest.
        shift: by at most so many pixels, up or down and left or right, black coming in.
        seed: of order and shifts.

    Example:
        >>> net = new_net("mlp")
        >>> train(net, *digit_images(), epochs=1)
        >>> net.training
        False
    """
    generator = torch.Generator().manual_seed(seed)
    versions = shifted(images, shift)  # (shifts, n, 1, height, width)
    steps = epochs * -(-len(images) // BATCH)
    optimizer = torch.optim.AdamW(net.parameters(), weight_decay=WEIGHT_DECAY)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, learning_rate, steps)
    net.train()
    for _ in range(epochs):
        for rows in torch.randperm(len(images), generator=generator).split(BATCH):
            version = torch.randint(len(versions), rows.shape, generator=generator)
            optimizer.zero_grad()
            cross_entropy(net(versions[version, rows]), labels[rows]).backward()
            optimizer.step()
            schedule.step()
    net.requires_grad_(False).eval()


def shifted(images: Tensor, by: int) -> Tensor:
    """Images (n, 1, height, width) in all (2 · by + 1)² positions: (positions, n, 1, height, width), zeros coming in.

    Example:
        >>> shifted(torch.ones(1, 1, 2, 2), 1)[0, 0, 0]  # down and to the right
        tensor([[0., 0.],
                [0., 1.]])
    """
    height, width = images.shape[-2:]
    padded = pad(images, (by, by, by, by))
    corners = itertools.product(range(2 * by + 1), repeat=2)
    return torch.stack([padded[..., top : top + height, left : left + width] for top, left in corners])


def accuracy(net: nn.Module, images: Tensor, labels: Tensor) -> float:
    """The share of images (n, …) whose highest logit is that of their label (n,).

    Example:
        >>> accuracy(nn.Identity(), torch.eye(2), torch.tensor([0, 0]))
        0.5
    """
    with torch.no_grad():
        return float((net(images).argmax(1) == labels).double().mean())
