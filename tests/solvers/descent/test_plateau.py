"""The plateau stage: which side is flatter, and crossings that sink to where it is, on a cliff of known shape."""

import pytest
import torch

import leastpath as lp
from helpers import Interrupting, field_of
from leastpath.solvers.descent.plateau import ROUND_COST, Crossing, cross_plateau, flatter_side

EVERYONE = torch.arange(2)


def cliff(x: torch.Tensor) -> torch.Tensor:
    """Rises along the first feature, steepest at 0, flat far away on both sides."""
    return torch.sigmoid(4 * x[:, 0])


def along_the_cliff(model, *places: float, limit: int = 1000):
    """Examples that walk one unit along the cliff, each at its place on the slope."""
    start = torch.stack([torch.tensor(places), torch.zeros(len(places))], 1).double()
    return field_of(lp.Score(model), start, start + torch.tensor([0.0, 1.0]).double(), limit)


def crossing(field, sign: float) -> Crossing:
    ends = torch.stack([field.start, field.end], 1)
    t = torch.linspace(0.1, 0.9, 7).double()[None, :, None]
    knots = torch.lerp(ends[:, :1], ends[:, 1:], t)
    one = torch.ones(len(knots)).double()
    return Crossing(ends[:, :1], knots, ends[:, 1:], sign * one, 0.2 * one, one, 10 * one)


@pytest.mark.parametrize("swap", [False, True])
def test_flatter_side_against_the_shape_of_the_cliff(swap):
    """Above the middle of the cliff the top is nearer, below it the bottom; upside down it is the other way round."""
    field = along_the_cliff((lambda x: -cliff(x)) if swap else cliff, 0.4, -0.4)
    lines = torch.stack([field.start, field.end], 1)
    positions = (torch.arange(8).double() + 0.5).expand(2, -1) / 8
    line = field.sample(lines, positions, EVERYONE)
    expected = [-1.0, 1.0] if swap else [1.0, -1.0]
    assert flatter_side(field, line, EVERYONE).tolist() == expected
    assert flatter_side(field, line, EVERYONE[:1]).tolist() == [expected[0], -1.0]  # who is not asked for counts as −1


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_a_crossing_moves_to_flat_ground_and_keeps_its_ends(sign):
    field = along_the_cliff(cliff, 0.3 * sign, 0.1 * sign)
    way = crossing(field, sign)
    before, left, right = way.knots.clone(), way.left.clone(), way.right.clone()
    found = cross_plateau(field, EVERYONE, way, torch.ones(2).double(), 12, 12, 0, draw=0)
    after, length = found.crossing, found.length
    assert torch.equal(after.left, left) and torch.equal(after.right, right)
    assert (sign * (after.knots - before)[:, :, 0] > 0).all()  # all knots went the way that they were told
    slope = 4 * cliff(after.knots.flatten(0, 1)) * (1 - cliff(after.knots.flatten(0, 1)))
    assert (slope.view(2, -1).mean(1) < 0.2).all() and (length < 1).all()


def test_the_budget_ends_the_rounds():
    field = along_the_cliff(cliff, 0.3, 0.1, limit=2 * ROUND_COST + 5)
    cross_plateau(field, EVERYONE, crossing(field, 1.0), torch.ones(2).double(), 50, 50, 5, draw=0)
    assert (field.spent <= 2 * ROUND_COST).all() and (field.spent > ROUND_COST).all()


def test_hopeless_crossings_are_left():
    field = along_the_cliff(cliff, 0.0)
    way = crossing(field, 1.0)
    way.hopeless[:] = 0
    cross_plateau(field, EVERYONE[:1], way, torch.ones(1).double(), 50, 3, 0, draw=0)
    assert int(field.spent[0]) <= 3 * ROUND_COST


def test_interruption_keeps_the_best_of_the_rounds_so_far():
    field = along_the_cliff(Interrupting(cliff, 3, only_gradients=True), 0.3)
    found = cross_plateau(field, EVERYONE[:1], crossing(field, 1.0), torch.ones(1).double(), 50, 50, 0, draw=0)
    assert field.stop.caught and found.length.isfinite().all() and found.crossing.knots.isfinite().all()


def test_what_the_calmest_round_saw_lies_on_the_calmest_crossing():
    field = along_the_cliff(cliff, 0.3, 0.1)
    found = cross_plateau(field, EVERYONE, crossing(field, 1.0), torch.ones(2).double(), 6, 6, 0, draw=0)
    for whole, rows in ((found, EVERYONE), (found.pick(EVERYONE[1:]), EVERYONE[1:])):
        again = field.sample(whole.crossing.middle, whole.positions, rows)
        torch.testing.assert_close(whole.samples.points, again.points)
        torch.testing.assert_close(whole.samples.gradient, again.gradient)
        torch.testing.assert_close(whole.samples.speed, again.speed)


def test_parts_of_a_crossing():
    way = crossing(along_the_cliff(cliff, 0.3, 0.1), 1.0)
    assert way.path.shape == (2, 9, 2) and torch.equal(way.path, way.middle)  # trails of one point each
    one = way.pick(torch.tensor([False, True]))
    assert torch.equal(one.knots, way.knots[1:]) and torch.equal(one.push, way.push[1:])
