"""Files that a user gives to the page, read with care: small, of a known kind, and never executed."""

from __future__ import annotations

import io
import warnings
from typing import Any

from torch import Tensor

from leastpath._support.optional import import_optional
from leastpath.features.images import as_seen, as_tensor, square_crop

MOST_BYTES = 20_000_000
MOST_PIXELS = 50_000_000  # a small file may unpack to a huge picture
MOST_ROWS = 200
FORMATS = ("PNG", "JPEG", "WEBP", "BMP", "GIF")


def check_size(content: bytes) -> bytes:
    """The content, if it is neither empty nor too large."""
    if not content:
        raise ValueError("the file is empty: choose another one")
    if len(content) > MOST_BYTES:
        raise ValueError(f"the file has {len(content) / 1e6:.0f} MB, more than {MOST_BYTES / 1e6:.0f}: make it smaller")
    return content


def picture_from(name: str, content: bytes, shape: tuple[int, ...]) -> Tensor:
    """A picture file as (1, channels, height, width) in [0, 1], for shape (channels, height, width)."""
    channels, height, width = shape
    if channels not in (1, 3):
        raise ValueError(f"the model takes {channels} channels, and picture files have 1 or 3: give it tensors")
    images: Any = import_optional("PIL.Image", "reading pictures needs Pillow", "explore")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", images.DecompressionBombWarning)
            with images.open(io.BytesIO(check_size(content)), formats=FORMATS) as image:
                if image.width * image.height > MOST_PIXELS:
                    raise ValueError(f"it has {image.width} × {image.height} pixels, which is too many")
                plain = as_seen(image).convert("RGB" if channels == 3 else "L")
    except Exception as error:  # decoders raise all kinds of errors on broken files
        reason = str(error).partition("\n")[0] if isinstance(error, ValueError) else "it is broken or of another kind"
        kinds = ", ".join(FORMATS)
        raise ValueError(f"{name} cannot be read as a picture: {reason}. Pictures are {kinds}") from error
    resample = images.Resampling.BICUBIC
    return as_tensor(
        square_crop(plain, height, resample) if height == width else plain.resize((width, height), resample)
    )


def table_from(name: str, content: bytes, columns: tuple[Any, ...]) -> Any:
    """A CSV file with these columns, at most 200 rows: a data frame."""
    pandas: Any = import_optional("pandas", "reading tables needs pandas", "tabular")
    try:
        frame = pandas.read_csv(io.BytesIO(check_size(content)), nrows=MOST_ROWS, encoding="utf-8")
    except Exception as error:  # pandas raises all kinds of errors on files that are no tables
        reason = str(error).partition("\n")[0]
        raise ValueError(f"{name} cannot be read as a table: {reason}. Give a CSV file in UTF-8") from error
    missing = [str(column) for column in columns if column not in frame.columns]
    if missing:
        raise ValueError(f"{name} lacks the columns {', '.join(missing[:5])}: it must have those of the table shown")
    if not len(frame):
        raise ValueError(f"{name} has no rows: give one at least")
    return frame[list(columns)]


def text_from(name: str, content: bytes) -> str:
    """A text in UTF-8, at most 10,000 characters."""
    try:
        text = check_size(content).decode("utf-8").strip()
    except UnicodeDecodeError as error:
        raise ValueError(f"{name} is not a text in UTF-8: save it as one") from error
    if not text or len(text) > 10_000:
        raise ValueError(f"{name} has {len(text)} characters, expected 1 to 10,000: choose another text")
    return text
