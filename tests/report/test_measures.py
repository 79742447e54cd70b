"""A comparison drawn from planted tables. Oracle: the numbers that were planted."""

import pytest

from leastpath.report.measures import comparison_figure, comparison_table

pd = pytest.importorskip("pandas")
pytest.importorskip("matplotlib")

TABLE = pd.DataFrame(
    {
        ("up", "mean"): [1.0, 3.0], ("up", "low"): [0.5, 2.0], ("up", "high"): [1.5, 4.0],
        ("cost", "gradients"): [10.0, 0.0], ("cost", "forwards"): [0.0, 7.0], ("cost", "seconds"): [0.1, 0.2],
    },
    index=["a<b", "c"],
)  # fmt: skip
CURVES = pd.DataFrame({"method": "c", "measure": "up", "x": [0.0, 0.0, 1.0], "value": [2.0, 4.0, 8.0]})


def test_intervals_mean_curves_and_costs_are_those_of_the_tables():
    axes = {ax.get_title(): ax for ax in comparison_figure(TABLE, CURVES, ["a<b", "c"], {"up": True}).axes}
    interval, mean = axes["up (higher is better)"].lines[2:4]
    assert interval.get_xdata().tolist() == [2.0, 4.0] and mean.get_xdata().tolist() == [3.0]
    assert axes["up: mean curve"].lines[0].get_ydata().tolist() == [3.0, 8.0]
    assert axes["cost: seconds for an input"].collections[0].get_offsets()[:, 0].tolist() == [0.1, 0.2]


def test_markers_lie_inside_their_axes_and_axes_are_named():
    figure = comparison_figure(TABLE, CURVES, ["a<b", "c"], {"up": True})
    for ax in figure.axes:
        low, high = ax.get_xlim()
        drawn = [x for line in ax.lines for x in line.get_xdata()]
        drawn += [x for dots in ax.collections for x in dots.get_offsets()[:, 0]]
        assert drawn and all(low < x < high for x in drawn) and ax.get_xlabel()


def test_the_best_is_bold_and_names_are_escaped():
    page = comparison_table(pd.DataFrame({"up ↑": ["1.0 [0.5, 1.5] ", "3.0 [2.0, 4.0]*"]}, index=["a<b", "c"]))
    assert "<strong>3.0</strong><br><small>[2.0, 4.0]</small>" in page and page.count("<strong>") == 1
    assert "a&lt;b" in page
