"""The same net with other weights. Oracles: `reset_parameters` under the same seed; sorted parameters."""

import copy

import torch
from torch import nn

from leastpath.score.redrawn import draw_layer, draw_score
from leastpath.score.score import Score


class Own(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.arange(6.0).view(2, 3))

    def forward(self, x):
        return x @ self.weight


def test_a_layer_without_reset_is_shuffled_and_the_random_state_stays():
    layer, state = Own(), torch.get_rng_state()
    draw_layer(layer, 3)
    assert torch.equal(layer.weight.flatten().sort().values, torch.arange(6.0))
    assert not torch.equal(layer.weight, Own().weight) and torch.equal(torch.get_rng_state(), state)


def test_a_redrawn_score_is_that_of_reset_layers_at_the_same_layer():
    net = nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 2)).eval()
    other = copy.deepcopy(net)
    with torch.random.fork_rng():
        torch.manual_seed(6)
        other[1].reset_parameters()
    found = draw_score(Score(net, 1, layer=net[0]), seed=5)
    x = torch.ones(1, 3)
    assert torch.equal(found.model(x), other(x)) and found.layer is found.model[0]
