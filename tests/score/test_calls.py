"""ModelCalls: no call is larger than a batch, and batches shrink where memory runs out."""

from types import SimpleNamespace

import pytest
import torch
from torch import nn

import leastpath as lp
from helpers import Counted, TextNet, flat_points, mlp, seeded
from leastpath.score.calls import choose_classes

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
