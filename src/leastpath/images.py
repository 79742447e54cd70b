"""Pictures as tensors: read from files, cut to a square."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

if TYPE_CHECKING:
    from PIL import Image

CROP = 0.875  # side of the centre crop / short side of the picture, as usual for ImageNet


def read_image(file: str | Path, size: int) -> Tensor:
    """Short side to size / 0.875, centre crop: (1, 3, size, size) in [0, 1].

    Example:
        >>> read_image("cat.jpg", 128).shape  # doctest: +SKIP
        torch.Size([1, 3, 128, 128])
    """
    from PIL import Image, UnidentifiedImageError

    try:
        image = Image.open(file).convert("RGB")
    except (UnidentifiedImageError, OSError) as error:
        raise ValueError(f"{file} cannot be read as a picture: {error}") from error
    pixels = np.asarray(square_crop(image, size, Image.Resampling.BICUBIC), np.float32) / 255
    return torch.from_numpy(pixels.copy()).permute(2, 0, 1)[None]


def square_crop(image: Image.Image, size: int, resample: Image.Resampling) -> Image.Image:
    """Short side to size / 0.875, centre crop of size × size; also for masks of pictures."""
    scale = size / CROP / min(image.size)
    width, height = (max(size, round(side * scale)) for side in image.size)
    image = image.resize((width, height), resample)
    left, top = (width - size) // 2, (height - size) // 2
    return image.crop((left, top, left + size, top + size))
