"""Methods that are a path and one integral. Oracle: `attribute` with the same solver."""

import pytest
import torch

import leastpath as lp
from helpers import Counted, flat_points, mlp, moons_net
from leastpath.methods import METHODS, method_of
from leastpath.methods.by_path import (
    PathSettings,
    _begin_measuring,
    _compare_with_line,
    _measure_path,
    _measure_samples,
    _Measuring,
    _steps_reserved,
)


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


# ---- measuring: what each integral of a call may cost --------------------


X, BASE = flat_points(3), flat_points(3, seed=1)


def measuring(model=None, max_gradients=None, has_samples=False, tolerance=0.01, n_steps=None) -> _Measuring:
    bound = lp.Score(model or moons_net(), 1, "softmax").bind(X)
    accuracy = lp.Accuracy(tolerance, n_steps)
    run = lp.Run(0, max_gradients, False, _steps_reserved(accuracy))
    how = PathSettings(lp.Conformal(), None, None, accuracy, lp.Limits(max_gradients))
    return _begin_measuring(bound, how, run, has_samples)


def bowed(never_longer: bool, offset: float = 0.5) -> lp.Solution:
    knots = torch.stack([BASE, torch.lerp(BASE, X, 0.5) + offset, X], 1)
    return lp.Solution(lp.Path.polyline(knots), never_longer=never_longer)


@pytest.mark.parametrize(
    ("tolerance", "n_steps", "reserved"), [(0.01, None, 0), (0.01, 50, 0), (None, 50, 63), (None, 4, 5)]
)
def test_fixed_steps_and_a_quarter_as_many_are_reserved(tolerance, n_steps, reserved):
    assert _steps_reserved(lp.Accuracy(tolerance, n_steps)) == reserved


def test_a_bent_path_leaves_a_quarter_for_the_line_and_half_for_further_paths():
    for has_samples, most in ((False, 75), (True, 38)):
        model = Counted(moons_net())
        work = measuring(model, 100, has_samples, tolerance=1e-4)
        integral = _measure_path(work, bowed(never_longer=False), worth_keeping=False)
        assert (integral.n_gradients <= most).all() and model.gradient_rows == int(work.budget.spent().sum())
        _compare_with_line(work, bowed(never_longer=False), integral)
        assert (work.budget.spent() <= (50 if has_samples else 100)).all()


def test_further_paths_share_what_is_left():
    work = measuring(max_gradients=200, has_samples=True, tolerance=1e-4)
    solution = bowed(never_longer=False)
    _measure_path(work, solution, worth_keeping=False)
    assert len(_measure_samples(work, [bowed(False, 0.1 * i).path for i in range(4)])) == 4
    assert (work.budget.spent() <= 200).all()


@pytest.mark.parametrize("never_longer", [False, True])
def test_a_line_replaces_a_longer_path_only_where_that_is_promised(never_longer):
    work, solution = measuring(), bowed(never_longer, offset=3.0)
    integral = _measure_path(work, solution, worth_keeping=False)
    after, measured, line = _compare_with_line(work, solution, integral)
    replaced = after.path.is_straight & ~solution.path.is_straight
    assert torch.equal(replaced, (integral.length > line.length) & never_longer)
    assert (measured.length[replaced] == line.length[replaced]).all() and (replaced.any() or not never_longer)


def test_without_budget_for_the_line_its_length_is_unknown():
    work, solution = measuring(max_gradients=2, tolerance=None, n_steps=2), bowed(never_longer=True)
    integral = _measure_path(work, solution, worth_keeping=False)
    line = _compare_with_line(work, solution, integral)[2]
    assert line.length.isnan().all() and line.values.isnan().all()
