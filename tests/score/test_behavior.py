"""What a model does: a change that no description shows is found by its outputs."""

import random

import pytest
import torch

import leastpath as lp
from helpers import mlp
from leastpath._support.store import StoreMismatch
from leastpath.evaluation import compare
from leastpath.score.behavior import check_behavior

X = torch.linspace(-1, 1, 20).reshape(5, 4)


class FromFile(torch.nn.Module):
    """Reads its scale from a file, which no description of the model can see."""

    def __init__(self, file):
        super().__init__()
        self.file = str(file)

    def forward(self, x):
        with open(self.file) as opened:
            return x.sum(1) * float(opened.read())


@pytest.fixture
def model(tmp_path):
    (tmp_path / "scale.txt").write_text("1.0")
    return FromFile(tmp_path / "scale.txt")


def test_another_output_for_the_same_input_is_refused(tmp_path, model):
    check_behavior(tmp_path, lp.Score(model), X)
    check_behavior(tmp_path, lp.Score(model), X)
    (tmp_path / "scale.txt").write_text("1.5")
    with pytest.raises(StoreMismatch, match=r"gave .* then and .* now"):
        check_behavior(tmp_path, lp.Score(model), X)


def test_rounding_is_no_other_behaviour(tmp_path):
    check_behavior(tmp_path, lp.Score(mlp().eval()), X)
    check_behavior(tmp_path, lp.Score(mlp().double().eval()), X)  # a model in other arithmetic, read with other inputs
    check_behavior(tmp_path, lp.Score(lambda x: mlp().eval()(x) * (1 + 1e-5)), X)


def test_compare_does_not_hand_back_results_of_a_model_that_changed(tmp_path, model):
    store = tmp_path / "store"
    compare([lp.StraightLine()], lp.Score(model), X, store=store)
    (tmp_path / "scale.txt").write_text("2.0")
    with pytest.raises(StoreMismatch):
        compare([lp.StraightLine()], lp.Score(model), X, store=store)


def test_inputs_with_extra_arguments(tmp_path):
    score = lp.Score(lambda x, m: (x * m).sum(1), additional_forward_args=lp.per_example(torch.ones(5, 4)))
    check_behavior(tmp_path, score, X)
    with pytest.raises(StoreMismatch, match="1 numbers then and 3 now"):
        other = lp.Score(lambda x, m: (x * m)[:, :3], additional_forward_args=lp.per_example(torch.ones(5, 4)))
        check_behavior(tmp_path, other, X)


def test_a_model_that_fails_or_is_random_is_not_compared(tmp_path):
    def fails(x):
        raise RuntimeError("no")

    check_behavior(tmp_path, lp.Score(fails), X)
    check_behavior(tmp_path, lp.Score(lambda x: x.sum(1) * random.random()), X)
    assert not list(tmp_path.glob("behavior/*"))


def test_torchs_random_numbers_are_the_same_each_time_and_left_alone(tmp_path):
    before = torch.get_rng_state()
    for _ in range(2):
        check_behavior(tmp_path, lp.Score(lambda x: x.sum(1) + torch.randn(1)), X)
    assert torch.equal(before, torch.get_rng_state()) and list(tmp_path.glob("behavior/*"))


def test_a_broken_note_is_written_anew(tmp_path, model):
    check_behavior(tmp_path, lp.Score(model), X)
    for note in tmp_path.glob("behavior/*"):
        note.write_text("{")
    check_behavior(tmp_path, lp.Score(model), X)


def scaled_backward(factor):
    """A model whose outputs are always the same, and whose gradients a hook multiplies."""
    net = mlp().eval()
    next(iter(net.children())).register_full_backward_hook(lambda module, given, got: tuple(factor * g for g in given))
    return net


def test_other_gradients_behind_the_same_outputs_are_refused(tmp_path):
    check_behavior(tmp_path, lp.Score(scaled_backward(1.0)), X)
    check_behavior(tmp_path, lp.Score(scaled_backward(1.01)), X)
    with pytest.raises(StoreMismatch, match="gradient is another than when"):
        check_behavior(tmp_path, lp.Score(scaled_backward(3.0)), X)


def test_gradients_of_a_flat_score_are_rounding(tmp_path):
    def flat(noise):
        return lambda x: 1 + noise * x[:, :1]

    check_behavior(tmp_path, lp.Score(flat(1e-7)), X)
    check_behavior(tmp_path, lp.Score(flat(-1e-7)), X)
