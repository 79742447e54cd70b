"""Outputs and targets against their definitions, and the sentences where they do not fit."""

from types import SimpleNamespace

import pytest
import torch

import leastpath as lp
from helpers import flat_points, mlp

X = flat_points(5, 4)


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
    "missing": (None, r"the model returns \(3,\) numbers an example: say which, Score\(model, target=0\)"),
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
    "index into images": (lp.Score(lambda x: x[:, None], 0), r"an index target needs an output \(batch, classes\)"),
}


@pytest.mark.parametrize(("score", "match"), OUTPUTS.values(), ids=OUTPUTS)
def test_output_errors(score, match):
    with pytest.raises(ValueError, match=match):
        score(X)
