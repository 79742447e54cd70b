"""What every picture shares."""

import sys
from itertools import pairwise

import numpy as np
import pytest
import torch

import leastpath as lp

pytest.importorskip("matplotlib")
from matplotlib.text import Text

from leastpath import report
from leastpath.report.canvas import array, limit, new_figure, tick, write_title


def test_pyplot_knows_nothing_of_a_figure():
    import matplotlib.pyplot as plt

    before = plt.get_fignums()
    new_figure(2, 2).canvas.draw()
    assert plt.get_fignums() == before


def test_without_matplotlib_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(ImportError, match=r"leastpath\[plot\]"):
        new_figure(2, 2)


def test_values_in_any_form():
    result = lp.attribute(lp.Score(lambda x: x.sum(1)), torch.ones(1, 2), method=lp.StraightLine())
    for given in (result, result.values, result.values.bfloat16(), [[1, 1]], np.ones((1, 2))):
        np.testing.assert_allclose(array(given), [[1, 1]], rtol=1e-2)
    with pytest.raises(ValueError, match="tuple of 2 tensors"):
        array((torch.ones(1), torch.ones(1)))
    with pytest.raises(ValueError, match="NaN or infinite"):
        array([1.0, float("nan")])
    with pytest.raises(ValueError, match="cannot be read as numbers"):
        array(["a"])


def test_limit_against_closed_form():
    values = np.arange(-100, 1.0)
    assert limit(values, 99) == 99 and limit(values, 100) == 100
    assert limit(np.array([0.0] * 999 + [5.0]), 99) == 5  # sparse values keep their colour
    assert limit(np.zeros(3), 99) == 1
    with pytest.raises(ValueError, match="percentile=0"):
        limit(values, 0)


def test_the_end_of_colours_leaves_no_picture_blank():
    """Oracle: the share of what has at least a quarter of the full colour."""
    spikes = np.random.default_rng(0).standard_cauchy(4096) ** 3
    seen = [(np.abs(spikes) >= end / 4).mean() for end in (limit(spikes), limit(spikes, 99.5))]
    assert seen[0] >= 0.04 > seen[1]
    even = np.linspace(-1, 1, 1001)
    assert limit(even) == limit(even, 99.5)  # where it is not blank, as little as possible is clipped


def test_titles_do_not_run_into_each_other():
    """Oracle: the boxes that matplotlib draws."""
    figure = new_figure(8, 2.5)
    axes = figure.subplots(1, 4)
    for ax in axes:
        write_title(ax, "Integrated Decision Gradients along a geodesic\nsupport 0.41")
    figure.canvas.draw()
    boxes = [ax.title.get_window_extent() for ax in axes]
    assert all(left.x1 < right.x0 for left, right in pairwise(boxes))


def test_ticks_are_for_people():
    assert [tick(x) for x in (0.0, 1.8e4, 2e-7)] == ["0", "18,000", "2 × 10⁻⁷"]


AWKWARD = [
    "Revenue ($) over cost ($)", "$x_1^2$", r"\frac{1}{2} $", "a_b^c\\d%", "<script>alert(1)</script>", "x" * 300, "",
    "twice", "twice", "\u05e9\u05dc\u05d5\u05dd",
]  # fmt: skip


def test_names_are_text_in_every_figure():
    """No dollar is mathematics: every name that is drawn is what was given, or its beginning."""
    figures = [
        report.bars(torch.arange(1.0, len(AWKWARD) + 1), AWKWARD, title=AWKWARD[0], top=len(AWKWARD)),
        report.heatmap(torch.randn(4, 4), title=AWKWARD[0]),
        report.heatmap(torch.randn(4, 4), title=AWKWARD[1]),
        report.text(AWKWARD, torch.arange(1.0, len(AWKWARD) + 1), title=AWKWARD[0]),
    ]
    for figure in figures:
        figure.canvas.draw()
        for text in figure.findobj(Text):
            shown, is_math = text._preprocess_math(text.get_text())
            assert not is_math, shown
