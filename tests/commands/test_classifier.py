"""The pre-trained classifier. Oracle: its layers as the package has them."""

import pytest
import torch
from torch import nn

from leastpath.commands.classifier import _padded


@pytest.mark.parametrize("sides", [(1, 1, 1, 1), (0, 1, 0, 1), None])
def test_padding_inside_a_convolution_changes_nothing(sides):
    torch.manual_seed(0)
    layer, x = nn.Conv2d(4, 4, 3, groups=4), torch.rand(2, 4, 9, 9)
    if sides:
        layer.static_padding = nn.ZeroPad2d(sides)
    expected = layer(layer.static_padding(x)) if sides else layer(x)
    found = _padded(layer)
    assert torch.equal(found(found.static_padding(x)) if sides else found(x), expected)
    assert found.padding == ((1, 1) if sides == (1, 1, 1, 1) else (0, 0))
