"""Is the map of a photograph the same tomorrow? And the photographs that several benchmarks explain.

    PYTHONPATH=. python benchmarks/photographs.py FOLDER [--count 8] [--first 0] [--half reporting] [--size 128]
        [--qualities fast,default,lime] [--support full]
    python benchmarks/photographs.py FOLDER --count 24 --sheet sheet.png
    python benchmarks/photographs.py

For each quality of `windows_in_context`, on EfficientNet-lite0: gradients' worth of a map; the rank correlation of 16
× 16 patches between two seeds, and the one that was foretold; with yet other seeds the correlation with the maps of a
JPEG, of a crop shifted by 2 pixels, and of 4 pixels less and more per side, and how often the verdict is the same.
Medians. `--half` takes those of the study of truth, which shuffles the folder and chooses settings on its first 20;
`--support full` judges by four times as many removals, `--support none` not at all. Other methods may stand among the
qualities: they explain the logit, from black and mean. `--sheet` draws photographs beside their maps of the first
quality. Without a folder: how often a planted mark, which decides alone, is among the first three of 256 patches.
"""

from __future__ import annotations

import argparse
import io
from collections.abc import Mapping
from pathlib import Path
from statistics import median

import numpy as np
import torch
from PIL import Image
from scipy.stats import spearmanr
from torch import Tensor
from torch.nn.functional import adaptive_avg_pool2d, interpolate

import leastpath as lp
from leastpath.features.images import PICTURES, read_image
from leastpath.methods.windows_in_context import PLANS

SHIFT = 2  # pixels that a crop is moved by


def picture_files(folder: Path) -> list[Path]:
    """Its pictures, by name."""
    return sorted(file for file in folder.iterdir() if file.suffix.lower() in PICTURES)


def half_of(files: list[Path], half: str) -> list[Path]:
    """Those that the study of truth has in a half: "development", "reporting"; "all" as they are."""
    if half == "all":
        return files
    from studies.truth.nets import NETS, shuffled

    rows = NETS["imagenet-efficientnet"].rows(half, len(files))
    return [files[i] for i in shuffled(torch.arange(len(files)))[rows.start : rows.stop].tolist()]


def explain(
    model: torch.nn.Module, x: Tensor, target: int, quality: str, seed: int, support: bool | str = True
) -> lp.Attribution:
    if quality in PLANS:
        score = lp.Score(model, target, "softmax", batch_size=32)
        return lp.attribute(score, x, quality=quality, seed=seed, support=support)
    score = lp.Score(model, target, batch_size=32)
    return lp.attribute(score, x, lp.several("black", "mean"), method=quality, seed=seed, support=support)


def patches_of(values: Tensor) -> np.ndarray:
    return adaptive_avg_pool2d(values.sum(1, keepdim=True), 16).flatten().double().numpy()


def correlate(one: Tensor, other: Tensor) -> float:
    return float(spearmanr(patches_of(one), patches_of(other))[0])


def variants(file: Path, size: int) -> Mapping[str, Tensor]:
    """The same photograph as it should not matter: (1, 3, height, width) each."""
    large = read_image(file, size + SHIFT)
    x = large[:, :, :size, :size].contiguous()
    kept = io.BytesIO()
    Image.fromarray((x[0].permute(1, 2, 0) * 255).round().byte().numpy()).save(kept, "JPEG", quality=90)
    jpeg = torch.tensor(np.array(Image.open(kept))).permute(2, 0, 1)[None].float() / 255
    sized = {
        f"{side} pixels": interpolate(x, (side, side), mode="bicubic", antialias=True).clamp(0, 1)
        for side in (size - 4, size + 4)
    }
    return {"": x, "JPEG": jpeg, "shifted": large[:, :, SHIFT:, SHIFT:].contiguous(), **sized}


def back_in_place(name: str, values: Tensor) -> Tensor:
    """The map of a shifted crop, where the photograph's own map is: its last pixels are not known, and repeated."""
    if name != "shifted":
        return values
    return torch.nn.functional.pad(values, (SHIFT, 0, SHIFT, 0), mode="replicate")[:, :, :-SHIFT, :-SHIFT]


def measure(
    model: torch.nn.Module, files: list[Path], size: int, quality: str, support: bool | str
) -> dict[str, list[float]]:
    found: dict[str, list[float]] = {}
    for file in files:
        pictures = variants(file, size)
        with torch.no_grad():
            target = int(model(pictures[""]).argmax())
        first, second = (explain(model, pictures[""], target, quality, seed, support) for seed in (0, 1))
        row = {"gradients' worth": cost_of(quality, size), "agreement": correlate(first.values, second.values)}
        if "agreement" in first.stats:
            row["foretold"] = float(first.stats["agreement"][0])
        if support:
            row |= {"same verdict, other seed": same(first, second)}
            row |= {"supported": float(lp.Outcome.SUPPORTED in first.status[0])}
        for seed, (name, picture) in enumerate(list(pictures.items())[1:], 2):
            other = explain(model, picture, target, quality, seed, support)
            row[name] = correlate(first.values, back_in_place(name, other.values))
            if support:
                row[f"same verdict, {name}"] = same(first, other)
        for name, value in row.items():
            found.setdefault(name, []).append(value)
        print(file.name, " ".join(f"{name}: {value:.2f};" for name, value in row.items()), flush=True)
    return found


