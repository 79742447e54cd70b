"""IDSDS. Oracle: a linear net, from which a cell takes exactly what it adds."""

import numpy as np
import pytest
import torch

from studies.referees import idsds
from studies.referees.kept import Kept

MODELS = """
import torch
from torch import nn

def load(name):
    torch.manual_seed(0)
    return nn.Sequential(nn.Flatten(), nn.Linear(3 * 32 * 32, 10)).requires_grad_(False).eval()
"""


@pytest.mark.filterwarnings("ignore")
def test_a_linear_net_is_explained_exactly_and_what_is_known_is_kept(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(idsds, "TUNED", slice(6, 30))
    generator = np.random.default_rng(0)
    (tmp_path / "cifar10").mkdir()
    (tmp_path / "models.py").write_text(MODELS)
    images = generator.integers(0, 256, (30, 32, 32, 3), dtype=np.uint8)
    np.savez(tmp_path / "cifar10" / "cifar10_test_first1000.npz", images=images, labels=np.arange(30) % 10)
    how = {"data": tmp_path, "results": tmp_path, "net": tmp_path / "net.pt"}
    idsds.command(methods="integrated_gradients,random,edges,distance", images=3, **how)
    kept = Kept(tmp_path / "referee_idsds.json")
    agreement = {m: [row["agreement"] for row in kept.rows(m).values()] for m in kept.methods}
    assert agreement["integrated_gradients"] == [pytest.approx(1.0)] * 3 and kept.about["tuned"] == 24
    assert max(map(abs, agreement["random"] + agreement["edges"])) < 0.95
    torch.load(tmp_path / "net.pt", weights_only=True)
    capsys.readouterr()
    idsds.command(methods="integrated_gradients,distance", images=3, **how)
    assert capsys.readouterr().out == ""
