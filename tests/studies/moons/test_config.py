"""The configuration is the paper's experiment."""

from dataclasses import replace

import torch
from tiny_moons import TINY

from leastpath.methods import METHODS
from studies.moons.config import PAPER, MoonsConfig
from studies.moons.training import Moons


def test_the_paper_s_experiment_by_default():
    config = MoonsConfig()
    assert len(config.nets) == 65 and config.noises[0] == 0.05 and config.noises[-1] == 0.65
    assert config.methods == tuple(PAPER) and set(PAPER) <= set(METHODS)
    assert config.points_of("kernel_shap") >= 500 and config.points_of("geodesic_graph") == 2000
    assert len(config.mapped_inputs) == 10_000
    train, test = Moons(0.15, 12).train[0], Moons(0.15, 12).test[0]
    assert len(train) == 8000 and len(test) == 2000


def test_costly_methods_get_balanced_points():
    other = torch.arange(100) % 5 == 0
    rows = replace(TINY, points=100, costly_points=20).rows_of("kernel_shap", other)
    assert len(rows.unique()) == 20 and int(other[rows].sum()) == 4  # a fifth, as of all
    assert torch.equal(TINY.rows_of("occlusion", other), torch.arange(60))
