"""Bars: order, names and the rest."""

import pytest
import torch

pytest.importorskip("matplotlib")
from leastpath.report import bars


def test_largest_first_and_the_rest_summed():
    figure = bars(torch.tensor([[1.0, -3.0, 0.5, 0.25]]), ["a", "b", "c", "d"], top=2, spread=[0.1, 0.2, 0.3, 0.4])
    axes = figure.axes[0]
    assert [tick.get_text() for tick in axes.get_yticklabels()] == ["b", "a", "2 others"]
    assert [patch.get_width() for patch in axes.patches] == [-3.0, 1.0, 0.75]
    assert axes.patches[0].get_facecolor() != axes.patches[1].get_facecolor()
    assert bars([1.0, 2.0], ax=axes) is figure


def test_default_names():
    assert [tick.get_text() for tick in bars([1.0, 2.0]).axes[0].get_yticklabels()] == ["feature 1", "feature 0"]


@pytest.mark.parametrize(
    "call, match",
    [
        (lambda: bars(torch.ones(2, 2)), r"pass values\[0\]"),
        (lambda: bars([1.0, 2.0], ["a"]), "got 1 names for 2 values"),
        (lambda: bars([1.0, 2.0], spread=[1.0]), "spread has 1 numbers for 2 values"),
        (lambda: bars([1.0], top=0), "top=0"),
    ],
)
def test_errors_say_what_helps(call, match):
    with pytest.raises(ValueError, match=match):
        call()
