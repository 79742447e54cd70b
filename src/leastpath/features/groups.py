"""What an input is, and which of its features belong together: they move, enter, hide or are removed as one.

Groups are whole numbers over the features: (1 or batch, *shape), with the same number for features of one group.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal, get_args

import numpy as np
import torch
from torch import Tensor, nn

from leastpath._support.checks import check_integer
from leastpath.score.score import BoundScore

Kind = Literal["few", "table", "image", "tokens", "series"]
FEW_FEATURES = 20  # up to here all of the space between two points can be searched


def kind_of(bound: BoundScore) -> Kind:
    """The kind of what a bound score explains. See `kind_of_shape`."""
    return kind_of_shape(bound.shape, of_layer=bound.score.layer is not None)


def kind_of_shape(shape: Sequence[int], *, of_layer: bool = False) -> Kind:
    """The kind of inputs with features of this shape, without the batch.

    Images are (channels, height, width) with more than one pixel per side. A layer's (length, width) are tokens. Of
    all others, up to 20 features are few; more are a series where they are (channels, time), and else a table.

    Example:
        >>> [kind_of_shape(shape) for shape in ((4,), (30,), (3, 8, 8), (2, 50))]
        ['few', 'table', 'image', 'series']
    """
    if len(shape) == 3 and min(shape[1:]) > 1:
        return "image"
    if of_layer and len(shape) == 2:
        return "tokens"
    if math.prod(shape) <= FEW_FEATURES:
        return "few"
    return "series" if len(shape) == 2 and shape[1] > 1 else "table"


Word = Literal["values", "pixels", "patches", "tokens", "steps"]
Groups = Word | int | Tensor | None
NEEDS: dict[str, tuple[int, str]] = {
    "pixels": (2, "channels, …"),
    "patches": (3, "channels, height, width"),
    "tokens": (2, "length, width"),
    "steps": (2, "channels, time"),
}
CELLS = 16  # per side of an image: patches are what people point at
MOST_STEPS = 64  # of a series; where it is longer, neighbours in time form a group
SUPERPIXELS = 50  # that an image is cut into unless the user says otherwise
SMALLEST_CUT = 8  # pixels per side: what is smaller is not worth cutting


def check_groups(groups: object) -> None:
    """Refuse what no input could be grouped by."""
    others = "a whole number of superpixels, integer labels, or None"
    if isinstance(groups, Tensor):
        if groups.is_floating_point() or groups.is_complex() or groups.dtype == torch.bool:
            raise ValueError(f"groups have dtype {groups.dtype}, expected integers, one per group: groups.long()")
    elif isinstance(groups, str):
        if groups not in get_args(Word):
            raise ValueError(f"groups={groups!r} is unknown: use one of {list(get_args(Word))}, {others}")
    else:
        check_integer("groups", groups, 1, or_none=" of superpixels", advice=f"use a word such as 'pixels', {others}")


def default_groups(kind: Kind) -> Word:
    """What belongs together in a kind of input unless the user says otherwise."""
    words: dict[str, Word] = {"image": "patches", "tokens": "tokens", "series": "steps"}
    return words.get(kind, "values")


def label_groups(groups: Groups, points: Tensor) -> Tensor | None:
    """The number of each feature's group: (1 or batch, *shape); None: every feature by itself.

    Args:
        groups: "values" or None: every feature by itself. "pixels": all channels of a position. "patches": the cells
            of a grid of at most 16 × 16. "tokens": all of the last dimension. "steps": all channels of a time, or of a
            window of times where there are more than 64. A whole number: about so many superpixels of each image.
            Integers shaped like an input, or like one without its channels, for all inputs or one each (`read_maps`).
        points: (batch, *shape), what is grouped.

    Example:
        >>> label_groups("tokens", torch.rand(5, 2, 3))
        tensor([[[0, 0, 0],
                 [1, 1, 1]]])
    """
    shape = points.shape[1:]
    if groups is None or (isinstance(groups, str) and groups == "values"):
        return None
    if isinstance(groups, Tensor):
        return read_maps(groups.detach().cpu().long(), len(points), shape, "groups have").expand(-1, *shape)
    least, needed = NEEDS.get(str(groups), NEEDS["patches"])
    if len(shape) < least or (groups in ("tokens", "steps") and len(shape) > 2):
        got = f"got {tuple(points.shape)}"
        raise ValueError(f'groups={groups!r} needs inputs (batch, {needed}), {got}: use groups="values", or labels')
    if isinstance(groups, int):
        return cut_images(points, groups)[0]
    if groups == "patches":
        together = patches(*shape[-2:])
    elif groups == "steps":
        together = torch.arange(shape[1]) // math.ceil(shape[1] / MOST_STEPS)
    else:
        one_each = (*shape[:-1], 1) if groups == "tokens" else (1, *shape[1:])
        together = torch.arange(math.prod(one_each)).reshape(one_each)
    return together.expand(1, *shape)


def read_maps(given: Tensor, batch: int, shape: torch.Size, what: str, *, each: bool = False) -> Tensor:
    """Numbers over the features, such as masks or segments, as (1 or batch, *shape) with 1 for a dimension left out.

    Args:
        given: shaped like an input, `shape`, like one without channels, `shape[1:]`, or like one without width,
            `(*shape[:-1], 1)`; one for all examples, or one each.
        batch: how many examples there are.
        shape: of an input.
        what: the words that an error begins with, as in "segments have".
        each: there is one map for each example, also where the shape would fit one map for all.
    """
    got, own = tuple(given.shape), tuple(shape)
    shapes = [own] if len(own) < 2 else [own, (1, *own[1:]), (*own[:-1], 1)]
    own_each = [given for one in shapes if got == (batch, *one)]
    for_all = [given for one in shapes if got == (1, *one)] + [given[None] for one in shapes if got == one]
    if len(own) > 1:
        own_each += [given[:, None]] if got == (batch, *own[1:]) else []
        for_all += [given[None, None]] if got == own[1:] else []
    readings = own_each if each and own_each else own_each + for_all
    if not readings:
        raise ValueError(
            f"{what} shape {got}, the inputs {(batch, *own)}: expected one for all examples, {own}"
            + (f" or without channels {own[1:]}" if len(own) > 1 else "")
            + f", or one for each example, ({batch}, …)"
        )
    if not all(torch.equal(r.expand(batch, *own), readings[0].expand(batch, *own)) for r in readings[1:]):
        raise ValueError(
            f"{what} shape {got}, which is one map for each of {batch} examples or one for all inputs of shape {own}: "
            "pass maps[:, None] for one each, or maps[None] for one that all share"
        )
    return readings[0]


def number_groups(labels: Tensor) -> Tensor:
    """Labels (n, *shape) of each row numbered 0, 1, … without gaps, in the order of their numbers."""
    return torch.stack([torch.unique(row, return_inverse=True)[1] for row in labels])


def group_features(groups: Groups, points: Tensor, kind: Kind) -> tuple[Tensor, list[str]]:
    """The groups that a perturbing method switches, (batch, *shape), each row's numbered from 0 without gaps.

    And what to say of each row's: the end of a sentence, with a comma before it, or nothing. None cuts images of at
    least 8 pixels per side into superpixels, and takes `default_groups` of everything else.
    """
    batch, shape = len(points), points.shape[1:]
    if groups is None:
        if kind == "image":
            groups = SUPERPIXELS if is_cuttable(shape) else "values"
        else:
            groups = default_groups(kind)
    check_groups(groups)
    if isinstance(groups, int) and len(shape) == 3:
        return cut_images(points, groups)
    labels = label_groups(groups, points)
    if labels is None:
        labels = torch.arange(math.prod(shape)).reshape(1, *shape)
    return number_groups(labels).expand(batch, *shape), [""] * batch


def share_evenly(coefficients: Tensor, groups: Tensor, among: Tensor | None = None) -> Tensor:
    """The coefficient of each group (k, …), shared by its features: groups (*shape) -> (…, *shape).

    Args:
        coefficients: (k,), or (k, classes) for several questions at once.
        groups: (*shape) numbers from 0 to k − 1.
        among: (*shape) bool, those that get a share; None: all.
    """
    counted = groups if among is None else groups[among]
    size = torch.bincount(counted.flatten(), minlength=len(coefficients)).clamp_min(1)
    each = coefficients.movedim(0, -1) / size.to(coefficients)  # (…, k)
    if among is not None:  # what gets nothing is one more group: 1,000 classes are many numbers to multiply by zero
        each, groups = nn.functional.pad(each, (0, 1)), torch.where(among, groups, len(coefficients))
    return each.index_select(-1, groups.flatten().to(each.device)).unflatten(-1, groups.shape)


# ---- images ------------------------------------------------------------------------------------------------------


def is_cuttable(shape: torch.Size) -> bool:
    """Whether an image (channels, height, width) is large enough to be cut into patches."""
    return len(shape) == 3 and min(shape[1:]) >= SMALLEST_CUT


def patches(
    height: int, width: int, cells: int = CELLS, *, side: int | None = None, down: int = 0, right: int = 0
) -> Tensor:
    """Integer labels (1, height, width) of the square cells of a grid with at most `cells` cells per side.

    Or with cells of `side` pixels per side; at the border they may be smaller. The first lacks `down` rows and `right`
    columns.

    Example:
        >>> patches(4, 4, cells=2)[0]
        tensor([[0, 0, 1, 1],
                [0, 0, 1, 1],
                [2, 2, 3, 3],
                [2, 2, 3, 3]])
    """
    side = side or math.ceil(max(height, width) / cells)
    rows, columns = (torch.arange(height) + down) // side, (torch.arange(width) + right) // side
    return (rows[:, None] * (int(columns[-1]) + 1) + columns)[None]


def cut_images(images: Tensor, n: int) -> tuple[Tensor, list[str]]:
    """About n superpixels of each image: (batch, channels, height, width), and what a user should know of them."""
    cuts = [cut_image(image, n) for image in images.detach().float().cpu()]
    return torch.stack([groups for groups, _ in cuts])[:, None].expand(images.shape), [said for _, said in cuts]


def cut_image(image: Tensor, n: int) -> tuple[Tensor, str]:
    """About n patches of similar colour (height, width), numbered from 0, and what a user should know of them.

    By scikit-image's SLIC. Where it finds fewer than n / 2 it is asked for more, twice; where it is not installed, or
    still finds too few (pure noise has none), the patches are those of a grid.
    """
    try:
        from skimage.segmentation import slic
    except ImportError:
        return _grid(image.shape[-2:], n), ", patches of a grid, since scikit-image is not installed"
    low, high = float(image.min()), float(image.max())
    shown = ((image - low) / max(high - low, 1e-12)).movedim(0, -1).double().numpy()  # colours must lie in [0, 1]
    is_colour = len(image) == 3
    most = 0
    for asked in (n, 2 * n, 4 * n):  # SLIC joins what is small, in busy pictures nearly everything
        # Compactness weighs place against colour, whose range is 100 in Lab space and 1 otherwise.
        labels: np.ndarray = slic(
            shown, n_segments=asked, compactness=10 if is_colour else 0.1, convert2lab=is_colour, start_label=0,
            channel_axis=-1,
        )  # fmt: skip
        (groups,) = number_groups(torch.as_tensor(labels)[None])
        most = max(most, int(groups.max()) + 1)
        if most >= n / 2:
            return groups, "" if asked == n else f", superpixels that SLIC found when asked for {asked}"
    return _grid(image.shape[-2:], n), f", patches of a grid, since SLIC found only {most} superpixels"


def _grid(shape: torch.Size, n: int) -> Tensor:
    side = max(1, math.isqrt(n))
    i, j = (torch.arange(length) * min(side, length) // length for length in shape)
    (cells,) = number_groups((i[:, None] * side + j)[None])
    return cells


# ---- windows -----------------------------------------------------------------------------------------------------


def window_sides(window: object, shape: torch.Size, kind: Kind) -> tuple[int, ...]:
    """The sides of a window that slides over the features, one number per dimension.

    Images: an eighth of each side, in all channels. Tokens: one of them. A series: an eighth of the time, in all
    channels. Everything else: one feature.
    """
    if not shape:
        raise ValueError("a window needs a dimension to lie in, and the inputs have none: pass inputs[:, None]")
    if isinstance(window, tuple):
        for side in window:
            check_integer("window", side, 1)
        chosen: tuple[int, ...] = window
    elif window is not None and (isinstance(window, bool) or not isinstance(window, int)):
        raise ValueError(f"window={window!r} must be a whole number, a tuple with one per dimension, or None")
    elif len(shape) == 3 or kind == "series":
        chosen = (shape[0], *(math.ceil(side / 8) if window is None else window for side in shape[1:]))
    elif kind == "tokens":
        chosen = (1 if window is None else window, shape[1])
    else:
        chosen = (1 if window is None else window,) * len(shape)
    if len(chosen) != len(shape) or not all(1 <= w <= side for w, side in zip(chosen, shape, strict=True)):
        raise ValueError(f"window={window} does not fit features of shape {tuple(shape)}: one number per dimension")
    return chosen
