"""Heat maps of image attributions: alone, over the image, and several methods side by side on one scale."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from leastpath.report.canvas import DIVERGING, SEQUENTIAL, Values, array, drawing_on, limit, new_figure, without_ticks

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.image import AxesImage

Sharing = Literal["shared", "row", "each"]
PANEL = 2.4  # inches
MOST_CHANNELS = 4  # of a picture


def heatmap(
    values: Values,
    image: Values | None = None,
    *,
    signed: bool = True,
    percentile: float = 99,
    scale: float | None = None,
    title: str = "",
    colorbar: bool = True,
    ax: Axes | None = None,
) -> Figure:
    """Draw the attributions of one image; over the image, if that is given.

    Channels are summed: their attributions, or with `signed=False` the magnitudes of these.

    Args:
        values: (height, width), (channels, height, width) or either with a batch of one in front; or the `Attribution`
            of one example.
        image: shown in grey below the colours: (height, width) or (channels, height, width).
        signed: red raises the score, blue lowers it. False: magnitudes, from dark to bright.
        percentile: of the magnitudes, where colours end.
        scale: where colours end, as a magnitude; for pictures that are to be compared.
        title: above the picture.
        colorbar: whether to draw one.
        ax: where to draw; a new figure by default.

    Example:
        >>> import torch
        >>> from leastpath.report import heatmap
        >>> figure = heatmap(torch.randn(3, 8, 8), torch.rand(3, 8, 8), title="noise")
    """
    plane = _plane(values, signed)
    figure, axes = drawing_on(ax, PANEL * 1.5, PANEL * 1.3)
    end = limit(plane, percentile) if scale is None else _checked_scale(scale)
    drawn = _draw(axes, plane, None if image is None else grey(image, plane.shape), end, signed)
    axes.set_title(title, fontsize="medium")
    if colorbar:
        _colorbar(figure, drawn, axes, plane, end, signed)
    return figure


def heatmaps(
    values: Mapping[str, Values],
    images: Values | None = None,
    *,
    signed: bool = True,
    percentile: float = 99,
    scale: Sharing | float = "shared",
    overlay: bool = False,
    rows: Sequence[str] | None = None,
) -> Figure:
    """Draw several methods side by side, one column a method and one row an example.

    Args:
        values: title of the column -> (batch, channels, height, width), (channels, height, width), (height, width), or
            an `Attribution`.
        images: of the same batch; they make the first column, and with `overlay` the ground of the others as well.
        signed: red raises the score, blue lowers it. False: magnitudes.
        percentile: of the magnitudes on a scale, where colours end.
        scale: "shared" has one scale for all, "row" one an example, "each" one a picture; a number says where
            colours end.
        overlay: draw attributions over the images.
        rows: a label for each example.

    Example:
        >>> import torch
        >>> from leastpath.report import heatmaps
        >>> a, b, images = torch.randn(3, 2, 3, 8, 8)
        >>> figure = heatmaps({"first": a, "second": b}, images)
    """
    if not values:
        raise ValueError("there is nothing to draw: pass heatmaps({'a name': values, …})")
    planes = {name: _planes(given, signed) for name, given in values.items()}
    shapes = {name: plane.shape for name, plane in planes.items()}
    if len(set(shapes.values())) > 1:
        raise ValueError(f"the methods' values differ in shape, (examples, height, width): {shapes}")
    stack = np.stack(list(planes.values()), 1)  # (batch, methods, height, width)
    shown = None if images is None else [_displayable(image, stack.shape[2:]) for image in _examples(images, "images")]
    _check_rows(len(stack), shown, rows)
    ends = _ends(stack, scale, percentile)
    first = 0 if shown is None else 1
    columns = first + stack.shape[1]
    aspect = stack.shape[2] / stack.shape[3]
    figure = new_figure(PANEL * columns + 0.9, PANEL * aspect * len(stack) + 0.5)
    grid = figure.subplots(len(stack), columns, squeeze=False)
    drawn: list[list[AxesImage]] = []
    for b, line in enumerate(stack):
        if shown is not None:
            grid[b, 0].imshow(shown[b], cmap="gray", vmin=0, vmax=1)
            without_ticks([grid[b, 0]])
        ground = _to_grey(shown[b]) if shown is not None and overlay else None
        drawn.append([_draw(grid[b, first + j], line[j], ground, ends[b, j], signed) for j in range(len(line))])
        if rows is not None:
            grid[b, 0].set_ylabel(rows[b], fontsize="medium")
    for j, name in enumerate([*(["image"] if first else []), *planes]):
        grid[0, j].set_title(name, fontsize="medium")
    _colorbars(figure, drawn, grid[:, first:], stack, ends, signed, scale)
    return figure


def _colorbars(
    figure: Figure,
    drawn: list[list[AxesImage]],
    grid: np.ndarray,
    stack: np.ndarray,
    ends: np.ndarray,
    signed: bool,
    scale: Sharing | float,
) -> None:
    """One for all, one a row or one a picture, as the scale is shared."""
    if scale == "each":
        for b, line in enumerate(drawn):
            for j, picture in enumerate(line):
                _colorbar(figure, picture, grid[b, j], stack[b, j], ends[b, j], signed)
    elif scale == "row":
        for b in range(len(ends)):
            _colorbar(figure, drawn[b][-1], list(grid[b]), stack[b], ends[b, 0], signed)
    else:
        _colorbar(figure, drawn[0][-1], list(grid.ravel()), stack, ends[0, 0], signed)


def _ends(stack: np.ndarray, scale: Sharing | float, percentile: float) -> np.ndarray:
    """(batch, methods) where colours end."""
    batch, methods = stack.shape[:2]
    if not isinstance(scale, str):
        return np.full((batch, methods), _checked_scale(scale))
    if scale == "shared":
        return np.full((batch, methods), limit(stack, percentile))
    if scale == "row":
        return np.repeat([[limit(line, percentile)] for line in stack], methods, axis=1)
    if scale == "each":
        return np.array([[limit(plane, percentile) for plane in line] for line in stack])
    raise ValueError(f'scale={scale!r} is unknown: use "shared", "row", "each" or a number')


def _checked_scale(scale: float) -> float:
    if not np.isfinite(scale) or scale <= 0:
        raise ValueError(f"scale={scale} must be a magnitude above 0: the value at which colours end")
    return float(scale)


def _check_rows(batch: int, shown: list[np.ndarray] | None, rows: Sequence[str] | None) -> None:
    for name, given in (("images", shown), ("rows", rows)):
        if given is not None and len(given) != batch:
            raise ValueError(f"got {len(given)} {name} for {batch} examples: pass one for each")


def _draw(axes: Axes, plane: np.ndarray, ground: np.ndarray | None, end: float, signed: bool) -> AxesImage:
    """Colours alone, or over a grey image, the stronger the less transparent."""
    without_ticks([axes])
    low = -end if signed else 0.0
    alpha: Any = None
    if ground is not None:
        axes.imshow(0.35 + 0.65 * ground, cmap="gray", vmin=0, vmax=1)  # lightened: black would swallow the colours
        alpha = np.sqrt(np.clip(np.abs(plane) / end, 0, 1))
    colours = DIVERGING if signed else SEQUENTIAL
    return axes.imshow(plane, cmap=colours, vmin=low, vmax=end, alpha=alpha, interpolation="nearest")


def _colorbar(figure: Figure, drawn: AxesImage, axes: Any, shown: np.ndarray, end: float, signed: bool) -> None:
    """With arrows at its ends where values were clipped. Drawn from its own mappable: transparency is no value."""
    from matplotlib.cm import ScalarMappable

    above, below = bool((shown > end).any()), signed and bool((shown < -end).any())
    extend = {(True, True): "both", (True, False): "max", (False, True): "min", (False, False): "neither"}
    label = "attribution" if signed else "|attribution|"
    mappable = ScalarMappable(drawn.norm, drawn.cmap)
    bar = figure.colorbar(mappable, ax=axes, label=label, extend=extend[above, below], shrink=0.85, pad=0.02, aspect=30)
    bar.ax.tick_params(labelsize="small")


# ---- shapes ------------------------------------------------------------------------------------------------------


def _planes(values: Values, signed: bool) -> np.ndarray:
    """(batch, height, width)."""
    return np.stack([_plane(example, signed) for example in _examples(values, "values")])


def _examples(values: Values, name: str) -> np.ndarray:
    """(batch, …): a single picture is a batch of one."""
    given = array(values, name)
    return given if given.ndim == 4 else given[None]


def _plane(values: Values, signed: bool) -> np.ndarray:
    """One example's attributions, channels summed: (height, width)."""
    given = array(values)
    if given.ndim == 4 and len(given) == 1:
        given = given[0]
    if given.ndim == 2:
        given = given[None]
    if given.ndim != 3:
        raise ValueError(
            f"values have shape {given.shape}, expected one image, (channels, height, width) or (height, width): "
            "pass values[0], or all of them to heatmaps({name: values})"
        )
    if given.shape[2] in (1, 3) and min(given.shape[:2]) > MOST_CHANNELS:
        raise ValueError(
            f"values have shape {given.shape}, which looks like (height, width, channels): pass "
            "values.permute(2, 0, 1), or transpose(2, 0, 1) of an array"
        )
    return given.sum(0) if signed else np.abs(given).sum(0)


