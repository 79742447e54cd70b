"""What all pictures share: figures without pyplot, colours, and values as arrays."""

from __future__ import annotations

import gc
import itertools
import textwrap
from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
from torch import Tensor

from leastpath._support.checks import Range, check_setting, write_number
from leastpath._support.optional import import_optional
from leastpath.result.attribution import Attribution

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Okabe and Ito's palette: people with the common kinds of colour blindness can tell its colours apart.
BLACK, GREY, BLUE, ORANGE, GREEN, VERMILION, PURPLE, SKY = (
    "#000000", "#999999", "#0072B2", "#E69F00", "#009E73", "#D55E00", "#CC79A7", "#56B4E9",
)  # fmt: skip
SERIES = (BLACK, BLUE, VERMILION, GREEN, PURPLE, ORANGE, SKY, GREY)  # the first is for the straight line
DIVERGING = "RdBu_r"  # red raises the score, blue lowers it, white does neither
SEQUENTIAL = "magma"

PERCENTILES = (99.5, 99.0, 98.0, 96.0, 93.0, 90.0, 85.0, 80.0)
SEEN, ENOUGH = 0.25, 0.04  # of the full colour, that a value is seen with; of the values, that must be seen
LONGEST_NAME = 60  # letters of a name beside an axis or in a legend
POINTS, LETTER = 72.0, 0.56  # in an inch; the width of a letter over the size of the font, on average

# A figure is a ring of references that holds its pixels: Python's own collector would let hundreds wait.
_MADE, COLLECT_EACH = itertools.count(1), 10

Values = Attribution | Tensor | np.ndarray | Any  # the last: lists, pandas objects and all that numpy can read


def new_figure(width: float, height: float) -> Figure:
    """An empty figure, in inches, outside of pyplot."""
    if next(_MADE) % COLLECT_EACH == 0:
        gc.collect()
    matplotlib = import_optional("matplotlib.figure", "pictures need matplotlib", "plot")
    figure: Figure = matplotlib.Figure(figsize=(width, height), layout="constrained")
    import_optional("matplotlib.backends.backend_agg", "pictures need matplotlib", "plot").FigureCanvasAgg(figure)
    return figure


def axes_for(ax: Axes | None, width: float, height: float) -> tuple[Figure, Axes]:
    """The axes to draw on and their figure; where none are given, those of a new figure, in inches."""
    if ax is None:
        figure = new_figure(width, height)
        return figure, figure.add_subplot()
    found = ax.get_figure(root=True)
    if found is None:
        raise ValueError("ax has no figure: pass axes made by figure.add_subplot()")
    return found, ax


def plain(words: object, most: int | None = None) -> str:
    """A user's words for a picture: matplotlib reads dollars as mathematics unless they are escaped.

    Args:
        words: names may be anything.
        most: letters of a name that stands beside others; None: all.

    Example:
        >>> plain("price in $"), plain("a very long name", most=8)
        ('price in \\\\$', 'a very …')
    """
    said = str(words)
    return (said if most is None or len(said) <= most else f"{said[: most - 1]}…").replace("$", r"\$")


def without_ticks(axes: Iterable[Axes]) -> None:
    """Remove the ticks, which pictures do not need."""
    for ax in axes:
        ax.set_xticks([])
        ax.set_yticks([])


def write_title(ax: Axes, title: str, *, size: float = 10.0) -> None:
    """Write a user's title in as many lines as its axes are wide: it never runs into that of a neighbour."""
    width = ax.get_window_extent().width / ax.figure.dpi * POINTS
    letters = max(8, int(width / (LETTER * size)))
    lines = [line for part in title.split("\n") for line in (textwrap.wrap(part, letters) or [""])]
    ax.set_title(plain("\n".join(lines)), fontsize=size)


def signed_row(figure: Figure, row: np.ndarray, planes: np.ndarray, percentile: float | None) -> None:
    """Signed pictures (n, height, width) on the last n axes of a row, with one scale and one colour bar."""
    end = limit(planes, percentile)
    for ax, plane in zip(row[-len(planes) :], planes, strict=True):
        drawn = ax.imshow(plane, cmap=DIVERGING, vmin=-end, vmax=end, interpolation="nearest")
    bar = figure.colorbar(drawn, ax=list(row), pad=0.01, shrink=0.9, format=tick)
    bar.ax.tick_params(labelsize="small")


def array(values: Values, name: str = "values") -> np.ndarray:
    """Finite numbers as a float64 array; an Attribution gives its values."""
    if isinstance(values, Attribution):
        values = values.values
    if isinstance(values, tuple) and any(isinstance(part, Tensor) for part in values):
        raise ValueError(
            f"{name} are a tuple of {len(values)} tensors, one for each input: draw one of them, as in {name}[0]"
        )
    if isinstance(values, Tensor):
        values = values.detach().cpu().double().numpy()
    try:
        numbers = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} of type {type(values).__name__} cannot be read as numbers: pass a tensor") from error
    if not np.isfinite(numbers).all():
        raise ValueError(f"{name} hold NaN or infinite numbers: replace them, e.g. {name}.nan_to_num()")
    return numbers


def check_scale(scale: float) -> float:
    """The magnitude at which colours end, above 0."""
    check_setting("scale", scale, Annotated[float, Range(above=0, hint="the value at which colours end")])
    return float(scale)


def limit(values: np.ndarray, percentile: float | None = None) -> float:
    """The magnitude at which colours end: a percentile of |values|, so that a few extremes do not make the rest pale.

    Where this percentile is zero, it is taken among the values that are not zero. None takes the highest percentile
    at which a picture of the values is not blank: of what is not zero, 4 % have a quarter of the full colour.
    """
    if percentile is None:
        ends = [limit(values, each) for each in PERCENTILES]
        return next((end for end in ends if _share_seen(values, end) >= ENOUGH), ends[-1])
    check_setting("percentile", percentile, Annotated[float, Range(above=0, most=100, hint="100 clips nothing")])
    magnitude = np.abs(values).ravel()
    found = float(np.percentile(magnitude, percentile)) if magnitude.size else 0.0
    if found == 0 and magnitude.any():
        found = float(np.percentile(magnitude[magnitude > 0], percentile))
    return found or 1.0


def _share_seen(values: np.ndarray, end: float) -> float:
    """The share of the values other than zero whose colour is seen, on a scale that ends at `end`."""
    magnitude = np.abs(values[values != 0])
    return float((magnitude >= SEEN * end).mean()) if magnitude.size else 1.0


def tick(value: float, _place: int | None = None) -> str:
    """A number beside a scale, as matplotlib asks for it."""
    return write_number(float(value))
