"""F-Fidelity against all subsets by brute force; a judge that has learnt to do without some features."""

from itertools import combinations

import pytest
import torch
from torch import nn

import leastpath as lp
from helpers import flat_points, left_untouched, mlp
from leastpath.evaluation import FineTunedFidelity, fine_tune, given_attribution

WEIGHTS = torch.tensor([5.0, 4.0, 3.0, 2.0, 1.0, 0.5, 0.25, 0.1], dtype=torch.float64)


class Linear(nn.Module):
    def forward(self, x):
        return x @ WEIGHTS.to(x)


def mean_loss(score, x, places, removed):
    """The mean drop of the score over all subsets of `places` of the size `removed`."""
    losses = []
    for chosen in combinations(places, removed):
        point = x.clone()
        point[list(chosen)] = 0
        losses.append(float(score(x[None]) - score(point[None])))
    return sum(losses) / len(losses)


def test_linear_score_against_all_subsets():
    score, x = lp.Score(Linear().eval()), torch.ones(1, 8, dtype=torch.float64)
    measure = FineTunedFidelity(Linear().eval(), most=0.25, sizes=(0.5,), share=0.75, n_samples=400, fill=0.0)
    found = measure(score, x, None, given_attribution(WEIGHTS[None]))
    top, others = (mean_loss(score, x[0], places, 2) for places in (range(4), range(4, 8)))  # min(.75 · 4, .25 · 8)
    assert top == pytest.approx(2 * 14 / 4)  # the mean of a linear score, in closed form
    assert float(found.curves["top"][0, 0]) == pytest.approx(top, rel=0.03)
    assert float(found.curves["others"][0, 0]) == pytest.approx(others, rel=0.1)
    assert float(found.values) == pytest.approx(top - others, rel=0.03)


def test_whole_groups_in_closed_form():
    score, x = lp.Score(Linear().eval()), torch.ones(1, 8, dtype=torch.float64)
    measure = FineTunedFidelity(Linear().eval(), most=1.0, sizes=(0.25, 0.5), share=1.0, n_samples=1, fill="baseline")
    found = measure(score, x, None, given_attribution(WEIGHTS[None]))
    torch.testing.assert_close(found.curves["top"][0], torch.tensor([9.0, 14.0]).double())
    torch.testing.assert_close(found.curves["others"][0], WEIGHTS.sum() - torch.tensor([9.0, 14.0]).double())
    reverse = measure(score, x, None, given_attribution(-WEIGHTS.flip(0)[None]))
    assert float(reverse.values) < 0 < float(found.values)


def test_judge_gets_better_on_removed_inputs_and_the_model_stays():
    generator = torch.Generator().manual_seed(0)
    y = torch.randint(2, (300,), generator=generator)
    x = torch.randn(300, 10, generator=generator) * 0.5 + (2 * y[:, None] - 1)
    net = mlp(10, 2)

    def loss(model):
        masked = torch.where(torch.rand(x.shape, generator=torch.Generator().manual_seed(1)) < 0.5, 0.0, x)
        return float(nn.functional.cross_entropy(model(masked), y).detach())

    with left_untouched(net):
        judge = fine_tune(net, (x, y), most=0.5, fill=0.0, epochs=3, learning_rate=1e-2)
    assert loss(judge) < 0.5 * loss(net)
    again = fine_tune(net, (x, y), most=0.5, fill=0.0, epochs=3, learning_rate=1e-2)
    assert all(torch.equal(a, b) for a, b in zip(judge.parameters(), again.parameters(), strict=True))


def test_loader_and_regression():
    x = flat_points(64, 3)
    loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x, x.sum(1)), batch_size=16)
    net = nn.Linear(3, 1)
    judge = fine_tune(net, loader, most=0.4, epochs=40, learning_rate=0.05)
    error = [float(((m(x)[:, 0] - x.sum(1)) ** 2).mean().detach()) for m in (net, judge)]
    assert error[1] < error[0]


def test_never_more_than_most_is_removed_in_training():
    seen = []

    class Watching(nn.Linear):
        def forward(self, x):
            seen.append((x == 0).sum(1))
            return super().forward(x)

    fine_tune(Watching(10, 2), (torch.ones(200, 10) + torch.rand(200, 1), torch.zeros(200).long()), most=0.3, fill=0.0)
    counts = torch.cat(seen)
    assert set(counts.tolist()) == {0, 1, 2, 3}


def test_batch_equals_loop():
    net = mlp(6, 3)
    score, x = lp.Score(net, 1), flat_points(3, 6)
    values, measure = torch.rand(3, 6, generator=torch.Generator().manual_seed(0)), FineTunedFidelity(net, most=0.5)
    together = measure(score, x, None, given_attribution(values)).values
    alone = [measure(score, x[b : b + 1], None, given_attribution(values[b : b + 1])).values for b in range(3)]
    torch.testing.assert_close(together, torch.cat(alone), rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: fine_tune(mlp(), (torch.ones(2, 4), torch.zeros(3).long())), "2 inputs and 3 labels"),
        (lambda: fine_tune(mlp(), (torch.ones(2, 4), torch.zeros(2).long()), most=0), "most=0 must be above 0"),
        (lambda: fine_tune(mlp(), (torch.ones(2, 4), torch.zeros(2).long()), fill="baseline"), "pass its number"),
        (lambda: fine_tune(lambda x: x, (torch.ones(2, 4), torch.zeros(2).long())), "expected a torch.nn.Module"),
        (lambda: FineTunedFidelity(mlp(), sizes=(1.0,)), "must lie between 0 and 1"),
    ],
)
def test_mistakes_are_sentences(make, sentence):
    with pytest.raises(ValueError, match=sentence):
        make()
