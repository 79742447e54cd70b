"""Files that a user gives to the page, read with care: small, of a known kind, and never executed."""

from __future__ import annotations

import io
import threading
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

from torch import Tensor

from leastpath._support.optional import import_optional
from leastpath.features.images import as_seen, as_tensor, square_crop

MOST_BYTES = 20_000_000
MOST_PIXELS = 50_000_000  # a small file may unpack to a huge picture
MOST_SIDE = 20_000
MOST_ROWS = 200
MOST_SAMPLES = 500
FORMATS = ("PNG", "JPEG", "WEBP", "BMP", "GIF")
T = TypeVar("T")
_LOCK = threading.Lock()


def check_size(content: bytes) -> bytes:
    """The content, if it is neither empty nor too large."""
    if not content:
        raise ValueError("the file is empty: choose another one")
    if len(content) > MOST_BYTES:
        raise ValueError(f"the file has {len(content) / 1e6:.0f} MB, more than {MOST_BYTES / 1e6:.0f}: make it smaller")
    return content


@contextmanager
def refusing(name: str, kind: str, advice: str = "Give another one") -> Iterator[None]:
    """What goes wrong with a user's file is one sentence: decoders and tables raise all kinds of errors."""
    try:
        yield
    except Exception as error:
        said = str(error).partition("\n")[0][:200] if isinstance(error, (ValueError, OverflowError)) else ""
        reason = said or "it is broken or of another kind"
        raise ValueError(f"{name} cannot be read as a {kind}: {reason}. {advice}") from error


def keep_together(rows: list[T], added: Sequence[T]) -> int:
    """Add rows behind others: the number of the first."""
    with _LOCK:
        if len(rows) + len(added) > MOST_SAMPLES:
            raise ValueError(f"there are {len(rows)} samples, and at most {MOST_SAMPLES} are kept: start anew for more")
        rows.extend(added)
        return len(rows) - len(added)


def picture_from(name: str, content: bytes, shape: tuple[int, ...]) -> Tensor:
    """A picture file as (1, channels, height, width) in [0, 1], for shape (channels, height, width)."""
    channels, height, width = shape
    if channels not in (1, 3):
        raise ValueError(f"the model takes {channels} channels, and picture files have 1 or 3: give it tensors")
    images: Any = import_optional("PIL.Image", "reading pictures needs Pillow", "explore")
    with refusing(name, "picture", f"Pictures are {', '.join(FORMATS)}"), warnings.catch_warnings():
        warnings.simplefilter("error", images.DecompressionBombWarning)
        with images.open(io.BytesIO(check_size(content)), formats=FORMATS) as image:
            if image.width * image.height > MOST_PIXELS or max(image.size) > MOST_SIDE:
                raise ValueError(f"it has {image.width} × {image.height} pixels, which is too many")
            plain = as_seen(image).convert("RGB" if channels == 3 else "L")
    resample = images.Resampling.BICUBIC
    return as_tensor(
        square_crop(plain, height, resample) if height == width else plain.resize((width, height), resample)
    )


def table_from(name: str, content: bytes, columns: tuple[Any, ...]) -> Any:
    """A CSV file with these columns, at most 200 rows: a data frame."""
    pandas: Any = import_optional("pandas", "reading tables needs pandas", "tabular")
    with refusing(name, "table", "Give a CSV file in UTF-8"):
        frame = pandas.read_csv(io.BytesIO(check_size(content)), nrows=MOST_ROWS, encoding="utf-8")
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
