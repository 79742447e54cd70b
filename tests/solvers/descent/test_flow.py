"""Gradient flows: against closed forms, and their price."""

import torch

import leastpath as lp
from helpers import field_of
from leastpath.solvers.descent.flow import KNOTS, STEPS, Flow, _thin, flows


def flowing(field, origin, sign) -> Flow:
    """Flows from some points, whose gradients are taken first."""
    rows = torch.arange(len(origin))
    value, gradient, _ = field.gradient(origin, rows)
    return flows(field, origin, rows, sign, torch.ones(len(origin)), (value, gradient))


def test_flow_costs_the_change_of_score():
    start, end = torch.zeros(2, 5), torch.ones(2, 5)
    score = lp.Score(lambda x: torch.tanh(2 * x.mean(1)))
    field = field_of(score, start, end)
    flow = flowing(field, end, torch.tensor([1.0, -1.0]))
    rise = flow.values[:, -1] - score(end)
    assert rise[0] > 0 > rise[1]
    torch.testing.assert_close(flow.cost, rise.abs(), rtol=0.2, atol=0)
    assert torch.equal(flow.trail[:, 0], end) and (field.spent <= 16).all()


def test_flow_lines_of_a_round_hill_are_rays():
    """f = −‖x‖²/2: up is straight to the top, which is as far as it goes; down is straight away from it."""
    start = torch.tensor([[3.0, 4.0], [-1.0, 2.0]]).double()
    field = field_of(lp.Score(lambda x: -(x**2).sum(1) / 2), start, -start)
    up, down = (flowing(field, start, s * torch.ones(2).double()) for s in (1.0, -1.0))
    unit = start / start.norm(dim=1, keepdim=True)
    for flow in (up, down):
        off = flow.trail - (flow.trail * unit[:, None]).sum(2, keepdim=True) * unit[:, None]
        torch.testing.assert_close(off, torch.zeros_like(off))
        assert (
            (-(flow.trail**2).sum(2) / 2)
            .diff(dim=1)
            .mul(flow.values[:, -1:] + start.square().sum(1, True) / 2)
            .ge(0)
            .all()
        )
    assert (up.trail.norm(dim=2).diff(dim=1) <= 0).all() and (down.trail.norm(dim=2).diff(dim=1) >= 0).all()
    assert (up.trail[:, -1].norm(dim=1) < 0.1 * start.norm(dim=1)).all()
    assert (down.trail[:, -1].norm(dim=1) > 1.5 * start.norm(dim=1)).all()


def test_what_a_flow_saw_belongs_to_the_points_of_its_trail():
    start = torch.tensor([[3.0, 4.0], [-1.0, 2.0]]).double()
    score = lp.Score(lambda x: torch.sin(x).prod(1))
    field = field_of(score, start, -start)
    flow = flowing(field, start, torch.tensor([1.0, -1.0]).double())
    assert len(flow.trail.flatten(0, 1).unique(dim=0)) > 4
    bound, knots = score.bind(start), flow.trail.flatten(0, 1)
    value, gradient = bound.gradients(knots, torch.arange(2).repeat_interleave(KNOTS + 1))
    torch.testing.assert_close(flow.values.flatten(), value)
    torch.testing.assert_close(flow.gradients.flatten(0, 1), gradient)


def test_flat_ground_is_not_left():
    start = torch.ones(1, 3)
    field = field_of(lp.Score(lambda x: 0 * x.sum(1)), start, -start)
    flow = flowing(field, start, torch.ones(1))
    assert torch.equal(flow.trail, start[:, None].expand(1, KNOTS + 1, 3)) and not flow.cost.any()


def test_thinning_keeps_first_and_last_for_every_number_of_steps():
    """Points are their own numbers, so that what is kept can be read off."""
    count = torch.arange(STEPS)
    trail = torch.arange(STEPS).expand(STEPS, -1)[:, :, None].double()
    kept = _thin(trail, count)[:, :, 0]
    assert torch.equal(kept[:, 0], torch.zeros(STEPS).double()) and torch.equal(kept[:, -1], count.double())
    for n, row in enumerate(kept.tolist()):
        assert row == sorted(row) and len(set(row)) == min(n, KNOTS) + 1