def grey(image: Values, shape: tuple[int, ...]) -> np.ndarray:
    """One image in shades of grey in [0, 1]: (height, width)."""
    given = array(image, "image")
    return _to_grey(_displayable(given[0] if given.ndim == 4 and len(given) == 1 else given, shape))


def _to_grey(image: np.ndarray) -> np.ndarray:
    return image @ np.array([0.299, 0.587, 0.114]) if image.ndim == 3 else image


def _displayable(image: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """(height, width) or (height, width, 3) in [0, 1]."""
    if image.ndim == 2:
        image = image[None]
    if image.ndim != 3 or image.shape[1:] != tuple(shape):
        raise ValueError(
            f"the image has shape {image.shape}, attributions have (height, width) = {tuple(shape)}: "
            f"expected (channels, {shape[0]}, {shape[1]})"
        )
    return displayed(image, limits_of(image))


def limits_of(*images: np.ndarray) -> tuple[float, float]:
    """What to show as black and as white: 0 and 1 for pictures within them, the extremes for all others."""
    low, high = min(float(i.min()) for i in images), max(float(i.max()) for i in images)
    return (0.0, 1.0) if low >= 0 and high <= 1 else (low, high)


def displayed(image: np.ndarray, limits: tuple[float, float]) -> np.ndarray:
    """(channels, height, width) as matplotlib shows it: (height, width, 3), or (height, width) for other channels."""
    low, high = limits
    image = np.clip((image - low) / max(high - low, 1e-12), 0, 1)
    return image.transpose(1, 2, 0) if len(image) == 3 else image.mean(0)
