"""The picture of baselines."""

import numpy as np
import pytest
import torch

import leastpath as lp
from helpers import cnn
from leastpath._support.checks import write_number
from leastpath.score.baselines import BASELINES

pytest.importorskip("matplotlib")
from leastpath.evaluation import try_baselines
from leastpath.report import baselines_figure

IMAGES = torch.rand(4, 2, 6, 6, generator=torch.Generator().manual_seed(1))
SCORE = lp.Score(cnn(), 1, "log_softmax")
FIXED = {"tolerance": None, "n_steps": 4}


def test_shows_starts_and_attributions_of_each():
    settings = {"black": {}, "samples": {"points": IMAGES, "n": 3}}
    figure = baselines_figure(try_baselines(SCORE, IMAGES[0], settings, **FIXED))
    assert [figure.axes[i].get_title() for i in range(3)] == ["image", "black", "samples"]
    black = lp.attribute(SCORE, IMAGES[:1], method=lp.StraightLine(), **FIXED)
    np.testing.assert_allclose(figure.axes[4].get_images()[0].get_array(), black.values[0].sum(0).numpy(), atol=1e-6)
    assert figure.axes[1].get_xlabel() == f"f = {write_number(float(SCORE(torch.zeros(1, 2, 6, 6))))}"
    assert figure.axes[2].get_xlabel().startswith("first of 3, mean f")


def test_shows_all_that_need_no_data_by_default():
    figure = baselines_figure(try_baselines(SCORE, IMAGES[:1], **FIXED))
    assert [axes.get_title() for axes in figure.axes[1:7]] == [name for name in BASELINES if name != "samples"]


def test_errors_say_what_helps():
    with pytest.raises(ValueError, match="got a Tensor"):
        baselines_figure(IMAGES)
    with pytest.raises(ValueError, match="nothing to draw"):
        baselines_figure(try_baselines(SCORE, IMAGES[0], {}))