def cost_of(quality: str, size: int) -> float:
    """Gradients' worth of the map, from two baselines, without its test."""
    windows = lp.METHODS["windows_in_context"]
    cost = (windows.with_settings(quality=quality) if quality in PLANS else lp.METHODS[quality]).cost((3, size, size))
    assert cost is not None
    return 2 * (cost[0] + cost[1] / 3)


def same(one: lp.Attribution, other: lp.Attribution) -> float:
    """Whether removal says the same of both."""
    return float(one.status[0].outcomes[0] is other.status[0].outcomes[0])


def planted(size: int, quality: str, n: int = 20) -> float:
    """How often the patch of a mark, whose brightness is the score, is among the first three of a photograph's 256."""
    generator, hits = torch.Generator().manual_seed(0), 0
    side = size // 16
    for _ in range(n):
        x = torch.rand(1, 3, size, size, generator=generator) * 0.5
        row, column = torch.randint(0, 16, (2,), generator=generator).tolist()
        here = (
            slice(None),
            slice(None),
            slice(row * side, (row + 1) * side),
            slice(column * side, (column + 1) * side),
        )
        x[here] = 1.0
        score = lp.Score(lambda x, here=here: 8 * x[here].mean((1, 2, 3)) + x.mean((1, 2, 3)))
        values = lp.attribute(score, x, quality=quality, support=False).values
        hits += int(row * 16 + column in np.argsort(-patches_of(values))[:3])
    return hits / n


def draw_sheet(model: torch.nn.Module, files: list[Path], size: int, quality: str, out: Path) -> None:
    """Each photograph beside its map, with its class and the agreement that is foretold: a contact sheet."""
    import matplotlib.pyplot as plt

    from leastpath.commands.classifier import imagenet_classes
    from leastpath.report.heat import heat_row

    columns = 6
    rows = -(-len(files) // columns)
    figure, axes = plt.subplots(rows, 2 * columns, figsize=(3.6 * columns, 2.1 * rows), squeeze=False)
    for axis in axes.flatten():
        axis.axis("off")
    for at, file in enumerate(files):
        x = read_image(file, size)
        with torch.no_grad():
            target = int(model(x).argmax())
        result = explain(model, x, target, quality, 0, support=False)
        photograph, over = axes[at // columns, 2 * (at % columns) : 2 * (at % columns) + 2]
        photograph.imshow(x[0].permute(1, 2, 0).numpy())
        photograph.set_title(imagenet_classes()[target][:24], fontsize=8)
        heat_row([over], [result.values], x, view="smooth", colorbar=False)
        over.set_title(f"agreement {float(result.stats['agreement'][0]):.2f}", fontsize=8)
        print(file.name, result.status[0].value, flush=True)
    figure.tight_layout()
    figure.savefig(out, dpi=70)


def main() -> None:
    from leastpath.commands.classifier import EfficientNetLite0

    torch.set_num_threads(1)
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("folder", nargs="?", type=Path)
    parser.add_argument("--count", type=int, default=8)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--size", type=int, default=128)
    parser.add_argument("--qualities", default="fast,default")
    parser.add_argument("--half", choices=("all", "development", "reporting"), default="all")
    parser.add_argument("--support", choices=("default", "full", "none"), default="default")
    parser.add_argument("--sheet", type=Path)
    options = parser.parse_args()
    qualities = options.qualities.split(",")
    if options.folder is None:
        for quality in qualities:
            print(f"{quality}: the planted mark is among the first three in {planted(options.size, quality):.0%}")
        return
    files = half_of(picture_files(options.folder), options.half)[options.first : options.first + options.count]
    model = EfficientNetLite0()
    if options.sheet is not None:
        draw_sheet(model, files, options.size, qualities[0], options.sheet)
        return
    for quality in qualities:
        support = {"default": True, "full": "full", "none": False}[options.support]
        found = measure(model, files, options.size, quality, support)
        print(f"\n{quality}, {len(files)} photographs")
        for name, values in found.items():
            middle = np.mean(values) if name.startswith(("same", "supported")) else median(values)
            print(f"  {name:28s} {middle:8.3f}")


if __name__ == "__main__":
    main()
