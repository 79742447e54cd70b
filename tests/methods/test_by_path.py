"""Methods that are a path and one integral. Oracle: `attribute` with the same solver."""

import pytest
import torch

import leastpath as lp
from helpers import flat_points, mlp
from leastpath.methods import METHODS, method_of


def scored(dtype: torch.dtype = torch.float32) -> lp.Score:
    return lp.Score(mlp().to(dtype), torch.tensor([0, 2, 1]), "log_softmax")


def test_steps_of_guided_ig_are_the_paths_and_at_fixed_steps_the_integrals_too():
    result = METHODS["guided_ig"](scored(), flat_points(3, 4, 1), n_steps=7, tolerance=None)
    assert result.path.n_knots.tolist() == [8, 8, 8]
    assert result.n_gradients.tolist() == [7 + 7 + 7] * 3  # the path, its integral, and the line it is compared with
    refined = METHODS["guided_ig"](scored(), flat_points(3, 4, 1), n_steps=7)
    assert refined.path.n_knots.tolist() == [8, 8, 8]


@pytest.mark.parametrize("name", ["enhanced_ig", "geodesic_graph"])
def test_methods_that_need_points_say_so(name):
    with pytest.raises(ValueError, match=f"{name} needs data points"):
        METHODS[name](scored(), flat_points(3, 4))


def test_a_method_that_needs_an_autoencoder_says_so():
    with pytest.raises(ValueError, match=r"manifold_ig needs an autoencoder: pass decoder, .*decoder=vae\.decoder"):
        METHODS["manifold_ig"](scored(), flat_points(3, 4))


def test_a_solver_made_by_hand_keeps_its_own_of_a_name_that_the_integral_has():
    method = method_of(lp.GuidedIG(n_steps=6, fraction=0.5))
    assert method.defaults["fraction"] == 0.5 and method.defaults["n_steps"] is None
    x = flat_points(3, 4, 1)
    found = method(scored(), x)
    expected = lp.attribute(scored(), x, method=lp.GuidedIG(n_steps=6, fraction=0.5))
    assert torch.equal(found.values, expected.values)


def test_a_solver_that_is_not_a_dataclass_has_the_settings_of_the_integral():
    class Line:
        chooses_start = False

        def solve(self, score, metric, start, end, run):
            return lp.Solution(lp.Path.straight(start, end))

    own = {"metric", "geometry", "weighting", "tolerance", "n_steps", "rule", "max_gradients", "max_seconds", "measure"}
    assert set(method_of(Line()).defaults) == own
