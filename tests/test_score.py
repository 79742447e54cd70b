"""Score: the explained space, the model left untouched, chunks, errors."""

import copy

import pytest
import torch
from torch import nn

import leastpath as lp
from helpers import Counted, TextNet, cnn, flat_points, mlp, seeded
from leastpath.score import baselines_per_example, flat_baseline

X = flat_points(5, 4)


def explain(score, inputs=X, baselines=None, **settings):
    return lp.attribute(score, inputs, baselines, solver=lp.StraightLine(), **settings)


# ---- extra arguments, gradients, name ------------------------------------------------------------------------------


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


def test_gradients_against_autograd():
    model, x = mlp(), X.clone().requires_grad_()
    targets = torch.tensor([0, 1, 2, 0, 1])
    model(x).log_softmax(1)[torch.arange(5), targets].sum().backward()
    value, gradient = lp.Score(model, targets, "log_softmax", batch_size=2).bind(X).gradients(X, torch.arange(5))
    torch.testing.assert_close(gradient, x.grad)
    torch.testing.assert_close(value, lp.Score(model, targets, "log_softmax")(X))


def test_repr_names_the_model():
    assert repr(lp.Score(mlp(), 1)) == "Score(Sequential, target=1, output='raw')"


# ---- the explained space --------------------------------------------------------------------------------------------


def test_tuple_is_joined_and_split_again():
    parts = (flat_points(3, 2), flat_points(3, 6, seed=1).view(3, 2, 3).double())
    bound = lp.Score(lambda a, b: a.sum(1) + b.flatten(1).sum(1)).bind(parts)
    joint = bound.explained()
    assert joint.shape == (3, 8) and joint.dtype == torch.float64
    again = bound.split(joint)
    assert all(torch.equal(a, b) and a.dtype == b.dtype for a, b in zip(again, parts, strict=True))


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


def test_groups_are_equal_scores():
    targets = torch.tensor([2, 0, 2, 1, 0])
    groups = lp.Score(mlp(), targets).bind(X).groups
    assert torch.equal(groups[:, None] == groups, targets[:, None] == targets)
    assert len(lp.Score(mlp(), 1).bind(X).groups.unique()) == 1
    own = lp.Score(lambda x, a: (x * a).sum(1), additional_forward_args=torch.ones(5, 1)).bind(X).groups
    assert len(own.unique()) == 5


# ---- chunks and memory ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("batch_size", [1, 3, 7])
def test_no_call_is_larger_than_batch_size(batch_size):
    model = Counted(mlp())
    explain(lp.Score(model, 1, batch_size=batch_size))
    assert model.largest <= batch_size


def test_no_call_is_larger_than_batch_size_with_a_layer():
    largest = []
    net = seeded(TextNet).eval()
    net.register_forward_hook(lambda module, inputs, output: largest.append(len(output)))
    explain(lp.Score(net, 1, layer=net.embedding, batch_size=2), torch.randint(11, (5, 6)))
    assert max(largest) <= 2


def test_default_batch_size_is_that_of_the_larger_of_layer_and_input():
    """Every row pushes a raw input through the model, however small the layer's output is."""
    pooled = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(3, 2)).eval()
    images = torch.rand(1, 3, 300, 300)
    assert lp.Score(pooled, 0, layer=pooled[1]).bind(images).batch_size == lp.Score(pooled, 0).bind(images).batch_size
    widened = nn.Sequential(nn.Flatten(), nn.Linear(4, 3000), nn.Linear(3000, 2)).eval()
    assert lp.Score(widened, 0, layer=widened[1]).bind(torch.rand(1, 4)).batch_size == 4_194_304 // 3000


class OutOfMemoryAbove:
    """A model that holds at most `rows` rows, with gradients or without."""

    def __init__(self, rows: int, which: str, error: Exception) -> None:
        self.model, self.rows, self.which, self.error = mlp(), rows, which, error

    def __call__(self, x):
        kind = "gradients" if torch.is_grad_enabled() else "values"
        if len(x) > self.rows and self.which in (kind, "both"):
            raise self.error
        return self.model(x)


@pytest.mark.parametrize("which", ["values", "gradients", "both"])
@pytest.mark.parametrize("rows", [1, 3, 5, 11])
def test_out_of_memory_halves_the_batch_and_warns_once(which, rows):
    x = flat_points(18, 4)
    expected = explain(lp.Score(mlp(), 1), x)
    model = OutOfMemoryAbove(rows, which, torch.OutOfMemoryError("CUDA out of memory"))
    with pytest.warns(RuntimeWarning, match=r"out of memory: batch_size was halved to \d+") as record:
        result = explain(lp.Score(model, 1, batch_size=16), x)
    assert len(record) == 1
    torch.testing.assert_close(result.values, expected.values, rtol=1e-4, atol=1e-5)
    assert torch.equal(result.n_gradients, expected.n_gradients)


@pytest.mark.parametrize("error", [MemoryError("no"), RuntimeError("MPS backend out of memory (…)")])
def test_other_words_for_out_of_memory(error):
    with pytest.warns(RuntimeWarning, match="out of memory"):
        explain(lp.Score(OutOfMemoryAbove(3, "gradients", error), 1))


