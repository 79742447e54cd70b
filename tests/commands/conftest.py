"""What tests of the commands share."""

import warnings

import numpy as np
import pandas as pd
import pytest
import torch
from PIL import Image
from torch import nn


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A picture, a table, and models of both."""
    place = tmp_path_factory.mktemp("explain")
    pixels = np.random.default_rng(0).integers(0, 255, (20, 30, 3)).astype(np.uint8)
    Image.fromarray(pixels).save(place / "picture.png")
    numbers = np.random.default_rng(1).normal(size=(12, 3)).round(3)
    table = pd.DataFrame(numbers, columns=["age", "hours", "weight"])
    table["name"] = "somebody"
    table.to_csv(place / "table.csv", index=False)
    torch.manual_seed(0)
    row_net = nn.Sequential(nn.Linear(3, 6), nn.Tanh(), nn.Linear(6, 2)).eval()
    picture_net = nn.Sequential(
        nn.Conv2d(3, 4, 5, stride=4), nn.Tanh(), nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(16, 5)
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # TorchScript is deprecated
        torch.jit.script(row_net).save(str(place / "row.pt"))
        torch.jit.script(picture_net.eval()).save(str(place / "picture.pt"))
        torch.export.save(torch.export.export(row_net, (torch.zeros(1, 3),)), place / "one_row.pt2")
    (place / "labels.txt").write_text("cat\ndog\ncow\nhen\nowl\n")
    return place
