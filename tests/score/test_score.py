"""Score: its arguments, changed copies, the model's own outputs."""

import inspect
from dataclasses import FrozenInstanceError, replace

import pytest
import torch
from torch import nn

import leastpath as lp
from helpers import TextNet, cnn, flat_points, hooks_of, left_untouched, mlp, seeded
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


# ---- boundScore: f and its gradient, the explained space, layers, independent rows -----------------------------------


def explain(score, inputs=X, baselines=None, **settings):
    return lp.attribute(score, inputs, baselines, method=lp.StraightLine(), **settings)


def raises(match, score, inputs=X, baselines=None, **settings):
    with pytest.raises(ValueError, match=match):
        explain(score, inputs, baselines, **settings)


# ---- f and its gradient ------------------------------------------------------------------------------------------


def test_gradients_against_autograd():
    model, x = mlp(), X.clone().requires_grad_()
    targets = torch.tensor([0, 1, 2, 0, 1])
    model(x).log_softmax(1)[torch.arange(5), targets].sum().backward()
    value, gradient = lp.Score(model, targets, "log_softmax", batch_size=2).bind(X).gradients(X, torch.arange(5))
    torch.testing.assert_close(gradient, x.grad)
    torch.testing.assert_close(value, lp.Score(model, targets, "log_softmax")(X))


def test_the_class_of_each_example():
    two = lp.Score(mlp(), torch.tensor([2, 0, 1, 1, 0])).bind(X, 2)
    assert two.classes("it").tolist() == [2, 2, 0, 0, 1, 1, 1, 1, 0, 0]
    assert lp.Score(mlp(), 1).bind(X).classes("it").tolist() == [1] * 5
    with pytest.raises(ValueError, match="agi needs a classifier and the class that is explained: give its index"):
        lp.Score(lambda x: x.sum(1)).bind(X).classes("agi")


def test_nan_score_names_the_example():
    x = X.abs() + 1
    x[3] *= -1
    raises("the score of example 3 is NaN or infinite along its path", lp.Score(lambda x: x.log().sum(1)), x, x[:1])
    several = x.abs()[:, None].expand(5, 3, 4)  # rows are counted in inputs, not in baselines
    raises("the score of example 3 is NaN or infinite", lp.Score(lambda x: x.log().sum(1)), x, several)


def test_nan_score_inside_the_path_names_the_example():
    """Finite at both ends, infinite in between: log|x| from −1 to 1 meets no pole, 1/(x < ½ ∧ x > −½) does."""

    def hole(x):
        return torch.where(x[:, 0].abs() < 0.5, torch.inf, 1.0) * x[:, 0]

    x = torch.tensor([[2.0], [1.0], [3.0]])
    starts = torch.tensor([[1.0], [-1.0], [2.0]])
    raises("the score of example 1 is NaN or infinite", lp.Score(hole), x, starts)


def test_nan_gradient_names_the_example():
    def root(x):  # √(0²) has the derivative ∞ · 0
        return torch.sqrt(((x[:, 0] - 1) * (x[:, 0] > 1)) ** 2) + x[:, 1]

    x = torch.tensor([[2.0, 1.0], [0.5, 1.0]])
    start = torch.tensor([[1.5, 0.0], [0.0, 0.0]])
    match = "the gradient of example 1 is NaN or infinite along its path, though its score is finite"
    raises(match, lp.Score(root), x, start)
    raises(match, lp.Score(root), x, start[:, None].expand(2, 3, 2))
    raises(match, lp.Score(root), x, start, tolerance=None, n_steps=5)


def test_output_that_does_not_depend_on_the_input():
    model = mlp()
    match = "the score does not depend on the inputs"
    raises(match + ".*detach", lp.Score(lambda x: x.detach().sum(1)))
    raises(match, lp.Score(lambda x: model(x.detach()), 1))  # the parameters still require gradients

    def without_gradient(x):
        with torch.no_grad():
            return model(x)

    raises(match, lp.Score(without_gradient, 1))
    constant = nn.Parameter(torch.ones(3))
    raises(match + ".*never uses them", lp.Score(lambda x: constant.expand(len(x), 3), 1))
    two = nn.ModuleDict({"a": nn.Linear(4, 3), "b": nn.Linear(4, 3)}).eval()

    class Branches(nn.Module):
        def __init__(self):
            super().__init__()
            self.two = two

        def forward(self, x):
            self.two["a"](x)
            return self.two["b"](torch.ones_like(x))

    branches = Branches().eval()
    raises(match, lp.Score(branches, 1, layer=two["a"]))


# ---- the explained space -----------------------------------------------------------------------------------------


def test_tuple_is_joined_and_split_again():
    parts = (flat_points(3, 2), flat_points(3, 6, seed=1).view(3, 2, 3).double())
    bound = lp.Score(lambda a, b: a.sum(1) + b.flatten(1).sum(1)).bind(parts)
    joint = bound.space.points()
    assert joint.shape == (3, 8) and joint.dtype == torch.float64
    again = bound.space.split(joint)
    assert all(torch.equal(a, b) and a.dtype == b.dtype for a, b in zip(again, parts, strict=True))


def test_groups_are_equal_scores():
    targets = torch.tensor([2, 0, 2, 1, 0])
    groups = lp.Score(mlp(), targets).bind(X).groups
    assert torch.equal(groups[:, None] == groups, targets[:, None] == targets)
    assert len(lp.Score(mlp(), 1).bind(X).groups.unique()) == 1
    own = lp.Score(lambda x, a: (x * a).sum(1), additional_forward_args=torch.ones(5, 1)).bind(X).groups
    assert len(own.unique()) == 5


