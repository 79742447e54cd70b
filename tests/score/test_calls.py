"""ModelCalls: no call is larger than a batch, and batches shrink where memory runs out."""

import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from types import SimpleNamespace

import pytest
import torch
from torch import nn

import leastpath as lp
from helpers import Counted, Dropping, TextNet, cnn, flat_points, left_untouched, mlp, seeded
from leastpath.score.calls import WatchedDraws, has_recurrent_parts
from leastpath.score.score import baselines_per_example, choose_classes, flat_baseline

X = flat_points(5, 4)


def explain(score, inputs=X, baselines=None, **settings):
    return lp.attribute(score, inputs, baselines, method=lp.StraightLine(), **settings)


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


# ---- outputs and targets against their definitions, and the sentences where they do not fit --------------------


@pytest.mark.parametrize(
    ("output", "expected"),
    [
        ("raw", lambda z: z[:, 1]),
        ("softmax", lambda z: z.softmax(1)[:, 1]),
        ("log_softmax", lambda z: z.log_softmax(1)[:, 1]),
        ("sigmoid", lambda z: z.sigmoid()[:, 1]),
        ("logit_margin", lambda z: z[:, 1] - torch.logsumexp(z[:, [0, 2]], 1)),
        (lambda z: z**2, lambda z: z[:, 1] ** 2),
    ],
)
def test_output_against_definition(output, expected):
    model = mlp()
    torch.testing.assert_close(lp.Score(model, 1, output)(X), expected(model(X).detach()))


@pytest.mark.parametrize("class_dim", [1, 2, -1])
def test_class_dim_says_what_a_softmax_is_taken_over(class_dim):
    """Of (batch, length, vocabulary) as of (batch, classes, pixels): against the definition."""
    model = torch.nn.Sequential(mlp(), torch.nn.Linear(3, 10), torch.nn.Unflatten(1, (5, 2))).eval()
    score = lp.Score(model, lambda z: z[:, -1, 0], "log_softmax", class_dim=class_dim)
    torch.testing.assert_close(score(X), model(X).detach().log_softmax(class_dim)[:, -1, 0])
    found = lp.attribute(score, X, method="integrated_gradients", support=False)
    torch.testing.assert_close(found.values.sum(1), score(X) - score(torch.zeros_like(X)), atol=0.02, rtol=0.02)


@pytest.mark.parametrize("target", [[0, 2, 1, 1, 0], torch.tensor([0, 2, 1, 1, 0]), (0, 2, 1, 1, 0)])
def test_target_per_example_against_indexing(target):
    model = mlp()
    expected = model(X).detach()[torch.arange(5), torch.as_tensor(target)]
    torch.testing.assert_close(lp.Score(model, target)(X), expected)
    torch.testing.assert_close(lp.Score(model, target, batch_size=2)(X), expected)


@pytest.mark.parametrize("target", [1, torch.tensor(1), lambda z: z[:, 1], lambda z: z[:, 1:2]])
def test_ways_to_name_one_class_agree(target):
    model = mlp()
    torch.testing.assert_close(lp.Score(model, target)(X), model(X).detach()[:, 1])


@pytest.mark.parametrize("model", [lambda x: x.sum(1), lambda x: x.sum(1, keepdim=True)])
def test_no_target_for_one_number_an_example(model):
    torch.testing.assert_close(lp.Score(model)(X), X.sum(1))


def test_logits_of_an_output_object():
    model = mlp()
    score = lp.Score(lambda x: SimpleNamespace(logits=model(x)), 1)
    torch.testing.assert_close(score(X), model(X).detach()[:, 1])


TARGETS = {
    "too large": (3, "target 3 is out of range: the model returns 3 classes, 0 to 2"),
    "negative": (-1, "target -1 is out of range"),
    "one of many": (torch.tensor([0, 1, 2, 3, 0]), "target 3 is out of range"),
    "one of many negative": ([0, 1, -2, 1, 0], "target -2 is out of range"),
    "missing": (None, r"the model returns \(3,\) numbers per example: say which, Score\(model, target=0\)"),
    "callable of wrong shape": (lambda z: z, r"the target callable returned \(\d, 3\), expected \(\d,\)"),
    "callable of a mean": (lambda z: z.mean(), r"the target callable returned \(\), expected \(\d,\)"),
}


@pytest.mark.parametrize(("target", "match"), TARGETS.values(), ids=TARGETS)
def test_target_errors(target, match):
    with pytest.raises(ValueError, match=match):
        lp.Score(mlp(), target)(X)


