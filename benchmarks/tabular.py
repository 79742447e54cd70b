"""How short, and how complete, are paths on real tables? Adult (13 columns, 107 numbers) and California housing.

Needs LEASTPATH_DATA, a folder with tabular/adult.csv.gz and tabular/california_housing.csv.gz.
"""

import os
import sys
import time
from pathlib import Path

import pandas as pd
import torch
from torch import nn

import leastpath as lp
from leastpath import tabular


def trained(inputs: torch.Tensor, answers: torch.Tensor, outputs: int) -> nn.Module:
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Linear(inputs.shape[1], 64), nn.ReLU(), nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, outputs)
    )
    loss = nn.functional.cross_entropy if outputs > 1 else lambda a, b: nn.functional.mse_loss(a[:, 0], b)
    optimiser = torch.optim.Adam(model.parameters(), 2e-3)
    for _ in range(4 if outputs > 1 else 20):
        for rows in torch.randperm(len(inputs)).split(256):
            optimiser.zero_grad()
            loss(model(inputs[rows]), answers[rows]).backward()
            optimiser.step()
    return model.eval()


def table(name: str, file: Path) -> tuple[pd.DataFrame, torch.Tensor]:
    frame = pd.read_csv(file)
    if name == "Adult":
        answers = torch.tensor((frame.pop("income") == ">50K").to_numpy()).long()
        return frame.drop(columns="fnlwgt"), answers  # a sampling weight, no property of a person
    return frame.iloc[:, :-1], torch.tensor(frame.iloc[:, -1].to_numpy(), dtype=torch.float32)


def main() -> None:
    folder = Path(os.environ.get("LEASTPATH_DATA", "")) / "tabular"
    if not (folder / "adult.csv.gz").exists():
        sys.exit("set LEASTPATH_DATA to a folder with tabular/adult.csv.gz and tabular/california_housing.csv.gz")
    print("| table | solver | s | gradients per row | length ratio | longer | cancellation | largest columns |")
    print("|---|---|---:|---:|---:|---:|---:|---|")
    for name, file in {"Adult": "adult.csv.gz", "California": "california_housing.csv.gz"}.items():
        frame, answers = table(name, folder / file)
        if answers.is_floating_point():
            answers = (answers - answers.mean()) / answers.std()
        order = torch.randperm(len(frame), generator=torch.Generator().manual_seed(0)).numpy()
        train, rows = order[:-5000], order[-50:]
        encoding = tabular.Encoding.fit(frame.iloc[train])
        model = trained(encoding.transform(frame.iloc[train]), answers[train], 2 if name == "Adult" else 1)
        background = frame.iloc[train[:2000]]
        target = 1 if name == "Adult" else None
        for label, settings in {
            "the default": {},
            "graph, 15 neighbours": {"n_neighbors": 15},
            "graph, 400 neighbours": {"n_neighbors": 400},
            "`Descent()`": {"solver": lp.Descent()},
            "`StraightLine()`": {"solver": lp.StraightLine()},
        }.items():
            begun = time.perf_counter()
            explained = tabular.explain(
                model, frame.iloc[rows], target, background=background, preprocess=encoding, **settings
            )
            result, seconds = explained.result, time.perf_counter() - begun
            longer = int((result.length_ratio > 1.01).sum())
            largest = ", ".join(f"{column} {value:.2f}" for column, value in explained.summary().head(3).items())
            print(
                f"| {name} | {label} | {seconds:.1f} | {int(result.n_gradients.sum() / len(rows)):,} "
                f"| {float(result.length_ratio.median()):.2f} | {longer} of {len(rows)} "
                f"| {float(result.cancellation.median()):.2f} | {largest} |"
            )


if __name__ == "__main__":
    main()
