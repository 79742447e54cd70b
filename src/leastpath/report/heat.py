"""Heat maps of image attributions: alone, over the image, and several methods side by side on one scale."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from scipy.ndimage import gaussian_filter

from leastpath.features.groups import patches
from leastpath.report.canvas import (
    DIVERGING,
    SEQUENTIAL,
    Values,
    array,
    axes_for,
    check_scale,
    limit,
    new_figure,
    plain,
    tick,
    without_ticks,
    write_title,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.image import AxesImage

Sharing = Literal["auto", "shared", "row", "each"]
View = Literal["raw", "smooth", "patches"]
PANEL = 2.4  # inches
DIMMED = 0.6  # of its light that an image keeps below what glows
MOST_CHANNELS = 4  # of a picture
SMOOTHING = 1 / 40  # deviation of the Gaussian over the longer side
TENFOLD = 10.0  # scales further apart than that are not forced on one


def heatmap(
    values: Values,
    image: Values | None = None,
    *,
    signed: bool = True,
    view: View = "raw",
    percentile: float | None = None,
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
        image: shown in grey below the colours: (height, width) or (channels, height, width). Magnitudes glow over a
            dimmed image.
        signed: red raises the score, blue lowers it. False: magnitudes, from dark to bright.
        view: "raw" draws pixel by pixel, "smooth" what a Gaussian sees, "patches" the sums of the cells of a 16 × 16
            grid, which are what the test of support removes.
        percentile: of the magnitudes, where colours end. None: the highest at which the picture is not blank.
        scale: where colours end, as a magnitude; for pictures that are to be compared.
        title: above the picture.
        colorbar: whether to draw one.
        ax: where to draw; a new figure by default.

    Example:
        >>> import torch
        >>> from leastpath.report import heatmap
        >>> figure = heatmap(torch.randn(3, 8, 8), torch.rand(3, 8, 8), title="noise")
    """
    plane = _view(_plane(values, signed), view)
    figure, axes = axes_for(ax, PANEL * 1.5, PANEL * 1.3)
    end = limit(plane, percentile) if scale is None else check_scale(scale)
    drawn = _draw(axes, plane, None if image is None else _to_grey(_read_images(image, plane.shape)[0]), end, signed)
    write_title(axes, title)
    if colorbar:
        _colorbar(figure, drawn, axes, plane, end, signed)
    return figure


def heatmaps(
    values: Mapping[str, Values],
    images: Values | None = None,
    *,
    signed: bool = True,
    view: View = "raw",
    percentile: float | None = None,
    scale: Sharing | float = "auto",
    overlay: bool = False,
    rows: Sequence[str] | None = None,
) -> Figure:
    """Draw several methods side by side, one column per method and one row per example.

    Args:
        values: title of the column -> (batch, channels, height, width), (channels, height, width), (height, width), or
            an `Attribution`.
        images: of the same batch; they are the first column, and with `overlay` also the background of the others.
        signed: red raises the score, blue lowers it. False: magnitudes.
        view: "raw", "smooth" or "patches", as for `heatmap`.
        percentile: of the magnitudes on a scale, where colours end. None: the highest at which no picture is blank.
        scale: "shared" has one scale for all, "row" one per example, "each" one per picture; a number says where
            colours end. "auto" is "shared", but where the methods' scales differ more than tenfold, each method has its
            own.
        overlay: draw attributions over the images.
        rows: a label for each example.

    Example:
        >>> import torch
        >>> from leastpath.report import heatmaps
        >>> a, b, images = torch.randn(3, 2, 3, 8, 8)
        >>> figure = heatmaps({"first": a, "second": b}, images)
    """
    given_values: object = values
    if not isinstance(given_values, Mapping) or not values:
        got = "nothing to draw" if isinstance(given_values, Mapping) else f"a {type(values).__name__}"
        raise ValueError(f"got {got}, expected names and values: pass heatmaps({{'a name': values, …}})")
    planes = {name: np.stack([_view(_plane(x, signed), view) for x in _batch(given)]) for name, given in values.items()}
    shapes = {name: plane.shape for name, plane in planes.items()}
    if len(set(shapes.values())) > 1:
        raise ValueError(f"the methods' values differ in shape, (examples, height, width): {shapes}")
    stack = np.stack(list(planes.values()), 1)  # (batch, methods, height, width)
    shown = None if images is None else _read_images(images, stack.shape[2:])
    for name, given in (("images", shown), ("rows", rows)):
        if given is not None and len(given) != len(stack):
            raise ValueError(f"got {len(given)} {name} for {len(stack)} examples: pass one for each")
    first = 0 if shown is None else 1
    columns = first + stack.shape[1]
    aspect = stack.shape[2] / stack.shape[3]
    figure = new_figure(PANEL * columns + 0.9, PANEL * aspect * len(stack) + 0.5)
    grid = figure.subplots(len(stack), columns, squeeze=False)
    if shown is not None:
        without_ticks(grid[:, 0])
        for axes, image in zip(grid[:, 0], shown, strict=True):
            axes.imshow(image, cmap="gray", vmin=0, vmax=1)
    for group in _groups(scale, stack):
        together = np.stack([stack[place] for place in group])
        end = shared_limit(together, percentile) if isinstance(scale, str) else check_scale(scale)
        for b, j in group:
            ground = _to_grey(shown[b]) if shown is not None and overlay else None
            drawn = _draw(grid[b, first + j], stack[b, j], ground, end, signed)
        _colorbar(figure, drawn, [grid[b, first + j] for b, j in group], together, end, signed)
    for axes, label in zip(grid[:, 0], rows or (), strict=False):
        axes.set_ylabel(plain(label), fontsize="medium")
    for axes, name in zip(grid[0], [*(["image"] if first else []), *planes], strict=True):
        write_title(axes, name)
    return figure


