"""A result as a notebook shows it: small pictures or bars, the status in words, the evidence. Everything is escaped."""

from __future__ import annotations

import base64
import math
import struct
import zlib
from collections.abc import Mapping, Sequence
from html import escape

import numpy as np
import torch
from torch import Tensor

from leastpath._support.checks import write_number
from leastpath.result.status import Status

MOST_EXAMPLES, MOST_BARS = 4, 12
RAISES, LOWERS = (214, 96, 77), (67, 147, 195)  # red raises the score, blue lowers it: told apart by all eyes
WIDTH, ROW = 320, 18  # pixels of the bars
NAMED, LETTERS = 520, 42  # pixels of bars beside names, and the letters of a name that there is room for
SMALLEST, LARGEST = 96, 224  # pixels a side of the pictures


def result_html(
    values: Tensor | tuple[Tensor, ...],
    status: Sequence[Status],
    evidence: Mapping[str, Tensor],
    title: str,
    names: Sequence[Sequence[str]] = (),
) -> str:
    """Up to four examples, side by side.

    Args:
        values: (batch, *features), or a tuple of such.
        status: one an example.
        evidence: names and numbers (batch,); NaN is left out.
        title: what made the result.
        names: of each example's features, where they have some.

    Example:
        >>> from leastpath.result.status import Note, Outcome
        >>> fine = Status((Note(Outcome.REACHED, "fine, <b>really</b>"),))
        >>> "Fine, &lt;b&gt;really&lt;/b&gt;." in result_html(torch.ones(1, 2), [fine], {}, "StraightLine()")
        True
    """
    parts = values if isinstance(values, tuple) else (values,)
    shown = min(len(status), MOST_EXAMPLES)
    cards = [_card(parts, status[b], evidence, b, names[b] if names else ()) for b in range(shown)]
    more = "" if shown == len(status) else f"<p>The first {shown} of {len(status)} examples.</p>"
    row = f'<div style="display:flex;flex-wrap:wrap;gap:1.5em">{"".join(cards)}</div>'
    return f'<div style="font-family:sans-serif"><p><code>{escape(title)}</code></p>{row}{more}</div>'


def _card(parts: Sequence[Tensor], status: Status, evidence: Mapping[str, Tensor], b: int, names: Sequence[str]) -> str:
    pictures = "".join(picture_html(part[b], names) for part in parts)
    rows = "".join(
        f"<tr><td>{escape(name)}</td><td style='text-align:right'>{write_number(float(numbers[b]), 4)}</td></tr>"
        for name, numbers in evidence.items()
        if not math.isnan(float(numbers[b]))
    )
    mark = "" if status.ok else "<strong>Look twice.</strong> "
    words = f"<p>{mark}{escape(status.value)}</p>"
    return f'<div style="max-width:{(NAMED if names else WIDTH) + 40}px">{pictures}{words}<table>{rows}</table></div>'


def picture_html(values: Tensor, names: Sequence[str] = ()) -> str:
    """Values of one example (*features) as a picture, or as bars: tokens summed over their width.

    Without names, bars have the numbers of their features.

    Example:
        >>> picture_html(torch.ones(3, 8, 8))[:27]
        '<img alt="attributions as a'
    """
    numbers = values.detach().float().cpu().nan_to_num()
    if numbers.ndim == 3 and min(numbers.shape[1:]) > 1:
        return _heat(numbers.sum(0))
    if numbers.ndim == 2:
        numbers = numbers.sum(1)
    return _bars(numbers.flatten(), names)


def _heat(numbers: Tensor) -> str:
    end = float(np.quantile(numbers.abs().numpy(), 0.99)) or float(numbers.abs().max()) or 1.0
    share = (numbers / end).clamp(-1, 1)[..., None]
    colour = torch.where(share > 0, torch.tensor(RAISES), torch.tensor(LOWERS)).float()
    pixels = 255 + share.abs() * (colour - 255)
    height, width = numbers.shape
    side = min(LARGEST, max(SMALLEST, height, width)) / max(height, width)
    data = base64.b64encode(png(pixels.round().to(torch.uint8).numpy())).decode()
    words = "attributions as a picture: red raises the score, blue lowers it"
    size = f'width="{round(width * side)}" height="{round(height * side)}"'
    return f'<img alt="{words}" {size} style="image-rendering:pixelated" src="data:image/png;base64,{data}">'


def _bars(numbers: Tensor, names: Sequence[str]) -> str:
    order = numbers.abs().argsort(descending=True, stable=True)[:MOST_BARS].tolist()
    end = max((abs(float(numbers[i])) for i in order), default=0.0) or 1.0
    width, middle = (NAMED, NAMED - WIDTH / 2) if names else (WIDTH, WIDTH / 2)  # names stand left of all bars
    rows = []
    for place, i in enumerate(order):
        value, y = float(numbers[i]), place * ROW
        size = abs(value) / end * (WIDTH / 2 - 60)
        name = names[i] if names else str(i)
        label = name if len(name) <= LETTERS else f"{name[: LETTERS - 1]}…"
        left = middle - (size if value < 0 else 0)
        colour = "#{:02x}{:02x}{:02x}".format(*(RAISES if value > 0 else LOWERS))
        rows.append(
            f'<rect x="{left:.1f}" y="{y + 3}" width="{size:.1f}" height="{ROW - 6}" fill="{colour}"/>'
            f'<text x="0" y="{y + 13}" font-size="11"><title>{escape(name)}</title>{escape(label)}</text>'
            f'<text x="{width}" y="{y + 13}" font-size="11" text-anchor="end">{write_number(value)}</text>'
        )
    label = f"the {len(order)} largest attributions of {len(numbers)} as bars, with their features"
    sides = f'width="{width}" height="{max(1, len(order)) * ROW}"'
    return f'<svg role="img" aria-label="{label}" fill="currentColor" {sides}>{"".join(rows)}</svg>'


def png(pixels: np.ndarray) -> bytes:
    """(height, width, 3) uint8 as a PNG file.

    Example:
        >>> png(np.zeros((1, 1, 3), np.uint8))[:4]
        b'\\x89PNG'
    """
    height, width = pixels.shape[:2]
    rows = b"".join(b"\0" + pixels[y].tobytes() for y in range(height))  # 0: the row is not filtered

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)  # 8 bits, RGB
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")
