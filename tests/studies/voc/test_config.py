"""Methods get what the configuration lets them spend, and mistakes are found before the work."""

import pytest

from leastpath.methods import METHODS
from studies.voc.config import RIVALS, VocConfig, contenders


def test_settings_follow_the_budget():
    config = VocConfig(steps=7, budget=90)
    found = contenders(config)
    assert found["integrated_gradients"].defaults["n_steps"] == 7
    assert found["geodesic_descent"].defaults["solver"].max_gradients == 45
    assert found["geodesic_variational"].defaults["max_gradients"] == 90
    assert found["occlusion"].defaults["window"] == 16


def test_rivals_stay_within_the_range_of_pictures_and_take_the_steps_of_ig():
    found = contenders(VocConfig(methods=RIVALS, steps=7))
    for name, method in found.items():
        assert method.defaults.get("limits", (0.0, 1.0)) == (0.0, 1.0)
        if "tolerance" in METHODS[name].defaults:
            assert (method.defaults["tolerance"], method.defaults["n_steps"]) == (None, 7)
    assert found["ig2"].defaults["n_steps"] == METHODS["ig2"].defaults["n_steps"]  # its own, of an attack


def test_the_authors_settings_of_the_variational_solver_whatever_the_budget():
    full = contenders(VocConfig(methods=("geodesic_variational_full",), budget=90))["geodesic_variational_full"]
    settings = full.defaults
    assert (settings["n_iterations"], settings["n_points"], settings["max_gradients"]) == (1000, 50, None)
    assert full.name == "geodesic_variational_full"


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"output": "logits"}, "output='logits' is unknown: use one of log_softmax"),
        ({"baseline": "pink"}, "baseline='pink' is unknown: use one of black, white, grey"),
        ({"backbone": "alexnet"}, "backbone='alexnet' is unknown"),
        ({"images": 0}, "images=0 must be at least 1"),
        ({"methods": ("magic",)}, "no method is called 'magic'"),
    ],
)
def test_mistakes_are_found_before_the_work(given, sentence):
    with pytest.raises(ValueError, match=sentence):
        VocConfig(**given)
