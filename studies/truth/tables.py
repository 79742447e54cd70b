"""Two tables: Adult, of numbers and categories, and California housing, a regression over eight numbers."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, mse_loss

from leastpath.removal.curves import Samples
from leastpath.score.score import Score
from leastpath.tabular import Encoding
from studies.findings.config import Setting
from studies.findings.nets import accuracy, load_or_train
from studies.findings.study import Record
from studies.truth.problem import Opened, Problem

TRAINED = 12_000  # rows
POOL = 500  # training rows that stand in for removed features
BASELINES = 4  # training rows beside the mean one


def open_adult(setting: Setting, data: Path | None) -> Opened:
    """Who earns more than 50,000 dollars; a column, with all numbers that it is encoded as, is a feature."""
    frame = _frame(data, "adult.csv.gz")
    answers = torch.as_tensor((frame.pop("income") == ">50K").to_numpy(copy=True)).long()
    frame = frame.drop(columns=["fnlwgt"])  # the census' weight of a row, which says nothing of the person
    encoding = Encoding.fit(frame.fillna("?"))
    inputs = encoding.transform(frame.fillna("?"))
    columns = {name: i for i, name in enumerate(dict.fromkeys(encoding.owners))}
    labels = torch.tensor([columns[owner] for owner in encoding.owners])
    return _opened(setting, "adult", inputs, answers, labels)


def open_california(setting: Setting, data: Path | None) -> Opened:
    """The median value of houses in 100,000 dollars."""
    frame = _frame(data, "california_housing.csv.gz")
    answers = torch.as_tensor(frame.pop("MedHouseVal").to_numpy(copy=True)).float()[:, None]
    return _opened(setting, "california", Encoding.fit(frame).transform(frame), answers, None)


def _frame(data: Path | None, name: str) -> Any:
    file = None if data is None else data / "tabular" / name
    if file is None or not file.is_file():
        raise ValueError(f"needs tabular/{name} in the folder of --data")
    import pandas as pd

    return pd.read_csv(file)


def _opened(setting: Setting, name: str, inputs: Tensor, answers: Tensor, labels: Tensor | None) -> Opened:
    """A net with two hidden layers of 64; the baseline is the mean of the training rows, then some of these rows."""
    order = torch.randperm(len(inputs), generator=torch.Generator().manual_seed(0))
    n_train = min(200 if setting.quick else TRAINED, len(inputs) * 4 // 5)
    inputs, answers = inputs[order], answers[order]
    regression = answers.is_floating_point()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        wide, outputs = inputs.shape[1], 1 if regression else 2
        net = nn.Sequential(nn.Linear(wide, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, outputs))
    unseen, expected = inputs[n_train:], answers[n_train:]

    def trained() -> Record:
        _train(net, inputs[:n_train], answers[:n_train], 1 if setting.quick else 15)
        net.requires_grad_(False)
        if regression:
            return {"R²": 1 - float(mse_loss(net(unseen), expected) / expected.var(correction=0))}
        return {"accuracy": accuracy(net, unseen, expected)}

    quality = load_or_train(setting, f"net truth {name}", net, trained)
    pool = inputs[:POOL]
    starts = torch.cat([inputs[:n_train].mean(0, keepdim=True), pool[:BASELINES]])

    def problem(rows: Sequence[int]) -> Problem:
        some = unseen[list(rows)]
        targets = None if regression else net(some).argmax(1)
        return Problem(
            lambda output: Score(net, targets, output),
            "raw" if regression else "log_softmax",
            some,
            starts.expand(len(some), *starts.shape),
            {"mean row": "baseline", "another row": Samples(pool)},
            None if labels is None else labels[None].expand(1, len(labels)),
            {} if labels is None else {"group": labels},
            "magnitude" if regression else "signed",
        )

    return Opened(len(unseen), problem, quality)


def _train(net: nn.Module, inputs: Tensor, answers: Tensor, epochs: int) -> None:
    generator = torch.Generator().manual_seed(0)
    optimizer = torch.optim.AdamW(net.parameters(), 2e-3, weight_decay=1e-2)
    for _ in range(epochs):
        for rows in torch.randperm(len(inputs), generator=generator).split(128):
            optimizer.zero_grad()
            outputs = net(inputs[rows])
            regression = answers.is_floating_point()
            (mse_loss if regression else cross_entropy)(outputs, answers[rows]).backward()
            optimizer.step()