def heat_row(
    axes: Sequence[Axes] | np.ndarray,
    values: Sequence[Values],
    image: Values | None = None,
    *,
    signed: bool = True,
    view: View = "raw",
    share: bool = True,
    colorbar: bool = True,
    bars_below: bool = False,
) -> None:
    """Draw one image's attributions by several methods, each on axes of its own, as `heatmap` does.

    With `share` they are on one scale, unless their scales differ more than tenfold: then each has its own. Colour bars
    stand at the right or, with `bars_below`, below, where they leave columns of pictures as wide as they are.
    """
    figure, _ = axes_for(axes[0], PANEL, PANEL)
    planes = [_view(_plane(given, signed), view) for given in values]
    ground = None if image is None else _to_grey(_read_images(image, planes[0].shape)[0])
    shared = share and comparable([limit(plane, 99) for plane in planes if plane.any()])
    ends = [shared_limit(np.stack(planes)) if shared else limit(plane) for plane in planes]
    for ax, plane, end in zip(axes, planes, ends, strict=True):
        drawn = _draw(ax, plane, ground, end, signed)
        if colorbar and not shared:
            _colorbar(figure, drawn, ax, plane, end, signed, below=bars_below)
    if colorbar and shared:
        _colorbar(figure, drawn, list(axes), np.stack(planes), ends[0], signed, below=bars_below)


def shared_limit(planes: np.ndarray, percentile: float | None = None) -> float:
    """Where colours end for pictures (n, height, width) on one scale: so that the palest of them is not blank."""
    ends = [limit(plane, percentile) for plane in planes if plane.any()]
    if percentile is not None or not ends:
        return limit(planes, 99 if percentile is None else percentile)
    return float(np.clip(limit(planes), min(ends), TENFOLD / 2 * min(ends)))


def comparable(ends: Sequence[float]) -> bool:
    """Whether scales that end there can be one: the largest is at most ten times the smallest.

    Example:
        >>> comparable([0.2, 1.5]), comparable([0.2, 3.0])
        (True, False)
    """
    return not ends or max(ends) <= TENFOLD * min(ends)


def _groups(scale: Sharing | float, stack: np.ndarray) -> list[list[tuple[int, int]]]:
    """The pictures (example, method) that share one scale; `stack` has (batch, methods, height, width)."""
    batch, methods = stack.shape[:2]
    by_row = [[(b, j) for j in range(methods)] for b in range(batch)]
    each = [place for row in by_row for place in row]
    by_method = [[(b, j) for b in range(batch)] for j in range(methods)]
    alike = comparable([limit(stack[:, j], 99) for j in range(methods) if stack[:, j].any()])
    groups = {
        "shared": [each], "row": by_row, "each": [[place] for place in each], "auto": [each] if alike else by_method,
    }  # fmt: skip
    kind = scale if isinstance(scale, str) else "shared"
    if kind not in groups:
        raise ValueError(f'scale={scale!r} is unknown: use "auto", "shared", "row", "each" or a number')
    return groups[kind]