OUTPUTS = {
    "tuple": (lp.Score(lambda x: (x, x), 1), "the model returned tuple, expected a tensor or an object with .logits"),
    "no batch": (lp.Score(lambda x: x.sum()), r"the model returned \(\) for \d rows: it must keep the batch dimension"),
    "rows lost": (lp.Score(lambda x: x[:1], 1), r"returned \(1, 4\) for \d rows: .*pass inputs\.unsqueeze\(0\)"),
    "margin of lost rows": (lp.Score(lambda x: x[:1], 1, "logit_margin"), r"returned \(1, 4\) for \d rows"),
    "softmax of one": (lp.Score(lambda x: x[:, :1], None, "softmax"), r'output="softmax" needs logits .*use "sigmoid"'),
    "classes anywhere": (
        lp.Score(lambda x: x[:, :, None].expand(-1, 4, 6), lambda z: z[:, -1, 2], "log_softmax"),
        r"the model returned \(\d, 4, 6\), where they may be any dimension: say which, Score\(…, class_dim=-1\)",
    ),
    "no such dimension": (
        lp.Score(mlp(), 1, "softmax", class_dim=2),
        r"class_dim=2 is no dimension of outputs \(\d, 3\)",
    ),
    "classes are the batch": (lp.Score(mlp(), 1, "softmax", class_dim=-2), "class_dim=-2 is no dimension of outputs"),
    "index into images": (lp.Score(lambda x: x[:, None], 0), r"an index target needs an output \(batch, classes\)"),
}


@pytest.mark.parametrize(("score", "match"), OUTPUTS.values(), ids=OUTPUTS)
def test_output_errors(score, match):
    with pytest.raises(ValueError, match=match):
        score(X)


def test_classes_are_those_asked_for_or_those_predicted():
    assert choose_classes(None, torch.tensor([[0.0, 2.0], [1.0, 0.0]])).tolist() == [1, 0]
    assert choose_classes(1, torch.zeros(3, 2)).tolist() == [1, 1, 1]
    assert choose_classes(0, torch.zeros(2, 1)) is choose_classes(None, torch.zeros(2)) is None


# ---- untouched: the model is left as it was found --------------------------------------------------------------------


def raises(match, score, inputs=X, baselines=None, **settings):
    with pytest.raises(ValueError, match=match):
        explain(score, inputs, baselines, **settings)


def test_training_mode_warns():
    with pytest.warns(UserWarning, match=r"the model is in training mode: .* Call model.eval\(\) first"):
        explain(lp.Score(Dropping().train(), 1))


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


@pytest.mark.parametrize("draw", [torch.rand, torch.randperm], ids=["rand", "randperm"])
def test_watched_draws_see_the_global_generator_only(draw):
    with torch.random.fork_rng(devices=[]):
        with WatchedDraws() as own:
            draw(3, generator=torch.Generator())
        with WatchedDraws() as shared:
            draw(3)
    assert (own.drew, shared.drew) == (False, True)


def test_a_model_that_draws_is_left_as_it_was_beside_other_threads():
    release = threading.Event()
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(release.wait)
        before = torch.get_rng_state()
        lp.Score(lambda x: x.sum(1) + 0 * torch.rand(1))(X)
        assert torch.equal(before, torch.get_rng_state())
        release.set()
        waiting.result()


# ---- inputs: what is refused, with the sentence that says why --------------------------------------------------------


# ---- inputs ------------------------------------------------------------------------------------------------------


NAN, INF = X.clone(), X.clone()


NAN[3, 1], INF[2, 0] = torch.nan, torch.inf


INPUTS = {
    "integers": (X.long(), "inputs has dtype torch.int64, which has no gradient: pass inputs.float.*layer=model.embed"),
    "empty": (X[:0], r"inputs has shape \(0, 4\), expected at least one example"),
    "no features": (X[:, :0], r"inputs has shape \(5, 0\), expected at least one example, with at least one feature"),
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


def test_recurrent_nets_do_without_cudnn_where_it_has_no_backward(monkeypatch):
    seen = []

    class Watched(nn.LSTM):
        def forward(self, x):
            seen.append(torch.backends.cudnn.enabled)
            return super().forward(x)

    net = Watched(3, 2, batch_first=True).eval()
    calls = lp.Score(lambda x: net(x)[0].sum((1, 2))).bind(torch.rand(2, 4, 3)).calls
    assert not calls._avoids_cudnn and has_recurrent_parts(net) and not has_recurrent_parts(net.train())
    monkeypatch.setattr(calls, "_avoids_cudnn", True)
    calls([torch.rand(2, 4, 3)], torch.arange(2))
    assert seen[-1] is False and torch.backends.cudnn.enabled
