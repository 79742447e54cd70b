"""Points, nets and paths. Oracles: closed forms, and the library called directly."""

import math

import pytest
import torch

import leastpath as lp
from studies.findings.config import Setting
from studies.findings.half_moons import task as tasks
from studies.findings.half_moons.task import (
    NETS,
    MoonsTask,
    conformal_ratio,
    departure,
    mean_square_gradient,
    moons_task,
)


def test_departure_of_an_overshoot_and_of_a_point():
    beyond = torch.tensor([[0.0, 0.0], [2.0, 0.0], [1.0, 0.0]])  # along the line, but past its end
    aside = torch.tensor([[0.0, 0.0], [0.5, -0.25], [1.0, 0.0]])
    nowhere = torch.tensor([[1.0, 0.0], [3.0, 0.0], [1.0, 0.0]])
    found = departure(lp.Path.polyline(torch.stack([beyond, aside, nowhere])))
    assert found[:2].tolist() == [1.0, 0.25] and not math.isfinite(found[2])


def test_mean_square_gradient_of_a_parabola():
    score = lp.Score(lambda x: (x**2).sum(1) / 2)  # ∇f = x, so the mean of ‖x‖² from 0 to x is ‖x‖²/3
    inputs = torch.tensor([[3.0, 4.0], [0.0, 1.0]], dtype=torch.float64)
    found = mean_square_gradient(score, inputs, torch.zeros(1, 2, dtype=torch.float64), n=200)
    assert found == pytest.approx((25 / 3 + 1 / 3) / 2, rel=1e-4)


def test_conformal_ratio_is_what_attribute_measures():
    score, ends = lp.Score(lambda x: torch.sigmoid(3 * x[:, 0] - x[:, 1])), torch.ones(1, 2, dtype=torch.float64)
    result = lp.attribute(score, ends, method=lp.Descent(), tolerance=1e-3)
    torch.testing.assert_close(conformal_ratio(score, result.path), result.length_ratio, rtol=5e-3, atol=0)


def test_task_explains_from_the_paper_s_baseline():
    score = lp.Score(lambda x: x[:, 0] - 2 * x[:, 1])
    task = MoonsTask(score, torch.tensor([[0.5, 0.5]]).double(), torch.tensor([True]))
    assert task.explained(lp.StraightLine()).values.tolist() == [pytest.approx([1.0, -2.0])]


def test_nets_are_trained_once(setting, monkeypatch):
    first = moons_task(setting, NETS[0], 4)
    monkeypatch.setattr(tasks, "train_together", None)
    again = moons_task(Setting(setting.store, quick=True), NETS[0], 4)
    assert torch.equal(first.score(first.inputs), again.score(again.inputs))


def test_points_of_the_flat_region(setting):
    task = moons_task(setting, NETS[1], 50, flat=True)
    score = task.score(task.inputs)
    assert bool(task.across.all()) and float(score.min()) > math.log(0.99)
    start = task.score(task.baseline.expand_as(task.inputs))
    assert len(task.inputs) == 50 and float(start.max()) < math.log(0.5)  # the baseline is on the other side
