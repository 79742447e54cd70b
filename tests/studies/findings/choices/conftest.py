"""One quick setting for both studies: their net is trained once."""

import pytest
import torch
from torch import nn

from helpers import flat_points
from leastpath._support.store import Store
from studies.findings.choices import task as tasks
from studies.findings.config import Setting


@pytest.fixture(scope="session")
def setting(tmp_path_factory) -> Setting:
    return Setting(Store(tmp_path_factory.mktemp("choices"), {}), quick=True)


@pytest.fixture
def photographs(setting, tmp_path, monkeypatch) -> Setting:
    """Two pictures and a text; a small net in place of the pre-trained one."""
    image = pytest.importorskip("PIL.Image")
    for name, seed in (("b.png", 1), ("a.JPEG", 2)):
        pixels = torch.randint(0, 256, (40, 48, 3), generator=torch.Generator().manual_seed(seed), dtype=torch.uint8)
        image.fromarray(pixels.numpy()).save(tmp_path / name)
    (tmp_path / "classes.json").write_text("{}")
    net = nn.Sequential(nn.AdaptiveAvgPool2d(4), nn.Flatten(), nn.Linear(48, 5)).requires_grad_(False).eval()
    net[2].weight.copy_(flat_points(5, 48, seed=4))
    monkeypatch.setattr(tasks, "_classifier", lambda: net)
    monkeypatch.setattr(tasks, "NEEDED", ("PIL",))
    return Setting(setting.store, quick=True, photographs=tmp_path)
