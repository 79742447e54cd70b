"""Guards: what is refused, with the sentence that says why; the model is left as it was found."""

from dataclasses import replace
from functools import partial

import pytest
import torch
from torch import nn

import leastpath as lp
from helpers import Dropping, TextNet, cnn, flat_points, left_untouched, mlp, seeded
from leastpath.score.guards import UnfitInputs, baselines_per_example, flat_baseline, parameter_of

X = flat_points(5, 4)


def explain(score, inputs=X, baselines=None, **settings):
    return lp.attribute(score, inputs, baselines, solver=lp.StraightLine(), **settings)


def raises(match, score, inputs=X, baselines=None, **settings):
    with pytest.raises(ValueError, match=match):
        explain(score, inputs, baselines, **settings)


# ---- inputs ------------------------------------------------------------------------------------------------------


NAN, INF = X.clone(), X.clone()
NAN[3, 1], INF[2, 0] = torch.nan, torch.inf

INPUTS = {
    "integers": (X.long(), "inputs has dtype torch.int64, which has no gradient: pass inputs.float.*layer=model.embed"),
    "empty": (X[:0], r"inputs has shape \(0, 4\), expected at least one example"),
    "number": (torch.tensor(1.0), r"inputs has shape \(\), expected at least one example"),
    "list": ([[1.0, 2.0, 3.0, 4.0]], r"inputs is a list, expected a tensor: use torch.as_tensor\(inputs\)"),
    "tuple of lists": ((X, [1.0]), r"inputs\[1\] is a list"),
    "ragged tuple": ((X, X[:2]), r"inputs\[1\] has 2 examples, inputs\[0\] has 5"),
    "nan": (NAN, "inputs of example 3 holds NaN or infinite values"),
    "inf": (INF, "inputs of example 2 holds NaN or infinite values"),
    "nan in one dimension": (NAN[:, 1], "inputs of example 3 holds NaN"),
}


@pytest.mark.parametrize(("inputs", "match"), INPUTS.values(), ids=INPUTS)
def test_input_errors(inputs, match):
    raises(match, lp.Score(mlp(), 1), inputs)


# ---- baselines ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("baseline", "expected"),
    [
        (None, torch.zeros(2, 3)),
        (0.5, torch.full((2, 3), 0.5)),
        (2, torch.full((2, 3), 2.0)),
        (torch.tensor(0.5), torch.full((2, 3), 0.5)),
        (torch.tensor([[1.0, 2.0, 3.0]]), torch.tensor([[1.0, 2.0, 3.0]] * 2)),
        (torch.tensor([[1, 2, 3]]), torch.tensor([[1.0, 2.0, 3.0]] * 2)),
        (torch.arange(6.0).view(2, 3), torch.arange(6.0).view(2, 3)),
    ],
)
def test_baseline_forms_against_written_out(baseline, expected):
    assert torch.equal(flat_baseline(baseline, torch.ones(2, 3), 1), expected)


def test_several_baselines_are_rows_of_their_example():
    several = torch.arange(12.0).view(2, 2, 3)
    assert baselines_per_example(several, torch.ones(2, 3)) == 2
    assert torch.equal(flat_baseline(several, torch.ones(2, 3), 2), several.view(4, 3))
    shared = torch.arange(6.0).view(1, 2, 3)  # the same two for everyone
    assert torch.equal(flat_baseline(shared, torch.ones(2, 3), 2), shared.expand(2, 2, 3).reshape(4, 3))


def test_raw_image_baseline_of_a_token_layer_is_one_baseline():
    """(batch, channels, height, width) has as many dimensions as several activations (batch, m, tokens, width)."""
    assert baselines_per_example(torch.zeros(2, 3, 8, 8), torch.zeros(2, 3, 8, 8), torch.Size([5, 7])) == 1
    assert baselines_per_example(torch.zeros(2, 3, 5, 7), torch.zeros(2, 3, 8, 8), torch.Size([5, 7])) == 3


