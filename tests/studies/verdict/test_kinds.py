"""The maps that are judged. Oracles: closed forms on a linear net."""

import torch
from torch import nn

from leastpath.score.score import Score
from studies.truth.problem import Problem
from studies.verdict.kinds import draw_maps, kinds_of


def linear_problem(shape=(6,), labels=None):
    torch.manual_seed(0)
    size = torch.Size(shape).numel()
    net = nn.Sequential(nn.Flatten(), nn.Linear(size, 2)).eval().requires_grad_(False)
    inputs = torch.rand(3, *shape)
    starts = torch.zeros_like(inputs)[:, None]
    return Problem(lambda output: Score(net, torch.tensor([0, 1, 0]), output), "raw", inputs, starts, {}, labels), net


def test_every_kind_has_a_map_and_linear_nets_have_the_known_ones():
    problem, net = linear_problem()
    maps = draw_maps(problem, "table", 0)
    assert {kind.name for kind in kinds_of("table")} <= set(maps)
    right = problem.inputs * net[1].weight[[0, 1, 0]]
    for name in ("ig", "staircases", "occlusion"):
        torch.testing.assert_close(maps[name], right)
    torch.testing.assert_close(maps["reversed"], -right)
    torch.testing.assert_close(maps["other"], problem.inputs * net[1].weight[[1, 0, 1]])
    assert torch.equal(maps["size"], problem.inputs) and torch.equal(maps["untrained-size"], maps["untrained"].abs())
    assert not torch.equal(maps["random1"], maps["random2"])


def test_equal_values_are_equal_for_every_column_and_smooth_maps_are_smooth():
    labels = torch.tensor([[0, 1, 1, 2, 2, 2]])
    equal = draw_maps(linear_problem(labels=labels)[0], "table", 0)["equal"]
    assert torch.equal(equal[0], torch.tensor([1.0, 1, 0, 1, 0, 0]))
    maps = draw_maps(linear_problem((1, 8, 8))[0], "digits", 0)
    rough, smooth = (maps[name].diff(dim=-1).std() / maps[name].std() for name in ("random", "smooth2"))
    assert smooth < 0.6 * rough and {kind.name for kind in kinds_of("digits")} <= set(maps)
