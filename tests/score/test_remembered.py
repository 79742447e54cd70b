"""Nothing is shown to a model twice. Oracles: the answer without the memory, and a model that counts."""

import pytest
import torch
from torch import nn

import leastpath as lp
from helpers import Counted, seeded
from leastpath.score import remembered
from leastpath.score.remembered import memory_of, remember_outputs

NET = seeded(lambda: nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 3)).eval())
INPUTS = seeded(lambda: torch.rand(2, 6))


def explain(model, target=1, **more):
    return lp.attribute(lp.Score(model, target, "log_softmax"), INPUTS, method="staircase", support=False, **more)


def test_other_targets_ask_nothing_new():
    counted = Counted(NET)
    with remember_outputs(counted) as seen:
        found = [explain(counted, target) for target in range(3)]
    first = Counted(NET)
    expected = [explain(first if target == 0 else NET, target) for target in range(3)]
    assert counted.value_rows <= first.value_rows
    assert [int(result.n_forwards.sum()) for result in found[1:]] == [0, 0] and seen.n_saved > 0
    for result, plain in zip(found, expected, strict=True):
        torch.testing.assert_close(result.values, plain.values, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_other_precisions(dtype):
    net, inputs = seeded(lambda: nn.Linear(6, 3).eval()).to(dtype), INPUTS.to(dtype)
    plain = lp.attribute(lp.Score(net, 1), inputs, method="occlusion", support=False)
    with remember_outputs(net):
        found = lp.attribute(lp.Score(net, 1), inputs, method="occlusion", support=False)
    torch.testing.assert_close(found.values, plain.values)


def test_no_more_is_kept_than_there_is_room_for(monkeypatch):
    monkeypatch.setattr(remembered, "MOST_BYTES", 100)
    with remember_outputs(NET) as seen:
        found = explain(NET)
    assert seen.n_bytes <= 100
    torch.testing.assert_close(found.values, explain(NET).values)


def test_a_model_in_training_mode_may_draw_anew():
    net = nn.Linear(6, 3).train()
    with remember_outputs(net) as seen, pytest.warns(UserWarning, match="training mode"):
        explain(net)
    assert not seen.is_safe and not seen.rows


def test_rows_that_depend_on_each_other_are_refused_as_ever():
    def mixed(x):
        return x - x.mean(0)

    with remember_outputs(mixed), pytest.raises(ValueError, match="rows are not independent"):
        lp.attribute(lp.Score(mixed, 1), INPUTS, method="occlusion")


def test_it_ends_with_the_block_and_is_for_one_model():
    with remember_outputs(NET):
        assert memory_of(NET) is not None and memory_of(nn.Linear(1, 1)) is None
    assert memory_of(NET) is None
