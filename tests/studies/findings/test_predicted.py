"""The predicted class of digits. Oracle: the net itself."""

import torch
from torch import nn

from leastpath._support.store import Store
from studies.findings.config import Setting
from studies.findings.predicted import GEODESIC, IG, percent, predicted_score, settings_of


def test_the_score_is_that_of_the_largest_output():
    net, images = nn.Sequential(nn.Flatten(), nn.Linear(4, 3)).eval(), torch.rand(5, 1, 2, 2)
    torch.testing.assert_close(predicted_score(net, images, "raw")(images), net(images).amax(1).detach())


def test_only_quick_looks_change_the_settings(tmp_path):
    quick = Setting(Store(tmp_path, {}), quick=True)
    assert settings_of(Setting(quick.store), IG) == {} and settings_of(quick, "random") == {}
    assert settings_of(quick, GEODESIC) == {"max_gradients": 300} and percent([0.25, None, 0.75]) == "50 %"
