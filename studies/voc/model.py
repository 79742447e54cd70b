"""The classifier of the VOC experiment: a head on frozen features, as the paper's authors train it."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from sklearn.metrics import average_precision_score
from torch import Tensor, nn

from studies.voc.backbones import Backbone


@dataclass(frozen=True)
class Training:
    """How the head is trained: the authors' settings, with a part of the training images to stop by."""

    lr: float = 1e-4
    batch_size: int = 32
    patience: int = 10
    max_epochs: int = 1000
    held_out: float = 0.1


class Classifier(nn.Module):
    """Backbone and head: RGB in [0, 1], (batch, 3, height, width) -> (batch, classes) logits.

    Example:
        >>> backbone = Backbone("mean", lambda images: images.mean((2, 3)), nn.Identity(), torch.full((3,), 0.5))
        >>> Classifier(backbone, nn.Linear(3, 20))(torch.rand(2, 3, 8, 8)).shape
        torch.Size([2, 20])
    """

    def __init__(self, backbone: Backbone, head: nn.Linear) -> None:
        super().__init__()
        self.backbone, self.head = backbone, head
        self.requires_grad_(False).eval()

    def forward(self, images: Tensor) -> Tensor:
        """(batch, 3, height, width) -> (batch, classes)."""
        return self.head(self.backbone(images))


@dataclass(frozen=True)
class Trained:
    """A head, and how it came about."""

    head: nn.Linear
    epochs: int
    held_out_loss: float


def train_head(features: Tensor, labels: Tensor, settings: Training | None = None, *, seed: int = 0) -> Trained:
    """Features (n, width), labels (n, classes) of zeros and ones -> the head that a held-out part liked best.

    Binary cross-entropy, AdamW; stops when the held-out loss has not fallen for `patience` epochs.

    Example:
        >>> features = torch.randn(40, 4)
        >>> trained = train_head(features, (features[:, :2] > 0).float(), Training(lr=0.1, max_epochs=30))
        >>> trained.head.weight.shape
        torch.Size([2, 4])
    """
    settings = settings or Training()
    generator = torch.Generator().manual_seed(seed)
    order = torch.randperm(len(features), generator=generator)
    n_held = max(1, round(settings.held_out * len(features)))
    if len(features) - n_held < 1:
        raise ValueError(f"{len(features)} training images are too few: some are held out to stop by")
    held, used = order[:n_held], order[n_held:]
    head = nn.utils.skip_init(nn.Linear, features.shape[1], labels.shape[1])  # no draw from the global generator
    bound = features.shape[1] ** -0.5
    for parameter in head.parameters():
        nn.init.uniform_(parameter.requires_grad_(), -bound, bound, generator=generator)
    optimizer = torch.optim.AdamW(head.parameters(), lr=settings.lr)
    best, best_state, best_epoch, epoch = float("inf"), _state(head), 0, 0
    while epoch < settings.max_epochs and epoch - best_epoch < settings.patience:
        epoch += 1
        for rows in used[torch.randperm(len(used), generator=generator)].split(settings.batch_size):
            optimizer.zero_grad()
            _loss(head, features[rows], labels[rows]).backward()
            optimizer.step()
        with torch.no_grad():
            loss = float(_loss(head, features[held], labels[held]))
        if loss < best:
            best, best_state, best_epoch = loss, _state(head), epoch
    head.load_state_dict(best_state)
    return Trained(head.requires_grad_(False).eval(), best_epoch, best)


def _loss(head: nn.Linear, features: Tensor, labels: Tensor) -> Tensor:
    return nn.functional.binary_cross_entropy_with_logits(head(features), labels)


def _state(head: nn.Linear) -> dict[str, Tensor]:
    return {name: tensor.detach().clone() for name, tensor in head.state_dict().items()}


def average_precision(logits: Tensor, labels: Tensor) -> Tensor:
    """scikit-learn's average precision of each class: (n, classes) twice -> (classes,); NaN without positives.

    It is the area under the curve as it is; VOC's own tool first raises each precision to the best at a higher recall.

    Example:
        >>> average_precision(torch.tensor([[0.9], [0.1], [0.5]]), torch.tensor([[1.0], [0.0], [1.0]]))
        tensor([1.])
    """
    return torch.tensor(
        [
            average_precision_score(truth, guess) if truth.any() else math.nan
            for truth, guess in zip(labels.T.numpy(), logits.T.numpy(), strict=True)
        ]
    )