BASELINES = {
    "other features": (torch.zeros(5, 3), r"baselines have shape \(5, 3\), inputs \(5, 4\): expected .*\(5, m, 4\)"),
    "other batch": (torch.zeros(3, 4), r"baselines have shape \(3, 4\), inputs \(5, 4\)"),
    "no batch": (torch.zeros(4), r"baselines have shape \(4,\), inputs \(5, 4\)"),
    "too many dimensions": (torch.zeros(5, 2, 1, 4), r"baselines have shape \(5, 2, 1, 4\)"),
    "none of several": (torch.zeros(5, 0, 4), r"baselines have shape \(5, 0, 4\)"),
    "nan": (NAN, "baselines hold NaN or infinite values"),
    "nan number": (float("nan"), "baselines hold NaN or infinite values"),
    "text": ("zeros", "baselines must be None, a number or a tensor, got str"),
    "tuple": ((0.0, 0.0), "got 2 baselines for 1 inputs"),
}


@pytest.mark.parametrize(("baselines", "match"), BASELINES.values(), ids=BASELINES)
def test_baseline_errors(baselines, match):
    raises(match, lp.Score(mlp(), 1), X, baselines)


def test_baseline_errors_of_tuples_and_layers():
    pair = lp.Score(lambda a, b: a.sum(1) + b.sum(1))
    raises("got 1 baselines for 2 inputs", pair, (X, X), torch.zeros(5, 4))
    raises("different numbers of baselines", pair, (X, X), (torch.zeros(5, 2, 4), torch.zeros(5, 3, 4)))
    net = seeded(TextNet).eval()
    raises("got 2 baselines for 1 inputs", lp.Score(net, 1, layer=net.embedding), torch.ones(2, 3).long(), (0, 0))
    model = mlp()
    raises("baselines hold NaN", lp.Score(model, 1, layer=model[1]), X, NAN)


# ---- models ------------------------------------------------------------------------------------------------------


