"""BoundScore: f and its gradient, the explained space, layers, chunks and memory."""

from dataclasses import replace

import pytest
import torch
from torch import nn

import leastpath as lp
from helpers import Counted, TextNet, flat_points, hooks_of, mlp, seeded

X = flat_points(5, 4)


def explain(score, inputs=X, baselines=None, **settings):
    return lp.attribute(score, inputs, baselines, solver=lp.StraightLine(), **settings)


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


def test_outputs_and_gradients_of_a_function_of_them_against_autograd():
    model, x, weights = mlp(), X.clone().requires_grad_(), flat_points(5, 3, 2)
    expected = model(x)
    (expected.softmax(1) * weights).sum().backward()
    bound, rows = lp.Score(model, 0, batch_size=2).bind(X), torch.arange(5)
    outputs, gradient = bound.output_gradients(X, rows, lambda out, part: (out.softmax(1) * weights[part]).sum(1))
    torch.testing.assert_close(outputs, expected.detach())
    torch.testing.assert_close(gradient, x.grad)
    torch.testing.assert_close(bound.outputs(X, rows), expected.detach())
    assert bound.gradients_spent.tolist() == bound.forwards_spent.tolist() == [1] * 5


def test_a_function_that_ignores_the_outputs_has_no_gradient():
    bound = lp.Score(mlp(), 0).bind(X)
    gradient = bound.output_gradients(X, torch.arange(5), lambda out, part: torch.ones(len(out)))[1]
    assert not gradient.any()


def test_the_class_of_each_example():
    two = lp.Score(mlp(), torch.tensor([2, 0, 1, 1, 0])).bind(X, 2)
    assert two.classes("it").tolist() == [2, 2, 0, 0, 1, 1, 1, 1, 0, 0]
    assert lp.Score(mlp(), 1).bind(X).classes("it").tolist() == [1] * 5
    with pytest.raises(ValueError, match="agi needs a classifier and the class that is explained: give its index"):
        lp.Score(lambda x: x.sum(1)).bind(X).classes("agi")


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
    joint = bound.explained()
    assert joint.shape == (3, 8) and joint.dtype == torch.float64
    again = bound.split(joint)
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


# ---- chunks and memory -------------------------------------------------------------------------------------------


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
    assert lp.Score(widened, 0, layer=widened[1]).bind(torch.rand(1, 4)).batch_size == 524_288 // 3000


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


def test_out_of_memory_halves_the_batch_of_outputs():
    x = flat_points(18, 4)
    model = OutOfMemoryAbove(5, "values", torch.OutOfMemoryError("CUDA out of memory"))
    with pytest.warns(RuntimeWarning, match="out of memory: batch_size was halved to 4"):
        found = lp.Score(model, batch_size=8).outputs(x)
    torch.testing.assert_close(found, mlp()(x).detach())


def test_other_runtime_errors_propagate():
    def model(x):
        raise RuntimeError("something of the model's own")

    with pytest.raises(RuntimeError, match="something of the model's own"):
        explain(lp.Score(model))


# ---- features -------------------------------------------------------------------------------------------------------


def test_pulled_back_against_autograd_and_in_small_batches():
    net = mlp(4, 3).requires_grad_(False)
    points, vectors = torch.randn(5, 4), torch.randn(5, 3)
    for size in (None, 2):
        bound = lp.Score(net, 0, batch_size=size).bind(points)
        rows = torch.arange(5)
        torch.testing.assert_close(bound.features(points, rows, lp.Pullback()), net(points))
        leaf = points.clone().requires_grad_()
        (expected,) = torch.autograd.grad(net(leaf), leaf, vectors)
        torch.testing.assert_close(bound.pulled_back(points, rows, lp.Pullback(), vectors), expected)
        assert bound.forwards_spent.tolist() == bound.gradients_spent.tolist() == [1] * 5


def test_features_that_are_not_finite_name_the_example():
    bound = lp.Score(lambda x: torch.stack([x.sum(1), x[:, 0].log()], 1), 0).bind(torch.ones(2, 2))
    points = torch.tensor([[1.0, 1.0], [-1.0, 1.0]])
    with pytest.raises(ValueError, match="is NaN or infinite on the path of example 1"):
        bound.features(points, torch.arange(2), lp.Pullback())
    assert torch.isnan(bound.features(points, torch.arange(2), lp.Pullback(), strict=False)[1, 1])


def test_features_before_the_explained_layer_are_refused():
    net = mlp(4, 3)
    bound = lp.Score(net, 0, layer=net[1]).bind(torch.ones(1, 4))
    metric = lp.Pullback(layer=net[0])
    with pytest.raises(ValueError, match="does not depend on the inputs"):
        bound.pulled_back(bound.explained(), torch.arange(1), metric, torch.ones(1, net[0].out_features))


# ---- the fastest batch ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("layer", [False, True])
def test_the_fastest_batch_changes_nothing_but_speed(layer):
    net = mlp(4, 3)
    inner = net[1] if layer else None
    plain, auto = (
        lp.attribute(lp.Score(net, 1, "log_softmax", layer=inner, batch_size=size), X, solver=lp.StraightLine())
        for size in (None, "auto")
    )
    torch.testing.assert_close(auto.values, plain.values, rtol=1e-4, atol=1e-6)
    assert torch.equal(auto.n_gradients, plain.n_gradients) and torch.equal(auto.n_forwards, plain.n_forwards)


def test_the_fastest_batch_is_tried_once_for_a_model_and_a_shape(monkeypatch):
    tried = []
    monkeypatch.setattr("leastpath.score.bound.fastest_size", lambda seconds, largest: tried.append(largest) or 3)
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
