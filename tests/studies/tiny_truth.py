"""The truth study on nets and examples made here, for its tests: what decides is known."""

import torch
from torch import nn

import leastpath as lp
from leastpath.features.groups import patches
from studies.truth.candidates import CANDIDATES
from studies.truth.nets import image_problem
from studies.truth.problem import Net, Opened, Problem

SOME = {
    name: CANDIDATES[name] for name in ("random", "occlusion", "shapley", "ig", "idgi", "idgi-two", "line", "descent")
}
WEIGHTS = torch.tensor([3.0, 0.0, -1.0])


def linear_problem(**more):
    """Two examples of WEIGHTS · x, from 0 and from 1: any path's values are WEIGHTS · (x − x̄)."""
    inputs = torch.tensor([[1.0, 2.0, 1.0], [0.5, 0.0, 2.0]])
    baselines = torch.stack([torch.zeros(2, 3), torch.ones(2, 3)], 1)
    return Problem(
        lambda output: lp.Score(lambda x: x @ WEIGHTS), "raw", inputs, baselines, {"zero": 0.0}, None, **more
    )


def tiny(name="tiny", **more):
    """A net of 6 × 6 pixels whose class is told by the first two rows."""
    opened = []

    def problem(rows):
        generator = torch.Generator().manual_seed(0)
        images = torch.rand(40, 1, 6, 6, generator=generator)[list(rows)]
        net = nn.Sequential(nn.Flatten(), nn.Linear(36, 2)).requires_grad_(False).eval()
        net[1].weight.copy_(torch.stack([torch.zeros(36), torch.cat([torch.linspace(3, 1, 12), torch.zeros(24)])]))
        net[1].bias.copy_(torch.tensor([0.0, -10.0]))
        objects = torch.zeros(len(images), 1, 6, 6, dtype=torch.bool)
        objects[..., :2, :] = True
        targets = torch.ones(len(images)).long()
        groups = {"patch": patches(6, 6, side=2)}
        return image_problem(net, images, targets, "log_softmax", objects=objects, groups=groups)

    def open_net(setting, data):
        opened.append(name)
        return Opened(40, problem, {"accuracy": 1.0})

    net = Net(name, name, "image", open_net, {"development": 12, "reporting": 12}, block=6, few=6, **more)
    return net, opened


def tiny_results():
    """Results of two methods on one net, as `command.told_by` makes them, with numbers made up here."""

    def of(black, blur, **more):
        return {"n": 9, "gain": (black + blur) / 2, "worst": min(black, blur), "gains": {"black": black, "blur": blur},
                **more}  # fmt: skip

    def test(measure, difference, p):
        return {"half": "reporting", "method": "descent", "rival": "ig", "net": "tiny", "measure": measure, "n": 9,
                "difference": difference, "raw_p": p, "p": p, "clear": p < 0.05}  # fmt: skip

    return {
        "nets": {"tiny": {"title": "Tiny net", "kind": "image", "gate": "", "quality": {"accuracy": 0.9}}},
        "candidates": {"ig": "IG", "descent": "Descent"},
        "summaries": {
            "development": {},
            "reporting": {"tiny": {"ig": of(0.25, 0.5, objects=2.0), "descent": of(0.5, 0.25, objects=3.0)}},
        },
        "gates": {
            "development": {},
            "reporting": {"ig": {"mark among the first": 0.75}, "descent": {"mark among the first": 0.5}},
        },
        "tests": [test("gain black", 0.25, 0.01), test("gain blur", -0.25, 0.02), test("gain", 0.0, 0.9)],
        "choices": {},
    }
