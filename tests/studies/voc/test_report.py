"""Figures of the report from planted numbers; the whole report is tested with the experiment."""

import pandas as pd

from studies.voc.report import draw_curves


class Found:
    """What `draw_curves` reads of a Comparison."""

    curves = pd.DataFrame(
        [
            {"method": method, "measure": f"{measure} {fill}", "x": x, "value": value}
            for method in ("integrated_gradients", "idgi")
            for measure in ("comprehensiveness", "log_prob_ratio")
            for fill in ("grey", "black")
            for x in (0.1, 0.2)
            for value in (x, 3 * x)
        ]
    )


def test_curves_are_means_over_the_images():
    titles = {"integrated_gradients": "IG", "idgi": "IDGI"}
    axes = draw_curves(Found(), list(titles), titles).axes
    assert len(axes) == 4 and [line.get_label() for line in axes[0].lines] == ["IG", "IDGI"]
    assert axes[3].lines[1].get_ydata().tolist() == [0.2, 0.4]
