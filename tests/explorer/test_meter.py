"""The meter counts rows, tells the time left, and interrupts once."""

import pytest
import torch
from torch import nn

import leastpath as lp
from leastpath.explorer.meter import Meter
from leastpath.result.status import Outcome


def test_it_counts_rows_and_changes_nothing():
    net, points = nn.Linear(3, 2).eval(), torch.rand(5, 3)
    score, meter = lp.Score(net, 1), Meter(expected=20)
    assert torch.equal(meter.over(score)(points), score(points))
    assert meter.done == 0.25
    assert "left" in meter.sentence


def test_a_stop_interrupts_once():
    meter = Meter(1)
    meter.stop()
    with pytest.raises(KeyboardInterrupt):
        meter.count(1)
    meter.count(1)
    assert meter.stopped


def test_a_stop_for_good_lets_nothing_pass():
    meter = Meter(10)
    meter.stop(for_good=True)
    for _ in range(2):
        with pytest.raises(KeyboardInterrupt):
            meter.count(1)


def test_a_stopped_solver_gives_what_it_has():
    meter = Meter(1)
    score = meter.over(lp.Score(lambda x: torch.sigmoid(8 * x.prod(1) - 4)))

    class StopsItself(nn.Module):
        calls = 0

        def forward(self, x):
            self.calls += 1
            if self.calls == 6:
                meter.stop()
            return score.model(x)

    stopping = lp.Score(StopsItself().eval())
    result = lp.attribute(stopping, torch.ones(1, 4), method=lp.ElasticBand(n_rounds=50), on_interrupt="return")
    assert Outcome.INTERRUPTED in result.status[0]
    assert torch.isfinite(result.values).all()


def test_bars_are_shown_by_the_meter():
    meter = Meter(1)
    with meter.show_bars():
        lp.attribute(lp.Score(lambda x: x.prod(1)), torch.ones(1, 4), method=lp.ElasticBand(n_rounds=2))
    assert meter.stage