@pytest.mark.filterwarnings("ignore:out of memory")
@pytest.mark.parametrize("which", ["values", "gradients"])
def test_out_of_memory_with_one_row_is_the_users_to_see(which):
    error = torch.OutOfMemoryError("CUDA out of memory")
    with pytest.raises(torch.OutOfMemoryError):
        explain(lp.Score(OutOfMemoryAbove(0, which, error), 1))


def test_other_runtime_errors_propagate():
    def model(x):
        raise RuntimeError("something of the model's own")

    with pytest.raises(RuntimeError, match="something of the model's own"):
        explain(lp.Score(model))


# ---- the model is left as it was found ------------------------------------------------------------------------------


class Dropping(nn.Module):
    """Training mode changes buffers and draws random numbers, but row by row."""

    def __init__(self) -> None:
        super().__init__()
        self.net = mlp()
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, x):
        if self.training:
            self.calls += 1
            torch.rand(1)
        return self.net(x)


def state_of(model):
    return copy.deepcopy(
        {
            "state": model.state_dict(),
            "modes": [m.training for m in model.modules()],
            "grads": [None if p.grad is None else p.grad.clone() for p in model.parameters()],
            "requires": [p.requires_grad for p in model.parameters()],
        }
    )


def hooks_of(model):
    names = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
    return [len(getattr(m, name)) for m in model.modules() for name in names]


def assert_same_state(a, b):
    assert a.keys() == b.keys()
    assert all(torch.equal(a["state"][k], b["state"][k]) for k in a["state"])
    assert a["modes"] == b["modes"] and a["requires"] == b["requires"]
    for p, q in zip(a["grads"], b["grads"], strict=True):
        assert (p is None and q is None) or torch.equal(p, q)


USES = {
    "attribute": explain,
    "call": lambda score, x: score(x),
    "integrate": lambda score, x: lp.integrate(score, lp.Path.straight(torch.zeros_like(x), x)),
}


@pytest.mark.filterwarnings("ignore:the model is in training mode")
@pytest.mark.parametrize("use", USES.values(), ids=USES)
@pytest.mark.parametrize("training", [False, True])
def test_model_is_left_untouched(use, training):
    model = Dropping().train(training)
    model.net[0].eval()
    model.net[2].weight.requires_grad_(False)
    model(X).sum().backward()
    before, hooks, random = state_of(model), hooks_of(model), torch.get_rng_state()
    use(lp.Score(model, 1), X)
    assert_same_state(before, state_of(model))
    assert hooks == hooks_of(model)
    assert torch.equal(random, torch.get_rng_state())


@pytest.mark.filterwarnings("ignore:the model is in training mode")
@pytest.mark.parametrize("use", ["attribute", "call"])
def test_batch_norm_in_training_keeps_its_statistics(use):
    model = cnn().train()
    before = state_of(model)
    try:
        USES[use](lp.Score(model, 1), flat_points(3, 72).view(3, 2, 6, 6))
    except ValueError as error:
        assert "not independent" in str(error)
    assert_same_state(before, state_of(model))


def test_layer_hooks_are_removed_even_when_the_model_fails():
    model = mlp()
    hooks = hooks_of(model)
    explain(lp.Score(model, 1, layer=model[1]), X)
    assert hooks_of(model) == hooks
    with pytest.raises(ValueError, match="shapes cannot"):
        explain(lp.Score(model, 1, layer=model[1]), flat_points(2, 3))
    assert hooks_of(model) == hooks


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


# ---- layers ---------------------------------------------------------------------------------------------------------


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


# ---- errors: what was got, what was expected, the call that fixes it -------------------------------------------------


def raises(match, score, inputs=X, baselines=None, **settings):
    with pytest.raises(ValueError, match=match):
        explain(score, inputs, baselines, **settings)


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


def test_too_few_targets():
    raises(
        r"got 2 targets for 5 inputs: pass one int, or a tensor of shape \(5,\)", lp.Score(mlp(), torch.tensor([0, 1]))
    )


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


def test_layer_errors():
    shared = nn.Linear(4, 4)
    twice = nn.Sequential(shared, nn.Tanh(), shared)
    raises("layer ran 2 times in one forward pass", lp.Score(twice.eval(), 1, layer=shared))
    model = mlp()
    model.spare = nn.Linear(4, 4)
    unused = nn.Sequential(mlp())
    unused.forward = lambda x: x
    raises("layer ran 0 times in one forward pass", lp.Score(unused.eval(), 1, layer=unused[0]))


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


def test_hessian_of_a_transformer_against_a_difference_of_gradients():
    """torch's own layer attends by a kernel without a second derivative."""
    layer = seeded(
        lambda: nn.TransformerEncoderLayer(8, 2, 16, 0.0, "gelu", batch_first=True, dtype=torch.float64)
    ).eval()
    x = seeded(lambda: torch.randn(2, 3, 8, dtype=torch.float64))
    vector, h = seeded(lambda: torch.randn(2, 3, 8, dtype=torch.float64), 1), 1e-5
    bound = lp.Score(lambda tokens: layer(tokens).sin().flatten(1).sum(1)).bind(x)
    rows = torch.arange(2)
    slopes = [bound.gradients(x + side * h * vector, rows)[1] for side in (1, -1)]
    found = bound.hessian_vector(x, vector, rows)
    torch.testing.assert_close(found, (slopes[0] - slopes[1]) / (2 * h), rtol=1e-5, atol=1e-6)
