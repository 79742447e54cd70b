"""Score: its arguments, changed copies, the model's own outputs."""

import inspect
from dataclasses import FrozenInstanceError, replace

import pytest
import torch
from torch import nn

import leastpath as lp
from helpers import TextNet, cnn, flat_points, left_untouched, mlp, seeded
from leastpath.score.calls import UnreadableOutput
from leastpath.score.score import bind_paths

X = flat_points(5, 4)


# ---- arguments ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("per_example", [True, False])
def test_additional_forward_args_against_closure(per_example):
    model, scale = mlp(), (flat_points(5, 1, seed=1) if per_example else torch.tensor([[1.0, 2.0, 3.0, 4.0]]))
    score = lp.Score(lambda x, s, power: model(x * s) ** power, 1, additional_forward_args=(scale, 3), batch_size=3)
    torch.testing.assert_close(score(X), model(X * scale).detach()[:, 1] ** 3)


@pytest.mark.parametrize("extra", [None, ()])
def test_no_additional_forward_args(extra):
    assert lp.Score(mlp(), 1, additional_forward_args=extra)(X).shape == (5,)


def test_one_additional_forward_arg_needs_no_tuple():
    score = lp.Score(lambda x, s: (x * s).sum(1), additional_forward_args=2.0)
    torch.testing.assert_close(score(X), 2 * X.sum(1))


def test_repr_names_the_model():
    assert repr(lp.Score(mlp(), 1)) == "Score(Sequential, target=1, output='raw')"


CONSTRUCTION = {
    "model": (lambda: lp.Score(3), "model must be callable, got int"),
    "output": (lambda: lp.Score(mlp(), 1, "logits"), "output='logits' is unknown: use one of .*'log_softmax'"),
    "margin": (lambda: lp.Score(mlp(), None, "logit_margin"), "give target as an index"),
    "batch size": (lambda: lp.Score(mlp(), 1, batch_size=0), "batch_size=0 must be at least 1"),
    "layer": (
        lambda: lp.Score(mlp(), 1, layer=nn.Linear(2, 2)),
        "layer is not a part of model: .*layer=model.embedding",
    ),
    "layer of a callable": (lambda: lp.Score(lambda x: x, layer=nn.ReLU()), "layer is not a part of model"),
    "name as target": (lambda: lp.Score(mlp(), "cat"), "target='cat' must be a class index"),
    "float target": (lambda: lp.Score(mlp(), 1.0), "target=1.0 must be a class index"),
    "float targets": (lambda: lp.Score(mlp(), torch.ones(5)), "target has dtype torch.float32 .* expected integers"),
    "square targets": (lambda: lp.Score(mlp(), [[1, 2]]), r"shape \(1, 2\), expected integers of shape \(batch,\)"),
}


@pytest.mark.parametrize(("make", "match"), CONSTRUCTION.values(), ids=CONSTRUCTION)
def test_construction_errors(make, match):
    with pytest.raises(ValueError, match=match):
        make()


# ---- changed copies ----------------------------------------------------------------------------------------------

NET = mlp()
GIVEN = {
    "model": NET, "target": torch.tensor([0, 2]), "output": "softmax", "layer": NET[2],
    "additional_forward_args": ("an argument",), "batch_size": 3,
    "class_dim": 1,
}  # fmt: skip


def test_all_arguments_of_a_score_are_tried_here():
    assert GIVEN.keys() == inspect.signature(lp.Score).parameters.keys()


@pytest.mark.parametrize(
    ("name", "new"),
    [
        ("model", torch.nn.Sequential(NET)), ("target", 1), ("output", "log_softmax"), ("layer", None),
        ("additional_forward_args", ()), ("batch_size", None), ("class_dim", -1),
    ],
)  # fmt: skip
def test_replace_keeps_all_other_arguments(name, new):
    other = replace(lp.Score(**GIVEN), **{name: new})
    for key, expected in (GIVEN | {name: new}).items():
        found = getattr(other, key)
        assert found is expected or (torch.equal(found, expected) if key == "target" else found == expected)


def test_changes_are_checked():
    with pytest.raises(ValueError, match="output='odds' is unknown"):
        replace(lp.Score(**GIVEN), output="odds")


def test_a_score_cannot_be_changed_in_place():
    score = lp.Score(NET, 1)
    with pytest.raises(FrozenInstanceError):
        score.target = 2


def test_rare_arguments_are_keywords():
    with pytest.raises(TypeError, match="positional"):
        lp.Score(NET, 1, "raw", NET[2])


# ---- the model's own outputs -------------------------------------------------------------------------------------


@pytest.mark.parametrize("batch_size", [None, 1, 3])
def test_outputs_against_the_model(batch_size):
    score = lp.Score(NET, 1, "softmax", batch_size=batch_size)
    torch.testing.assert_close(score.outputs(X), NET(X).detach())
    assert not score.outputs(X).requires_grad


def test_outputs_take_extra_arguments_tuples_and_integers():
    scale = flat_points(5, 4, seed=1)
    pair = lp.Score(lambda a, b, s: NET(a * s + b), additional_forward_args=scale, batch_size=2)
    torch.testing.assert_close(pair.outputs((X, X)), NET(X * scale + X).detach())
    net, ids = seeded(TextNet).eval(), torch.randint(11, (3, 5))
    torch.testing.assert_close(lp.Score(net, layer=net.embedding).outputs(ids), net(ids).detach())
    torch.testing.assert_close(lp.Score(net.embedding).outputs(ids), net.embedding(ids).detach())


def test_outputs_leave_a_model_in_training_mode_untouched():
    model = nn.Sequential(cnn(), nn.Dropout()).train()
    with left_untouched(model):
        assert lp.Score(model).outputs(flat_points(3, 72).view(3, 2, 6, 6)).shape == (3, 3)


def test_outputs_are_ordinary_tensors_under_inference_mode():
    with torch.inference_mode():
        assert not lp.Score(NET).outputs(X).is_inference()


@pytest.mark.parametrize(
    ("model", "match"),
    [
        (lambda x: {"logits": x}, "the model returned dict, expected a tensor or an object with .logits"),
        (lambda x: x.sum(), r"the model returned \(\) for 5 rows: it must keep the batch dimension first"),
    ],
)
def test_outputs_that_have_no_rows(model, match):
    with pytest.raises(UnreadableOutput, match=match):
        lp.Score(model).outputs(X)


def test_paths_are_bound_once_for_each_baseline():
    bound, start, end, m = bind_paths(lp.Score(lambda x: x.sum(1)), torch.ones(2, 3), torch.zeros(2, 5, 3))
    assert (bound.batch, m, start.shape, end.shape) == (10, 5, (10, 3), (10, 3))
