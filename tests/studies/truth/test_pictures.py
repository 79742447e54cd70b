"""Pictures. Oracle: made-up results; what is drawn is read back from the figure."""

import pytest
from tiny_truth import tiny_results

from studies.truth.pictures import heat_map, marks_picture

pytest.importorskip("matplotlib")


def test_the_heat_map_shows_gains_net_by_net():
    told = tiny_results()
    (ax, _) = heat_map(told).axes
    gains = [told["summaries"]["reporting"]["tiny"][name]["gain"] for name in ("ig", "descent")]
    assert ax.images[0].get_array().tolist() == [[gain] for gain in gains]
    assert [text.get_text() for text in ax.texts] == [f"{gain:.2f}" for gain in gains]
    assert [label.get_text() for label in ax.get_yticklabels()] == ["IG", "Descent"]
    assert [label.get_text() for label in ax.get_xticklabels()] == ["Tiny net"]


def test_bars_are_the_gates_and_the_line_is_five_points_below_ig():
    ax = marks_picture(tiny_results()).axes[0]
    assert [bar.get_width() for bar in ax.patches] == [0.75, 0.5]
    assert ax.lines[0].get_xdata()[0] == pytest.approx(0.7)


def test_no_results_no_picture():
    nothing = {"development": {}, "reporting": {}}
    told = tiny_results() | {"summaries": nothing, "gates": nothing}
    assert heat_map(told) is None and marks_picture(told) is None
