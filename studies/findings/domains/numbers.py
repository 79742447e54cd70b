"""Tables of measurements, and handwritten digits."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import mse_loss

from leastpath.evaluation.masking import Masking
from leastpath.methods import METHODS
from leastpath.removal.curves import Fill, Samples
from leastpath.result.attribution import Attribution
from leastpath.score.baselines import baseline
from leastpath.score.score import Score
from studies.findings.config import Setting
from studies.findings.domains.case import GRAPH, Case
from studies.findings.domains.judging import loss_of, permutation_importances, rank_agreement, removal
from studies.findings.nets import N_TRAINED, accuracy, digit_images, digit_net, load_or_train
from studies.findings.study import Record

SETTINGS: Mapping[str, Mapping[str, Any]] = {GRAPH: {"generate": "adaptive", "refine": True}}  # attribute's default


def numbers_case(setting: Setting, name: str, seed: int) -> Case:
    """A network of tables or digits, and examples that it has not seen. Each network explains others."""
    n = setting.of("domains.examples")
    if name == "digits":
        images, labels = digit_images()
        net, images, labels = digit_net(setting, "mlp", seed), images[N_TRAINED:], labels[N_TRAINED:]
        chosen = images[seed * n : (seed + 1) * n]
        fills: dict[str, Fill] = {"black (baseline)": "baseline", "mean grey": "mean", "neighbours": "linear"}
        maskings = {title: Masking(fill=fill, normalize=True) for title, fill in fills.items()}
        importance = permutation_importances(net, images, labels)
        return _net_case(net, chosen, baseline("black", chosen), maskings, accuracy(net, images, labels), importance)
    inputs, targets, n_train = _table(name, seed)
    net, quality = _table_net(setting, name, seed)
    chosen = inputs[n_train : n_train + n]
    fills = {"training mean (baseline)": "baseline", "another row": Samples(inputs[:n_train])}
    maskings = {title: Masking(fill=fill, normalize=True) for title, fill in fills.items()}
    importance = permutation_importances(net, inputs[n_train:], targets[n_train:])
    return _net_case(net, chosen, baseline("mean", chosen, points=inputs[:n_train]), maskings, quality, importance)


def _net_case(
    net: nn.Module,
    inputs: Tensor,
    start: Tensor,
    maskings: Mapping[str, Masking],
    quality: float,
    importance: Tensor,
) -> Case:
    with torch.no_grad():
        outputs = net(inputs)
    # One output is a regression: its number is explained as it is.
    score = Score(net) if outputs.shape[1] == 1 else Score(net, outputs.argmax(1), "log_softmax")

    def explained(method: str) -> Attribution:
        return METHODS[method](score, inputs, start, **SETTINGS.get(method, {}))

    def removals(result: Attribution) -> dict[str, Tensor]:
        return {fill: removal(masking, score, inputs, start, result) for fill, masking in maskings.items()}

    def agreement(result: Attribution) -> list[float | None]:
        assert isinstance(result.values, Tensor)
        return [rank_agreement(result.values.abs().mean(0).flatten(), importance)]

    return Case(quality, explained, removals, agreement, inputs == start)


def _table(name: str, seed: int) -> tuple[Tensor, Tensor, int]:
    """Inputs (n, features), targets (n,) or (n, 1), and how many rows, the first, are for training.

    What seeds 0, 1 and 2 leave unseen are different rows. Numbers, the target of a regression too, are standardised by
    the rows for training.
    """
    from sklearn.datasets import load_breast_cancer, load_diabetes

    data, answers = (load_diabetes if name == "diabetes" else load_breast_cancer)(return_X_y=True)
    n_train = round(0.7 * len(data))
    shuffled = torch.randperm(len(data), generator=torch.Generator().manual_seed(0))
    order = shuffled.roll(seed * (len(data) - n_train))
    inputs = _standardized(torch.tensor(data)[order], n_train)
    targets = torch.tensor(answers)[order]
    return inputs, _standardized(targets[:, None], n_train) if name == "diabetes" else targets, n_train


def _standardized(numbers: Tensor, n_train: int) -> Tensor:
    train = numbers[:n_train]
    return ((numbers - train.mean(0)) / train.std(0)).float()


def _table_net(setting: Setting, name: str, seed: int) -> tuple[nn.Module, float]:
    """A ReLU net with two hidden layers of 32 and its quality on unseen rows, trained once."""
    inputs, targets, n_train = _table(name, seed)
    regression = targets.ndim == 2
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        wide = inputs.shape[1]
        net = nn.Sequential(
            nn.Linear(wide, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 1 if regression else 2)
        )

    def trained() -> Record:
        epochs = setting.of("domains.epochs")
        _train(net, inputs[:n_train], targets[:n_train], epochs, seed)
        return {"epochs": epochs}

    load_or_train(setting, f"net domains {name} seed={seed}", net, trained)
    unseen, answers = inputs[n_train:], targets[n_train:]
    if regression:
        return net, 1 - float(mse_loss(net(unseen), answers) / answers.var(correction=0))
    return net, accuracy(net, unseen, answers)


def _train(net: nn.Module, inputs: Tensor, targets: Tensor, epochs: int, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    optimizer = torch.optim.AdamW(net.parameters(), 1e-3, weight_decay=0.1)
    for _ in range(epochs):
        for rows in torch.randperm(len(inputs), generator=generator).split(32):
            optimizer.zero_grad()
            loss_of(net(inputs[rows]), targets[rows]).backward()
            optimizer.step()