def test_too_few_targets():
    raises(
        r"got 2 targets for 5 inputs: pass one int, or a tensor of shape \(5,\)", lp.Score(mlp(), torch.tensor([0, 1]))
    )


# ---- layers ------------------------------------------------------------------------------------------------------


def test_activation_baselines_equal_raw_ones():
    net, ids = seeded(TextNet).eval(), torch.randint(11, (3, 5))
    raw = torch.full((1, 5), 7)
    score = lp.Score(net, 1, layer=net.embedding)
    a = explain(score, ids, raw)
    b = explain(score, ids, net.embedding(raw).detach())
    assert a.values.shape == (3, 5, 4)
    torch.testing.assert_close(a.values, b.values)


def test_several_raw_baselines_of_a_layer_equal_the_mean():
    net, ids = seeded(TextNet).eval(), torch.randint(11, (3, 5))
    score, several = lp.Score(net, 1, layer=net.embedding), torch.randint(11, (3, 2, 5))
    both = explain(score, ids, several)
    single = [explain(score, ids, several[:, j]).values for j in range(2)]
    torch.testing.assert_close(both.values, (single[0] + single[1]) / 2)


def test_layer_that_returns_a_tuple_is_read_at_its_first_part():
    class Recurrent(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.rnn, self.head = nn.GRU(4, 5, batch_first=True), nn.Linear(5, 3)

        def forward(self, x):
            return self.head(self.rnn(x)[0][:, -1])

    model = seeded(Recurrent).eval()
    x = flat_points(2, 12).view(2, 3, 4)
    result = explain(lp.Score(model, 1, layer=model.rnn), x)
    # The head is linear in the last state and ignores the others: closed form.
    states = model.rnn(x)[0].detach() - model.rnn(torch.zeros_like(x))[0].detach()
    expected = torch.zeros_like(states)
    expected[:, -1] = states[:, -1] * model.head.weight[1].detach()
    torch.testing.assert_close(result.values, expected, rtol=1e-4, atol=1e-6)


def test_layer_errors():
    shared = nn.Linear(4, 4)
    twice = nn.Sequential(shared, nn.Tanh(), shared)
    raises("layer ran 2 times in one forward pass", lp.Score(twice.eval(), 1, layer=shared))
    model = mlp()
    model.spare = nn.Linear(4, 4)
    unused = nn.Sequential(mlp())
    unused.forward = lambda x: x
    raises("layer ran 0 times in one forward pass", lp.Score(unused.eval(), 1, layer=unused[0]))


def test_layer_hooks_are_removed_even_when_the_model_fails():
    model = mlp()
    hooks = hooks_of(model)
    explain(lp.Score(model, 1, layer=model[1]), X)
    assert hooks_of(model) == hooks
    with pytest.raises(ValueError, match="shapes cannot"):
        explain(lp.Score(model, 1, layer=model[1]), flat_points(2, 3))
    assert hooks_of(model) == hooks


@pytest.mark.filterwarnings("ignore:the model is in training mode")
@pytest.mark.parametrize("batch", [1, 2, 5])
def test_dependent_rows_of_batch_norm(batch):
    match = r"the model's rows are not independent: .*Call model.eval\(\)"
    flat = nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6), nn.ReLU(), nn.Linear(6, 2)).train()
    raises(match, lp.Score(flat, 1), X[:batch])
    raises(match, lp.Score(cnn().train(), 1), flat_points(batch, 72).view(batch, 2, 6, 6))
    part = nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6), nn.Linear(6, 2)).eval()
    part[1].train()  # the model says eval, a part of it does not
    raises(match, lp.Score(part, 1), X[:batch])


def test_dependent_rows_of_a_batch_mean():
    raises("rows are not independent", lp.Score(lambda x: (x - x.mean(0)).pow(2).sum(1)))


def test_rounding_is_not_taken_for_dependence():
    """Scores that nearly cancel differ in all their digits between batch sizes."""
    linear = seeded(lambda: nn.Linear(300, 2, bias=False)).eval()
    w = linear.weight.detach()[0]
    for seed in range(5):
        x = 3 * flat_points(4, 300, seed)
        explain(lp.Score(linear, 0), x - (x @ w)[:, None] * w / (w @ w), max_gradients=20)


# ---- the fastest batch ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("layer", [False, True])
def test_the_fastest_batch_changes_nothing_but_speed(layer):
    net = mlp(4, 3)
    inner = net[1] if layer else None
    plain, auto = (
        lp.attribute(lp.Score(net, 1, "log_softmax", layer=inner, batch_size=size), X, method=lp.StraightLine())
        for size in (None, "auto")
    )
    torch.testing.assert_close(auto.values, plain.values, rtol=1e-4, atol=1e-6)
    assert torch.equal(auto.n_gradients, plain.n_gradients) and torch.equal(auto.n_forwards, plain.n_forwards)


def test_the_fastest_batch_is_tried_once_for_a_model_and_a_shape(monkeypatch):
    tried = []
    monkeypatch.setattr("leastpath.score.score.fastest_size", lambda seconds, largest: tried.append(largest) or 3)
    score = lp.Score(mlp(4, 3), 1, batch_size="auto")
    assert [score.bind(X).batch_size, replace(score, target=0).bind(X).batch_size] == [3, 3]
    assert len(tried) == 1
    assert score.bind(X.double()).batch_size == 3 and len(tried) == 2


def test_the_fastest_batch_of_what_cannot_be_a_key():
    class Unhashable:
        __hash__ = None

        def __call__(self, x):
            return x.sum(1)

    assert lp.Score(Unhashable(), batch_size="auto").bind(X).batch_size >= 1
