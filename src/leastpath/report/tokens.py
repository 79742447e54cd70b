"""Coloured tokens, as a figure and as HTML."""

from __future__ import annotations

import html
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from leastpath._support.checks import write_number
from leastpath.report.canvas import Values, array, check_scale, limit, new_figure, plain

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from matplotlib.text import Text

RAISES, LOWERS = (0.84, 0.38, 0.30), (0.26, 0.58, 0.76)  # RdBu without its darkest ends: black letters stay readable
MARGIN, LINE_HEIGHT = 0.12, 0.34  # inches


def text(
    tokens: Sequence[str],
    values: Values,
    *,
    scale: float | None = None,
    title: str = "",
    width: float = 7.2,
    fontsize: float = 12,
) -> Figure:
    """Draw tokens on a coloured background: red raises the score, blue lowers it.

    Args:
        tokens: words or word pieces, in reading order.
        values: (tokens,), or (tokens, embedding), which is summed over the embedding.
        scale: the magnitude at which colours end; by default the largest of the values.
        title: above the text.
        width: of the figure, in inches; lines break there.
        fontsize: of the tokens.

    Example:
        >>> from leastpath.report import text
        >>> figure = text(["not", "a", "bad", "film"], [0.5, 0.0, -0.7, 0.1])
    """
    numbers = _per_token(tokens, values)
    end = limit(numbers, 100) if scale is None else check_scale(scale)
    figure = new_figure(width, 1)
    left, row, placed = MARGIN, 0, []
    for token, number in zip(tokens, numbers, strict=True):
        written = _write_token(figure, token, float(number), end, fontsize)
        extent = written.get_window_extent().width / figure.dpi + 0.1
        if left + extent > width - MARGIN and left > MARGIN:
            row, left = row + 1, MARGIN
        placed.append((written, left, row))
        left += extent + 0.03
    pitch = LINE_HEIGHT * fontsize / 12
    top = 0.35 if title else 0.08
    height = top + (row + 1) * pitch + 0.5
    figure.set_size_inches(width, height)
    for written, x, row in placed:
        written.set_position((x / width, 1 - (top + (row + 0.5) * pitch) / height))
    if title:
        figure.text(MARGIN / width, 1 - 0.18 / height, plain(title), va="center", fontsize="medium")
    _legend(figure, end, width, height)
    return figure


def _write_token(figure: Figure, token: str, number: float, end: float, fontsize: float) -> Text:
    ground = {"facecolor": colour(number, end), "edgecolor": "none", "boxstyle": "round,pad=0.15"}
    return figure.text(0, 0, plain(token), va="center", ha="left", fontsize=fontsize, bbox=ground)


def _legend(figure: Figure, end: float, width: float, height: float) -> None:
    """A thin colour bar below the text."""
    figure.set_layout_engine("none")
    axes = figure.add_axes((2 * MARGIN / width, 0.3 / height, 2.2 / width, 0.1 / height))  # its first number has room
    shades = np.array([[_rgb(step) for step in np.linspace(-1, 1, 101)]])
    axes.imshow(shades, aspect="auto", extent=(-end, end, 0, 1))
    axes.set_yticks([])
    axes.set_xticks([-end, 0, end], [write_number(-end, 2), "0", write_number(end, 2)])
    axes.tick_params(labelsize="x-small", length=2, pad=1)


def text_html(tokens: Sequence[str], values: Values, *, scale: float | None = None, join: str = " ") -> str:
    """The same as a piece of HTML: one `<span>` per token, whose tooltip is its number.

    Args:
        tokens: words or word pieces, in reading order.
        values: (tokens,), or (tokens, embedding), which is summed over the embedding.
        scale: the magnitude at which colours end; by default the largest of the values.
        join: what stands between tokens; "" for pieces that bring their own spaces.

    Example:
        >>> from leastpath.report import text_html
        >>> text_html(["good"], [0.5])
        '<span class="leastpath-text"><span title="good: +0.5" style="background:#d6614d;color:#000">good</span></span>'
    """
    numbers = _per_token(tokens, values)
    end = limit(numbers, 100) if scale is None else check_scale(scale)
    spans = [
        f'<span title="{html.escape(token.strip(), quote=True)}: {number:+.3g}" '
        f'style="background:{colour(float(number), end)};color:#000">{html.escape(token)}</span>'
        for token, number in zip(tokens, numbers, strict=True)
    ]
    return f'<span class="leastpath-text">{html.escape(join).join(spans)}</span>'


def colour(value: float, end: float) -> str:
    """A value as a colour of the diverging map, pale enough for black letters: "#rrggbb"."""
    red, green, blue = (round(255 * part) for part in _rgb(value / end))
    return f"#{red:02x}{green:02x}{blue:02x}"


def _rgb(share: float) -> tuple[float, ...]:
    """White at 0, red at 1, blue at −1. HTML needs it without matplotlib."""
    strength = min(1.0, abs(share))
    return tuple(1 + strength * (part - 1) for part in (RAISES if share > 0 else LOWERS))


def _per_token(tokens: Sequence[str], values: Values) -> np.ndarray:
    numbers = array(values)
    given: Any = tokens
    if isinstance(given, str) or not isinstance(given, Sequence):
        got = "one string" if isinstance(given, str) else f"a {type(given).__name__}"
        raise ValueError(f"tokens is {got}: pass a list of strings, such as text.split()")
    if not len(tokens):
        raise ValueError("there are no tokens: pass at least one")
    if numbers.shape[:1] == (1,) and len(tokens) != 1:
        numbers = numbers[0]  # a batch of one
    if numbers.ndim not in (1, 2) or len(numbers) != len(tokens):
        raise ValueError(
            f"got {len(tokens)} tokens for values of shape {numbers.shape}: expected ({len(tokens)},) "
            f"or ({len(tokens)}, embedding), one example"
        )
    return numbers if numbers.ndim == 1 else numbers.sum(1)