def image_net() -> nn.Module:
    return nn.Sequential(nn.Conv2d(2, 4, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(-3), nn.Linear(4, 3)).eval()


UNFIT = {  # the model, the inputs, what it is told
    "vector alone": (mlp(), X[0], r"shape \(4,\), 4 examples of shape \(\): .*inputs\.unsqueeze\(0\)"),
    "other features": (mlp(3), X, r"shape \(5, 4\), 5 examples of shape \(4,\): .*cannot be multiplied"),
    "image alone": (
        image_net(),
        torch.zeros(2, 6, 6),
        r"2 examples of shape \(6, 6\): .*inputs\.unsqueeze\(0\)",
    ),
    "other channels": (image_net(), torch.zeros(5, 3, 6, 6), r"5 examples of shape \(3, 6, 6\): .*channels, but got"),
    "dimension that is not there": (lambda x: x.sum(1), X[0], r"4 examples of shape \(\): .*Dimension out of range"),
    "double for float": (
        mlp(),
        X.double(),
        r"inputs are torch\.float64, the model's parameters torch\.float32: pass inp",
    ),
    "float for double": (mlp().double(), X, r"pass inputs\.to\(torch\.float64\), or use model\.to\(torch\.float32\)"),
    "half for float": (cnn(), torch.zeros(2, 2, 6, 6).half(), r"inputs are torch\.float16, the model's parameters"),
}


@pytest.mark.parametrize(("model", "inputs", "match"), UNFIT.values(), ids=UNFIT)
def test_inputs_that_do_not_fit_the_model(model, inputs, match):
    raises(match, lp.Score(model, None if not isinstance(model, nn.Module) else 1), inputs)


def test_inputs_that_do_not_fit_the_model_before_a_layer():
    model = mlp()
    raises(r"inputs are torch\.float64", lp.Score(model, 1, layer=model[1]), X.double())


def test_the_model_s_own_error_is_told_too():
    with pytest.raises(UnfitInputs, match=r"The model's error: .*cannot be multiplied") as caught:
        lp.Score(mlp(3), 1)(X)
    assert isinstance(caught.value.__cause__, RuntimeError)


def test_a_floating_point_parameter_tells_device_and_dtype():
    assert parameter_of(mlp().double()).dtype == torch.float64
    assert parameter_of(nn.ReLU()) is None and parameter_of(torch.sin) is None


def test_training_mode_warns():
    with pytest.warns(UserWarning, match=r"the model is in training mode: .* Call model.eval\(\) first"):
        explain(lp.Score(Dropping().train(), 1))


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


# ---- the model is left as it was found ---------------------------------------------------------------------------


USES = {
    "attribute": explain,
    "call": lambda score, x: score(x),
    "integrate": lambda score, x: lp.integrate(score, lp.Path.straight(torch.zeros_like(x), x)),
    "outputs": lambda score, x: score.outputs(x),
    "bind a layer": lambda score, x: replace(score, layer=next(score.model.children())).bind(x),
}


@pytest.mark.filterwarnings("ignore:the model is in training mode")
@pytest.mark.parametrize("use", USES.values(), ids=USES)
@pytest.mark.parametrize("training", [False, True])
def test_model_is_left_untouched(use, training):
    model = Dropping().train(training)
    model.net[0].eval()
    model.net[2].weight.requires_grad_(False)
    model(X).sum().backward()
    with left_untouched(model):
        use(lp.Score(model, 1), X)


@pytest.mark.filterwarnings("ignore:the model is in training mode")
@pytest.mark.parametrize("use", ["attribute", "call", "outputs", "bind a layer"])
def test_batch_norm_in_training_keeps_its_statistics(use):
    model = cnn().train()
    with left_untouched(model):
        try:
            USES[use](lp.Score(model, 1), flat_points(3, 72).view(3, 2, 6, 6))
        except ValueError as error:
            assert "not independent" in str(error)


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
@pytest.mark.parametrize("layer", [False, True])
def test_ambient_gradient_mode_changes_nothing(mode, layer):
    model = mlp()
    scale = torch.tensor([[1.0, 2.0, 3.0, 4.0]])

    def values(x, scale):
        score = lp.Score(
            model if layer else lambda x, s: model(x * s),
            torch.tensor([0, 1, 2, 0, 1]),
            layer=model[1] if layer else None,
            additional_forward_args=() if layer else (scale,),
        )
        return explain(score, x).values

    expected = values(X, scale)
    with mode():
        assert torch.equal(values(X, scale), expected)
        assert torch.equal(values(X.clone(), scale.clone()), expected)  # under inference mode these are special tensors


def test_inputs_that_require_grad_are_left_alone():
    x = X.clone().requires_grad_()
    result = explain(lp.Score(mlp(), 1), x)
    assert x.grad is None and not result.values.requires_grad


class Counting(nn.Module):
    """Changes its buffers in evaluation mode too: one in place, one by another tensor."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("calls", torch.zeros(()))
        self.register_buffer("last", torch.zeros(4))

    def forward(self, x):
        self.calls += 1
        self.last = x[0].detach().clone()
        return x.sum(1)


def test_buffers_that_a_model_changes_in_evaluation_mode_are_put_back():
    model = Counting().eval()
    with left_untouched(model):
        last = model.last
        explain(lp.Score(model), X)
    assert model.last is last


NORM = nn.BatchNorm1d(4).train()


def through_a_global(x):
    return NORM(x).sum(1)


@pytest.mark.parametrize(
    "behind",
    [lambda norm: lambda x: norm(x).sum(1), lambda norm: partial(call, norm), lambda norm: Held(norm).run],
    ids=["closure", "partial", "method"],
)
def test_batch_norm_behind_a_function_keeps_its_statistics(behind):
    norm = nn.BatchNorm1d(4).train()
    with left_untouched(norm):
        lp.Score(behind(norm))(X)
    with left_untouched(NORM):
        lp.Score(through_a_global)(X)


def call(norm, x):
    return norm(x).sum(1)


class Held:
    def __init__(self, norm) -> None:
        self.parts = {"norm": [norm]}

    def run(self, x):
        return self.parts["norm"][0](x).sum(1)


def test_a_model_may_write_on_what_it_is_given():
    """Against the same model without in-place steps, for inputs and for a layer."""
    plain, writing = mlp(activation=nn.ReLU), mlp(activation=partial(nn.ReLU, inplace=True))
    for layers in ((None, None), (plain[2], writing[2])):
        expected, given = (explain(lp.Score(m, 1, layer=at), X) for m, at in zip((plain, writing), layers, strict=True))
        assert torch.equal(given.values, expected.values)
    doubled = lambda x: x.mul_(2).prod(1)  # noqa: E731
    assert torch.equal(explain(lp.Score(doubled), X).values, explain(lp.Score(lambda x: (x * 2).prod(1)), X).values)