def _draw(axes: Axes, plane: np.ndarray, ground: np.ndarray | None, end: float, signed: bool) -> AxesImage:
    """Colours alone, or over a grey image, where small values are transparent."""
    without_ticks([axes])
    low = -end if signed else 0.0
    alpha: Any = None
    if ground is not None:
        # Signed colours do not show on black, and what glows does not show on white.
        axes.imshow(0.35 + 0.65 * ground if signed else DIMMED * ground, cmap="gray", vmin=0, vmax=1)
        alpha = np.clip(np.abs(plane) / end, 0, 1) ** (0.5 if signed else 0.75)
    colours = DIVERGING if signed else SEQUENTIAL
    return axes.imshow(plane, cmap=colours, vmin=low, vmax=end, alpha=alpha, interpolation="nearest")


def _colorbar(
    figure: Figure, drawn: AxesImage, axes: Any, shown: np.ndarray, end: float, signed: bool, *, below: bool = False
) -> None:
    """With arrows at its ends where values were clipped. Its own mappable leaves out the picture's transparency."""
    from matplotlib.cm import ScalarMappable
    from matplotlib.ticker import MaxNLocator

    high, low = bool((shown > end).any()), signed and bool((shown < -end).any())
    extend = {(True, True): "both", (True, False): "max", (False, True): "min", (False, False): "neither"}
    label = "attribution" if signed else "|attribution|"
    mappable = ScalarMappable(drawn.norm, drawn.cmap)
    place: dict[str, Any] = {"label": label, "shrink": 0.85, "aspect": 30}
    if below:
        alone = not isinstance(axes, list)
        place = {"location": "bottom", "shrink": 1 if alone else 0.5, "aspect": 25 if alone else 50}
    bar = figure.colorbar(mappable, ax=axes, extend=extend[high, low], pad=0.02, format=tick, **place)
    bar.ax.tick_params(labelsize="small")
    if below:
        bar.locator = MaxNLocator(2, symmetric=signed)  # more would touch each other
        bar.update_ticks()


def _view(plane: np.ndarray, view: View) -> np.ndarray:
    """What a view shows of (height, width)."""
    if view == "raw":
        return plane
    if view == "smooth":
        return gaussian_filter(plane, SMOOTHING * max(plane.shape))
    if view != "patches":
        raise ValueError(f'view={view!r} is unknown: use "raw", "smooth" or "patches"')
    cells = patches(*plane.shape)[0].numpy()
    return np.bincount(cells.ravel(), plane.ravel())[cells]


# ---- shapes ------------------------------------------------------------------------------------------------------


def _batch(values: Values, name: str = "values") -> np.ndarray:
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


def _to_grey(image: np.ndarray) -> np.ndarray:
    return image @ np.array([0.299, 0.587, 0.114]) if image.ndim == 3 else image


def _read_images(images: Values, shape: tuple[int, ...]) -> list[np.ndarray]:
    """Each image of a batch, or a single one, as (height, width) or (height, width, 3) in [0, 1]."""
    found = []
    for image in _batch(images, "images"):
        picture = image[None] if image.ndim == 2 else image
        if picture.ndim != 3 or picture.shape[1:] != tuple(shape):
            raise ValueError(
                f"the image has shape {picture.shape}, attributions have (height, width) = {tuple(shape)}: "
                f"expected (channels, {shape[0]}, {shape[1]})"
            )
        found.append(to_display(picture, limits_of(picture)))
    return found


def limits_of(*images: np.ndarray) -> tuple[float, float]:
    """The values to show as black and as white: 0 and 1 for pictures within them, the extremes for others."""
    low, high = min(float(i.min()) for i in images), max(float(i.max()) for i in images)
    return (0.0, 1.0) if low >= 0 and high <= 1 else (low, high)


def to_display(image: np.ndarray, limits: tuple[float, float]) -> np.ndarray:
    """(channels, height, width) as matplotlib shows it: (height, width, 3), or (height, width) for other channels."""
    low, high = limits
    image = np.clip((image - low) / max(high - low, 1e-12), 0, 1)
    return image.transpose(1, 2, 0) if len(image) == 3 else image.mean(0)
