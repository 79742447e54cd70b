"""Where attributions fall: on the explained object, and on its dark pixels, for images with a published mask."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from leastpath.commands.run_folder import RunFolder
from leastpath.evaluation.statistics import bootstrap_interval
from studies.voc.data import VOID, VocData
from studies.voc.explaining import map_key

if TYPE_CHECKING:
    import pandas as pd

DARK = 0.2  # luminance below which a pixel of an object counts as dark


@dataclass(frozen=True)
class Place:
    """Where the explained object is in an image, if a mask says so."""

    name: str
    target: int
    object: Tensor | None
    """(height, width) the target class's pixels; None without mask, or where the class is not in it."""
    known: Tensor | None
    """(height, width) pixels that are no seam."""
    luminance: Tensor
    """(height, width) in [0, 1]."""

    @property
    def object_luminance(self) -> float:
        """Mean over the object; infinite without one."""
        return float("inf") if self.object is None else float(self.luminance[self.object].mean())


def place(data: VocData, size: int, name: str, target: int) -> Place:
    """Read an image's mask and brightness."""
    luminance = torch.einsum("chw,c->hw", data.images([name], size)[0], torch.tensor([0.299, 0.587, 0.114]))
    mask = data.mask(name, size)
    if mask is None:
        return Place(name, target, None, None, luminance)
    inside = mask == target + 1
    return Place(name, target, inside if inside.any() else None, mask != VOID, luminance)


def darkest(places: Sequence[Place]) -> list[Place]:
    """The images whose explained object is darkest: on a black baseline IG cannot see black pixels."""
    shown = [p for p in places if p.object is not None and int(p.object.sum()) > 0.03 * p.object.numel()]
    return sorted(shown, key=lambda p: p.object_luminance)


def localisation(run: RunFolder, methods: Sequence[str], places: Sequence[Place]) -> pd.DataFrame:
    """How much of Σ|A| falls on the explained object, and on its dark pixels, for images with a mask.

    `inside` is the object's share of Σ|A|, over its share of the area in `gain`; `pointing` whether the largest pixel
    is on it; `dark_gain` the mean |A| of the object's dark pixels over that of the whole object.
    """
    import pandas as pd

    rows = []
    for p in places:
        if p.object is None or p.known is None:
            continue
        for method in methods:
            if map_key(method, p.name) in run.store:
                rows.append(
                    {
                        "method": method,
                        "name": p.name,
                        **located(run.store.read(map_key(method, p.name)).arrays["magnitude"], p),
                    }
                )
    return pd.DataFrame(rows)


def located(magnitude: Tensor, p: Place) -> dict[str, float]:
    """One heat map (height, width) of magnitudes against one object.

    Example:
        >>> half = torch.tensor([[True, False], [True, False]])
        >>> found = located(torch.tensor([[3.0, 1.0], [0.0, 0.0]]), Place("", 0, half, half | ~half, torch.ones(2, 2)))
        >>> found["inside"], found["gain"], found["pointing"]
        (0.75, 1.5, 1.0)
    """
    assert p.object is not None and p.known is not None
    weight = torch.where(p.known, magnitude.double(), 0.0)
    inside = float(weight[p.object].sum() / weight.sum().clamp_min(1e-300))
    area = float(p.object.sum() / p.known.sum())
    dark = p.object & (p.luminance < DARK)
    mean = float(weight[p.object].mean())
    enough = int(dark.sum()) >= 20 and mean > 0  # a handful of pixels says nothing
    return {
        "inside": inside,
        "gain": inside / area,
        "pointing": float(p.object.flatten()[int(weight.argmax())]),
        "dark_gain": float(weight[dark].mean()) / mean if enough else float("nan"),
    }


def located_table(located: pd.DataFrame, titles: Mapping[str, str]) -> tuple[pd.DataFrame, str]:
    import pandas as pd

    rows = {}
    for method, group in located.groupby("method", sort=False):
        row: dict[str, Any] = {"n": len(group)}
        for name in ("inside", "gain", "pointing", "dark_gain"):
            known = group[name].dropna()
            if len(known):
                interval = bootstrap_interval(known.to_numpy())
                row[name.replace("_", " ")] = f"{interval.mean:.3f} [{interval.low:.3f}, {interval.high:.3f}]"
        rows[titles[str(method)]] = row
    caption = (
        "Images whose mask holds the explained class. inside: the object's share of Σ|A|; gain: that over its share of "
        "the area; pointing: the largest |A| is on it; dark gain: mean |A| of its dark pixels (luminance below "
        f"{DARK}) over the object's mean."
    )
    return pd.DataFrame.from_dict(rows, orient="index"), caption
