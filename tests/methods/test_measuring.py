"""Measuring: what each integral of a call may cost. How results come out is tested with `attribute`."""

import pytest
import torch

import leastpath as lp
from helpers import Counted, flat_points, moons_net
from leastpath.methods.measuring import Measuring, compared_with_line, steps_reserved

X, BASE = flat_points(3), flat_points(3, seed=1)


def measuring(model=None, max_gradients=None, has_samples=False, tolerance=0.01, n_steps=None) -> Measuring:
    bound = lp.Score(model or moons_net(), 1, "softmax").bind(X)
    accuracy = lp.Accuracy(tolerance, n_steps)
    run = lp.Run(0, max_gradients, False, steps_reserved(accuracy))
    return Measuring(bound, lp.Conformal(), None, accuracy, run, has_samples)


def bowed(never_longer: bool, offset: float = 0.5) -> lp.Solution:
    knots = torch.stack([BASE, torch.lerp(BASE, X, 0.5) + offset, X], 1)
    return lp.Solution(lp.Path.polyline(knots), never_longer=never_longer)


@pytest.mark.parametrize(
    ("tolerance", "n_steps", "reserved"), [(0.01, None, 0), (0.01, 50, 0), (None, 50, 63), (None, 4, 5)]
)
def test_fixed_steps_and_a_quarter_as_many_are_reserved(tolerance, n_steps, reserved):
    assert steps_reserved(lp.Accuracy(tolerance, n_steps)) == reserved


def test_a_bent_path_leaves_a_quarter_for_the_line_and_half_for_further_paths():
    for has_samples, most in ((False, 75), (True, 38)):
        model = Counted(moons_net())
        work = measuring(model, 100, has_samples, tolerance=1e-4)
        integral = work.of_path(bowed(never_longer=False), worth_keeping=False)
        assert (integral.n_gradients <= most).all() and model.gradient_rows == int(work.budget.spent().sum())
        compared_with_line(work, bowed(never_longer=False), integral)
        assert (work.budget.spent() <= (50 if has_samples else 100)).all()


def test_further_paths_share_what_is_left():
    work = measuring(max_gradients=200, has_samples=True, tolerance=1e-4)
    solution = bowed(never_longer=False)
    work.of_path(solution, worth_keeping=False)
    assert len(work.of_samples([bowed(False, 0.1 * i).path for i in range(4)])) == 4
    assert (work.budget.spent() <= 200).all()


@pytest.mark.parametrize("never_longer", [False, True])
def test_a_line_replaces_a_longer_path_only_where_that_is_promised(never_longer):
    work, solution = measuring(), bowed(never_longer, offset=3.0)
    integral = work.of_path(solution, worth_keeping=False)
    after, measured, line = compared_with_line(work, solution, integral)
    replaced = after.path.is_straight & ~solution.path.is_straight
    assert torch.equal(replaced, (integral.length > line.length) & never_longer)
    assert (measured.length[replaced] == line.length[replaced]).all() and (replaced.any() or not never_longer)


def test_without_budget_for_the_line_its_length_is_unknown():
    work, solution = measuring(max_gradients=2, tolerance=None, n_steps=2), bowed(never_longer=True)
    integral = work.of_path(solution, worth_keeping=False)
    line = compared_with_line(work, solution, integral)[2]
    assert line.length.isnan().all() and line.values.isnan().all()
