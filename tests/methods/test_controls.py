"""Controls. Oracles: the seed and the input alone decide; Integrated Gradients of the other score."""

import copy

import pytest
import torch
from torch import nn

import leastpath as lp
from helpers import flat_points, mlp
from leastpath.methods.controls import input_alone, name_controls, other_class, random, untrained

LINE = {"method": "integrated_gradients", "tolerance": None, "n_steps": 20, "support": False}


def test_numbers_are_standard_normal_and_know_nothing_of_the_model():
    x = flat_points(4, 5000)
    one, two = (random(lp.Score(model, 0), x).values for model in (mlp(5000), lambda x: x[:, :3] ** 2))
    assert torch.equal(one, two)
    assert abs(float(one.mean())) < 0.03 and abs(float(one.std()) - 1) < 0.03


def test_an_input_gets_the_same_numbers_alone_and_in_a_batch_and_another_gets_others():
    x, score = flat_points(3, 6), lp.Score(lambda x: x.sum(1))
    together = random(score, x, seed=4).values
    assert torch.equal(random(score, x[1:2], seed=4).values[0], together[1])
    assert not torch.equal(together[0], together[1]) and not torch.equal(random(score, x, seed=5).values, together)


def test_input_alone_is_the_mean_difference_from_the_baselines_or_the_edges_of_a_photograph():
    x, starts = flat_points(2, 5), torch.stack([flat_points(2, 5, 1), flat_points(2, 5, 2)], 1)
    score = lp.Score(lambda x: x.flatten(1).sum(1))
    expected = (x[:, None] - starts).abs().mean(1)
    torch.testing.assert_close(input_alone(score, x, starts, support=False).values, expected)
    image = torch.zeros(1, 3, 40, 40)
    image[..., 20:] = 1.0
    edges = input_alone(score, image, support=False).values
    assert edges[0, :, :, 19:21].min() == 1 and edges[0, :, :, :19].max() == 0 and edges[0, :, :, 21:].max() == 0


def test_an_untrained_net_is_integrated_gradients_of_a_redrawn_copy_and_leaves_the_net_as_it_was():
    net, x = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 3)).eval(), flat_points(3, 4)
    before, other = copy.deepcopy(net.state_dict()), copy.deepcopy(net)
    found = untrained(lp.Score(net, 1), x, seed=6, support=False)
    for at, layer in enumerate((other[0], other[2])):
        with torch.random.fork_rng():
            torch.manual_seed(7 + at)
            layer.reset_parameters()
    torch.testing.assert_close(found.values, lp.attribute(lp.Score(other, 1), x, **LINE).values)
    assert all(torch.equal(before[name], value) for name, value in net.state_dict().items())
    assert found.n_gradients.tolist() == [20, 20, 20]


def test_the_layer_that_is_explained_keeps_its_weights():
    class Text(nn.Module):
        def __init__(self):
            super().__init__()
            self.words, self.head = nn.Embedding(7, 4), nn.Linear(4, 2)

        def forward(self, ids):
            return self.head(self.words(ids).mean(1).tanh())

    net, ids = Text().eval(), torch.tensor([[1, 2, 3]])
    found = untrained(lp.Score(net, 0, layer=net.words), ids, support=False)
    other = copy.deepcopy(net)
    with torch.random.fork_rng():
        torch.manual_seed(1)
        other.head.reset_parameters()
    expected = lp.attribute(lp.Score(other, 0, layer=other.words), ids, **LINE).values
    torch.testing.assert_close(found.values, expected)


def test_another_class_is_integrated_gradients_of_the_most_probable_other_one():
    net, x = mlp(), flat_points(5, 4, 3)
    order = net(x).argsort(1, descending=True)
    targets = torch.stack([order[0, 0], order[1, 1], order[2, 2], order[3, 0], order[4, 1]])
    others = torch.stack([order[0, 1], order[1, 0], order[2, 0], order[3, 1], order[4, 0]])
    found = other_class(lp.Score(net, targets, "log_softmax"), x, support=False).values
    torch.testing.assert_close(found, lp.attribute(lp.Score(net, others, "log_softmax"), x, **LINE).values)


def test_a_single_output_turns_the_sign_round():
    net, x = nn.Linear(4, 1).eval(), flat_points(3, 4)
    own, other = (method(lp.Score(net, 0), x, support=False).values
                  for method in (lp.METHODS["integrated_gradients"], other_class))  # fmt: skip
    torch.testing.assert_close(other, -own)


def test_controls_are_those_that_the_score_has():
    assert name_controls(lp.Score(lambda x: x[:, :2], 1)) == ["random", "input_alone", "other_class"]
    assert name_controls(lp.Score(mlp(), lambda y: y.sum(1))) == ["random", "input_alone", "untrained"]
    assert all(lp.METHODS[name].role == "floor" for name in name_controls(lp.Score(mlp(), 1)))


def test_two_classes_turn_the_sign_round():
    net, x = nn.Linear(4, 2).eval(), flat_points(3, 4)
    own, other = (method(lp.Score(net, 1, "logit_margin"), x, support=False).values
                  for method in (lp.METHODS["integrated_gradients"], other_class))  # fmt: skip
    torch.testing.assert_close(other, -own)


@pytest.mark.parametrize(
    ("method", "score", "sentence"),
    [
        (untrained, lp.Score(lambda x: x.sum(1)), "no weights to draw anew: Score needs a torch.nn.Module"),
        (untrained, lp.Score(nn.Flatten().eval(), 0), "Flatten has no parameters to draw anew"),
        (other_class, lp.Score(lambda x: x.sum(1)), "other_class needs a score of a class"),
    ],
)
def test_what_does_not_apply_is_refused_in_a_sentence(method, score, sentence):
    with pytest.raises(ValueError, match=sentence):
        method(score, flat_points(1, 2))
