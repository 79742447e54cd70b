"""Pictures as tensors: read from files, cut to a square."""

from __future__ import annotations

import struct
import warnings
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from leastpath._support.checks import check_integer

if TYPE_CHECKING:
    from PIL import Image

PICTURES = (".jpg", ".jpeg", ".png", ".bmp", ".gif", ".webp", ".ppm", ".tif", ".tiff")  # how their files end
CROP = 0.875  # side of the centre crop / short side of the picture, as usual for ImageNet
STRIP = 8  # times as long as wide: of a longer picture the middle is cut out before it is brought to its size
WHITES = {"I": 65535, "F": 1}  # of grey in 16 bits, or in 32 that hold 16, and of floating-point grey
PICTURES_IN_ONE = {"MPO"}  # a photograph with a preview or a second view: the first is the photograph


def read_image(file: str | Path, size: int, *, grey: bool = False, crop: bool = True) -> Tensor:
    """Short side to size / 0.875, centre crop: (1, 3, size, size) in [0, 1]. Colours as `read_picture` gives them.

    With `grey` it has one channel. Without `crop` the whole picture becomes size × size: one that has this size already
    stays as it is, and one that is no square changes its proportions.

    Example:
        >>> read_image("cat.jpg", 128).shape  # doctest: +SKIP
        torch.Size([1, 3, 128, 128])
    """
    from PIL import Image

    check_integer("size", size, 1, advice="the side of the square in pixels")
    image, how = read_picture(file), Image.Resampling.BICUBIC
    image = square_crop(image, size, how) if crop else image.resize((size, size), how)
    return as_tensor(image.convert("L") if grey else image)


def as_tensor(image: Image.Image) -> Tensor:
    """A picture in grey or RGB as (1, channels, height, width) in [0, 1]."""
    pixels = torch.from_numpy(np.array(image, np.float32) / 255)
    return pixels.reshape(image.height, image.width, -1).permute(2, 0, 1)[None]


def edges_of(image: Tensor) -> Tensor:
    """How steep the grey image is at each pixel, (channels, height, width) -> the same shape, equal in all channels.

    Example:
        >>> edges_of(torch.tensor([[[0.0, 0.0, 4.0, 4.0]]]))
        tensor([[[0., 4., 4., 0.]]])
    """
    grey = torch.nn.functional.pad(image.mean(0)[None, None], (1, 1, 1, 1), mode="replicate")[0, 0]
    right, down = grey[1:-1, 2:] - grey[1:-1, :-2], grey[2:, 1:-1] - grey[:-2, 1:-1]
    return torch.hypot(right, down).expand_as(image)


def read_picture(file: str | Path) -> Image.Image:
    """A file as a person sees it, in RGB.

    A photograph is turned as its camera says (EXIF). Grey of 16 bits is scaled to 8. What is transparent shows white.
    Of an animation the first picture is taken, with a warning. Everything else that cannot be read is a ValueError, and
    so is a picture of so many pixels that it looks like an attack on the memory.

    Example:
        >>> read_picture("cat.jpg").mode  # doctest: +SKIP
        'RGB'
    """
    from PIL import Image

    try:
        with Image.open(file) as opened:
            if getattr(opened, "n_frames", 1) > 1 and opened.format not in PICTURES_IN_ONE:
                warnings.warn(f"{file} is an animation: its first picture is used", UserWarning, stacklevel=3)
            return as_seen(opened)
    except Image.DecompressionBombError as error:
        raise ValueError(f"{file} claims to have too many pixels to be a picture: {error}. Make it smaller") from error
    except (OSError, SyntaxError, ValueError, TypeError, struct.error) as error:  # what PIL raises for broken files
        raise ValueError(f"{file} cannot be read as a picture: {error}") from error


def as_seen(opened: Image.Image) -> Image.Image:
    """An opened file as a person sees it, in RGB: turned as its camera says, on white where it is transparent."""
    from PIL import ImageOps

    opened.load()
    return _to_rgb(ImageOps.exif_transpose(opened))


def _to_rgb(image: Image.Image) -> Image.Image:
    """Any kind of pixels as RGB."""
    from PIL import Image

    if image.mode[0] in WHITES:
        grey, white = np.asarray(image, np.float64), WHITES[image.mode[0]]
        if not (grey.min() >= 0 and grey.max() <= white):
            raise ValueError(f"its grey goes from {grey.min():.6g} to {grey.max():.6g}, expected 0 to {white}")
        image = Image.fromarray(np.rint(grey / white * 255).astype(np.uint8))
    if image.has_transparency_data:
        shown = image.convert("RGBA")
        return Image.alpha_composite(Image.new("RGBA", shown.size, "white"), shown).convert("RGB")
    return image.convert("RGB")


def square_crop(image: Image.Image, size: int, resample: Image.Resampling) -> Image.Image:
    """Short side to size / 0.875, centre crop of size × size; also for masks of pictures."""
    short = min(image.size)
    if max(image.size) > STRIP * short:  # else a strip of one pixel's width would be enlarged to gigabytes
        left, top = ((side - min(side, STRIP * short)) // 2 for side in image.size)
        image = image.crop((left, top, image.width - left, image.height - top))
    scale = size / CROP / short
    width, height = (max(size, round(side * scale)) for side in image.size)
    image = image.resize((width, height), resample)
    left, top = (width - size) // 2, (height - size) // 2
    return image.crop((left, top, left + size, top + size))
