"""Extra arguments: what is shared and what belongs to an example, against the model with the argument inside it."""

import pytest
import torch

import leastpath as lp
from leastpath.evaluation import compare
from leastpath.score.arguments import MOST_UNCLEAR, readings_of
from leastpath.score.score import rows_of

torch.manual_seed(0)
X = torch.rand(7, 6)
PROTOTYPES = torch.rand(7, 6)
MANY = (torch.ones(4),) * (MOST_UNCLEAR + 1)
LINE = {"method": lp.StraightLine(), "n_steps": 8, "tolerance": None}


def distances(x, p):
    return -(torch.cdist(x, p) ** 2)


def spread(x, a):
    """A graph net: nodes (batch, 7, 2), adjacency (7, 7)."""
    return (a @ x).tanh().sum((1, 2))


def masked(x, m):
    return (x * m).sum(1)


def values(score, batch, x=X):
    return lp.attribute(score, x[:batch], **LINE).values


@pytest.mark.parametrize("batch", [1, 3, 4, 5, 7])
@pytest.mark.parametrize("target", [0, 2])
def test_shared_arguments_against_a_closure_at_every_batch(batch, target):
    p = PROTOTYPES[:4]
    marked = lp.Score(distances, target, additional_forward_args=lp.shared(p))
    torch.testing.assert_close(values(marked, batch), values(lp.Score(lambda x: distances(x, p), target), batch))


@pytest.mark.parametrize("batch", [1, 2, 3, 5, 6])
def test_unmarked_arguments_of_other_lengths_are_shared(batch):
    p = PROTOTYPES[:4]
    plain = lp.Score(distances, 3, additional_forward_args=p)
    torch.testing.assert_close(values(plain, batch), values(lp.Score(lambda x: distances(x, p), 3), batch))


def test_a_shared_argument_of_the_batchs_length_is_refused_unless_it_is_marked():
    with pytest.raises(ValueError, match=r"additional_forward_args\[0\] has shape \(4, 6\).*lp.shared"):
        values(lp.Score(distances, 0, additional_forward_args=PROTOTYPES[:4]), 4)


def test_the_only_reading_that_works_is_taken():
    """Under the other, one row has no class 2: what is left is right."""
    p = PROTOTYPES[:4]
    plain = lp.Score(distances, 2, additional_forward_args=p)
    torch.testing.assert_close(values(plain, 4), values(lp.Score(lambda x: distances(x, p), 2), 4))


def test_an_adjacency_as_large_as_the_batch():
    nodes, a = torch.rand(7, 7, 2), torch.rand(7, 7)
    expected = values(lp.Score(lambda x: spread(x, a)), 7, nodes)
    torch.testing.assert_close(values(lp.Score(spread, additional_forward_args=lp.shared(a)), 7, nodes), expected)
    with pytest.raises(ValueError, match=r"lp\.shared"):  # a row of it broadcasts, to another answer
        values(lp.Score(spread, additional_forward_args=a), 7, nodes)


@pytest.mark.parametrize("mark", [lp.per_example, lambda m: m])
@pytest.mark.parametrize("batch", [1, 2, 6, 7])
def test_per_example_arguments_against_a_loop(mark, batch):
    m = torch.rand(batch, 6)
    got = values(lp.Score(masked, additional_forward_args=mark(m)), batch)
    loop = [values(lp.Score(lambda x, b=b: masked(x, m[b]), None), 1, X[b : b + 1]) for b in range(batch)]
    torch.testing.assert_close(got, torch.cat(loop))


def test_two_unmarked_arguments_of_one_length_are_settled_together():
    p, m = PROTOTYPES[:4], torch.rand(4, 1)
    both = lp.Score(lambda x, p, m: distances(x, p) * m, 3, additional_forward_args=(p, m))
    loop = [values(lp.Score(lambda x, b=b: distances(x, p) * m[b], 3), 1, X[b : b + 1]) for b in range(4)]
    torch.testing.assert_close(values(both, 4), torch.cat(loop))


class Noisy(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.net = torch.nn.Sequential(torch.nn.BatchNorm1d(6), torch.nn.Dropout(), torch.nn.Linear(6, 1))

    def forward(self, x, m):
        return self.net(x) * m


def test_the_random_state_and_the_model_are_left_alone():
    net, m = Noisy().train(), torch.rand(7, 1)
    before, random = {k: v.clone() for k, v in net.state_dict().items()}, torch.get_rng_state()
    lp.Score(net, additional_forward_args=m).bind(X)
    assert torch.equal(torch.get_rng_state(), random)
    assert all(torch.equal(before[name], now) for name, now in net.state_dict().items())


@pytest.mark.parametrize(
    ("make", "match"),
    [
        (lambda: values(lp.Score(masked, additional_forward_args=torch.ones(3, 6)), 4), r"shape \(3, 6\) and a batch"),
        (lambda: values(lp.Score(masked, additional_forward_args=lp.per_example(torch.ones(3, 6))), 4), "3 rows for a"),
        (lambda: lp.per_example([1, 2]), "got list"),
        (lambda: lp.per_example(torch.tensor(1.0)), r"got shape \(\)"),
        (lambda: lp.Score(lambda x, *_: x.sum(1), additional_forward_args=MANY).bind(X[:4]), "mark each of them"),
    ],
)
def test_mistakes_are_said(make, match):
    with pytest.raises(ValueError, match=match):
        make()


def test_rows_keep_what_is_shared():
    p, m = PROTOTYPES[:4], torch.rand(4, 1)
    score = lp.Score(lambda x, p, m: distances(x, p) * m, 3, additional_forward_args=(lp.shared(p), m))
    part, inputs, _ = rows_of(score, X[:4], None, [2])
    torch.testing.assert_close(part(inputs), score(X[:4])[2:3])
    assert readings_of(part.additional_forward_args, 1) == [False, True]


def test_compare_takes_parts_of_a_batch_that_are_as_long_as_a_shared_argument():
    p = PROTOTYPES[:2]
    score = lp.Score(distances, 1, additional_forward_args=lp.shared(p))
    found = compare([lp.StraightLine()], score, X[:4], batch_size=2)
    inside = compare([lp.StraightLine()], lp.Score(lambda x: distances(x, p), 1), X[:4], batch_size=2)
    assert found.per_example["completeness_gap"].tolist() == inside.per_example["completeness_gap"].tolist()
