"""What the store holds. Oracle: the method called directly."""

import torch

import leastpath as lp
from studies.moons.config import BASELINE
from studies.moons.results import MethodOnNet, explained, net_of
from studies.moons.training import Moons


def test_units_hold_what_the_method_gives(run):
    unit = MethodOnNet("integrated_gradients", Moons(0.35, 24))
    model, inputs = net_of(run.store, unit.net), unit.net.test[0][:60]
    score = lp.Score(model, model(inputs).argmax(1), "log_softmax")
    direct = lp.attribute(score, inputs, torch.tensor([BASELINE]), method=lp.StraightLine(), seed=24)
    kept = explained(run.store, unit)
    assert torch.equal(kept["values"], direct.values)
    torch.testing.assert_close(kept["cancellation"], direct.cancellation)
